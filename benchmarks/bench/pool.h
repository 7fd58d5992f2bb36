/* SPDX-License-Identifier: BSD-3-Clause */
/* pool: how large the caches of an operation are: as --pool says, else several times the processor's cache. */
#ifndef BENCH_POOL_H
#define BENCH_POOL_H

#include "bench/options.h"

/** Bytes of one side: --pool, or the larger of `least` and 4 times the L3 cache. */
uint64_t pool_bytes(const struct options *o, uint64_t least);

/** The same in blocks, and at least two of the largest batches, so that neighbours in time have other blocks. */
uint32_t pool_blocks(const struct options *o, uint64_t least, uint64_t block_bytes);

/** The largest of --batch. */
uint32_t pool_largest_batch(const struct options *o);

#endif
