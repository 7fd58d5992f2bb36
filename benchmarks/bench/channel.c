/* SPDX-License-Identifier: BSD-3-Clause */
/* channel: see the header. Errors of MPI end the job (the communicator keeps MPI_ERRORS_ARE_FATAL). */
#include "bench/channel.h"

#include <time.h>

#define CHANNEL_TAG 1
#define NAP_NS 100000L

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

void channel_send(MPI_Comm comm, int peer, const void *message, int bytes)
{
    MPI_Send(message, bytes, MPI_BYTE, peer, CHANNEL_TAG, comm);
}

void channel_receive(MPI_Comm comm, int peer, void *message, int bytes, enum channel_wait wait)
{
    int there = wait == CHANNEL_IN_MPI;
    while (!there) {
        MPI_Iprobe(peer, CHANNEL_TAG, comm, &there, MPI_STATUS_IGNORE);
        if (!there)
            nap();
    }
    MPI_Recv(message, bytes, MPI_BYTE, peer, CHANNEL_TAG, comm, MPI_STATUS_IGNORE);
}

void channel_barrier(MPI_Comm comm)
{
    MPI_Request request;
    MPI_Ibarrier(comm, &request);
    for (int done = 0; !done;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done)
            nap();
    }
}

void channel_share(MPI_Comm comm, int root, void *data, int bytes)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int peer = 0; peer < size && rank == root; peer++)
        if (peer != root)
            channel_send(comm, peer, data, bytes);
    if (rank != root)
        channel_receive(comm, root, data, bytes, CHANNEL_ASLEEP);
}
