/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma_requests: the MPI requests of the rma path, and how many there may be. A request is active or parked. The active
 * ones are few and are all tested in each turn. A request that is open for longer than the patience with its peer (see
 * patience.h) is parked: of the parked ones, one is tested in each turn.
 *
 * ACTIVE REQUESTS. Those of data are limited by rma_requests (BATON_TUNE). One peer has at most
 * rma_peer_requests of them, parked ones included; it gets no further one while it holds as many as are left for
 * others; and its part shrinks as more requests are parked. Reads of metadata have RMA_READS requests of their own,
 * shared by the same rules, so that a generation can be read while data fill their limit.
 *
 * PARKED REQUESTS. Up to RMA_PARKED are kept. Past that, a peer may have one request of each kind open, and there is
 * room for these and for all that was active then. So peers that do not answer never take the requests of others,
 * however many they are. Where the quirks table limits the open requests, fewer are parked, and none is made past that
 * limit.
 *
 * The thread that makes a turn. Never waits for a request.
 */
#ifndef BATON_MPI_RMA_REQUESTS_H
#define BATON_MPI_RMA_REQUESTS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "mpi/quirks.h"
#include "mpi/rma_op.h"
#include "mpi/rma_peer.h"
#include "mpi/world.h"

#define RMA_DATA_MAX 128 /* the most that rma_requests can be */
#define RMA_READS 32
#define RMA_PARKED 256 /* of 16 silent peers, each with all that one peer may have open by default */
#define RMA_ACTIVE_MAX (RMA_DATA_MAX + RMA_READS)
_Static_assert(RMA_ACTIVE_MAX < 254, "Open MPI 5 aborts at the 255th request");

/** A request that is complete, and in no set any more. */
struct rma_completion {
    struct rma_op *op;
    int rc;
};

struct rma_requests {
    const struct world *world;
    const struct quirks *quirks;
    struct rma_peers *peers;

    MPI_Request active[RMA_ACTIVE_MAX]; /* without gaps */
    struct rma_op *active_op[RMA_ACTIVE_MAX];
    uint32_t num_active, active_data, active_reads;
    uint64_t bytes_open;   /* of active data */
    uint64_t next_look_ns; /* when the active ones are next searched for overdue ones */

    MPI_Request *parked; /* without gaps */
    struct rma_op **parked_op;
    uint32_t num_parked, parked_room;
    uint32_t next_parked;  /* the one whose turn it is */
    uint32_t parked_limit; /* RMA_PARKED, or fewer where MPI permits fewer requests */

    bool has_failed; /* MPI could not test the requests: logged */
};

/** How many operations can be open at a time in this world. */
size_t rma_requests_most(const struct world *w);
/** *q zeroed before. False: no memory. */
bool rma_requests_init(struct rma_requests *q, const struct world *w, const struct quirks *quirks,
                       struct rma_peers *peers);
void rma_requests_fini(struct rma_requests *q);

/** Whether MPI permits no more open requests, of any peer. */
bool rma_requests_are_full(const struct rma_requests *q);
/** Whether this peer may have one more request, of data or of a read. */
bool rma_requests_have_room(const struct rma_requests *q, const struct rma_peer *p, bool data);
/** The operation's request was made just now. */
void rma_requests_add(struct rma_requests *q, struct rma_op *op, MPI_Request request);

/** Tests the active ones. Returns how many are complete. */
int rma_requests_test(struct rma_requests *q, struct rma_completion completed[RMA_ACTIVE_MAX]);
/** Parks the active ones that are overdue, and marks their peers. Looks for them four times in park_ms. */
void rma_requests_park(struct rma_requests *q, uint64_t now);
/** The parked one whose turn it is, and where it stands. NULL: there is none. */
struct rma_op *rma_requests_next_parked(struct rma_requests *q, uint32_t *at);
/** Tests that one. MPI's return code. */
int rma_requests_test_parked(struct rma_requests *q, uint32_t at, bool *done);
/** That one is complete, or is left to MPI. */
void rma_requests_unpark(struct rma_requests *q, uint32_t at);

/** Open operations of that tag. */
uint32_t rma_requests_count(const struct rma_requests *q, uint32_t peer, uint64_t tag);
/** One of them that moves data; NULL: none does. */
struct rma_op *rma_requests_data(const struct rma_requests *q, uint32_t peer, uint64_t tag);
/** Marks them as forgotten. */
void rma_requests_forget(struct rma_requests *q, uint32_t peer, uint64_t tag);

/** Open requests, parked ones included. */
static inline uint32_t rma_requests_open(const struct rma_requests *q)
{
    return q->num_active + q->num_parked;
}

#endif
