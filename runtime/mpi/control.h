/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control: small two-sided messages, in order between two ranks, bounded by credits and send slots. After start the
 * reactor runs it; opening and closing are the thread's that opens and closes. Never blocks in between.
 *
 * ORDER. Messages travel on one tag of a communicator of their own. Receives are posted for any source in a ring, and
 * MPI matches a sender's messages to them in posting order; only the ring's head is tested, so messages come out in
 * the order in which each sender sent them.
 *
 * CREDITS. Of at most ENVELOPE_CREDITS messages to one peer the consumption is unconfirmed. Each message carries, in
 * its envelope, how many of the other's were consumed so far; whoever consumed ENVELOPE_CONFIRM without having had
 * anything to say sends an envelope alone, which costs no credit. So a peer that does not consume holds back its own
 * messages, and at most CONTROL_PEER_SENDS slots, and nobody else's. Once CONTROL_SENDS slots are taken, only who has none
 * gets one; there is one for each rank beyond. So silent peers, however many, never keep the slots of others.
 *
 * FAILURES. A message whose send fails is sent again, after a pause that grows, with its number and from its slot; what
 * was given to MPI behind it is waited for first, and nothing new follows before it is out. So messages keep their order.
 * Where a later one came through after all, it cannot be sent any more: the receiver has counted it as damaged. Where
 * nothing comes through for BATON_PEER_MS the rank is lost: what waits is dropped, and sends are refused (BATON_EPEER),
 * but for an envelope alone now and then. The rank is back once a send succeeds or a message comes from it.
 *
 * A receive that cannot be posted is posted later; one that fails is a damaged message. Where neither stops for
 * BATON_PEER_MS, the channel has failed.
 */
#ifndef BATON_MPI_CONTROL_H
#define BATON_MPI_CONTROL_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/envelope.h"
#include "core/port.h"
#include "mpi/windows.h"
#include "mpi/world.h"

#define CONTROL_BYTES 2048u  /* a message with its envelope */
#define CONTROL_RECEIVES 64  /* posted at any time */
#define CONTROL_SENDS 256    /* slots, and one for each rank */
#define CONTROL_PEER_SENDS 8 /* of them for one peer */

/** One peer with whom a message was exchanged. */
struct control_peer {
    uint32_t rank;
    struct envelope_counts counts;
    uint32_t posted;       /* MPI messages to it that did not fail, envelopes alone included */
    uint32_t slots;        /* of mine, with a message to it */
    uint32_t under_way;    /* of those, in MPI */
    bool is_lost, is_owed; /* stands in the queue of those owed an envelope */
    bool is_failing;       /* stands in the list of those to whom something is sent again */
    uint64_t failing_ns;   /* since when nothing has come through */
    uint64_t next_try_ns, pause_ns;
    struct control_slot *again; /* failed, by their numbers */
    struct control_slot
        *held; /* dropped, and perhaps still read by MPI, for all that it says: until the rank is back */
    struct control_slot *knock; /* the same, of an envelope alone: it goes out again as it is */
    struct control_peer *next_owed, *next_failing;
};

/** A message on its way: MPI reads `bytes` until the request is complete. */
struct control_slot {
    uint8_t bytes[CONTROL_BYTES];
    uint32_t peer, length, number;
    bool is_alone;
    bool was_begun; /* MPI took it, and failed later */
    struct control_slot *next, *next_made;
};

struct control {
    struct world *world;
    const struct windows *windows;
    MPI_Comm comm;
    bool is_open, failed;
    struct control_peer **peers; /* by rank; NULL: never spoken to */
    bool *hashed;                /* by rank: its envelopes carry hashes, and so do those to it */
    struct control_peer *owed, *failing;

    /* Receives: a ring. [head - handed, head) were handed out or skipped and are posted again by control_release. */
    uint8_t (*received)[CONTROL_BYTES];
    MPI_Request receive[CONTROL_RECEIVES];
    uint32_t head, handed;
    uint64_t receives_failing_ns; /* since when none could be posted or came whole; 0: they work */

    /* Sends under way, compact. */
    struct control_slot *slots, *free_slots; /* all that were made; those not in use */
    uint32_t num_taken;                      /* in use, those that wait to be sent again included */
    MPI_Request *send;
    struct control_slot **sending, **finished;
    int *index;
    MPI_Status *status;
    int num_sending;

    uint64_t bad;
    uint32_t arrived, expected; /* MPI messages received, envelopes alone included; at close: to be received */
};

/** Duplicates the communicator and posts the receives. Collective, agreed. *c zeroed before. */
int control_open(struct control *c, struct world *w, const struct windows *v);

/** What of it is local: the receives are posted on `comm`, which is the channel's from now on. */
int control_begin(struct control *c, struct world *w, const struct windows *v, MPI_Comm comm);

/** See fabric_hash. */
void control_hash(struct control *c, uint32_t peer);

/** See fabric_send. */
int control_send(struct control *c, uint32_t peer, const void *message, uint32_t bytes);

/** Posts again the receives whose messages were handed out. */
void control_release(struct control *c);

/** Advances sends, hands out up to `max` messages. Their number; none once the channel has failed, which is logged. */
int control_progress(struct control *c, struct port_event *events, int max);

/** Whether something waits to be sent. */
static inline bool control_busy(const struct control *c)
{
    return !c->failed && (c->num_sending > 0 || c->failing);
}

/**
 * Before closing: completes the sends and receives all that was sent to this rank, so that no message stays in MPI for
 * a later communicator to find. Collective; the caller agrees on the result.
 */
int control_drain(struct control *c);

/** Frees what control_begin made, but for the receives and the communicator. */
void control_end(struct control *c);

/** Cancels the receives and frees everything. Collective; after an agreed control_drain. */
void control_close(struct control *c);

#endif
