/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * footprint: private memory of this process, from /proc/self/smaps.
 *
 * The kernel calls a page private when one process alone maps it, also within a shared mapping: a pool in shared
 * memory that no peer has touched yet would count. So private here are the private pages of private mappings.
 */
#ifndef BENCH_FOOTPRINT_H
#define BENCH_FOOTPRINT_H

#include <stdint.h>

/** KiB of private pages in private mappings, and as the kernel sums them over all mappings. 0, or -1. */
int footprint_read(uint64_t *private_kib, uint64_t *rollup_kib);

#endif
