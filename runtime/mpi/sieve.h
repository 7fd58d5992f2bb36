/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sieve: short runs that lie close together at a peer, read together. A request reads spans, that is runs and what lies
 * between them, into the sieve's own memory; when it is complete, the runs are copied from there to where they belong.
 * Pure: makes no MPI call.
 *
 * THE COST RULE. A get costs as much as SIEVE_GET_BYTES more of one that is made anyway, and a byte that goes through
 * the sieve as much as half a byte more. So a run joins a span where what lies between, and half of the run, are less
 * than SIEVE_GET_BYTES; and a request is sieved where the same sum over all of it is less than that of its runs read
 * one by one. Derived datatypes (MPI_Type_vector) were no faster than one get a run anywhere but where there is nothing
 * between the runs.
 */
#ifndef BATON_MPI_SIEVE_H
#define BATON_MPI_SIEVE_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi/quirks.h"
#include "plan/plan.h"

/*
 * Measured by `baton-bench shapes` on one host (its line "a get costs as much as"): 3 to 9 KiB over UCX shared memory,
 * 12 KiB over TCP, 13 to 18 KiB by osc/rdma. Towards the least: what is read beside the runs is taken from others.
 */
#define SIEVE_GET_BYTES 4096u

#define SIEVE_BYTES 131072u
#define SIEVE_RUNS 512u

/** Bytes of the peer's pool that are read as one. */
struct sieve_span {
    uint64_t src, end;
    uint64_t at; /* in bytes[], once the sieve is set */
};

struct sieve_run {
    uint64_t dst; /* in my pool */
    uint64_t at;  /* in its span; in bytes[], once the sieve is set */
    uint32_t bytes, span;
};

struct sieve {
    struct sieve *next; /* the owner's */
    uint32_t num_runs, num_spans, most_spans;
    uint32_t last;                   /* the span that the last run lies in */
    uint64_t span_bytes, most_bytes; /* of all spans together */
    uint64_t wanted;                 /* bytes of all runs */
    struct sieve_span span[QUIRKS_RUNS_MAX];
    struct sieve_run run[SIEVE_RUNS];
    uint8_t bytes[SIEVE_BYTES];
};

/** Empties it, for at most `most_spans` (1 .. QUIRKS_RUNS_MAX) spans of together `most_bytes`, or SIEVE_BYTES if less. */
void sieve_begin(struct sieve *s, uint32_t most_spans, uint64_t most_bytes);

/** Adds a run. False: it does not fit. */
bool sieve_put(struct sieve *s, const struct plan_run *run);

/** Whether to read these spans costs less than to read these runs. */
bool sieve_is_cheaper(const struct sieve *s);

/** No more runs come: settles where each span, and with it each run, lies in bytes[]. */
void sieve_set(struct sieve *s);

/** Copies the runs to where they belong in my pool: all spans are read. */
void sieve_empty(const struct sieve *s, uint8_t *pool);

#endif
