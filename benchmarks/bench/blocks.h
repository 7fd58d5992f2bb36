/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blocks: the cache of most operations, in which a block is one contiguous piece (one tensor, one plane, one head), and
 * how a rank offers some of them, wants some, and takes the events. What fails ends the job.
 */
#ifndef BENCH_BLOCKS_H
#define BENCH_BLOCKS_H

#include "bench/context.h"

#define BLOCKS_TOKENS 16u
#define BLOCKS_PATIENCE_MS 600000u /* for one transfer: a slow one is a figure, not an error */

/** Describes such a cache. The tensor outlives the geometry. */
void blocks_describe(uint64_t block_bytes, uint32_t num_blocks, baton_geometry_t *g, baton_tensor_t *tensor);

/** The same with several layers. Each has block_bytes of every block, in a tensor of its own, one behind the other. */
void blocks_describe_layers(uint64_t block_bytes, uint32_t num_blocks, uint32_t num_layers, baton_geometry_t *g,
                            baton_tensor_t *tensors);

/** Fills each block with its pattern: that of id first, first + 1, ... */
void blocks_fill(char *pool, uint64_t block_bytes, uint32_t num_blocks, uint32_t first);

/** Fills these blocks with what no pattern has. */
void blocks_poison(char *pool, uint64_t block_bytes, const uint32_t *ids, uint32_t count);

/** Makes the last word of these blocks one that no pattern has. */
void blocks_mark(char *pool, uint64_t block_bytes, const uint32_t *ids, uint32_t count);

/** Whether the last word of a block that was marked is another one by now. */
bool blocks_has_come(const char *pool, uint64_t block_bytes, uint32_t id);

/**
 * Whether the first `bytes` of each block `to` have the pattern of id `from`. If not, a line on standard error tells
 * where, and `what` of which request.
 */
bool blocks_check(const char *pool, uint64_t block_bytes, uint64_t bytes, const uint32_t *from, const uint32_t *to,
                  uint32_t count, const char *what);

baton_id_t blocks_offer(const struct context *c, const char *key, const uint32_t *ids, uint32_t count);
/** No layer is in place yet: baton_ready says which are. */
baton_id_t blocks_offer_layers(const struct context *c, const char *key, const uint32_t *ids, uint32_t count);
baton_id_t blocks_want(const struct context *c, const char *engine, const char *key, const uint32_t *ids,
                       uint32_t count, baton_mode_t mode, void *user);

/**
 * Takes the next event, which must be of that type and say that all went well, and then the verdict on it where the
 * engine asked for verdicts.
 */
void blocks_await(const struct context *c, baton_event_type_t type, baton_event_t *event);

/** Waits until `count` offers have ended, however they did: some were wanted, others cancelled. */
void blocks_await_offers(const struct context *c, uint32_t count);

/** The path by which all bytes of a want came; NONE where more than one did. */
baton_path_t blocks_path(const baton_event_t *event);

#endif
