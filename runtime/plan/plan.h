/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan: which ranks exchange which bytes. Pure functions of geometries; no I/O, no clock, no thread, no MPI.
 *
 * Each rank's cache holds one box of each split: a range of layers by a range of heads, with all planes, tokens and
 * channels. Two caches exchange what their boxes have in common. plan_sources decides which rank serves what.
 * plan_compile turns a pair of caches into copy programs. A cursor walks these over one request's block tables, and can
 * stop and resume at any run.
 */
#ifndef BATON_PLAN_PLAN_H
#define BATON_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "baton.h"

/* ---- geometry.c -------------------------------------------------------------------------------------------------- */

/** A sentence that says what is wrong: which field, and which values. */
struct plan_why {
    char text[192];
};

/**
 * Checks that one geometry is sound by itself: no size is 0; ranges lie within their totals; names are terminated and
 * unique; each tensor's layer, group, split and region exist; every element of every block lies within its region, of
 * which region r has region_bytes[r] bytes. No sum overflows. Returns 0, or BATON_EINVAL with *why.
 */
int geometry_check(const baton_geometry_t *g, const uint64_t *region_bytes, uint32_t num_regions, struct plan_why *why);

/**
 * Checks that two caches may exchange entries. Tensors are not compared here: plan_compile does that, pair by pair.
 * Returns 0, or BATON_EGEOMETRY with the field and both values in *why.
 */
int geometry_match(const baton_geometry_t *a, const baton_geometry_t *b, struct plan_why *why);
/** The bytes of one block of a group, over all tensors of it. The geometry is sound. */
uint64_t geometry_block_bytes(const baton_geometry_t *g, uint32_t group);

/** Whether a group of it keeps a recurrent state, which can only be taken whole. */
bool geometry_has_state(const baton_geometry_t *g);

/** A hash of the fields that geometry_match compares: equal for caches that may exchange entries. Never 0. */
uint32_t geometry_model(const baton_geometry_t *g);

/** The sizes of one tensor: its own where it has them, else its geometry's. */
struct plan_extent {
    baton_group_t group;
    baton_split_t split;
    uint32_t planes, head_size, elem_bytes;
};

struct plan_extent geometry_extent(const baton_geometry_t *g, const baton_tensor_t *t);

/**
 * Which tokens [*first, *end) of a group a want moves that wants the first `tokens` tokens and already holds the first
 * `held` of them. The one entry of a state counts as token 0, so a state that moves is [0, 1).
 */
void plan_wanted(const baton_group_t *group, uint32_t held, uint32_t tokens, uint32_t *first, uint32_t *end);

/**
 * Checks that a table has a block for each of the tokens [first, end). Returns 0, or with *why: BATON_EINVAL (the table
 * begins within a block) or BATON_ETOKENS (it is too short or begins too late).
 */
int plan_table_reaches(const baton_group_t *group, const baton_table_t *table, uint32_t first, uint32_t end,
                       struct plan_why *why);

/** Likewise, and that these block ids are below the group's num_blocks: else BATON_EBLOCK. */
int plan_table_check(const baton_group_t *group, const baton_table_t *table, uint32_t first, uint32_t end,
                     struct plan_why *why);

/**
 * Checks that no block stands twice among those of the tokens [first, end). The table must have passed
 * plan_table_check. Returns 0, BATON_EINVAL with the block and both its places in *why, or BATON_ENOMEM.
 */
int plan_table_once(const baton_group_t *group, const baton_table_t *table, uint32_t first, uint32_t end,
                    struct plan_why *why);

/* ---- box.c: who serves what -------------------------------------------------------------------------------------- */

/** A range of layers by a range of heads, of one split. */
struct plan_box {
    uint32_t layer_first, layer_count, head_first, head_count, split;
};

#define PLAN_UNKNOWN UINT32_MAX /* a package or NUMA node: the rank may run on several */

/** One rank of an engine, as its directory row shows it. */
struct plan_member {
    struct plan_box box[BATON_SPLITS_MAX]; /* by split */
    uint32_t num_boxes;                    /* 0: this rank has no cache */
    uint32_t node;                         /* the same number for all ranks of a node */
    uint32_t package;                      /* within the node; or PLAN_UNKNOWN */
    uint32_t numa;                         /* NUMA node, within the node; or PLAN_UNKNOWN */
};

/** A box that the consumer reads, and the producer rank that serves it. */
struct plan_source {
    uint32_t member; /* index among the producer's members */
    struct plan_box box;
};

/** Writes the boxes that a cache of this geometry holds, one for each split. Returns their number. */
uint32_t plan_boxes(const baton_geometry_t *g, struct plan_box out[BATON_SPLITS_MAX]);

/** Writes what two boxes have in common. False, with *out unchanged: nothing, or they are of different splits. */
bool box_intersect(const struct plan_box *a, const struct plan_box *b, struct plan_box *out);

/** Whether two members hold anything in common. */
bool plan_members_share(const struct plan_member *a, const struct plan_member *b);

/**
 * How far two members are that are not the same rank: NUMA, PACKAGE, NODE or WORLD. What is not known of a place is not
 * the same place.
 */
baton_distance_t plan_distance(const struct plan_member *a, const struct plan_member *b);

/** Whether a member holds a whole box. */
bool plan_member_covers(const struct plan_member *m, const struct plan_box *box);

/**
 * The version of the rules by which plan_sources chooses ranks and plan_part numbers parts. Where the rules of two
 * builds differ, the one that reads decides alone. A push and the comparison of hashes need the same plan on both
 * sides, so these are not possible between such builds.
 */
#define PLAN_RULES 1

/**
 * Cells of the grid into which the producers' boundaries cut one box of the consumer. Sound engines have up to 2,050.
 */
#define PLAN_CELLS_MAX 4096

/**
 * An engine's turn among those that want the same: the number at the end of its name, counted from a hash of what
 * stands before it (that of "decode3" is three after that of "decode0"). It is the same for all ranks, whoever else is
 * there and whenever they came.
 */
uint32_t plan_turn(const char *engine);

/**
 * Cuts the boxes of `me` into sources: boxes that are each served by one of the n `members`, which holds all of
 * it. Every cell (split, layer, head) is in exactly one source. Sources come in the order of members; a member may
 * have several.
 *
 * Where several members hold a cell, the nearest serves it, by plan_distance. Among equally near ones the choice
 * depends on `me_index`, the consumer's index in its engine, and on `turn`, that of its engine (plan_turn), so that
 * replicas share the load. Of the index the sum of its digits counts, to the base of the number of equals, since
 * consumers of the same cell are often a multiple of that apart.
 *
 * Deterministic: producer and consumer compute the same from the same rows. Writes at most `max` sources. Returns their
 * number, or with *why: BATON_ESOURCE (no member holds a cell), BATON_EGEOMETRY (more sources than max, or more cells
 * than PLAN_CELLS_MAX) or BATON_ENOMEM.
 */
int plan_sources(const struct plan_member *me, uint32_t me_index, uint32_t turn, const struct plan_member *members,
                 uint32_t n, struct plan_source *out, uint32_t max, struct plan_why *why);

/**
 * Whether an engine holds all layers and heads of the model that a rank's geometry tells of: 0, BATON_ESOURCE with *why
 * (no member holds a cell), or as plan_sources.
 */
int plan_check_whole(const baton_geometry_t *g, const struct plan_member *members, uint32_t n, struct plan_why *why);

/* ---- program.c: how bytes lie ------------------------------------------------------------------------------------ */

#define PLAN_LOOPS_MAX 4
#define PLAN_PROGRAMS_MAX 16 /* distinct shapes in one plan; plan_compile refuses more (BATON_EGEOMETRY) */
#define PLAN_PAIRS_MAX 16    /* distinct pairs of groups in one plan; likewise */

/** One strided loop: `count` steps, each of `src` bytes at the source and `dst` bytes at the destination. */
struct plan_loop {
    uint32_t count;
    int64_t src, dst;
};

/**
 * How to copy neighbouring tokens that lie in one block on both sides: loops, outermost first, around a run of
 * contiguous bytes. Neighbouring directions are merged as far as the strides of both sides allow.
 */
struct plan_program {
    uint32_t num_loops;
    struct plan_loop loop[PLAN_LOOPS_MAX];
    uint64_t run; /* contiguous bytes */
};

/** A pair of tensors, or several evenly spaced pairs whose bytes merge: where their blocks begin on each side. */
struct plan_piece {
    uint32_t program, pair;
    uint32_t src_region, dst_region;
    uint32_t layer, num_layers;  /* the first tensor's layer, and how many layers from there on are merged */
    uint64_t src_base, dst_base; /* bytes from the region's base to the first element that is copied of block 0 */
};

/** A compiled plan: pieces, and the programs that pieces of equal shape share. Its memory is O(tensors). */
struct plan;

/**
 * Compiles what `dst` takes from `src`: the cells of `boxes`, which plan_sources gave to this pair and which lie within
 * the boxes of both caches. Tensors are paired by name. Both geometries must have passed geometry_check and
 * geometry_match. Returns 0 and *out, which plan_destroy frees; BATON_EGEOMETRY with *why; or BATON_ENOMEM.
 */
int plan_compile(const baton_geometry_t *src, const baton_geometry_t *dst, const struct plan_box *boxes,
                 uint32_t num_boxes, struct plan **out, struct plan_why *why);
void plan_destroy(struct plan *plan);

uint32_t plan_num_pieces(const struct plan *plan);
const struct plan_piece *plan_piece_at(const struct plan *plan, uint32_t i);
/** How many bytes a piece moves for each token. */
uint64_t plan_token_bytes(const struct plan *plan, uint32_t piece);
/** How many bytes of heap the plan holds. */
size_t plan_footprint(const struct plan *plan);

/* ---- cursor.c: one request's walk -------------------------------------------------------------------------------- */

/** The tokens [first, end) that move of one pair of groups. */
struct plan_span {
    uint32_t first, end;
    uint32_t src_first, dst_first;           /* the first token of each side's table */
    const uint32_t *src_blocks, *dst_blocks; /* NULL: that side's addresses are not asked for, and mean nothing */
};

/** A plan with the block tables of one leg. Plain data. The tables stay the caller's, and must outlive it. */
struct plan_transfer {
    const struct plan *plan;
    uint64_t bytes; /* of the whole transfer */
    struct plan_span span[PLAN_PAIRS_MAX];
};

/** A request's block tables on one side, by group. */
struct plan_tables {
    uint32_t num;
    baton_table_t table[BATON_GROUPS_MAX];
};

/**
 * Sets *t up for the first `tokens` >= 1 tokens of a request, without the first `held` of them. NULL for one side's
 * tables: the walk asks for the other side's addresses only. Returns 0, or what plan_table_check says of the tables,
 * with *why.
 */
int plan_transfer_init(struct plan_transfer *t, const struct plan *plan, uint32_t held, uint32_t tokens,
                       const struct plan_tables *src, const struct plan_tables *dst, struct plan_why *why);

/**
 * The same for a request that is moved in chunks: of those tokens, the ones before token `end`. States move with the
 * last chunk, whose end is `tokens`.
 */
int plan_transfer_chunk(struct plan_transfer *t, const struct plan *plan, uint32_t held, uint32_t end, uint32_t tokens,
                        const struct plan_tables *src, const struct plan_tables *dst, struct plan_why *why);

/**
 * Sets *t up for what lies behind the first `tokens` tokens, up to the end of the block of the last one, in every group
 * that is no state. A block is here what one block id stands for (blocks_per_id). Both sides of the plan are the same
 * cache, and `mine` are its tables.
 */
int plan_transfer_tail(struct plan_transfer *t, const struct plan *plan, uint32_t tokens,
                       const struct plan_tables *mine, struct plan_why *why);

/**
 * A place in a transfer: a piece, a token (counted from the first of its span), and how many bytes of the unit that
 * begins there are done. All zero: the beginning.
 */
struct plan_cursor {
    uint32_t piece, token;
    uint64_t unit_done;
};

/** Bytes that are contiguous on both sides. `src` and `dst` are offsets from the bases of the regions. */
struct plan_run {
    uint64_t src, dst;
    uint64_t bytes;
    uint32_t src_region, dst_region;
};

bool plan_at_end(const struct plan_transfer *t, const struct plan_cursor *c);

/** How many bytes of a piece lie behind *c, which stands in it or in one before it. */
uint64_t plan_left(const struct plan_transfer *t, const struct plan_cursor *c, uint32_t piece);

/** How many bytes lie from *c on to the first piece that has a layer at or behind `layer_end`. */
uint64_t plan_ahead(const struct plan_transfer *t, const struct plan_cursor *c, uint32_t layer_end);

/**
 * Takes the next runs, at most `max` of them with at most `budget` bytes in all, and moves *c behind them. Runs that
 * touch on both sides, as in neighbouring blocks, are merged. Returns their number: 0 only at the end, or if max or
 * budget is 0. Order: by piece, then by token, then by the program's loops.
 */
uint32_t plan_next(const struct plan_transfer *t, struct plan_cursor *c, struct plan_run *out, uint32_t max,
                   uint64_t budget);

/**
 * Moves *c forward over whole units of at most `budget` bytes in all, but over one unit, or the rest of one, at least.
 * A unit is the tokens of a piece that lie in one block on both sides. Returns the bytes passed: 0 at the end. A copy
 * worker walks this slice by plan_next from the old cursor on, with the number returned as its budget. The time grows
 * with the pieces passed, not with the runs.
 */
uint64_t plan_skip(const struct plan_transfer *t, struct plan_cursor *c, uint64_t budget);

/** Moves *c forward by `bytes`, or to the end where fewer are left. The time grows as that of plan_skip. */
void plan_pass(const struct plan_transfer *t, struct plan_cursor *c, uint64_t bytes);

/**
 * How many parts a transfer has. Hashes are made for each part. Both sides count the same parts, whatever the sizes of
 * their blocks: a part is, of one pair of groups, the tokens of one block of the larger size.
 */
uint32_t plan_num_parts(const struct plan_transfer *t);
/** Returns how many bytes of a part are a piece's, and sets *c to the first. 0: none, and *c is unchanged. */
uint64_t plan_part(const struct plan_transfer *t, uint32_t part, uint32_t piece, struct plan_cursor *c);

#endif
