/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blocks: a rank's: their geometry; patterns by which a byte in a wrong place is found; and memory that the benchmark
 * owns, as an engine does. The same entry (the channels of one layer, plane, head and token of a block)
 * has the same pattern in each cache that has a part of the model, however that is cut and laid out.
 */
#ifndef BENCH_BLOCKS_H
#define BENCH_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "baton.h"
#include "bench/options.h"

#define BLOCKS_TOKENS 16u /* of a block */
#define BLOCKS_ELEM_BYTES 2u

/** What differs between caches. */
struct blocks_form {
    uint32_t num_blocks, planes, head_size;
    uint32_t heads, head_first, head_count; /* of the model, and of them this rank's */
    uint32_t layers, layer_first, layer_count;
    unsigned layout; /* BATON_LAYOUT_... */
};

struct blocks {
    baton_geometry_t geometry;
    baton_tensor_t *tensors;
    void **bases; /* by region; NULL: all is in `base` */
    char *base;
};

/** Fails without memory. */
void blocks_describe(struct blocks *c, const struct blocks_form *form);
/** One head and plane: a block is one contiguous piece of block_bytes in each layer. */
void blocks_describe_plain(struct blocks *c, uint32_t num_layers, uint64_t block_bytes, uint32_t num_blocks);
void blocks_fini(struct blocks *c);

/** Fills each block with its pattern: that of block first, first + 1, ... */
void blocks_fill(const struct blocks *c, uint64_t first);

/** Fills these blocks with what no pattern has. */
void blocks_poison(const struct blocks *c, const uint32_t *ids, uint32_t count);

/**
 * Whether the blocks `to` have the patterns of first + from[0], first + from[1], ...; with `glance` only the first word
 * of each is looked at. If not, a line on standard error says where, and in which request.
 */
bool blocks_check(const struct blocks *c, uint64_t first, const uint32_t *from, const uint32_t *to, uint32_t count,
                  bool glance, const char *request);

/** Bytes of the last-level data cache that one core sees; 0 where the system does not say. */
uint64_t blocks_l3_bytes(void);
/** Bytes of one side's cache: --pool, or the larger of `least` and 4 times the L3 cache. */
uint64_t blocks_pool_bytes(const struct options *o, uint64_t least);
/** The same in blocks, and at least two of the largest batches, so that neighbours in time have other blocks. */
uint32_t blocks_pool_blocks(const struct options *o, uint64_t least, uint64_t block_bytes);

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Regions of a cache that lie apart from each other, so that Baton joins none of them. */
struct own {
    enum own_kind kind;
    uint32_t num;
    void **bases; /* by region */
    uint64_t *bytes;
    int *files; /* OWN_MAPPED */
};

/** "slab", "private", "mapped". */
const char *own_name(enum own_kind kind);

/** Maps `num` regions of `bytes` each, and touches every page. OWN_SLAB: nothing is mapped. Fails without memory. */
void own_create(struct own *o, enum own_kind kind, uint32_t num, uint64_t bytes);
void own_destroy(struct own *o);

/** Hands the regions over to Baton. */
void own_wrap(const struct own *o, baton_t *b, const baton_geometry_t *geometry, baton_cache_t **out);

#endif
