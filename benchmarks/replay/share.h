/* SPDX-License-Identifier: BSD-3-Clause */
/* share: the requests of one engine, and the pools that they need. Pure. */
#ifndef REPLAY_SHARE_H
#define REPLAY_SHARE_H

#include <stdint.h>

#include "baton.h"
#include "replay/trace.h"
#include "option/why.h"

struct share {
    const struct trace *trace;
    const uint32_t *engine_of; /* by request */
    uint32_t engine;           /* whose share this is */
    uint32_t num_groups;
    baton_group_t groups[BATON_GROUPS_MAX]; /* their num_blocks are not used */
};

/** The first request of the share from request `from` on. The trace's count: there is none. */
uint32_t share_next(const struct share *s, uint32_t from);

/** Blocks of a group that request i of the trace needs. */
uint32_t share_blocks(const struct share *s, uint32_t request, uint32_t group);

/** The share's request with the most tokens. If the share is empty, the trace's count. */
uint32_t share_largest(const struct share *s);

/**
 * How many blocks of block_bytes[group] a rank's pool of each group gets. At most a quarter of the blocks that it
 * moves, so that every block is used several times; no more than `inflight` of the largest requests need, and usually
 * no more than 256 MiB; but always enough for the largest request and `spare` blocks. With pool_bytes, as many as these
 * hold, shared out by need. 0, or -1 with *why, which names a request that has too little room.
 */
int share_pool(const struct share *s, const uint64_t *block_bytes, uint64_t pool_bytes, uint32_t inflight,
               uint32_t spare, uint32_t *num_blocks, struct why *why);

#endif
