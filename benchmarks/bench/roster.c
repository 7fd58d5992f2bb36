/* SPDX-License-Identifier: BSD-3-Clause */
/* roster: see the header. Errors of MPI end the job (the communicator keeps MPI_ERRORS_ARE_FATAL). */
#include "bench/roster.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/fail.h"

#define CHANNEL_TAG 1
#define NAP_NS 100000L

static void add_rank(struct roster *r, int rank)
{
    const baton_open_params_t *p = &r->ranks[rank];
    int e = roster_named(r, p->engine);
    if (e < 0) {
        e = r->num_engines++;
        r->engines[e] = (struct roster_engine){.role = p->role, .tp = p->tp, .pp = p->pp, .first = rank};
        memcpy(r->engines[e].name, p->engine, sizeof p->engine);
    }
    if (p->tp_rank == 0 && p->pp_rank == 0)
        r->engines[e].first = rank;
    r->engine_of[rank] = e;
}

void roster_init(struct roster *r, const baton_open_params_t *self)
{
    MPI_Comm_dup(MPI_COMM_WORLD, &r->comm);
    MPI_Comm_rank(r->comm, &r->rank);
    MPI_Comm_size(r->comm, &r->size);
    size_t size = (size_t)r->size;
    r->num_engines = 0;
    r->ranks = room(size, sizeof *r->ranks);
    r->engines = room(size, sizeof *r->engines);
    r->engine_of = room(size, sizeof *r->engine_of);
    MPI_Allgather(self, (int)sizeof *self, MPI_BYTE, r->ranks, (int)sizeof *self, MPI_BYTE, r->comm);
    for (int rank = 0; rank < r->size; rank++)
        add_rank(r, rank);
}

void roster_fini(struct roster *r)
{
    free(r->ranks);
    free(r->engines);
    free(r->engine_of);
    *r = (struct roster){.comm = MPI_COMM_NULL};
}

int roster_find(const struct roster *r, baton_role_t role, int nth)
{
    for (int e = 0; e < r->num_engines; e++) {
        if ((r->engines[e].role & role) && nth-- == 0)
            return e;
    }
    return -1;
}

bool roster_is_single(const struct roster *r, int engine, baton_role_t role)
{
    const struct roster_engine *e = &r->engines[engine];
    return (e->role & role) != 0 && e->tp == 1 && e->pp == 1;
}

int roster_named(const struct roster *r, const char *name)
{
    for (int e = 0; e < r->num_engines; e++) {
        if (strcmp(r->engines[e].name, name) == 0)
            return e;
    }
    return -1;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

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
