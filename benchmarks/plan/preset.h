/* SPDX-License-Identifier: BSD-3-Clause */
/* preset: caches of published models. The one place of baton-plan that knows baton-replay's models. */
#ifndef PLAN_TOOL_PRESET_H
#define PLAN_TOOL_PRESET_H

#include "cache.h"
#include "replay/why.h"

/** One side's words of the command line. */
struct preset {
    const char *model, *dtype;
    uint32_t layers; /* 0: all */
    uint32_t block_tokens;
    unsigned layout; /* an or of baton_layout_t */
};

/** The names of models, by commas. */
const char *preset_models(void);

/** 0, or -1 with *why: a name is unknown, or the model has fewer layers. */
int preset_check(const struct preset *p, struct why *why);

/** A rank's cache with room for one request of so many tokens. 0, or -1 with *why: the model cannot be cut so. */
int preset_cache(const struct preset *p, const struct seat *seat, uint32_t tokens, struct cache *out, struct why *why);

#endif
