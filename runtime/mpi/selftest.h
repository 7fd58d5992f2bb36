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
 * Each rank reads test patterns of a few peers on other nodes into poisoned memory, short ones and up to 1 MiB long.
 * Where a request does not cover the gets before it on some rank, gets_per_request becomes 1 on all. BATON_EMPI: even
 * one MPI_Rget by itself reported success without its bytes.
 *
 * Where put_is_remote, each then puts patterns into poisoned memory of two peers and tells them as soon as the request is
 * complete. Where one of them does not find all bytes at that moment, put_is_remote becomes false on all.
 *
 * The first bytes of every pool are used for it, and are zero afterwards. Nothing to do with one node.
 */
int selftest_run(struct world *w, const struct windows *v, struct quirks *q);

#endif
