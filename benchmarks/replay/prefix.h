/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prefix: what decode engines with a prefix cache need not fetch. A request that begins like one before it, by the ids
 * in its hash_ids, finds those tokens in the cache of its decode engine, and wants the rest alone. The cache is a
 * model: it knows ids and holds no bytes. A request's ids are in it from its arrival on, and those not used for longest
 * go first. All ranks compute the same. Pure.
 */
#ifndef REPLAY_PREFIX_H
#define REPLAY_PREFIX_H

#include <stdint.h>

#include "option/why.h"
#include "replay/trace.h"

struct prefix {
    uint32_t *held; /* by request: leading tokens that its decode engine has already. NULL: no engine has a cache */
};

/** For caches of so many tokens each, of which a request belongs to that of engine_of[request]. 0, or -1 with *why. */
int prefix_init(struct prefix *p, const struct trace *trace, const uint32_t *engine_of, uint32_t engines,
                uint64_t cache_tokens, struct why *why);
void prefix_fini(struct prefix *p);

#endif
