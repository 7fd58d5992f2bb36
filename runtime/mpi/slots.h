/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slots: memory for control messages on their way out. MPI reads a slot until its request is complete.
 *
 * LIMITS. SLOTS_MAX, and SLOTS_OF_PEER of them for one peer. Once SLOTS_MAX are taken, only a peer that has none gets
 * one; so there are never more than one for each rank beyond, and silent peers never keep the slots of others, however
 * many they are. Slots are made as they are needed.
 *
 * The reactor's thread. Never calls MPI.
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
    uint32_t num_taken; /* in use, those whose message waits to be sent again included */
};

void slots_fini(struct slots *s);

/** Whether a peer that has `of_peer` slots may have one more. */
bool slots_may_take(const struct slots *s, uint32_t of_peer);
/** A free slot, once that was asked. It does not count as taken yet. NULL: no memory. */
struct slot *slots_take(struct slots *s);
/** Makes a slot free. */
void slots_give_back(struct slots *s, struct slot *slot);

/** Whether a's message comes before b's. */
bool slot_is_before(const struct slot *a, const struct slot *b);

#endif
