/* SPDX-License-Identifier: BSD-3-Clause */
/* inside: what the project's own benchmarks need to see behind the API. Not exported by the shared library. */
#ifndef BATON_FRONT_INSIDE_H
#define BATON_FRONT_INSIDE_H

#include "baton.h"

struct ground;

/**
 * A peer's region 0 as mapped here, if it shares the node, Baton allocated it, and all ranks have the same settings;
 * else NULL.
 */
const char *baton_inside_peer_pool(const baton_t *b, uint32_t peer);
const struct ground *baton_inside_ground(const baton_t *b);

#endif
