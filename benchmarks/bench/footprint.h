/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * footprint: private memory of this process, from /proc/self/smaps.
 *
 * The kernel calls a page private if only one process maps it, even within a shared mapping: a pool in shared memory
 * that no peer has touched yet would count. So here only private pages of private mappings count. If the pool lies in a
 * private mapping, its bytes are subtracted (MPI allocates it so where a node has one rank, and the pool is populated
 * in full).
 */
#ifndef BENCH_FOOTPRINT_H
#define BENCH_FOOTPRINT_H

#include <stdint.h>

/** KiB of private pages in private mappings without the pool, and as the kernel sums them over all. 0, or -1. */
int footprint_read(const void *pool, uint64_t pool_bytes, uint64_t *private_kib, uint64_t *rollup_kib);

#endif
