/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel: the benchmark's own messages, over a communicator of its own, between measurements and never within one.
 *
 * How a rank waits is part of the measurement. An engine does not sit in MPI while it computes, so a rank waits asleep
 * (a look, then a nap) whenever Baton or the memory copy is measured: a rank that spun in MPI would lend Baton its
 * progress and take a core from the copy. Only while raw MPI is measured does the target wait inside a blocking
 * MPI_Recv, which is the best that raw MPI can have.
 */
#ifndef BENCH_CHANNEL_H
#define BENCH_CHANNEL_H

#include <mpi.h>

enum channel_wait { CHANNEL_ASLEEP, CHANNEL_IN_MPI };

void channel_send(MPI_Comm comm, int peer, const void *message, int bytes);
void channel_receive(MPI_Comm comm, int peer, void *message, int bytes, enum channel_wait wait);

/** All ranks of comm, waiting asleep. */
void channel_barrier(MPI_Comm comm);

#endif
