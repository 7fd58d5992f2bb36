/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * with_geometry: a small cache, for whoever needs any: one layer of two heads, keys and values, held by one rank. A
 * test changes what is special in its own. It includes nothing but the public header.
 */
#ifndef BATON_TESTS_WITH_GEOMETRY_H
#define BATON_TESTS_WITH_GEOMETRY_H

#include "baton.h"

static inline baton_geometry_t small_geometry(uint32_t block_tokens, uint32_t num_blocks)
{
    return (baton_geometry_t){.size = sizeof(baton_geometry_t),
                              .model = "m",
                              .dtype = "bf16",
                              .elem_bytes = 2,
                              .planes = 2,
                              .head_size = 64,
                              .num_groups = 1,
                              .groups = {{.block_tokens = block_tokens, .num_blocks = num_blocks}},
                              .num_splits = 1,
                              .splits = {{.heads_total = 2, .head_count = 2}},
                              .layers_total = 1,
                              .layer_count = 1};
}

#endif
