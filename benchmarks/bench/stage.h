/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stage: one context with caches of one block size, between one producer and one consumer, and the transfers made on
 * it. The consumer leads: it commands the producer by small messages, all of them outside what is timed. Ranks of
 * other engines open the context too (it is collective) and wait for its end.
 *
 * A block is one contiguous piece in each layer: one tensor, one plane, one head. Both ends derive the scattered ids of
 * every transfer from the seed and a place in two walks, one for the producer's ids, one for the consumer's.
 */
#ifndef BENCH_STAGE_H
#define BENCH_STAGE_H

#include "bench/channel.h"
#include "bench/context.h"
#include "bench/effort.h"
#include "bench/raw.h"
#include "bench/walk.h"

#define STAGE_STREAM_DEPTH 2u /* wants of a stream at a time */
#define STAGE_LAYERS_MOST 2u

/** The consumer's part of a stream. */
struct stage_stream {
    uint32_t batch, count, next; /* requests: all, the next one */
    uint32_t done, last;         /* how many have ended, and which one did so last */
    uint64_t serial, place;      /* of the first */
    struct stage_slot {
        bool open;
        uint32_t index;
        baton_id_t id;
    } slot[STAGE_STREAM_DEPTH];
};

struct stage {
    struct bench *bench;
    uint32_t number; /* index among the stages that are open at once */
    struct own own;
    struct raw *raw; /* by which raw MPI moves blocks; NULL: none */
    struct context context;
    baton_geometry_t geometry;
    baton_tensor_t tensors[STAGE_LAYERS_MOST]; /* of its layers */
    uint64_t block_bytes;                      /* in each layer */
    uint32_t num_blocks, max_batch;
    enum bench_from from;       /* the call that a transfer is timed from (the consumer's) */
    bool is_awake;              /* it does not sleep then */
    long rest_ns;               /* less than a second: how long whoever makes that call waits before it */
    struct walk source, target; /* of the producer's ids, of the consumer's */
    uint64_t place, drawn;      /* in both walks: where the next draw and the last one begin (the consumer's) */
    uint64_t serial;            /* of the next request key (the consumer's) */
    uint32_t *source_ids, *target_ids, *table; /* the last draw; the table that was handed to Baton */
    struct stage_stream stream;
    baton_id_t *streamed; /* the producer's offers of a stream */
    uint32_t num_streamed;
};

/** What one transfer took. */
struct stage_transfer {
    uint64_t submit_ns; /* the call that it is timed from */
    uint64_t total_ns;  /* from before that call to after the want's event was taken, or its verdict */
    baton_path_t path;  /* that moved the bytes; NONE where more than one did */
    bool is_early; /* from the offer: Baton says that the want did not wait for it as long as the producer rested */
    /* From when it was ready for that call, or had made it, to the end of its own call: of the side that does not make
       the timed call, the pause before that call is in it. */
    struct effort consumer, producer;
};

/** A rank's memory. */
struct stage_footprint {
    uint64_t private_kib; /* private pages of private mappings, without the pool */
    uint64_t rollup_kib;  /* Private_Clean + Private_Dirty of smaps_rollup */
    uint64_t segment_kib; /* this rank's part of the shared segment, besides its pool */
};

/** Collective. Fills the producer's blocks with their pattern. */
void stage_open(struct bench *b, struct stage *s, uint64_t block_bytes, uint32_t num_blocks, uint32_t max_batch);
/** The same, with the caches in memory of a kind. */
void stage_open_in(struct bench *b, struct stage *s, enum own_kind kind, uint64_t block_bytes, uint32_t num_blocks,
                   uint32_t max_batch);
/** The same with several layers; a block has block_bytes in each of them. FROM_READY needs two. */
void stage_open_layers(struct bench *b, struct stage *s, uint32_t num_layers, uint64_t block_bytes, uint32_t num_blocks,
                       uint32_t max_batch);
/** Collective. */
void stage_close(struct stage *s);

/**
 * All ranks call this, and leave it together. The producer obeys the consumer's commands here; the consumer calls it
 * when it has no more commands; all others sleep. Where several stages are open at once, they are an array, and each
 * has its index there as its number: the first one's call serves them all.
 */
void stage_serve(struct stage *s);

/* ---- the consumer's ---------------------------------------------------------------------------------------------- */

/** Takes the next `batch` ids of both walks into source_ids and target_ids. */
void stage_draw(struct stage *s, uint32_t batch);

/**
 * One transfer of `batch` fresh blocks, timed from the call that s->from says: the want of what is on offer; or, by the
 * producer's clock, which must be the consumer's too, the offer of what is wanted already, or what makes the last of
 * two layers ready, when the first has been moved. With `scribble` the block table is overwritten as
 * soon as baton_want has returned.
 */
void stage_pull(struct stage *s, uint32_t batch, bool scribble, struct stage_transfer *out);

/**
 * `count` offers, then the pause, then their wants one after the other, each timed until its event and wanted at once
 * after the one before; out[count]. What all of them cost stands in the first. The last one moves into poisoned blocks,
 * and is compared byte by byte. Not with verdicts.
 */
void stage_streak(struct stage *s, uint32_t batch, uint32_t count, struct stage_transfer *out);

/** One more, into poisoned blocks, compared byte by byte. Wrong data: a line on standard error and status 1. */
void stage_verify(struct stage *s, uint32_t batch, bool scribble);

/** Checks the first word of each block of the last transfer, and reports as stage_verify does. */
void stage_glance(struct stage *s, uint32_t batch);

/**
 * The consumer reads, or the producer writes, the blocks drawn last by raw MPI, in that way. Returns the
 * nanoseconds by the clock of the rank that does it; 0: MPI lost a completion.
 */
uint64_t stage_raw_read(struct stage *s, enum raw_way way, uint32_t batch);
uint64_t stage_raw_write(struct stage *s, enum raw_way way, uint32_t batch);

/** What a pull has to do at least: a message to the producer and its answer, then MPI_Get and a flush. Nanoseconds. */
uint64_t stage_ask_and_read(struct stage *s, uint32_t batch);

/** Both reactors hold still, and the producer waits asleep, or inside MPI for raw MPI. Then all go on. */
void stage_hold(struct stage *s, enum channel_wait producer);
void stage_go_on(struct stage *s);

/**
 * A stream: the producer offers `count` requests; the consumer wants them one after the other, a few at a time,
 * whenever it runs the stream, and returns the bytes that came meanwhile. At its end, both sides take back what is
 * left, and the last request that was done is compared byte by byte.
 */
void stage_stream(struct stage *s, uint32_t batch, uint32_t count);
uint64_t stage_stream_run(struct stage *s, uint64_t until_ns);
/** Whether all its requests were moved. */
bool stage_stream_is_over(const struct stage *s);
void stage_stream_end(struct stage *s);

/** Memory of this rank and of the producer. */
void stage_footprint(struct stage *s, struct stage_footprint *own, struct stage_footprint *producer);

struct crew;
/** Starts a crew of as many threads as Baton has copy workers (BATON_COPY_WORKERS). */
void stage_crew(struct crew *crew);

#endif
