/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sieve: moves short runs together that lie close together at a peer. A span is what is moved as one.
 *
 * READING. A request gets spans into the sieve's own memory: runs, and the bytes between them. When the request is
 * complete, the runs are copied from there to where they belong.
 *
 * WRITING. Runs that follow each other at the peer without a gap are first copied into the sieve's memory, and then put
 * as one span: the producer packs.
 *
 * THE COST RULE. Costs are counted in bytes moved. One MPI operation costs SIEVE_GET_BYTES, and a byte that is copied
 * through the sieve costs half a byte. So a run joins the span before it where the gap between them, and half of the
 * run, are less than SIEVE_GET_BYTES. A request goes through a sieve where its spans cost less in all than its runs
 * moved one by one. Derived datatypes (MPI_Type_vector) were faster than one get a run only where there was no gap
 * between the runs.
 *
 * The thread that makes a turn. Makes no MPI call.
 */
#ifndef BATON_MPI_SIEVE_H
#define BATON_MPI_SIEVE_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi/quirks.h"

/*
 * Measured by `baton-bench shapes` on one host (its line "a get costs as much as"): 3 to 9 KiB over UCX shared memory,
 * 12 KiB over TCP, 13 to 18 KiB by osc/rdma. The value is near the least of these, since bytes that are read beside the
 * runs take bandwidth from others.
 */
#define SIEVE_GET_BYTES 4096u

#define SIEVE_BYTES 131072u
#define SIEVE_RUNS 512u

/** Bytes that are contiguous on both sides. */
struct sieve_piece {
    uint8_t *mine;
    uint64_t theirs; /* displacement in the window that they are moved through */
    uint64_t bytes;
};

/** Bytes of the peer's that are moved as one. */
struct sieve_span {
    uint64_t begin, end;
    uint64_t at; /* in bytes[], once the sieve is laid out */
};

struct sieve_run {
    uint8_t *mine;
    uint64_t at; /* in its span; in bytes[], once the sieve is laid out */
    uint32_t bytes, span;
};

struct sieve {
    struct sieve *next; /* in the pool's list of the free */
    bool write;         /* from my cache to the peer's */
    uint32_t num_runs, num_spans, most_spans;
    uint32_t last;                   /* the span that the last run lies in */
    uint64_t span_bytes, most_bytes; /* of all spans together */
    uint64_t run_bytes;              /* of all runs together */
    struct sieve_span span[QUIRKS_RUNS_MAX];
    struct sieve_run run[SIEVE_RUNS];
    uint8_t bytes[SIEVE_BYTES];
};

/** At most `max` sieves, made as they are needed. */
struct sieve_pool {
    struct sieve **all, *free;
    uint32_t num, max;
};

/** *pool zeroed before; room for sieves of together `bytes`. False: no memory. */
bool sieve_pool_init(struct sieve_pool *pool, uint64_t bytes);
void sieve_pool_fini(struct sieve_pool *pool);
/** NULL: all are in use, or there is no memory for one more. */
struct sieve *sieve_take(struct sieve_pool *pool);
/** A sieve into which something might still be written must not be given back. */
void sieve_give_back(struct sieve_pool *pool, struct sieve *s);

/**
 * Begins anew, for at most `most_spans` (1 .. QUIRKS_RUNS_MAX) spans of together `most_bytes`, or SIEVE_BYTES if less.
 */
void sieve_begin(struct sieve *s, bool write, uint32_t most_spans, uint64_t most_bytes);

/** Adds a run. All runs of a sieve go through one window. False: it does not fit. */
bool sieve_add(struct sieve *s, const struct sieve_piece *run);

/** Whether moving these spans costs less than moving these runs. */
bool sieve_is_cheaper(const struct sieve *s);

/** No more runs come: decides where each span, and with it each run, lies in bytes[]. */
void sieve_lay_out(struct sieve *s);

/** Write: copies the runs from my cache, so that the spans can be put. */
void sieve_fill(struct sieve *s);

/** Read: copies the runs to where they belong in my cache, once all spans have been read. */
void sieve_empty(const struct sieve *s);

#endif
