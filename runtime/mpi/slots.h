/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slots: memory for control messages on their way out, and places that bound how many there are. MPI reads a slot until
 * its request is complete. A message that is dropped leaves its place at once, although MPI may still read its slot.
 *
 * LIMITS. There are SLOTS_MAX places; one peer has at most SLOTS_OF_PEER of them. Once all are taken, a
 * peer that has none still gets one: at most one a rank beyond SLOTS_MAX. So silent peers never keep the places of
 * others, however many they are. Slots are made as they are needed.
 *
 * The thread that makes a turn. Never calls MPI.
 */
#ifndef BATON_MPI_SLOTS_H
#define BATON_MPI_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi/inbox.h"

#define SLOTS_MAX 256
#define SLOTS_OF_PEER 8

struct slot {
    uint8_t bytes[INBOX_BYTES];
    uint32_t peer, length;
    uint32_t number; /* of the message, as its envelope says */
    bool is_alone;   /* an envelope without a message */
    bool was_begun;  /* MPI took it, and reported later that it failed */
    struct slot *next, *next_made;
};

struct slots {
    struct slot *all, *free;
    uint32_t num_places; /* taken, those of messages that wait to be sent again included */
};

void slots_fini(struct slots *s);

/** Whether a peer that has `of_peer` places may have one more. */
bool slots_have_place(const struct slots *s, uint32_t of_peer);
/** A message takes a place, or leaves it. *of_peer counts the places of its peer. */
void slots_take_place(struct slots *s, uint32_t *of_peer);
void slots_leave_place(struct slots *s, uint32_t *of_peer);

/** A free slot. NULL: no memory. */
struct slot *slots_get(struct slots *s);
void slots_put_back(struct slots *s, struct slot *slot);

/** Whether a's message comes before b's. */
bool slot_is_before(const struct slot *a, const struct slot *b);

#endif
