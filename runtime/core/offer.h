/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offer: the producer's side of a request, from baton_offer to its one event. Owns the call, its lease, its seats, what
 * of it is in place, and what is written to its readers (push.h). What is known of the request before and after is
 * attempt.h's.
 *
 *   LIVE      offered. It ends when each expected reader of each seat has ended, by its time to live, or by the
 *             caller's cancel
 *   DRAINING  it has an end, and its generation is raised; pushes of it still read its blocks
 *   ENDED     reported. Its memory goes with the step
 *
 * Three files make it, each calling the next: offer_call.c its caller's side, offer_serve.c its consumers', offer.c its
 * life. core.c calls them; verdict.c and check.c ask how it stands.
 */
#ifndef BATON_CORE_OFFER_H
#define BATON_CORE_OFFER_H

#include "core/call.h"
#include "core/contact.h"
#include "core/mover.h"
#include "core/push.h"

/** 0 or BATON_ENOMEM. */
int offers_create(struct core *core);
/** With all attempts. */
void offers_destroy(struct core *core);

/** Takes a call; an error is its event. */
void offer_submit(struct core *core, struct call *call);
/** Layers of an offer are in place; or tokens. */
void offer_ready(struct core *core, const struct call *word);
void offer_append(struct core *core, const struct call *word);
/** An id that has ended is ignored. */
void offer_cancel(struct core *core, baton_id_t id);
/** The engine was told that the offer is given up: it is. */
void offer_give_up(struct core *core, baton_id_t id, baton_status_t status, int error);

void offer_on_want(struct core *core, uint32_t peer, const struct wire_message *m);
/** DONE, CANCEL, RELEASE. */
void offer_on_end(struct core *core, uint32_t peer, const struct wire_message *m);
/** News of a push's mover, or of the contact that pushes wait for. */
void offers_on_mover(struct core *core, struct push *push, const struct mover_word *word);
void offers_on_contact(struct core *core, struct contact *c);
/** Words of ranks of this node are heard (core/handoff.h). */
void offers_hear(struct core *core);
/** The same of one rank's word about one offer. */
void offer_hear(struct core *core, const struct wire_name *name, uint32_t rank);
/** The same of those that could not be heard before, since it was not known who reads. */
void offers_hear_late(struct core *core);
/** A rank was lost: what it takes from here ends. */
void offers_lose(struct core *core, uint32_t rank);
/** That engine has gone: seats of which it had read nothing are free again. Else their offers fail. */
void offers_lose_engine(struct core *core, uint32_t engine);
/** Whether a rank of that engine has a part in an offer that is open. */
bool offers_know(const struct core *core, uint32_t engine);
/** A member has come, which may be one of this node. */
void near_welcome(struct core *core, uint32_t rank);
/** Another member may have its rank. */
void near_forget(struct core *core, uint32_t rank);
void offers_shut(struct core *core);

/** The call of the live offer of that request, if that rank's want is granted; NULL: it is not. */
const struct call *offer_granted(struct core *core, const char *key, uint32_t attempt, uint32_t peer, uint64_t want);
/** The call of the open offer of that request; NULL: none. And in words, where it stands. */
struct call *offer_call(struct core *core, const char *key, uint32_t attempt);
void offer_standing(struct core *core, const char *key, uint32_t attempt, char *text, size_t size);
/** How many are open. */
uint32_t offers_open(const struct core *core);

#endif
