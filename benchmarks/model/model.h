/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model: the caches of published models, cut for one rank of an engine: which heads and layers the rank holds, in which
 * groups, and how large their blocks are. Pure. Of the library it uses baton_geometry_layout alone, so that the check
 * of what was moved shares nothing with the planner.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stdint.h>

#include "baton.h"
#include "option/why.h"

/** Mamba-2 layers: a convolution's last inputs (x by heads, B and C by groups), and a state by heads. */
struct model_mamba {
    uint32_t heads, head_size, groups, state_size;
    uint32_t positions; /* inputs that the convolution keeps: its width less 1 */
};

struct model {
    const char *name;
    uint32_t layers, heads, head_size; /* heads: KV heads, or 1 latent that every rank holds whole */
    uint32_t planes;                   /* 2: K and V; 1: one latent */
    uint32_t hidden;                   /* values of a token between layers */
    const char *pattern;               /* what each layer is, a MODEL_LAYER_..., repeated to the end; NULL: all full */
    uint32_t window_tokens;
    struct model_mamba mamba;
};

#define MODEL_LAYER_FULL '*'
#define MODEL_LAYER_WINDOW 'w'
#define MODEL_LAYER_MAMBA 'M'
#define MODEL_LAYER_NONE '-' /* it keeps nothing of a request */

struct model_dtype {
    const char *name;
    uint32_t bytes;
};

/** NULL for a name that is not known. model_names has those that are. */
const struct model *model_find(const char *name);
const char *model_names(void);
const struct model_dtype *model_dtype_find(const char *name);
/** The least number of the model's first layers that has one of each kind among them. */
uint32_t model_least_layers(const struct model *m);

/** What is equal on all ranks of one side. */
struct model_cut {
    const struct model *model;
    const struct model_dtype *dtype;         /* but a Mamba state is always fp32 */
    uint32_t layers;                         /* the model's first ones: the cache is shortened, its shapes stay */
    uint32_t block_tokens;                   /* of full and window groups */
    unsigned layout;                         /* an or of baton_layout_t; of a Mamba layer, its order alone counts */
    uint32_t group_blocks[BATON_GROUPS_MAX]; /* blocks of the groups behind the first; 0: as many as the first has */
};

/**
 * One rank's place in its engine. Rank t of tp holds heads [t * heads / tp, (t + 1) * heads / tp), and where there are
 * more ranks than heads, head t * heads / tp; stage p of pp the layers by the same rule.
 */
struct model_seat {
    uint32_t tp, pp, tp_rank, pp_rank;
};

/** A geometry, and the tensors that it points to. */
struct model_cache {
    baton_geometry_t geometry;
    baton_tensor_t *tensors;
};

/**
 * The geometry of a rank's cache, with num_blocks blocks in its first group. Where all layers are alike there is one
 * group and one split. Otherwise group 0 is full attention, and split 0 the KV heads. Groups lie one behind the other
 * in region 0. Tensors are called "layer.N"; of a Mamba layer "layer.N.x", ".B", ".C" and ".ssm". 0, or -1 with *why:
 * the model cannot be cut so.
 */
int model_cache_init(struct model_cache *c, const struct model_cut *cut, const struct model_seat *seat,
                     uint32_t num_blocks, struct why *why);
void model_cache_fini(struct model_cache *c);

/** The groups of every rank of a side, with num_blocks blocks in the first. Returns how many there are. */
uint32_t model_groups(const struct model_cut *cut, uint32_t num_blocks, baton_group_t out[BATON_GROUPS_MAX]);

/** What one tensor of a geometry holds. */
struct model_extent {
    baton_group_t group;
    baton_split_t split;
    uint32_t planes, head_size, elem_bytes;
};

struct model_extent model_extent(const baton_geometry_t *g, const baton_tensor_t *t);

/* ---- a request's tokens ------------------------------------------------------------------------------------------ */

/** Blocks that hold so many tokens. */
uint32_t model_blocks(uint32_t tokens, uint32_t block_tokens);

/** Tokens [first, end). A state's one entry counts as token 0. */
struct model_span {
    uint32_t first, end;
};

/** What a request of so many tokens, of which `held` are there already, needs of a group. */
struct model_span model_wanted(const baton_group_t *group, uint32_t held, uint32_t tokens);

/** The token that an engine's block table of the group begins with, and how many blocks it has. */
uint32_t model_table_first(const baton_group_t *group, uint32_t tokens);
uint32_t model_table_blocks(const baton_group_t *group, uint32_t tokens);

/** Bytes of one block of a group over all that the rank holds, and of all that a request needs. */
uint64_t model_block_bytes(const baton_geometry_t *g, uint32_t group);
uint64_t model_wanted_bytes(const baton_geometry_t *g, uint32_t held, uint32_t tokens);

#endif
