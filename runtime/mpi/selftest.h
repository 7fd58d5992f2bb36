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
 * Each rank reads test patterns of a few peers on other nodes into memory that holds wrong bytes: short patterns, and
 * some of up to 1 MiB. Where a request does not cover the gets before it on some rank, gets_per_request becomes 1 on
 * all. BATON_EMPI: even an MPI_Rget by itself reported success without its bytes.
 *
 * Where put_is_remote, each rank then puts patterns into memory of two peers that holds wrong bytes, and tells them as
 * soon as the request is complete. Where one of them does not find all bytes at that moment, put_is_remote becomes
 * false on all.
 *
 * Each rank also warns if the MPI library of one of the peers that it reads from is another one than its own.
 *
 * The first bytes of every pool are used for the test, or of the spare bytes of a rank without one or whose pool may be
 * in use, and are zero afterwards. With one node there is nothing to do.
 */
int selftest_run(struct world *w, const struct windows *v, struct quirks *q);

#endif
