/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma_peer: what the rma path knows of each rank that it reads from or writes to: how many operations are open, whether
 * it answers, whether its connection is sound, and when it was last flushed.
 *
 * POISONED. After a call or a request to a peer failed, nothing more goes to it, and what completes proves nothing: the
 * first request after a peer's death was seen to report success without a byte written.
 *
 * STRAYS. A batch may be refused in its middle: then the operations that were begun before have no request. A request
 * may complete in error: MPI says then that it failed, not that it is over, since its bytes may travel apart from its
 * completion (osc/ucx: a get, and an atomic behind it). In both cases a part of the batch may still be under way, and
 * nothing will ever tell. The peer keeps the tag of such a batch, and rma_park answers PATH_PARK_NEVER for that tag
 * from then on. The peer has room for RMA_STRAYS tags; once there are more, every tag of this peer counts as a stray. A
 * batch that is read through a sieve is none: its bytes cannot reach a block.
 *
 * The thread that makes a turn. Never blocks, except in a flush of a peer that has just answered.
 */
#ifndef BATON_MPI_RMA_PEER_H
#define BATON_MPI_RMA_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/count.h"
#include "base/patience.h"
#include "mpi/quirks.h"
#include "mpi/rma_op.h"
#include "mpi/windows.h"
#include "mpi/world.h"

#define RMA_STRAYS 16

struct rma_peer {
    uint32_t rank;
    uint32_t data, reads; /* open operations, parked ones included */
    bool is_overdue;      /* one is open for too long, and none has completed since */
    bool is_probed;       /* a probe is open */
    bool is_poisoned;
    bool has_ended;      /* a request to it completed in error: the connection is no more */
    uint32_t num_strays; /* RMA_STRAYS + 1: more than are kept */
    uint64_t strays[RMA_STRAYS];
    uint64_t unflushed;         /* operations since the last flush */
    uint64_t answered_ns;       /* when an operation last completed */
    uint64_t answered_issue_ns; /* the latest time of issue among those that completed */
    uint64_t probed_ns;         /* when the last probe went out */
    struct patience patience;
};

struct rma_peers {
    const struct world *world;
    const struct windows *windows;
    const struct quirks *quirks;
    struct rma_peer **by_rank; /* NULL: nothing was asked of it yet */
    uint64_t unflushed;        /* of all peers together */
    uint64_t num_unflushed;    /* peers that have some */
    count_t flushes, poisonings;
};

/** *s zeroed before. False: no memory. */
bool rma_peers_init(struct rma_peers *s, const struct world *w, const struct windows *v, const struct quirks *q);
void rma_peers_fini(struct rma_peers *s);

/** NULL: no such rank, or no memory for its state. */
struct rma_peer *rma_peer_of(struct rma_peers *s, uint32_t rank);

/** An operation of data, or a read, is open from now on, or is open no more. */
void rma_peer_begin(struct rma_peer *p, bool data);
void rma_peer_end(struct rma_peer *p, bool data);

/** `call` failed with `rc`: logged the first time. BATON_EPEER. */
int rma_peer_poison(struct rma_peers *s, struct rma_peer *p, const char *call, int rc);

/** A part of this batch may be under way, and no request tells of it. */
void rma_peer_keep_stray(struct rma_peer *p, const struct rma_op *op);
bool rma_peer_has_stray(const struct rma_peer *p, uint64_t tag);

/** So many operations were issued, as MPI counts them. */
void rma_peer_count(struct rma_peers *s, struct rma_peer *p, uint32_t n);
/** Some components flush by themselves, blocking, after so many operations: whether it is time to do it well before. */
bool rma_peer_is_flush_due(const struct rma_peers *s, const struct rma_peer *p);
/**
 * Only of a peer that has just answered (rma_peer_is_fresh): a flush of a stopped one never returns. 0 or BATON_EPEER.
 */
int rma_peer_flush(struct rma_peers *s, struct rma_peer *p);

/** An operation with a peer that is not poisoned, issued at `issued_ns`, completed. */
void rma_peer_note_answer(struct rma_peer *p, uint64_t issued_ns, uint64_t now);
/** Whether an operation completed so recently that a flush will return. */
bool rma_peer_is_fresh(const struct rma_peer *p, uint64_t now);

#endif
