/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * leg: the part of a want between one producer rank and this one. Owns what was said to that rank and what it answered,
 * the repetition of that, and the mover or the check that is at work.
 *
 *   HANDSHAKE the rank that it was with failed; the card of the rank in its place is read
 *   ASKED     WANT was sent; sent again with growing pauses until it is answered
 *   MOVING    pull: granted; the blocks are read (mover.h)
 *   DOUBTED   pull: the generation had changed when the last byte had come, so these may not be the bytes that were
 *             granted. WANT is sent again, and the producer says what happened
 *   AWAITED   push: granted; the producer writes. WANT is still repeated; the answer says how far the producer is
 *   CHECKING  BATON_CHECKSUM: the bytes are there; their hashes are compared with the producer's (check.h)
 *   FENCED    the bytes in my blocks are those that were offered
 *   STOPPING  given up. Pull: until my own reads are quiet. Push: CANCEL was sent, and is sent again until the producer
 *             says that it writes no more
 *   CLOSED    given up, and nothing of it can write into the blocks any more
 *
 * want.c owns legs and calls all of this; core.c hands on news of movers, contacts and checks. A leg calls neither: it
 * reports to its want by what they share (ask.h).
 */
#ifndef BATON_CORE_LEG_H
#define BATON_CORE_LEG_H

#include "core/ask.h"
#include "core/mover.h"

struct leg;

enum leg_state {
    LEG_HANDSHAKE,
    LEG_ASKED,
    LEG_MOVING,
    LEG_DOUBTED,
    LEG_AWAITED,
    LEG_CHECKING,
    LEG_FENCED,
    LEG_STOPPING,
    LEG_CLOSED
};

/** The legs of a want, one for each rank that serves it. NULL: no memory. */
struct leg *legs_create(struct ask *ask);
struct leg *leg_at(struct leg *legs, uint32_t i);
/** All of them. NULL is ignored. */
void legs_destroy(struct core *core, struct leg *legs, uint32_t num);

enum leg_state leg_state(const struct leg *leg);
const char *leg_state_name(enum leg_state state);
uint32_t leg_rank(const struct leg *leg);
/** The leg that waits in this place for its contact. */
struct leg *leg_waiting(struct queued *card);

/** Asks. 0 or BATON_ENOMEM. */
int leg_begin(struct core *core, struct leg *leg);
/** The want drains: gives up, and is closed when it is quiet. */
void leg_stop(struct core *core, struct leg *leg);
/** Its peer is lost. */
void leg_lose(struct core *core, struct leg *leg);
/** Its producer hears how the want ended, once, if it still has to; not yet, while the leg is STOPPING. */
void leg_tell_end(struct core *core, struct leg *leg, int error);

/** GRANT, NACK, WRITTEN, CLOSED, SUMS, READY. */
void leg_on_message(struct core *core, struct leg *leg, const struct wire_message *m);
/** Its contact is good or refused now. */
void leg_on_contact(struct core *core, struct leg *leg);
/** News of its mover. */
void leg_on_mover(struct core *core, struct leg *leg, const struct mover_word *word);
/** How its check stands, as check.h says. */
void leg_on_checked(struct core *core, struct leg *leg, int how, const char *detail);

#endif
