/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limit: how fast the path itself is for the same kind of blocks, measured in turn with Baton in the same run.
 *
 * Path shm: the consumer copies scattered blocks from the producer's mapped pool into its own; path cma: it reads
 * them by process_vm_readv alone; both by as many threads as Baton has copy workers (copies.h). Path rma: raw MPI,
 * by each of its ways in turn (raw.h). Each measurement draws blocks of its own, so that neither side finds the
 * other's blocks in the processor's cache. All ranks call all functions.
 */
#ifndef BENCH_LIMIT_H
#define BENCH_LIMIT_H

#include "bench/copies.h"
#include "bench/raw.h"
#include "bench/samples.h"
#include "bench/scene.h"

struct limit {
    struct scene *scene;
    baton_path_t path;
    struct copies copies; /* of the consumer */
    struct raw raw;
    struct ways ways; /* samples of the consumer */
};

/** All ranks learn the path between the two from the consumer. */
void limit_open(struct limit *l, struct scene *s);
void limit_close(struct limit *l);

/** Notes in the report how the path is measured. */
void limit_note(const struct limit *l);

/** One measurement, of each way in turn. */
void limit_measure(struct limit *l, uint32_t batch);
/** What a pull has to do at least over path rma: a message to the producer and its answer, then MPI_Get and a flush.
   Both wait inside MPI. Nanoseconds, and 0 where it was not measured. */
uint64_t limit_ask_and_read(struct limit *l, uint32_t batch);

/** For the consumer: the best way's median, and 0 without samples. *way names that way. */
uint64_t limit_best_ns(struct limit *l, const char **way);

#endif
