/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model: the caches of published models, cut for one rank of an engine: which heads and layers it holds, and how large
 * a block of its cache is. Pure.
 */
#ifndef REPLAY_MODEL_H
#define REPLAY_MODEL_H

#include <stdint.h>

#include "baton.h"
#include "replay/why.h"

struct model {
    const char *name;
    uint32_t layers, heads, head_size; /* heads: KV heads */
};

struct model_dtype {
    const char *name;
    uint32_t bytes;
};

/** NULL for a name that is not known; model_names then tells those that are. */
const struct model *model_find(const char *name);
const char *model_names(void);
const struct model_dtype *model_dtype_find(const char *name);

/** What is equal on all ranks of one side. */
struct model_cut {
    const struct model *model;
    const struct model_dtype *dtype;
    uint32_t layers; /* the model's first ones: the cache is shortened, its shapes stay */
    uint32_t block_tokens;
    unsigned layout; /* an or of baton_layout_t */
};

/** One rank's place in its engine. */
struct model_seat {
    uint32_t tp, pp, tp_rank, pp_rank;
};

/** A geometry with the tensors it points to. */
struct model_cache {
    baton_geometry_t geometry;
    baton_tensor_t *tensors;
};

/** The geometry of a rank's cache of num_blocks blocks. 0, or -1 with *why: the model cannot be cut so. */
int model_cache_init(struct model_cache *c, const struct model_cut *cut, const struct model_seat *seat,
                     uint32_t num_blocks, struct why *why);
void model_cache_fini(struct model_cache *c);

/** Blocks that hold so many tokens. */
uint32_t model_blocks(uint32_t tokens, uint32_t block_tokens);
/** Bytes of one block, and of so many tokens, over all that the rank holds. */
uint64_t model_block_bytes(const baton_geometry_t *g);
uint64_t model_token_bytes(const baton_geometry_t *g, uint64_t tokens);

#endif
