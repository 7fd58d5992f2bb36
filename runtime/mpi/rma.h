/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma: one-sided reads from and writes to ranks of other nodes, by MPI_Rget and MPI_Rput on the overlay window.
 *
 * Its parts, from below: rma_op (operations), rma_peer (what is known of each rank), rma_requests (open requests and
 * their limits), rma_read and rma_batch (issue operations), and this one, which admits, completes and answers.
 *
 * GENERATIONS. MPI keeps no order between two gets, so the generation that proves a leg's data is read only when the
 * last of their requests is complete. Where it cannot be read at that moment, the answer comes without it, and the core
 * asks by the path's `board`.
 *
 * OVERDUE PEERS. A peer whose operation is open for too long is overdue: nothing new goes to it but a probe now and
 * then. Once a probe has completed, all that was issued long before it is complete as well. An operation that is still
 * open then is one whose completion MPI has lost, and a flush of the peer completes it.
 *
 * SIEVES. They take at most rma_sieve_bytes, by default more than one for each active operation of data. Where
 * overdue peers hold them all, runs are moved one by one. An operation that was given up leaves its blocks alone. A
 * sieve into which something might still be written, since its peer was poisoned, is never used again.
 *
 * The thread that makes a turn. Never blocks, except in a flush of a peer that has just answered.
 */
#ifndef BATON_MPI_RMA_H
#define BATON_MPI_RMA_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/look.h"
#include "core/net.h"
#include "mpi/quirks.h"
#include "mpi/rma_op.h"
#include "mpi/rma_peer.h"
#include "mpi/rma_requests.h"
#include "mpi/sieve.h"
#include "mpi/windows.h"
#include "mpi/world.h"

struct rma {
    const struct world *world;
    const struct windows *windows;
    const struct quirks *quirks;
    struct rma_ops ops;
    struct rma_peers peers;
    struct rma_requests requests;
    struct sieve_pool sieves;
    count_t settled, parked; /* operations whose completion MPI lost; parked requests by now */
    struct looking look;
};

/** What is counted from the start on; of parked requests, how many there are. Any thread. */
struct rma_counts {
    uint64_t flushes, settled, poisonings;
    uint32_t parked;
};

/** *r zeroed before. Local. On an error rma_fini frees what is there. */
int rma_init(struct rma *r, const struct world *w, const struct windows *v, const struct quirks *q);
/** Nothing may be open (rma_open_ops is 0). */
void rma_fini(struct rma *r);

/**
 * See core/path.h and core/net.h. A move takes what one request moves. A read is RMA_READ, or the RMA_WORD of a board.
 */
int rma_read(struct rma *r, enum rma_kind kind, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag);
int rma_room(struct rma *r, uint32_t peer);
int64_t rma_move(struct rma *r, const struct net_move *move);
int rma_settle(struct rma *r, uint32_t peer, uint64_t tag);
enum path_park rma_park(struct rma *r, uint32_t peer, uint64_t tag);
bool rma_ended(struct rma *r, uint32_t peer);

/**
 * Frees what the events handed out before pointed to, tests requests, then hands out up to `max` events. Returns their
 * number.
 */
int rma_progress(struct rma *r, struct port_event *events, int max);

/** See path.h. Of parked operations, one is tested in each rma_progress, and no look waits for them. */
void rma_look(struct rma *r);

struct rma_counts rma_counts(const struct rma *r);

/** Whether MPI could not test the requests: logged when it happened. */
static inline bool rma_has_failed(const struct rma *r)
{
    return r->requests.has_failed;
}

/** Operations open in MPI, parked ones included. */
static inline uint32_t rma_open_ops(const struct rma *r)
{
    return rma_requests_open(&r->requests);
}

/** Bytes of data and requests in flight, parked ones apart. */
static inline uint64_t rma_busy(const struct rma *r)
{
    return r->requests.bytes_open + r->requests.num_active;
}

/** Whether `bytes` from `offset` on lie below `limit`. */
static inline bool rma_is_within(uint64_t offset, uint64_t bytes, uint64_t limit)
{
    return bytes <= limit && offset <= limit - bytes;
}

#endif
