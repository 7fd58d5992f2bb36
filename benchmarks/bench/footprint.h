/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * footprint: private memory of this process, from /proc/self/smaps.
 *
 * The kernel calls a page private when one process alone maps it, also within a shared mapping: a pool in shared
 * memory that no peer has touched yet would count. So private here are the private pages of private mappings, less the
 * pool where that lies in one (MPI allocates it so where a node has one rank; it is populated in full).
 */
#ifndef BENCH_FOOTPRINT_H
#define BENCH_FOOTPRINT_H

#include <stdint.h>

/** KiB of private pages in private mappings without the pool, and as the kernel sums them over all. 0, or -1. */
int footprint_read(const void *pool, uint64_t pool_bytes, uint64_t *private_kib, uint64_t *rollup_kib);

#endif
