/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stage: one context with caches of one block size, between one producer and one consumer, and the transfers made on
 * it. The consumer leads: it commands the producer by small messages, all of them outside what is timed. Ranks of
 * other engines open the context too (it is collective) and wait for its end.
 *
 * A block is one contiguous piece: one tensor, one plane, one head. Both ends derive the scattered ids of every
 * transfer from the seed and a place in two walks, one for the producer's ids, one for the consumer's.
 */
#ifndef BENCH_STAGE_H
#define BENCH_STAGE_H

#include "bench/context.h"
#include "bench/effort.h"
#include "bench/raw.h"
#include "bench/walk.h"

struct stage {
    struct bench *bench;
    uint32_t number; /* index among the stages that are open at once */
    struct own own;
    struct raw *raw; /* by which raw MPI moves blocks; NULL: none */
    struct context context;
    baton_geometry_t geometry;
    baton_tensor_t tensor;
    uint64_t block_bytes;
    uint32_t num_blocks, max_batch;
    bool is_awake;              /* it does not sleep then */
    long rest_ns;               /* less than a second: how long the consumer waits before each want */
    struct walk source, target; /* of the producer's ids, of the consumer's */
    uint64_t place, drawn;      /* in both walks: where the next draw and the last one begin (the consumer's) */
    uint64_t serial;            /* of the next request key (the consumer's) */
    uint32_t *source_ids, *target_ids, *table; /* the last draw; the table that was handed to Baton */
};

/** What one transfer took, by the consumer's clock. */
struct stage_transfer {
    uint64_t submit_ns; /* the call of baton_want */
    uint64_t total_ns;  /* from before that call to after its event was taken */
    baton_path_t path;  /* that moved the bytes; NONE where more than one did */
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
 * One transfer of `batch` fresh blocks, offered before it is wanted. With `scribble` the block table is overwritten as
 * soon as baton_want has returned.
 */
void stage_pull(struct stage *s, uint32_t batch, bool scribble, struct stage_transfer *out);

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

/** Before raw MPI is measured: both reactors hold still, and the producer waits inside MPI. After it: both go on. */
void stage_enter_mpi(struct stage *s);
void stage_leave_mpi(struct stage *s);

/** What Baton's threads of this rank and of the producer have done so far. */
void stage_effort(struct stage *s, struct effort *own, struct effort *producer);

/** Memory of this rank and of the producer. */
void stage_footprint(struct stage *s, struct stage_footprint *own, struct stage_footprint *producer);

#endif
