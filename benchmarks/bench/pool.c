/* SPDX-License-Identifier: BSD-3-Clause */
/* pool: see pool.h. */
#include "bench/pool.h"

#include <inttypes.h>

#include "bench/conditions.h"
#include "bench/fail.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint64_t pool_bytes(const struct options *o, uint64_t least)
{
    return o->pool ? o->pool : larger(least, 4 * conditions_l3_bytes());
}

uint32_t pool_blocks(const struct options *o, uint64_t least, uint64_t block_bytes)
{
    const uint64_t blocks = larger(pool_bytes(o, least) / block_bytes, 2 * (uint64_t)pool_largest_batch(o));
    if (blocks > UINT32_MAX)
        fail("a pool of %" PRIu64 " blocks is too large", blocks);
    return (uint32_t)blocks;
}

uint32_t pool_largest_batch(const struct options *o)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < o->batch.count; i++)
        most = larger(most, o->batch.value[i]);
    return (uint32_t)most;
}
