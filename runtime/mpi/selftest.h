/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selftest: does this MPI keep what the quirks table promises of it? Collective, once, before the first transfer, by
 * the thread that starts.
 */
#ifndef BATON_MPI_SELFTEST_H
#define BATON_MPI_SELFTEST_H

#include "mpi/quirks.h"
#include "mpi/windows.h"
#include "mpi/world.h"

/**
 * Each rank reads the test pattern of a few peers on other nodes into poisoned memory. Where a request does not cover
 * the gets before it on some rank, gets_per_request becomes 1 on all. BATON_EMPI: even one MPI_Rget by itself reported
 * success without its bytes. Nothing to do with one node.
 */
int selftest_run(struct world *w, const struct windows *v, struct quirks *q);

#endif
