/* SPDX-License-Identifier: BSD-3-Clause */
/* share: see share.h. */
#include "replay/share.h"

#include "model/model.h"

#define POOL_BYTES_USUAL (UINT64_C(256) << 20)

__extension__ typedef unsigned __int128 wide;

uint32_t share_next(const struct share *s, uint32_t from)
{
    while (from < s->trace->count && s->engine_of[from] != s->engine)
        from++;
    return from;
}

uint32_t share_blocks(const struct share *s, uint32_t request, uint32_t group)
{
    return model_table_blocks(&s->groups[group], s->trace->requests[request].tokens);
}

uint32_t share_largest(const struct share *s)
{
    uint32_t largest = s->trace->count;
    for (uint32_t i = share_next(s, 0); i < s->trace->count; i = share_next(s, i + 1))
        if (largest == s->trace->count || s->trace->requests[i].tokens > s->trace->requests[largest].tokens)
            largest = i;
    return largest;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The most blocks of a group that one request needs, and the blocks of all requests. The longest request may need fewer
   blocks of a window than another, since a window may begin anywhere in a block. */
static uint64_t most_blocks(const struct share *s, uint32_t group, uint64_t *all)
{
    uint64_t most = 1;
    *all = 0;
    for (uint32_t i = share_next(s, 0); i < s->trace->count; i = share_next(s, i + 1)) {
        const uint32_t blocks = share_blocks(s, i, group);
        *all += blocks;
        if (blocks > most)
            most = blocks;
    }
    return most;
}

static uint64_t usual_blocks(uint64_t all, uint64_t block_bytes, uint32_t inflight, uint64_t needed)
{
    uint64_t blocks = least(all / 4, inflight * needed);
    if (block_bytes > 0)
        blocks = least(blocks, POOL_BYTES_USUAL / block_bytes);
    return blocks > needed ? blocks : needed;
}

int share_pool(const struct share *s, const uint64_t *block_bytes, uint64_t pool_bytes, uint32_t inflight,
               uint32_t spare, uint32_t *num_blocks, struct why *why)
{
    const uint32_t largest = share_largest(s);
    uint64_t needed[BATON_GROUPS_MAX], all, blocks = 0, bytes = 0;
    for (uint32_t g = 0; g < s->num_groups; g++) {
        needed[g] = most_blocks(s, g, &all) + spare;
        blocks += needed[g];
        bytes += needed[g] * block_bytes[g];
        if (pool_bytes == 0)
            num_blocks[g] = (uint32_t)usual_blocks(all, block_bytes[g], inflight, needed[g]);
    }
    if (pool_bytes == 0)
        return 0;
    if (pool_bytes < bytes && largest == s->trace->count)
        return why_set(why, "--pool is too small for a block of %llu bytes", (unsigned long long)bytes);
    if (pool_bytes < bytes)
        return why_set(why, "--pool is too small: request %u (%u tokens) needs %llu blocks, %llu bytes; it gives %llu",
                       largest, s->trace->requests[largest].tokens, (unsigned long long)blocks,
                       (unsigned long long)bytes, (unsigned long long)((wide)pool_bytes * blocks / bytes));
    for (uint32_t g = 0; g < s->num_groups; g++)
        num_blocks[g] = (uint32_t)least((uint64_t)((wide)pool_bytes * needed[g] / bytes), UINT32_MAX);
    return 0;
}
