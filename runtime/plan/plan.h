/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan: which ranks exchange which bytes. Pure functions of geometries; no I/O, no clock, no thread, no MPI.
 *
 * Each rank's cache is a box of points (layer, plane, head, token, channel): a range of layers by a range of heads.
 * Two caches exchange the intersection of their boxes. plan_sources decides who serves what; plan_compile turns one
 * pair of caches into copy programs; a cursor walks a program for one request's block tables, and stops and resumes
 * at any run.
 */
#ifndef BATON_PLAN_PLAN_H
#define BATON_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "baton.h"

/* ---- geometry.c -------------------------------------------------------------------------------------------------- */

/** A sentence about what is wrong: which field, which values. */
struct plan_why {
    char text[128];
};

/**
 * Checks that one geometry is sound by itself: sizes not 0, ranges within totals, names terminated, tensors' layers
 * within range, names unique, and every element of every block within [0, bytes) of its region (no overflow).
 * `region_bytes[r]` are the sizes of num_regions regions. Returns 0 or BATON_EINVAL with *why.
 */
int geometry_check(const baton_geometry_t *g, const uint64_t *region_bytes, uint32_t num_regions, struct plan_why *why);

/** Checks that two caches may exchange entries. BATON_EGEOMETRY with the field and both values in *why. */
int geometry_match(const baton_geometry_t *a, const baton_geometry_t *b, struct plan_why *why);

/* ---- box.c: who serves what -------------------------------------------------------------------------------------- */

struct plan_box {
    uint32_t layer_first, layer_count, head_first, head_count;
};

/** One rank of an engine, as its directory row shows it. */
struct plan_member {
    struct plan_box box;
    uint32_t node;    /* number of the node, equal for ranks of one node */
    uint32_t package; /* on that node */
    uint32_t numa;    /* on that node */
};

/** A part of the consumer's box and the producer that serves it. */
struct plan_source {
    uint32_t member; /* index among the producer's members */
    struct plan_box box;
};

/** The common part of two boxes; false (and *out untouched) if there is none. */
bool box_intersect(const struct plan_box *a, const struct plan_box *b, struct plan_box *out);

/**
 * Cuts `me`'s box into parts, each served by one of `members` that holds it. Every cell (layer, head) of the box is in
 * exactly one part. Where several members hold a cell, the nearest is taken (same NUMA node, package, node, network);
 * ties are spread by `me_index`, the consumer's index in its engine, so that replicas share the load. Parts come in
 * order of member, and a member may have several. Deterministic: producer and consumer compute the same from the same
 * rows. Writes at most `max` parts; returns their number, BATON_ESOURCE if a cell is held by none (*why names it), or
 * BATON_ENOMEM if there are more than max.
 */
int plan_sources(const struct plan_member *me, uint32_t me_index, const struct plan_member *members, uint32_t n,
                 struct plan_source *out, uint32_t max, struct plan_why *why);

/* ---- program.c: how bytes lie ------------------------------------------------------------------------------------ */

#define PLAN_LOOPS_MAX 4

/** One strided loop: `count` steps of `src` and `dst` bytes. */
struct plan_loop {
    uint32_t count;
    int64_t src, dst;
};

/**
 * What is copied for one block of one piece: loops, outermost first, around `run` contiguous bytes. Neighbouring
 * directions are merged as far as both sides' strides allow.
 */
struct plan_program {
    uint32_t num_loops;
    struct plan_loop loop[PLAN_LOOPS_MAX];
    uint64_t run;                 /* contiguous bytes */
    uint64_t unit_bytes;          /* run times all counts: bytes a block */
    int64_t src_block, dst_block; /* bytes between neighbouring block ids */
};

/** One pair of tensors (or several evenly spaced ones whose bytes merge): where its blocks begin on each side. */
struct plan_piece {
    uint32_t program;
    uint32_t src_region, dst_region;
    uint32_t layer;              /* the first tensor's */
    uint64_t src_base, dst_base; /* bytes from the region's base to the first element copied of block 0 */
};

struct plan; /* compiled: programs shared by pieces of equal shape; O(tensors) memory */

/**
 * Compiles what `dst` takes from `src` for the cells of `boxes` (parts that plan_sources gave to this pair; each within
 * both caches' boxes). Tensors are paired by name. Both geometries must have passed geometry_check and geometry_match.
 * Block sizes must be equal in this version. Returns 0 and *out (plan_destroy frees), BATON_EGEOMETRY with *why, or
 * BATON_ENOMEM.
 */
int plan_compile(const baton_geometry_t *src, const baton_geometry_t *dst, const struct plan_box *boxes,
                 uint32_t num_boxes, struct plan **out, struct plan_why *why);
void plan_destroy(struct plan *plan);

uint32_t plan_num_pieces(const struct plan *plan);
uint32_t plan_num_programs(const struct plan *plan);
const struct plan_piece *plan_piece_at(const struct plan *plan, uint32_t i);
const struct plan_program *plan_program_at(const struct plan *plan, uint32_t i);
/** Bytes of heap the plan holds. */
size_t plan_footprint(const struct plan *plan);

/* ---- cursor.c: one request's walk -------------------------------------------------------------------------------- */

#define PLAN_PROGRAMS_MAX 16 /* distinct shapes in one plan; plan_compile refuses more (BATON_EGEOMETRY) */

/** One leg's instance of a plan. The block tables stay the caller's and must outlive it. Plain data. */
struct plan_transfer {
    const struct plan *plan;
    const uint32_t *src_blocks, *dst_blocks;
    uint32_t num_blocks;                         /* that are touched: ceil(tokens / block_tokens) */
    uint32_t tail_tokens;                        /* tokens in the last block, 1 .. block_tokens */
    uint64_t bytes;                              /* the whole transfer's */
    struct plan_program tail[PLAN_PROGRAMS_MAX]; /* the programs again, for tail_tokens tokens */
};

/** Sets *t up for num_tokens >= 1 tokens. The tables must have ceil(num_tokens / block_tokens) entries. */
void plan_transfer_init(struct plan_transfer *t, const struct plan *plan, uint32_t num_tokens,
                        const uint32_t *src_blocks, const uint32_t *dst_blocks);

/** A place in a transfer: piece, block, and the bytes of that block's unit that are behind. Zero it to begin. */
struct plan_cursor {
    uint32_t piece, block;
    uint64_t unit_done; /* bytes of this (piece, block) already passed */
};

/** Contiguous bytes on both sides. Offsets are from the bases of src_region and dst_region. */
struct plan_run {
    uint64_t src, dst;
    uint64_t bytes;
    uint32_t src_region, dst_region;
};

/** Bytes of the (piece, block) that the cursor is in, whole. */
uint64_t plan_unit_bytes(const struct plan_transfer *t, const struct plan_cursor *c);

bool plan_at_end(const struct plan_transfer *t, const struct plan_cursor *c);

/**
 * Takes the next runs: up to `max` of them, together at most `budget` bytes, none longer than budget; moves *c behind
 * them. Runs that touch on both sides (neighbouring block ids) are merged. Returns their number; 0 only at the end
 * (or with max or budget 0). Order: piece, then block, then loops.
 */
uint32_t plan_next(const struct plan_transfer *t, struct plan_cursor *c, struct plan_run *out, uint32_t max,
                   uint64_t budget);

/**
 * Moves *c forward over whole (piece, block) units of together at most `budget` bytes, at least one unit or the rest
 * of one; returns the bytes passed, 0 at the end. The bytes between the old and the new cursor are a slice that a copy
 * worker can walk by plan_next with the budget returned. O(pieces passed), not O(runs).
 */
uint64_t plan_skip(const struct plan_transfer *t, struct plan_cursor *c, uint64_t budget);

#endif
