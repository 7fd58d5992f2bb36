/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scheduler: decides in each step what an engine computes, and which blocks move. Continuous batching, admission by
 * free blocks, a prefix cache, prefill in chunks, preemption of the youngest, and a load that failed is computed here.
 *
 * Every rank of the engine has a scheduler of its own and feeds it the same facts in the same order: the time, the
 * outcomes of transfers and the model's answers. So all decide alike, and none has to be told. It knows nothing of MPI
 * or Baton, and reads no clock.
 *
 * Requests get their blocks in the order of their indices, and give them back when they end. So the oldest one that has
 * not ended can always go on, on every engine: engines cannot wait for each other in a circle.
 */
#ifndef ENGINE_SCHEDULER_H
#define ENGINE_SCHEDULER_H

#include "engine/batch.h"
#include "engine/blocks.h"
#include "engine/carrier.h"
#include "engine/load.h"

enum stream { STREAM_NONE, STREAM_LAYERS = 1, STREAM_CHUNKS = 2, STREAM_BOTH = 3 };

struct scheduler_rules {
    bool prefill; /* computes prompts for others; else it answers */
    uint32_t block_tokens;
    uint32_t step_tokens;  /* of one batch */
    uint32_t most_running; /* requests that have blocks at one time */
    bool prefix;           /* the prefix cache is used */
    enum stream stream;    /* of what prefill gives */
    double abort;          /* share of loads that are called off, from 0 to 1 */
};

/** Tokens of a batch that belong to one request. */
struct scheduler_part {
    struct request *request;
    uint32_t count;
    bool asks;
};

struct scheduler_counts {
    uint32_t preempted, recomputed, aborted, taken_back;    /* taken_back: offers to prefill, for want of blocks */
    uint64_t prefix_tokens, loaded_tokens, returned_tokens; /* returned: to prefill, for the next turn */
};

struct scheduler {
    struct scheduler_rules rules;
    const struct load *load;
    struct carrier carrier;
    struct blocks blocks;
    struct request *requests; /* of this engine, in the order of their indices */
    uint32_t count;
    struct scheduler_part *parts; /* of the batch that was planned */
    uint32_t num_parts;
    bool starves;     /* it has nothing to do: too few blocks are left beside those of transfers that were given up */
    uint16_t *spoken; /* room for all that was answered in a conversation */
    struct scheduler_counts counts;
};

/** `mine` says which of the load's requests this engine has a part in. 0, or -1 for want of memory. */
int scheduler_init(struct scheduler *s, const struct scheduler_rules *rules, const struct load *load,
                   const struct carrier *carrier, uint32_t num_blocks, bool (*mine)(void *user, uint32_t index),
                   void *user);
void scheduler_fini(struct scheduler *s);

/** Blocks that any request of the load fits into. */
uint32_t scheduler_least_blocks(const struct load *load, uint32_t block_tokens);

/** This rank's outcomes of all open transfers, in an order that all ranks have. Returns their number: 2 a request. */
uint32_t scheduler_outcomes(const struct scheduler *s, int64_t *out);
/** Takes the engine's outcomes, in the same order. */
void scheduler_hear(struct scheduler *s, const int64_t *outcomes);

/** Admits requests that have arrived by now_ms, and fills the batch. It may stay empty. */
void scheduler_plan(struct scheduler *s, uint64_t now_ms, struct batch *batch);
/** The batch was computed, with its answers. */
void scheduler_commit(struct scheduler *s, const struct batch *batch, uint64_t now_ns);

/** Every request has ended, and every transfer was answered. */
bool scheduler_finished(const struct scheduler *s);

#endif
