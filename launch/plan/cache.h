/* SPDX-License-Identifier: BSD-3-Clause */
/* cache: one rank's cache, wherever its description came from. */
#ifndef PLAN_TOOL_CACHE_H
#define PLAN_TOOL_CACHE_H

#include "model/model.h"

/** A geometry with what it points to. Whoever asked for it ends it with cache_fini. */
struct cache {
    const baton_geometry_t *geometry;
    void *own;
    void (*own_fini)(void *own);
};

static inline void cache_fini(struct cache *c)
{
    if (c->own != NULL)
        c->own_fini(c->own);
    *c = (struct cache){0};
}

#endif
