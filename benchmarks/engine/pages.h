/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pages: where a rank's keys and values lie: an address for each (layer, plane, block, head, token), by strides. The
 * memory belongs to somebody else. What a block holds before it is filled is NaN, so that a byte that nobody brought
 * cannot go unnoticed.
 */
#ifndef ENGINE_PAGES_H
#define ENGINE_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "engine/shape.h"

enum plane { PLANE_KEY, PLANE_VALUE };

struct pages {
    uint32_t num_layers, num_heads, head_size; /* of this rank */
    uint32_t block_tokens, num_blocks;
    char *layer[SHAPE_LAYERS_MAX];       /* each layer's first byte */
    ptrdiff_t block, plane, head, token; /* bytes between neighbours; channels lie side by side */
};

static inline float *pages_at(const struct pages *p, uint32_t layer, enum plane plane, uint32_t head, uint32_t block,
                              uint32_t token)
{
    return (float *)(p->layer[layer] + (ptrdiff_t)block * p->block + (ptrdiff_t)plane * p->plane +
                     (ptrdiff_t)head * p->head + (ptrdiff_t)token * p->token);
}

/** Makes memory (malloc) for one rank, token by token in each head. 0, or -1 for want of memory. */
int pages_init(struct pages *p, const struct shape *shape, const struct slice *slice, uint32_t block_tokens,
               uint32_t num_blocks);
/** Frees what pages_init made. */
void pages_fini(struct pages *p);

/** Fills a block with NaN. */
void pages_poison(const struct pages *p, uint32_t block);

#endif
