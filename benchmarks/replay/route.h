/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * route: which prefill engine and which decode engine each request goes to. Request i goes to prefill engine i modulo
 * their number. The decode engine is found likewise, or by distances. All ranks make the same route. Pure.
 */
#ifndef REPLAY_ROUTE_H
#define REPLAY_ROUTE_H

#include <stdint.h>

#include "option/why.h"
#include "replay/distances.h"
#include "replay/options.h"

struct route {
    uint32_t *engine_of[SIDES]; /* by request */
    uint32_t nearest;           /* requests whose decode engine is as near as any; 0 if nothing is known of distances */
};

/**
 * With distances, a request goes to the nearest decode engine that has fewer than `lead` requests more than the decode
 * engine with the fewest so far. Of equally near ones it takes the one with fewer requests, then the first. So near
 * engines do the work, and none is `lead` requests more than another ahead. Without distances (NULL): in turn. 0, or -1
 * with *why.
 */
int route_init(struct route *r, const uint32_t num_engines[SIDES], uint32_t requests, const struct distances *distances,
               uint32_t lead, struct why *why);
void route_fini(struct route *r);

#endif
