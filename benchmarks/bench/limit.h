/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limit: how fast the path itself is for the same kind of blocks, measured in turn with Baton in the same run.
 *
 * Path shm: one thread of the consumer, or with more copy workers as many (crew.h), copies scattered blocks from the
 * producer's mapped pool into its own (copies.h). Path rma: raw MPI, by each of its ways in turn (raw.h). Each
 * measurement draws blocks of its own, so that neither side finds the other's blocks in the processor's cache.
 */
#ifndef BENCH_LIMIT_H
#define BENCH_LIMIT_H

#include "bench/copies.h"
#include "bench/raw.h"
#include "bench/samples.h"
#include "bench/stage.h"

struct limit {
    struct stage *stage;
    baton_path_t path;
    struct copies copies;             /* path shm, on the consumer: from the producer's pool as mapped here */
    struct crew crew;                 /* path shm, on the consumer */
    struct raw raw;                   /* path rma */
    struct samples samples[RAW_WAYS]; /* path rma */
    uint64_t turns;                   /* path rma */
};

/** Collective: all ranks learn the path between the two from the consumer. */
void limit_open(struct limit *l, struct stage *s);
void limit_close(struct limit *l);

/** Notes in the report how the path is measured. Other ranks than the consumer have none. */
void limit_note(const struct limit *l);

/** For the consumer: forgets the samples, before the next row. */
void limit_reset(struct limit *l);
/** For the consumer: one measurement, of each way in turn. */
void limit_measure(struct limit *l, uint32_t batch);
/** For the consumer: how many measurements there are. */
size_t limit_count(const struct limit *l);
/** For the consumer: the best way's median, and 0 without samples. *way names that way. */
uint64_t limit_best_ns(struct limit *l, const char **way);
/** The same as bytes a nanosecond. */
double limit_best(struct limit *l, uint32_t batch, const char **way);

#endif
