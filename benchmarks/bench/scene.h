/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scene: one context with caches, producers that offer and a consumer that wants, and the transfers that are made
 * there. All ranks go through it in step, and call the same functions in the same order; what each does follows from
 * its role. The consumer's messages to the producers stand outside of what is timed. Several scenes may be open at
 * once.
 *
 * Usually the producer and the consumer are the two ranks under measurement, and a block is one contiguous piece in
 * each layer. With a cut, the ranks of the run play two engines that cut and lay out one cache differently: the
 * consumer's rank is the first of the decode engine; the next ones are the prefill engine's, then the further ones
 * of the decode engine, which want nothing. Ranks that are left over look on: they open the context too (it is
 * collective).
 *
 * Both sides derive the scattered ids of every transfer from the seed and a place in two walks, one for the producers'
 * ids, one for the consumer's.
 */
#ifndef BENCH_SCENE_H
#define BENCH_SCENE_H

#include "bench/blocks.h"
#include "bench/context.h"
#include "bench/roster.h"
#include "bench/samples.h"
#include "bench/scatter.h"

#define SCENE_HEADS 8u /* KV heads of a model that is cut, of 128 channels each, K and V */
#define SCENE_CHANNELS 128u
#define SCENE_BLOCK_BYTES(heads) (UINT64_C(2) * BLOCKS_TOKENS * (heads)*SCENE_CHANNELS * BLOCKS_ELEM_BYTES)

/** How the two sides cut and lay out the model's heads. */
struct cut {
    const char *name;
    uint32_t producers, consumers; /* tensor parallelism of the two engines */
    unsigned source, target;       /* BATON_LAYOUT_... */
    uint32_t heads;                /* of the model */
    baton_mode_t mode;             /* of its wants */
};

struct scene_form {
    const struct cut *cut; /* NULL: none; else it outlives the scene */
    enum own_kind memory;
    uint32_t num_layers;  /* FROM_READY needs two; 0: one */
    uint64_t block_bytes; /* in each layer; follows from a cut */
    uint32_t num_blocks, max_batch;
};

struct scene {
    struct bench *bench;
    struct scene_form form;
    uint32_t producers;
    bool produces, consumes; /* this rank */
    const char *producer;    /* the name of its engine */
    struct own own;
    struct context context;
    struct blocks cache;
    enum bench_from from;                /* the call that a transfer is timed from */
    bool is_awake;                       /* whoever makes it does not sleep before it */
    long rest_ns;                        /* less than a second: how long it waits before it */
    struct walk source, target;          /* of the producers' ids, of the consumer's */
    uint64_t place, drawn;               /* in both walks: where the next draw and the last one begin */
    uint64_t serial;                     /* of the next request */
    uint32_t *from_ids, *to_ids, *table; /* the last draw; the table that was handed to Baton */
};

/** What one transfer took. The consumer has it. */
struct transfer {
    uint64_t submit_ns; /* the call that it is timed from */
    uint64_t total_ns;  /* from before that call to after the want's event was taken, or its verdict */
    baton_path_t path;  /* that moved the bytes; NONE where more than one did */
    bool is_early; /* from the offer: Baton says that the want did not wait for it as long as the producer rested */
    /* From when it was ready for that call, or had made it, to the end of its own call: of the side that does not make
       the timed call, the pause before that call is in it. */
    struct effort consumer, producer;
};

/** The transfers of a row. */
struct transfers {
    struct samples submit, total;
    struct cost cost;
};

/** Collective. Fills the producers' blocks with their patterns. */
void scene_open(struct bench *b, struct scene *s, const struct scene_form *form);
/** Collective. */
void scene_close(struct scene *s);

/** The rank of a producer, by its place among them. */
int scene_producer(const struct scene *s, uint32_t place);
/** Bytes of a transfer of so many blocks to the consumer. */
uint64_t scene_bytes(const struct scene *s, uint32_t batch);
/** Describes the cache of a rank of either engine of a cut. */
void scene_describe(const struct scene *s, bool producer, uint32_t tp_rank, struct blocks *out);

/** Takes the next `batch` ids of both walks into from_ids and to_ids. */
void scene_draw(struct scene *s, uint32_t batch);
/** The same from that place on. */
void scene_draw_at(struct scene *s, uint64_t place, uint32_t batch);
/** The place of the draw that follows `count` draws from `place` on. */
uint64_t scene_place(uint64_t place, uint64_t count, uint32_t batch);

/**
 * One transfer of `batch` fresh blocks, timed from the call that s->from says: the want of what is on offer; or, by the
 * producer's clock, which must be the consumer's too, the offer of what is wanted already, or what makes the last of
 * two layers ready, when the first has been moved. With `scribble` the block table is overwritten as
 * soon as baton_want has returned.
 */
void scene_move(struct scene *s, uint32_t batch, bool scribble, struct transfer *out);

/** Fails where the transfer did not go by that path. */
void scene_check_path(const struct scene *s, const struct transfer *t, baton_path_t path);
/** Both: a transfer into a row (NULL: into none). */
void scene_take(struct scene *s, uint32_t batch, baton_path_t path, struct transfers *row);
void transfers_add(struct transfers *row, const struct transfer *t, uint64_t bytes);
void transfers_fini(struct transfers *row);

/** One more, into poisoned blocks, compared byte by byte. Wrong data: a line on standard error and status 1. */
void scene_verify(struct scene *s, uint32_t batch, bool scribble);
/** Checks the first word of each block of the last transfer, and reports as scene_verify does. */
void scene_glance(struct scene *s, uint32_t batch);

/** Both reactors hold still. Then they go on. The producers wait for that asleep, or inside MPI for raw MPI. */
void scene_hold(struct scene *s);
void scene_go_on(struct scene *s, enum channel_wait producers);

/* ---- what transfers consist of ----------------------------------------------------------------------------------- */

/** Every producer waits here until the consumer comes. */
void scene_signal(const struct scene *s, enum channel_wait wait);
/** The consumer waits here for what each producer says; of several the last one stays. */
void scene_answer(const struct scene *s, void *answer, int bytes, enum channel_wait wait);

/** The key of a request. */
struct scene_key {
    char text[BATON_KEY_MAX];
};
struct scene_key scene_key(uint64_t serial);

/** For the time that the scene says, Baton's threads fall asleep, and the caller too unless it is to be awake. */
void scene_rest(const struct scene *s);

/** A want of s->table, timed; without what it cost. `scribble`: over the table, once it is wanted. */
void scene_time_want(struct scene *s, const char *key, uint32_t batch, bool scribble, struct transfer *out);

/** Compares the blocks drawn last with their patterns, in all layers. */
void scene_compare(struct scene *s, uint32_t batch, bool glance, const char *key);

#endif
