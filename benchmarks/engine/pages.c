/* SPDX-License-Identifier: BSD-3-Clause */
/* pages: see pages.h. */
#include "engine/pages.h"

#include <math.h>
#include <stdlib.h>

int pages_init(struct pages *p, const struct shape *shape, const struct slice *slice, uint32_t block_tokens,
               uint32_t num_blocks)
{
    const ptrdiff_t token = (ptrdiff_t)(shape->head_size * sizeof(float));
    *p = (struct pages){
        .num_layers = slice->layer_count,
        .num_heads = slice->kv_count,
        .head_size = shape->head_size,
        .block_tokens = block_tokens,
        .num_blocks = num_blocks,
        .token = token,
        .head = token * block_tokens,
        .plane = token * block_tokens * slice->kv_count,
        .block = 2 * token * block_tokens * slice->kv_count,
    };
    const ptrdiff_t layer = p->block * num_blocks;
    p->layer[0] = malloc((size_t)layer * slice->layer_count);
    if (p->layer[0] == NULL)
        return -1;
    for (uint32_t l = 1; l < slice->layer_count; l++)
        p->layer[l] = p->layer[0] + (ptrdiff_t)l * layer;
    return 0;
}

void pages_fini(struct pages *p)
{
    free(p->layer[0]);
    *p = (struct pages){0};
}

void pages_poison(const struct pages *p, uint32_t block)
{
    for (uint32_t l = 0; l < p->num_layers; l++)
        for (unsigned plane = PLANE_KEY; plane <= PLANE_VALUE; plane++)
            for (uint32_t h = 0; h < p->num_heads; h++)
                for (uint32_t t = 0; t < p->block_tokens; t++) {
                    float *at = pages_at(p, l, plane, h, block, t);
                    for (uint32_t c = 0; c < p->head_size; c++)
                        at[c] = NAN;
                }
}
