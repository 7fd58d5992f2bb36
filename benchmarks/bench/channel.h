/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel: the benchmark's own messages, over a communicator of their own. They are sent between measurements, never
 * during one.
 *
 * How a rank waits is part of the measurement. An engine does not sit in MPI while it computes. So while Baton or the
 * memory copy is measured, a waiting rank sleeps and looks now and then: a rank that spun in MPI would make progress
 * for Baton and take a core from the copy. While raw MPI is measured, the target waits inside a blocking MPI_Recv,
 * which is the best case for raw MPI.
 */
#ifndef BENCH_CHANNEL_H
#define BENCH_CHANNEL_H

#include <mpi.h>

enum channel_wait { CHANNEL_ASLEEP, CHANNEL_IN_MPI };

void channel_send(MPI_Comm comm, int peer, const void *message, int bytes);
void channel_receive(MPI_Comm comm, int peer, void *message, int bytes, enum channel_wait wait);

/** All ranks of comm, waiting asleep. */
void channel_barrier(MPI_Comm comm);
/** The same, but `root` waits for none: what it has is what all have then. */
void channel_share(MPI_Comm comm, int root, void *data, int bytes);

#endif
