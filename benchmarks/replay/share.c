/* SPDX-License-Identifier: BSD-3-Clause */
/* share: see share.h. */
#include "replay/share.h"

#include "replay/model.h"

#define POOL_BYTES_USUAL (UINT64_C(256) << 20)

uint32_t share_blocks(const struct share *s, uint32_t request)
{
    return model_blocks(s->trace->requests[request].tokens, s->block_tokens);
}

uint32_t share_largest(const struct share *s)
{
    uint32_t largest = s->trace->count;
    for (uint32_t i = s->engine; i < s->trace->count; i += s->engines)
        if (largest == s->trace->count || share_blocks(s, i) > share_blocks(s, largest))
            largest = i;
    return largest;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t usual_blocks(const struct share *s, uint64_t block_bytes, uint32_t inflight, uint64_t needed)
{
    uint64_t all = 0;
    for (uint32_t i = s->engine; i < s->trace->count; i += s->engines)
        all += share_blocks(s, i);
    uint64_t blocks = least(all / 4, least(inflight * needed, POOL_BYTES_USUAL / block_bytes));
    return blocks > needed ? blocks : needed;
}

int share_pool(const struct share *s, uint64_t block_bytes, uint64_t pool_bytes, uint32_t inflight, uint32_t spare,
               uint32_t *num_blocks, struct why *why)
{
    const uint32_t largest = share_largest(s);
    const uint64_t needed = spare + (largest == s->trace->count ? 1 : (uint64_t)share_blocks(s, largest));
    uint64_t blocks = usual_blocks(s, block_bytes, inflight, needed);
    if (pool_bytes != 0)
        blocks = least(pool_bytes / block_bytes, UINT32_MAX);
    if (blocks < needed && largest == s->trace->count)
        return why_set(why, "--pool is too small for a block of %llu bytes", (unsigned long long)block_bytes);
    if (blocks < needed)
        return why_set(why, "--pool is too small: request %u (%u tokens) needs %llu blocks, %llu bytes; it gives %llu",
                       largest, s->trace->requests[largest].tokens, (unsigned long long)needed,
                       (unsigned long long)needed * block_bytes, (unsigned long long)blocks);
    *num_blocks = (uint32_t)blocks;
    return 0;
}
