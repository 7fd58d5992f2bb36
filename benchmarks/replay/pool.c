/* SPDX-License-Identifier: BSD-3-Clause */
/* pool: see pool.h. */
#include "replay/pool.h"

#include <stdlib.h>

#include "replay/random.h"

int pool_init(struct pool *p, uint32_t num_blocks, uint64_t seed, struct why *why)
{
    *p = (struct pool){.num_blocks = num_blocks, .num_free = num_blocks, .random = seed};
    p->free = malloc(num_blocks * sizeof *p->free);
    p->taken = calloc(num_blocks, sizeof *p->taken);
    if (p->free == NULL || p->taken == NULL) {
        pool_fini(p);
        return why_set(why, "no memory for the free list of %u blocks", num_blocks);
    }
    for (uint32_t i = 0; i < num_blocks; i++)
        p->free[i] = i;
    return 0;
}

void pool_fini(struct pool *p)
{
    free(p->free);
    free(p->taken);
    *p = (struct pool){0};
}

int pool_take(struct pool *p, uint32_t *blocks, uint32_t count)
{
    if (count > p->num_free)
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = random_below(&p->random, p->num_free);
        blocks[i] = p->free[at];
        p->free[at] = p->free[--p->num_free];
        p->taken[blocks[i]] = true;
    }
    return 0;
}

/* Marks blocks [0, count) free, or none of them. A block that is given twice in one call is found by its first mark. */
static int mark_free(struct pool *p, const uint32_t *blocks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (blocks[i] >= p->num_blocks || !p->taken[blocks[i]]) {
            while (i-- > 0)
                p->taken[blocks[i]] = true;
            return -1;
        }
        p->taken[blocks[i]] = false;
    }
    return 0;
}

int pool_give(struct pool *p, const uint32_t *blocks, uint32_t count)
{
    if (mark_free(p, blocks, count) != 0)
        return -1;
    for (uint32_t i = 0; i < count; i++)
        p->free[p->num_free++] = blocks[i];
    return 0;
}
