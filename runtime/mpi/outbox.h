/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outbox: control messages on their way to each rank, in order, bounded by credits and places (slots.h).
 *
 * CREDITS. A peer has at most ENVELOPE_CREDITS messages whose consumption it has not confirmed. Each message confirms,
 * in its envelope, how many of the other's were consumed. Whoever consumed ENVELOPE_CONFIRM messages and had nothing to
 * say owes a confirmation: an envelope alone, which costs no credit. So a peer that does not consume holds back the
 * messages to itself, and nobody else's.
 *
 * FAILURES. A message whose send fails is sent again, after a pause that grows, with its number and from its slot. What
 * was given to MPI behind it is waited for first, and nothing new follows before it is out, so messages keep their
 * order. Where a later one came through after all, the failed one is dropped: the receiver has counted it as damaged.
 *
 * LOST RANKS. Where nothing comes through for BATON_PEER_MS, the rank is lost: what waits is dropped, and sends are
 * refused (BATON_EPEER), but for an envelope alone now and then. The rank is back once a send succeeds or a message
 * comes from it.
 *
 * The thread that makes a turn, after start. Never blocks.
 */
#ifndef BATON_MPI_OUTBOX_H
#define BATON_MPI_OUTBOX_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "mpi/slots.h"
#include "mpi/windows.h"
#include "mpi/world.h"
#include "wire/envelope.h"

/** One rank with which a message was exchanged. */
struct outbox_peer {
    uint32_t rank;
    struct envelope_counts counts;
    uint32_t posted;    /* MPI messages to it that did not fail, envelopes alone included */
    uint32_t places;    /* that its messages have taken */
    uint32_t under_way; /* of these, in MPI */
    bool is_lost;
    bool is_owed;        /* it stands in the queue of those owed a confirmation */
    bool is_failing;     /* it stands in the list of those to whom something is sent again */
    uint64_t failing_ns; /* since when nothing has come through */
    uint64_t next_try_ns, pause_ns;
    struct slot *again; /* failed messages to be sent again, in the order of their numbers */
    struct slot *held;  /* dropped; MPI reported them as failed, but may still read them: kept until the rank is back */
    struct slot *failed_alone; /* the same of an envelope alone, which is sent again as it is */
    struct outbox_peer *next_owed, *next_failing;
};

struct outbox {
    const struct world *world;
    const struct windows *windows;
    struct doorbell *doorbell; /* of ranks whose bell is not mapped here; NULL: none */
    MPI_Comm comm;
    struct outbox_peer **by_rank; /* NULL: no message was exchanged with it yet */
    struct outbox_peer *owed, *failing;
    struct slots slots;

    /* The sends under way, without gaps. */
    MPI_Request *request;
    struct slot **sending;
    int num_sending;
    struct slot **finished; /* room for outbox_test, as are the next two */
    int *index;
    MPI_Status *status;
};

/** *o zeroed before. BATON_ENOMEM: outbox_fini frees what is there. */
int outbox_init(struct outbox *o, const struct world *w, const struct windows *v, MPI_Comm comm);
void outbox_fini(struct outbox *o);

/** NULL: no such rank, or no memory for its state. */
struct outbox_peer *outbox_peer_of(struct outbox *o, uint32_t rank);

/**
 * A message of 1 .. WIRE_MESSAGE_MAX bytes, copied. 0, BATON_EAGAIN (no place or credit), BATON_EPEER (lost),
 * BATON_ENOMEM.
 */
int outbox_send(struct outbox *o, uint32_t rank, const void *message, uint32_t bytes);
/** Something sound came from the peer: it is there, even if it was lost. */
void outbox_revive(struct outbox *o, struct outbox_peer *p);
/** A message of the peer's was consumed: it may be owed a confirmation. */
void outbox_owe(struct outbox *o, struct outbox_peer *p);

/** Tests the sends under way. 0, or BATON_EMPI: MPI cannot test them. */
int outbox_test(struct outbox *o);
/** Sends again what failed, once its time has come and nothing of that peer's is in MPI. */
void outbox_repeat(struct outbox *o);
/** Sends the confirmations that are owed, each once nothing of its peer's is in MPI and there is a slot. */
void outbox_confirm(struct outbox *o);

/** MPI messages to a rank that did not fail. */
uint32_t outbox_posted(const struct outbox *o, uint32_t rank);

/** Whether something waits to be sent. */
static inline bool outbox_is_busy(const struct outbox *o)
{
    return o->num_sending > 0 || o->failing != NULL;
}

#endif
