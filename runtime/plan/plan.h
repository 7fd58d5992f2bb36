/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan: which ranks exchange which bytes. Pure functions of geometries; no I/O, no clock, no thread, no MPI.
 *
 * Each rank's cache is a box of points (layer, plane, head, token, channel): a range of layers by, for each split, a
 * range of heads. Two caches exchange the intersection of their boxes. plan_sources decides who serves what;
 * plan_compile turns one pair of caches into copy programs; a cursor walks them for one request's block tables, and
 * stops and resumes at any run.
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
 * Checks that one geometry is sound by itself: sizes not 0, ranges within totals, names terminated, tensors' layers,
 * groups and splits within range, names unique, and every element of every block within [0, bytes) of its region (no
 * overflow). `region_bytes[r]` are the sizes of num_regions regions. Returns 0 or BATON_EINVAL with *why.
 */
int geometry_check(const baton_geometry_t *g, const uint64_t *region_bytes, uint32_t num_regions, struct plan_why *why);

/**
 * Checks that two caches may exchange entries, but for their tensors, which plan_compile compares pair by pair.
 * BATON_EGEOMETRY with the field and both values in *why.
 */
int geometry_match(const baton_geometry_t *a, const baton_geometry_t *b, struct plan_why *why);

/** A number that caches have in common wherever geometry_match lets them exchange entries. Never 0. */
uint32_t geometry_model(const baton_geometry_t *g);

/** What one tensor holds, whether by its own fields or its geometry's. */
struct plan_extent {
    baton_group_t group;
    baton_split_t split;
    uint32_t planes, head_size, elem_bytes;
};

struct plan_extent geometry_extent(const baton_geometry_t *g, const baton_tensor_t *t);

/**
 * The tokens [*first, *end) of a group that a want of the first `tokens` tokens moves, of which `held` are there already.
 * For a state, whose one entry counts as token 0: [0, 1).
 */
void plan_wanted(const baton_group_t *group, uint32_t held, uint32_t tokens, uint32_t *first, uint32_t *end);

/**
 * Whether a table has a block for each of the tokens [first, end), with an id that the group has. 0, BATON_EINVAL (it
 * begins within a block), BATON_ETOKENS or BATON_EBLOCK, with *why.
 */
int plan_table_check(const baton_group_t *group, const baton_table_t *table, uint32_t first, uint32_t end,
                     struct plan_why *why);

/**
 * Whether those blocks differ from each other. 0; BATON_EINVAL with the block and the two places that name it in *why;
 * or BATON_ENOMEM. The table has passed plan_table_check. Some 3 us for 1,024 blocks in any order.
 */
int plan_table_once(const baton_group_t *group, const baton_table_t *table, uint32_t first, uint32_t end,
                    struct plan_why *why);

/* ---- box.c: who serves what -------------------------------------------------------------------------------------- */

/** Layers by heads of one split. */
struct plan_box {
    uint32_t layer_first, layer_count, head_first, head_count, split;
};

/** One rank of an engine, as its directory row shows it. */
struct plan_member {
    struct plan_box box[BATON_SPLITS_MAX]; /* by split */
    uint32_t num_boxes;                    /* 0: it has no cache */
    uint32_t node;                         /* number of the node, equal for ranks of one node */
    uint32_t package;                      /* on that node */
    uint32_t numa;                         /* on that node */
};

/** A part of the consumer's box and the producer that serves it. */
struct plan_source {
    uint32_t member; /* index among the producer's members */
    struct plan_box box;
};

/** The boxes that a cache of this geometry holds, by split; returns their number. */
uint32_t plan_boxes(const baton_geometry_t *g, struct plan_box out[BATON_SPLITS_MAX]);

/** The common part of two boxes; false (and *out untouched) if there is none. Boxes of two splits have none. */
bool box_intersect(const struct plan_box *a, const struct plan_box *b, struct plan_box *out);

/** Whether two members hold anything in common. */
bool plan_members_share(const struct plan_member *a, const struct plan_member *b);

/** Whether a member holds all of a box. */
bool plan_member_covers(const struct plan_member *m, const struct plan_box *box);

/**
 * The rules by which plan_sources gives parts to ranks, and by which plan_part orders them. Where two builds' rules
 * differ, the one that reads decides alone; what both must plan alike (a push, hashes) is not possible between them.
 */
#define PLAN_RULES 1

#define PLAN_CELLS_MAX                                                                                                 \
    4096 /* in a grid of the boundaries of all that serve one box; sound engines have 2,050 at most */

/**
 * Cuts `me`'s boxes into parts, each served by one of `members` that holds it. Every cell (split, layer, head) is in
 * exactly one part. Where several members hold a cell, the nearest is taken (same NUMA node, package, node, network);
 * ties are spread by `me_index`, the consumer's index in its engine (the sum of its digits to the base of the number of
 * ties: consumers that want the same cell are often a multiple of that apart), and by `engine`, its engine's number, so
 * that replicas share the load of all. Parts come in order of member, and a member may have several. Deterministic:
 * producer and consumer compute the same from the same rows. Writes at most `max` parts; returns their number,
 * BATON_ESOURCE if a cell is held by none, BATON_EGEOMETRY if there are more parts than max or cells than PLAN_CELLS_MAX
 * (*why says which), or BATON_ENOMEM.
 */
int plan_sources(const struct plan_member *me, uint32_t me_index, uint32_t engine, const struct plan_member *members,
                 uint32_t n, struct plan_source *out, uint32_t max, struct plan_why *why);

/* ---- program.c: how bytes lie ------------------------------------------------------------------------------------ */

#define PLAN_LOOPS_MAX 4
#define PLAN_PROGRAMS_MAX 16 /* distinct shapes in one plan; plan_compile refuses more (BATON_EGEOMETRY) */
#define PLAN_PAIRS_MAX 16    /* distinct pairs of groups; likewise */

/** One strided loop: `count` steps of `src` and `dst` bytes. */
struct plan_loop {
    uint32_t count;
    int64_t src, dst;
};

/**
 * What is copied of a run of tokens that lies in one block on both sides: loops, outermost first, around `run`
 * contiguous bytes. Neighbouring directions are merged as far as both sides' strides allow.
 */
struct plan_program {
    uint32_t num_loops;
    struct plan_loop loop[PLAN_LOOPS_MAX];
    uint64_t run; /* contiguous bytes */
};

/** One pair of tensors (or several evenly spaced ones whose bytes merge): where its blocks begin on each side. */
struct plan_piece {
    uint32_t program, pair;
    uint32_t src_region, dst_region;
    uint32_t layer, num_layers;  /* the first tensor's, and how many follow each other in it */
    uint64_t src_base, dst_base; /* bytes from the region's base to the first element copied of block 0 */
};

struct plan; /* compiled: programs shared by pieces of equal shape; O(tensors) memory */

/**
 * Compiles what `dst` takes from `src` for the cells of `boxes` (parts that plan_sources gave to this pair; each within
 * both caches' boxes). Tensors are paired by name. Both geometries must have passed geometry_check and geometry_match.
 * Returns 0 and *out (plan_destroy frees), BATON_EGEOMETRY with *why, or BATON_ENOMEM.
 */
int plan_compile(const baton_geometry_t *src, const baton_geometry_t *dst, const struct plan_box *boxes,
                 uint32_t num_boxes, struct plan **out, struct plan_why *why);
void plan_destroy(struct plan *plan);

uint32_t plan_num_pieces(const struct plan *plan);
uint32_t plan_num_programs(const struct plan *plan);
const struct plan_piece *plan_piece_at(const struct plan *plan, uint32_t i);
/** The program for as many tokens as the smaller of the two sides' blocks has. */
const struct plan_program *plan_program_at(const struct plan *plan, uint32_t i);
/** Bytes that a piece moves a token. */
uint64_t plan_token_bytes(const struct plan *plan, uint32_t piece);
/** Bytes of heap the plan holds. */
size_t plan_footprint(const struct plan *plan);

/* ---- cursor.c: one request's walk -------------------------------------------------------------------------------- */

/** What moves of one pair of groups: tokens [first, end). */
struct plan_span {
    uint32_t first, end;
    uint32_t src_first, dst_first;           /* the token that each side's table begins with */
    const uint32_t *src_blocks, *dst_blocks; /* NULL: addresses of that side have no meaning */
};

/** One leg's instance of a plan. The block tables stay the caller's and must outlive it. Plain data. */
struct plan_transfer {
    const struct plan *plan;
    uint64_t bytes; /* the whole transfer's */
    struct plan_span span[PLAN_PAIRS_MAX];
};

/** A request's block tables on one side, by group. */
struct plan_tables {
    uint32_t num;
    baton_table_t table[BATON_GROUPS_MAX];
};

/**
 * Sets *t up for the first `tokens` >= 1 tokens of a request, but for the `held` first of them. Of either side, NULL is
 * for a walk that only asks for the other side's addresses. 0, or what plan_table_check says of the tables, with *why.
 */
int plan_transfer_init(struct plan_transfer *t, const struct plan *plan, uint32_t held, uint32_t tokens,
                       const struct plan_tables *src, const struct plan_tables *dst, struct plan_why *why);

/**
 * The same, of a request that is moved in chunks: of those, what lies before token `end`. A state is of the last chunk,
 * whose end is `tokens`.
 */
int plan_transfer_chunk(struct plan_transfer *t, const struct plan *plan, uint32_t held, uint32_t end, uint32_t tokens,
                        const struct plan_tables *src, const struct plan_tables *dst, struct plan_why *why);

/**
 * The tokens behind the first `tokens` ones, to the end of the last block that those lie in (as large as the caller
 * counts, geometry's blocks_per_id), of every group but states. Both sides of the plan are one cache's: `mine`.
 */
int plan_transfer_tail(struct plan_transfer *t, const struct plan *plan, uint32_t tokens,
                       const struct plan_tables *mine, struct plan_why *why);

/** A place in a transfer: piece, token behind its span's first, and bytes behind of the unit there. Zero it to begin. */
struct plan_cursor {
    uint32_t piece, token;
    uint64_t unit_done;
};

/** Contiguous bytes on both sides. Offsets are from the bases of src_region and dst_region. */
struct plan_run {
    uint64_t src, dst;
    uint64_t bytes;
    uint32_t src_region, dst_region;
};

bool plan_at_end(const struct plan_transfer *t, const struct plan_cursor *c);

/** Bytes from *c on, up to the first piece with a layer at or behind `layer_end`. */
uint64_t plan_ahead(const struct plan_transfer *t, const struct plan_cursor *c, uint32_t layer_end);

/**
 * Takes the next runs: up to `max` of them, together at most `budget` bytes, none longer than budget; moves *c behind
 * them. Runs that touch on both sides (neighbouring block ids) are merged. Returns their number; 0 only at the end
 * (or with max or budget 0). Order: piece, then token, then loops.
 */
uint32_t plan_next(const struct plan_transfer *t, struct plan_cursor *c, struct plan_run *out, uint32_t max,
                   uint64_t budget);

/**
 * Moves *c forward over whole units (a piece's tokens that lie in one block on both sides) of together at most `budget`
 * bytes, at least one unit or the rest of one; returns the bytes passed, 0 at the end. The bytes between the old and the
 * new cursor are a slice that a copy worker can walk by plan_next with the budget returned. O(pieces passed), not O(runs).
 */
uint64_t plan_skip(const struct plan_transfer *t, struct plan_cursor *c, uint64_t budget);

/* Parts of a transfer that both sides tell apart in the same way, whatever their blocks' sizes: of each pair of groups,
 * the tokens of one block of the larger size. What is hashed goes by them. */
uint32_t plan_num_parts(const struct plan_transfer *t);
/** Sets *c to where a piece's bytes of a part begin; returns how many there are, 0: none, it is of another pair. */
uint64_t plan_part(const struct plan_transfer *t, uint32_t part, uint32_t piece, struct plan_cursor *c);

#endif
