/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma_op: the operations of the rma path. An operation stands for one MPI request: a piece of metadata, a word, or a
 * batch of runs of a leg. Each comes from a pool, and is then open (MPI has its request), done (its event waits to be
 * handed out), handed out (its event's data are in use), and free again.
 *
 * The thread that makes a turn. Never calls MPI.
 */
#ifndef BATON_MPI_RMA_OP_H
#define BATON_MPI_RMA_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mpi/sieve.h"

enum rma_kind {
    RMA_READ = 1, /* metadata */
    RMA_WORD,     /* a generation; preset to 0, which no generation is */
    RMA_DATA,     /* runs of a leg, into my pool or out of it */
    RMA_PROOF,    /* was RMA_DATA, the last of its leg: the generation is read behind it */
    RMA_SETTLE,   /* no request: the answer that a leg's puts are complete at the peer */
    RMA_PROBE     /* a word that nobody asked for: does this peer answer? */
};

struct rma_op {
    struct rma_op *next; /* in the list of the free, the done, or those handed out */
    enum rma_kind kind;
    int error;
    uint32_t peer;
    bool is_forgotten; /* its tag was given up: it has no event of its own any more */
    bool ends_tag;     /* the last forgotten one of its tag: PORT_QUIET comes instead */
    uint64_t tag, bytes, runs, issued_ns;
    uint64_t board;      /* RMA_DATA: the place of a generation to be read behind all of the leg; 0: none */
    uint8_t *landing;    /* what is read alone: malloc'ed memory for it. NULL after an error: MPI keeps it */
    struct sieve *sieve; /* RMA_DATA: what the runs go through; NULL: each goes straight to its place */
};

struct rma_ops {
    struct rma_op *all, *free;
    struct rma_op *done_head, **done_tail;
    struct rma_op *handed;
};

/** *o zeroed before. False: no memory. */
bool rma_ops_init(struct rma_ops *o, size_t num);
/** Operations that are still open leave their landing to MPI. */
void rma_ops_fini(struct rma_ops *o);

/** NULL: all are in use. */
struct rma_op *rma_op_take(struct rma_ops *o, enum rma_kind kind, uint32_t peer, uint64_t tag);
void rma_op_free(struct rma_ops *o, struct rma_op *op);

/** The operation is done: puts it behind those whose events wait. */
void rma_op_finish(struct rma_ops *o, struct rma_op *op);
/** The longest done one, from now on handed out. NULL: there is none. */
struct rma_op *rma_op_hand_out(struct rma_ops *o);
/** Frees all that were handed out. */
void rma_ops_release(struct rma_ops *o);

static inline bool rma_op_is_data(const struct rma_op *op)
{
    return op->kind == RMA_DATA;
}

static inline bool rma_op_is_of(const struct rma_op *op, uint32_t peer, uint64_t tag)
{
    return op->tag == tag && op->peer == peer;
}

#endif
