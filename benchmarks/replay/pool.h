/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool: the free blocks of one rank's cache. A block that is taken is a random one of the free blocks. So tables are
 * scattered from the first request on, as in an engine that has run for days. One thread.
 */
#ifndef REPLAY_POOL_H
#define REPLAY_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "option/why.h"

struct pool {
    uint32_t num_blocks, num_free;
    uint32_t *free; /* num_free ids */
    bool *taken;    /* by id */
    uint64_t random;
};

int pool_init(struct pool *p, uint32_t num_blocks, uint64_t seed, struct why *why);
void pool_fini(struct pool *p);

/** Takes `count` different blocks. 0, or -1 and none is taken: fewer are free. */
int pool_take(struct pool *p, uint32_t *blocks, uint32_t count);

/** Gives blocks back. 0, or -1 and none is given back: one of them is not in the pool, or is free. */
int pool_give(struct pool *p, const uint32_t *blocks, uint32_t count);

#endif
