/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lanes: control messages between ranks of a node, by loads and stores. A lane is a circular buffer of LANES_MESSAGES
 * messages from one rank to another one, in the segment of the rank that receives. It has one writer and one reader,
 * and each word of it is written by one of them alone. So a rank that is stopped or killed between two stores holds up
 * the messages to itself and from itself, and nobody else's. Messages of a lane come in order, whole, and once.
 *
 * The sender owes the receiver a ring of its bell, at the end of its turn or later. A sender that finds a lane full
 * says so in the lane, and the receiver owes it a ring when there is room.
 *
 * What is read here is checked like anything from outside: any process of the node may have written it.
 *
 * The thread that steps the core. The areas are made elsewhere and outlive this.
 */
#ifndef BATON_SHM_LANES_H
#define BATON_SHM_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/port.h"
#include "observe/log.h"
#include "shm/rings.h"

#define LANES_MESSAGES 16u
#define LANES_MESSAGE_MAX 2040u

struct lanes;

/** The lanes to one rank, as they are mapped here: one for each place (places.h). */
struct lanes_at {
    uint8_t *area; /* at a multiple of 64; NULL: there are none */
    uint32_t places;
};

/** One neighbour. */
struct lanes_rank {
    struct lanes_at at; /* its lanes */
    uint32_t place;     /* mine in its area */
    uint32_t its;       /* its in mine */
};

/** Bytes of the lanes to one rank, with so many places. All of them 0, they are empty. */
uint64_t lanes_bytes(uint32_t places);

/**
 * For the neighbours of this vicinity, of whom none has joined. `mine` are the lanes to this rank. `vicinity` and
 * `rings` outlive this. 0 or BATON_ENOMEM.
 */
int lanes_create(const struct lanes_at *mine, const struct vicinity *vicinity, struct rings *rings,
                 const struct logger *log, struct lanes **out);
void lanes_destroy(struct lanes *l);

/** Messages to that rank, a neighbour or this one, and from it go by lanes from now on: both places are open. */
void lanes_join(struct lanes *l, uint32_t rank, const struct lanes_rank *neighbour);
/** It has gone, and nothing of it can land here any more. lanes_clear follows for its place. */
void lanes_leave(struct lanes *l, uint32_t rank);
/** The lane of that place is as if it had never been used, whether its rank had joined here or not. */
void lanes_clear(struct lanes *l, uint32_t place);

/** Whether messages to that rank, and from it, go by lanes. */
bool lanes_lead_to(const struct lanes *l, uint32_t rank);

/**
 * Copies a message of 1 .. LANES_MESSAGE_MAX bytes into the lane to that rank, which is owed its ring `when`. 0, or
 * BATON_EAGAIN: there is no room, and this rank's bell rings once there is.
 */
int lanes_send(struct lanes *l, uint32_t rank, const void *message, uint32_t bytes, enum rings_when when);

/** Up to `max` messages that came, as PORT_MESSAGE events. Their number. Their data stays until the next call. */
int lanes_take(struct lanes *l, struct port_event *events, int max);

/** Marks all messages that have come by now. */
void lanes_look(struct lanes *l);
/** All that were marked last have been taken. */
bool lanes_have_looked(const struct lanes *l);

/** Messages that made no sense. Each was logged. */
uint64_t lanes_bad(const struct lanes *l);

/** Whether the last lanes_take may have left messages behind: nobody rings for them again. */
bool lanes_are_cut(const struct lanes *l);

#endif
