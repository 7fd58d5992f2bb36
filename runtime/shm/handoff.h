/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handoff: the words in a rank's segment by which ranks of its node find its offers, take leases of them and give them
 * back, by loads and stores alone. HANDOFF.md says why each store and fence stands where it does.
 *
 * A lease is named by its slot and its generation, which the board holds (core/port.h, raise). Whatever is read here is
 * checked like a message: the area may be written by any process of the node.
 *
 * THREAD. The producer's functions: one thread of the producer at a time. The consumer's: one thread of each consumer
 * at a time. None blocks, and a party that is stopped or killed between two stores blocks no other one.
 */
#ifndef BATON_SHM_HANDOFF_H
#define BATON_SHM_HANDOFF_H

#include <stdatomic.h>

#include "core/handoff.h"

#define HANDOFF_SLOTS_MAX 65536u /* the most of BATON_LEASES */
#define HANDOFF_ENGINES 256u     /* that words of one area can name. Others go by messages */

/** An area, as it is mapped here. */
struct handoff {
    uint8_t *area;
    const _Atomic uint64_t *board; /* of the same rank: a generation a slot */
    uint32_t slots;                /* of its board: 1 to HANDOFF_SLOTS_MAX */
    uint32_t places;               /* of neighbours (places.h) */
};

/** Bytes of the words for so many slots and places. All of them 0, there are no offers. */
uint64_t handoff_bytes(uint32_t slots, uint32_t places);

/* ---- the producer's: as in struct port_handoff ------------------------------------------------------------------- */

void handoff_write(const struct handoff *h, uint32_t slot, uint64_t generation, const struct handoff_offer *offer,
                   const uint64_t *seats, uint32_t num_seats);
/** False: its places are taken; it is found by messages alone. */
bool handoff_enter(const struct handoff *h, uint32_t slot);
void handoff_say_why(const struct handoff *h, uint32_t slot, uint64_t generation, int error);
void handoff_leave(const struct handoff *h, uint32_t slot);
int handoff_bind(const struct handoff *h, uint32_t slot, uint64_t generation, uint64_t engine);
void handoff_vacate(const struct handoff *h, uint32_t slot, uint64_t generation, uint32_t seat, bool is_free);
struct handoff_word handoff_word(const struct handoff *h, uint32_t slot, uint64_t generation, uint32_t place);
bool handoff_told(const struct handoff *h, uint32_t *slot);
/** That place is as if it had never been used. Whoever had it says nothing any more. */
void handoff_clear(const struct handoff *h, uint32_t place);
/** No rank of that engine says anything any more: seats that only words know of are free again, and its name is. */
void handoff_forget(const struct handoff *h, uint64_t engine);

/* ---- the consumer's ---------------------------------------------------------------------------------------------- */

/**
 * `place` is this rank's, and open. HANDOFF_ASK also where the offer has too few tokens or no seat, or this rank has
 * had its lease before. After HANDOFF_TAKEN, what is read under the lease counts if the board still has its generation
 * after the last byte.
 */
enum handoff_taken handoff_take(const struct handoff *h, uint32_t place, const struct handoff_want *want,
                                struct handoff_grant *grant);
/**
 * Of a lease that was granted by message. False: no such offer is found by words, the slot is none, or this rank has
 * had the lease before.
 */
bool handoff_hold(const struct handoff *h, uint32_t slot, uint64_t generation, uint32_t place, uint32_t left_ms);
/** The producer's bell must be rung after it. */
void handoff_give_back(const struct handoff *h, uint32_t slot, uint64_t generation, uint32_t place, int error);
bool handoff_why(const struct handoff *h, uint32_t slot, uint64_t generation, int *error);

#endif
