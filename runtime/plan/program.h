/* SPDX-License-Identifier: BSD-3-Clause */
/* program: what a compiled plan holds; shared by program.c and cursor.c only. */
#ifndef BATON_PLAN_PROGRAM_H
#define BATON_PLAN_PROGRAM_H

#include "plan/plan.h"

enum { SHAPE_LAYER, SHAPE_PLANE, SHAPE_HEAD, SHAPE_TOKEN, SHAPE_CHANNEL, SHAPE_DIRECTIONS };

/** What the blocks of a piece hold, before merging, and how to copy them. */
struct shape {
    uint32_t elem_bytes;
    int64_t src_block, dst_block; /* bytes between neighbouring block ids */
    struct plan_loop direction[SHAPE_DIRECTIONS];
    uint64_t token_bytes;
    struct plan_program whole; /* for as many tokens as direction[SHAPE_TOKEN] counts: the smaller block's */
    struct plan_program part;  /* for fewer: their loop, or the run, is multiplied by their number */
    int part_loop;             /* the tokens'; -1: the run is theirs */
};

/** Two groups of which tensors are paired. */
struct pair {
    uint32_t src_index, dst_index;
    baton_group_t src, dst;
};

struct plan {
    uint32_t num_shapes, num_pairs, num_pieces;
    struct shape shape[PLAN_PROGRAMS_MAX];
    struct pair pair[PLAN_PAIRS_MAX];
    struct plan_piece *piece;
};

#endif
