/* SPDX-License-Identifier: BSD-3-Clause */
/* program: what a compiled plan holds. Only program.c and cursor.c include this, and tests that look inside. */
#ifndef BATON_PLAN_PROGRAM_H
#define BATON_PLAN_PROGRAM_H

#include "plan/plan.h"

enum { SHAPE_LAYER, SHAPE_PLANE, SHAPE_HEAD, SHAPE_TOKEN, SHAPE_CHANNEL, SHAPE_DIRECTIONS };

/** What one block of a piece holds, direction by direction, and the programs that copy it. */
struct shape {
    uint32_t elem_bytes;
    int64_t src_block, dst_block; /* bytes from one block to the next */
    struct plan_loop direction[SHAPE_DIRECTIONS];
    uint64_t token_bytes;        /* of one token, over all other directions */
    struct plan_program whole;   /* for all tokens of direction[SHAPE_TOKEN]: those of the smaller side's block */
    struct plan_program partial; /* for fewer: their number sets the count of a loop, or multiplies the run */
    int token_loop;              /* the loop of `partial` that counts tokens; -1: the run does */
};

/** A group of each side, of which tensors are paired. */
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
