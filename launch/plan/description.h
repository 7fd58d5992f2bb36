/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * description: a cache that a JSON file describes, by rules from which each rank of an engine of any size gets its
 * layers, heads, tensors and strides. launch/README.md has the fields.
 */
#ifndef PLAN_TOOL_DESCRIPTION_H
#define PLAN_TOOL_DESCRIPTION_H

#include <stdbool.h>
#include <stddef.h>

#include "cache.h"
#include "option/why.h"

#define DESCRIPTION_KINDS_MAX 32 /* elements of "tensors" */
#define DESCRIPTION_LAYERS_MAX 65535
#define DESCRIPTION_BYTES_MAX (1 << 20) /* of a file */

/** Directions of a layout. */
enum direction { BY_LAYER, BY_PLANE, BY_BLOCK, BY_HEAD, BY_TOKEN, BY_CHANNEL, DIRECTIONS };

/** Heads, and whether they are shared out over TP ranks, or each rank holds all. */
struct described_split {
    uint32_t heads;
    bool whole;
};

/** Tensors that are alike, one a layer. */
struct described_kind {
    char name[BATON_NAME_MAX]; /* "{layer}" in it stands for the layer's number */
    uint32_t group, split;
    uint32_t planes, head_size, elem_bytes; /* 0: the cache's */
    enum direction order[DIRECTIONS];       /* outermost first */
    uint32_t align[DIRECTIONS];             /* a direction's stride is a multiple of it */
    bool *has_layer;                        /* by layer; NULL: all */
};

struct description {
    char model[BATON_NAME_MAX], dtype[BATON_DTYPE_MAX];
    uint32_t elem_bytes, planes, head_size, layers;
    uint32_t num_stages, *stage_layers; /* 0: layers are shared out evenly */
    uint32_t num_splits, num_groups, num_kinds;
    struct described_split splits[BATON_SPLITS_MAX];
    baton_group_t groups[BATON_GROUPS_MAX]; /* num_blocks 0: as many as the request needs */
    struct described_kind kinds[DESCRIPTION_KINDS_MAX];
};

/** 0 and *d, which description_fini ends; or -1 with *why, which names the field. */
int description_parse(struct description *d, const char *text, size_t length, struct why *why);
int description_read(struct description *d, const char *path, struct why *why);
void description_fini(struct description *d);

/** A rank's cache with room for one request of so many tokens. 0, or -1 with *why. */
int description_cache(const struct description *d, const struct model_seat *seat, uint32_t tokens, struct cache *out,
                      struct why *why);

#endif
