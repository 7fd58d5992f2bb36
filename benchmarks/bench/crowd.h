/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crowd: one context in which many engines of one rank move blocks at once: each consumer wants from each producer. All
 * ranks go through the same rounds in step; between two rounds they wait asleep, so that who has finished takes no core
 * from who has not.
 */
#ifndef BENCH_CROWD_H
#define BENCH_CROWD_H

#include "bench/context.h"
#include "bench/cost.h"
#include "bench/raw.h"
#include "bench/samples.h"
#include "bench/walk.h"

/** Ranks by their place in the roster. */
struct crowd_side {
    int count, own; /* own: this rank's place among them, or -1 */
    int *ranks;
};

struct crowd {
    struct bench *bench;
    struct crowd_side producers, consumers;
    struct context context;
    baton_geometry_t geometry;
    baton_tensor_t tensor;
    uint64_t block_bytes;
    uint32_t num_blocks;
    bool one_clock;    /* all ranks are on one host */
    baton_path_t path; /* of every pair: SHM or RMA */
    struct walk source, target;
    uint32_t *from, *to; /* ids of a consumer's wants, one producer after the other; of a producer's offer */
    uint64_t round;
    const char **pools; /* path shm, of a consumer: the producers' */
    struct plan_run *runs;
    struct raw raw; /* path rma */
    uint64_t limit_turns;
};

/** What this rank measures in the rounds of a row; at its end the rank that reports has all ranks' together. */
struct crowd_row {
    uint32_t batch;
    struct samples want;            /* each want, from the call to its event */
    struct samples round;           /* of the reporting rank: from the first want to the last event */
    struct samples limit[RAW_WAYS]; /* the same of the limit, by its ways */
    uint64_t *pair_ns;              /* sums by producer; of the reporting rank by consumer and producer */
    struct cost cost;
};

/** Collective. `producers` and `consumers` are how many engines of each side take part at most. */
void crowd_open(struct bench *b, struct crowd *c, int producers, int consumers, uint64_t block_bytes,
                uint32_t max_batch);
void crowd_close(struct crowd *c);

/** Collective, and so are all below: a row for transfers of `batch` blocks. */
void crowd_row_init(const struct crowd *c, struct crowd_row *row, uint32_t batch);
void crowd_row_fini(struct crowd_row *row);

/** Each pair moves `batch` fresh blocks by Baton, all at once. */
void crowd_move(struct crowd *c, struct crowd_row *row);
/** The same into poisoned blocks, compared byte by byte. Wrong data: a line on standard error and status 1. */
void crowd_verify(struct crowd *c, struct crowd_row *row);
/**
 * The same without Baton, by the way whose turn it is: each consumer copies, by one thread, from the producers' mapped
 * pools; or reads by raw MPI while the producers wait inside MPI.
 */
void crowd_limit(struct crowd *c, struct crowd_row *row);

/** The reporting rank has the samples, sums and efforts of all ranks afterwards. */
void crowd_gather(struct crowd *c, struct crowd_row *row);

#endif
