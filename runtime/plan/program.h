/* SPDX-License-Identifier: BSD-3-Clause */
/* program: what a compiled plan holds; shared by program.c and cursor.c only. */
#ifndef BATON_PLAN_PROGRAM_H
#define BATON_PLAN_PROGRAM_H

#include "plan/plan.h"

enum { SHAPE_LAYER, SHAPE_PLANE, SHAPE_HEAD, SHAPE_TOKEN, SHAPE_CHANNEL, SHAPE_DIRECTIONS };

/** What one block of one piece holds, before merging. */
struct shape {
    uint32_t elem_bytes;
    int64_t src_block, dst_block;
    struct plan_loop direction[SHAPE_DIRECTIONS];
};

struct plan {
    uint32_t block_tokens;
    uint32_t num_programs, num_pieces;
    struct shape shape[PLAN_PROGRAMS_MAX];
    struct plan_program program[PLAN_PROGRAMS_MAX]; /* of whole blocks */
    struct plan_piece *piece;
};

/** The program that copies the first `tokens` tokens of a block of that shape. */
void shape_program(const struct shape *s, uint32_t tokens, struct plan_program *out);

#endif
