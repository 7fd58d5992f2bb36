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
 * messages, and at most CONTROL_PEER_SENDS slots, and nobody else's.
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
#define CONTROL_SENDS 256    /* slots */
#define CONTROL_PEER_SENDS 8 /* of them for one peer */

/** One peer with whom a message was exchanged. */
struct control_peer {
    uint32_t rank;
    struct envelope_counts counts;
    uint32_t posted;       /* MPI messages to it, envelopes alone included */
    uint32_t slots;        /* of mine, still under way to it */
    bool is_lost, is_owed; /* a send failed; stands in the queue of those owed an envelope */
    struct control_peer *next_owed;
};

/** A message on its way: MPI reads `bytes` until the request is complete. */
struct control_slot {
    uint8_t bytes[CONTROL_BYTES];
    uint32_t peer;
    struct control_slot *next_free;
};

struct control {
    struct world *world;
    const struct windows *windows;
    MPI_Comm comm;
    bool is_open, failed;
    struct control_peer **peers; /* by rank; NULL: never spoken to */
    struct control_peer *owed;

    /* Receives: a ring. [head - handed, head) were handed out or skipped and are posted again by control_release. */
    uint8_t (*received)[CONTROL_BYTES];
    MPI_Request receive[CONTROL_RECEIVES];
    uint32_t head, handed;

    /* Sends under way, compact. */
    struct control_slot *slots, *free_slots;
    MPI_Request send[CONTROL_SENDS];
    struct control_slot *sending[CONTROL_SENDS];
    int num_sending;

    uint64_t messages_in, messages_out, envelopes_out, bad;
    uint32_t arrived, expected; /* MPI messages received, envelopes alone included; at close: to be received */
};

/** Duplicates the communicator and posts the receives. Collective, agreed. *c zeroed before. */
int control_open(struct control *c, struct world *w, const struct windows *v);

/** See fabric_send. */
int control_send(struct control *c, uint32_t peer, const void *message, uint32_t bytes);

/** Posts again the receives whose messages were handed out. BATON_EMPI: the channel failed. */
int control_release(struct control *c);

/** Advances sends, hands out up to `max` messages. Their number, or BATON_EMPI. */
int control_progress(struct control *c, struct port_event *events, int max);

/** Sends under way. */
static inline int control_busy(const struct control *c)
{
    return c->num_sending;
}

/**
 * Before closing: completes the sends and receives all that was sent to this rank, so that no message stays in MPI for
 * a later communicator to find. Collective; the caller agrees on the result.
 */
int control_drain(struct control *c);

/** Cancels the receives and frees everything. Collective; after an agreed control_drain. */
void control_close(struct control *c);

#endif
