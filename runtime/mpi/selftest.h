/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selftest: whether this MPI keeps what the quirks table promises of it. Collective, once, before the first transfer.
 * The thread that starts runs it.
 */
#ifndef BATON_MPI_SELFTEST_H
#define BATON_MPI_SELFTEST_H

#include "mpi/quirks.h"
#include "mpi/windows.h"
#include "mpi/world.h"

/**
 * READS. Each rank reads test patterns of a few peers on other nodes, short ones and some of up to 1 MiB, over bytes of
 * its own that differ from them. If on any rank a request completes before the gets that were issued before it,
 * per_request becomes 1 on all ranks. BATON_EMPI: a single MPI_Rget completed without its bytes.
 *
 * WRITES. Where the quirks say put_is_remote, each rank puts patterns over such bytes of two peers, and sends them a
 * message as soon as the request is complete. If on any rank the message comes before all of the bytes, put_is_remote
 * becomes false on all ranks.
 *
 * Each rank also warns if one of the peers that it reads from has another MPI library than its own.
 *
 * The test overwrites the first bytes of each pool and leaves them zero. A rank without a pool, or whose pool may be in
 * use already, has spare bytes for this in its window. In a world of one node there is nothing to do.
 */
int selftest_run(struct world *w, const struct windows *v, struct quirks *q);

#endif
