/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sieve: short runs that lie close together at a peer, moved together. To read, a request gets spans, that is runs and
 * what lies between them, into the sieve's own memory; when it is complete, the runs are copied from there to where they
 * belong. To write, runs that follow each other at the peer without a gap are copied together first, and put as one: the
 * producer packs. Pure: makes no MPI call.
 *
 * THE COST RULE. An operation costs as much as SIEVE_GET_BYTES more of one that is made anyway, and a byte that goes
 * through the sieve as much as half a byte more. So a run joins a span where what lies between, and half of the run, are
 * less than SIEVE_GET_BYTES; and a request is sieved where the same sum over all of it is less than that of its runs
 * moved one by one. Derived datatypes (MPI_Type_vector) were no faster than one get a run anywhere but where there is nothing
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

/** Bytes of the peer's pool that are moved as one. */
struct sieve_span {
    uint64_t begin, end;
    uint64_t at; /* in bytes[], once the sieve is set */
};

struct sieve_run {
    uint64_t mine; /* in my pool */
    uint64_t at;   /* in its span; in bytes[], once the sieve is set */
    uint32_t bytes, span;
};

struct sieve {
    struct sieve *next; /* the owner's */
    bool write;         /* from my pool to the peer's */
    uint32_t num_runs, num_spans, most_spans;
    uint32_t last;                   /* the span that the last run lies in */
    uint64_t span_bytes, most_bytes; /* of all spans together */
    uint64_t wanted;                 /* bytes of all runs */
    struct sieve_span span[QUIRKS_RUNS_MAX];
    struct sieve_run run[SIEVE_RUNS];
    uint8_t bytes[SIEVE_BYTES];
};

/** Begins anew, for at most `most_spans` (1 .. QUIRKS_RUNS_MAX) spans of together `most_bytes`, or SIEVE_BYTES if less. */
void sieve_begin(struct sieve *s, bool write, uint32_t most_spans, uint64_t most_bytes);

/** Adds a run. False: it does not fit. */
bool sieve_put(struct sieve *s, const struct plan_run *run);

/** Whether to move these spans costs less than to move these runs. */
bool sieve_is_cheaper(const struct sieve *s);

/** No more runs come: settles where each span, and with it each run, lies in bytes[]. */
void sieve_set(struct sieve *s);

/** Write: copies the runs from my pool, so that the spans can be put. */
void sieve_fill(struct sieve *s, const uint8_t *pool);

/** Read: copies the runs to where they belong in my pool, once all spans are there. */
void sieve_empty(const struct sieve *s, uint8_t *pool);

#endif
