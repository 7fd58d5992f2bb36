/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma: one-sided reads from and writes to ranks of other nodes, by MPI_Rget and MPI_Rput on the overlay window. The
 * reactor runs it. Never blocks, but for a flush to a peer that has just answered (see rma_peer.unflushed).
 *
 * An operation (op) is one MPI request: a piece of metadata, a word, or a batch of runs of a leg, up to
 * gets_per_request or puts_per_request of them and rma_run_bytes together. It is active (in the tested set, which is
 * small), parked (open for longer than the patience with its peer, see patience.h; one of those is tested a turn), or
 * done (its event waits to be handed out). A peer with parked ones gets a probe now and then: where that completes, what
 * was issued long before it has too, and MPI lost the completion; a flush settles it.
 *
 * Short runs that lie close together at the peer are moved together, through a sieve, where its cost rule says so. An op
 * that was given up leaves its blocks alone. A sieve into which something might still be written, since its peer was
 * poisoned, is never used again.
 *
 * STRAYS. Where a batch is refused in its middle, those of its operations that were begun have no request. Where a request
 * completes in error, MPI says that it failed, and not that it is over: its bytes may be moved by other means than it is
 * completed by (osc/ucx: a get, and an atomic behind it). Either way a part may be under way, and nothing will ever tell.
 * The tag of such a batch is kept, and rma_park answers PORT_PARK_NEVER for it from then on. What was read through a sieve is no stray: it cannot reach a block.
 *
 * LIMITS. Active operations of data: rma_requests. A peer has at most rma_peer_requests of them, parked ones included, at
 * most as many as it leaves to others, and fewer, the more are parked. Reads of metadata and words have RMA_READS of
 * their own, likewise shared, so that a generation can be read again while data fill their limit. A peer that is overdue
 * gets no new operation but a probe. Parked: once settings.parked are, a peer has one operation of each kind open at a
 * time; for these, and for what was active then, there are places beyond settings.parked. So silent peers, however many,
 * never keep the places of others. Where the quirks table knows a limit on open requests, fewer are parked, and none is
 * made past it. Sieves: rma_sieve_bytes together, by default more than one for each active operation
 * of data; where silent peers hold them all, runs are moved one by one. Strays: RMA_STRAYS tags a peer; past them every
 * tag of that peer is taken for one.
 */
#ifndef BATON_MPI_RMA_H
#define BATON_MPI_RMA_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/patience.h"
#include "core/port.h"
#include "mpi/quirks.h"
#include "mpi/sieve.h"
#include "mpi/windows.h"
#include "mpi/world.h"

#define RMA_DATA_MAX 128 /* the most that BATON_RMA_REQUESTS can be */
#define RMA_READS 32
#define RMA_ACTIVE_MAX (RMA_DATA_MAX + RMA_READS)
#define RMA_STRAYS 16
_Static_assert(RMA_ACTIVE_MAX < 254, "Open MPI 5 aborts at the 255th request");
#define RMA_LEAST 3 /* operations that any peer may have open: data, a read, a probe */

enum rma_kind {
    RMA_CARD = 1, /* metadata */
    RMA_WORD,     /* a generation; preset to 0, which no generation is */
    RMA_DATA,     /* runs of a leg, into my pool or out of it */
    RMA_SETTLE,   /* no request: the answer that a leg's puts are complete at the peer */
    RMA_PROBE     /* a word that nobody asked for: does this peer answer? */
};

struct rma_op {
    struct rma_op *next; /* in the free list, the queue of the done, or the list of those handed out */
    enum rma_kind kind;
    int error;
    uint32_t peer;
    bool is_forgotten; /* fabric_park: no event of it comes any more */
    bool ends_tag;     /* the last forgotten one of its tag: PORT_QUIET comes instead */
    uint64_t tag, bytes, runs, issued_ns;
    uint8_t *landing;    /* what is read, but for data: malloc'ed, freed after its event was handed out */
    struct sieve *sieve; /* RMA_DATA: what it is moved through; NULL: runs go straight to where they belong */
};

/** One peer that was read from. */
struct rma_peer {
    uint32_t data, reads;        /* operations that are not done, parked ones included */
    bool is_overdue;             /* one is open for too long, and none has completed since */
    bool is_probed;              /* a probe is open */
    bool is_poisoned;            /* a call failed: nothing more goes to it, and what completes is no proof */
    bool has_ended;              /* a request to it completed in error: the connection is no more */
    uint32_t num_strays;         /* past RMA_STRAYS: more than are kept */
    uint64_t strays[RMA_STRAYS]; /* tags of batches of which a part may be under way without a request */
    uint64_t unflushed;          /* operations since the last flush */
    uint64_t proof_ns;           /* the latest issue time of an operation that completed, */
    uint64_t proof_at_ns;        /* and when it did */
    uint64_t probed_ns;          /* when the last probe went out */
    struct patience patience;
};

struct rma {
    struct world *world;
    const struct windows *windows;
    const struct quirks *quirks;
    struct rma_peer **peers; /* by rank; NULL: never read from */

    struct rma_op *ops, *free_ops; /* the pool */
    struct rma_op *done_head, **done_tail;
    struct rma_op *handed; /* their events' data are still in use */

    MPI_Request active[RMA_ACTIVE_MAX]; /* compact */
    struct rma_op *active_op[RMA_ACTIVE_MAX];
    uint32_t num_active, active_data, active_reads;

    MPI_Request *parked;
    struct rma_op **parked_op;
    uint32_t num_parked, max_parked, next_parked; /* next_parked: the one whose turn it is */
    uint64_t next_look_ns;                        /* when the active ones are looked at for overdue ones */

    struct sieve **sieves, *free_sieves; /* all that were made; those not in use */
    uint32_t num_sieves, max_sieves;

    bool failed;            /* MPI could not test the requests */
    uint64_t bytes_open;    /* of active data */
    uint64_t unflushed;     /* the peers' sum */
    uint64_t num_unflushed; /* peers that have some */
    uint32_t many_parked;   /* settings.parked, or fewer where MPI bears fewer requests */
    uint64_t flushes, settled, poisonings;
};

/** *r zeroed before. Local. On an error rma_fini frees what is there. */
int rma_init(struct rma *r, struct world *w, const struct windows *v, const struct quirks *q);
/** Nothing may be open (rma_open_ops is 0). */
void rma_fini(struct rma *r);

/** See fabric_read, fabric_read_word, fabric_move, fabric_park. */
int rma_read(struct rma *r, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag);
int rma_read_word(struct rma *r, uint32_t peer, uint64_t offset, uint64_t tag);
int64_t rma_move(struct rma *r, const struct port_leg *leg, uint64_t budget);
int rma_settle(struct rma *r, uint32_t peer, uint64_t tag);
enum port_park rma_park(struct rma *r, uint32_t peer, uint64_t tag);
bool rma_ended(struct rma *r, uint32_t peer);

/** Frees what the events handed out before pointed to. */
void rma_release(struct rma *r);
/** Tests, then hands out up to `max` events. Their number. Where MPI cannot test them, that is logged: r->failed. */
int rma_progress(struct rma *r, struct port_event *events, int max);

/** Operations open in MPI, parked ones included. */
static inline uint32_t rma_open_ops(const struct rma *r)
{
    return r->num_active + r->num_parked;
}

#endif
