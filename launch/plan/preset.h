/* SPDX-License-Identifier: BSD-3-Clause */
/* preset: caches of published models. */
#ifndef PLAN_TOOL_PRESET_H
#define PLAN_TOOL_PRESET_H

#include "cache.h"
#include "option/why.h"

/** A rank's cache with room for one request of so many tokens. 0, or -1 with *why: the model cannot be cut so. */
int preset_cache(const struct model_cut *cut, const struct model_seat *seat, uint32_t tokens, struct cache *out,
                 struct why *why);

#endif
