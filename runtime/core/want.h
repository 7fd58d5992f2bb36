/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * want: one demand of this rank's engine, from its submission to its one event. Owns the call, its legs (leg.h) and
 * what they share (ask.h), its block table's lease in a push, and its name: one key, attempt and engine has one open
 * want.
 *
 *   AWAITING  no engine of the producer's name is whole
 *   QUEUED    behind the handshake with the producer's engine
 *   ACTIVE    a leg runs to each rank that serves it. It is done when every leg's bytes are there and fenced, and only
 *             then does any producer hear DONE, so that both sides end alike
 *   DRAINING  it has failed, and waits until nothing can write into its blocks any more. If that takes too long it is
 *             given up: the engine is told so, and the end follows
 *
 * core.c calls it; verdict.c asks how a want stands. Legs, links and tails know no want: what they report is handed on.
 */
#ifndef BATON_CORE_WANT_H
#define BATON_CORE_WANT_H

#include "core/call.h"
#include "core/link.h"
#include "wire/message.h"

struct want;

/** 0 or BATON_ENOMEM. */
int wants_create(struct core *core);
void wants_destroy(struct core *core);

/** Takes a call; an error is its event. */
void want_submit(struct core *core, struct call *call);
/** False: there is none of that id. */
bool want_cancel(struct core *core, baton_id_t id);
/** The engine was told that the want is given up: it is, and its name is free. False: there is none. */
bool want_give_up(struct core *core, baton_id_t id, baton_status_t status, int error, const char *detail);

/** GRANT, NACK, WRITTEN, CLOSED, SUMS, READY. */
void want_on_message(struct core *core, uint32_t peer, const struct wire_message *m);
/** One want looks at its legs, of which there is news. False: there is none. */
bool wants_on_legs(struct core *core);
/** The zeros behind its tokens are stored, or could not be. */
void want_on_tail(struct core *core, struct want *want, int error);
/** READY or REFUSED now. */
void wants_on_link(struct core *core, struct link *link);
/** A spare contact is good or refused now. */
void wants_on_spare(struct core *core, struct contact *spare);
/** A rank was lost: what it gives here ends. */
void wants_lose(struct core *core, uint32_t rank);
/** That engine has gone, since that rank of it has: no want of it goes on. */
void wants_lose_engine(struct core *core, uint32_t engine, uint32_t rank);
/** Whether a want of that engine's has not ended. */
bool wants_know(const struct core *core, uint32_t engine);
/** An engine is whole now: wants that wait for its name go on. */
void wants_on_engine(struct core *core);
void wants_shut(struct core *core);

/** As offer_call and offer_standing. */
struct call *want_call(struct core *core, const char *key, uint32_t attempt, uint32_t engine);
void want_standing(struct core *core, const char *key, uint32_t attempt, uint32_t engine, char *text, size_t size);
/** How many wants, and legs, are open. */
uint32_t wants_open(const struct core *core);
uint32_t wants_legs(const struct core *core);

#endif
