/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ends: the words of a want's end (DONE, CANCEL, RELEASE). Owns those that this rank owes to producers, each until it
 * is answered or given up, and the answers (ENDED) that it owes to consumers. A want is over, or given
 * up, when its words are handed over here: ends.c knows no want, only its number.
 *
 * want.c and leg.c hand words over and take them back, offer.c answers; core.c hands on ENDED messages and losses.
 */
#ifndef BATON_CORE_ENDS_H
#define BATON_CORE_ENDS_H

#include "core/core.h"
#include "wire/message.h"

/** 0 or BATON_ENOMEM. */
int ends_create(struct core *core);
void ends_destroy(struct core *core);

/** Sends DONE, CANCEL or RELEASE, again until it is answered. */
void ends_tell(struct core *core, uint32_t peer, struct wire_message *m);
/** The word that is owed to that rank is void: the want asks it now, or it has answered. */
void ends_take_back(struct core *core, uint32_t peer, uint64_t want);
/** Another member may have that rank. */
void ends_forget(struct core *core, uint32_t rank);
void ends_on_answer(struct core *core, uint32_t peer, const struct wire_message *m);
/** Producer: the word of that want was taken in. */
void ends_answer(struct core *core, uint32_t peer, uint64_t want);

/** That rank is dead: it is owed nothing. */
void ends_lose(struct core *core, uint32_t rank);
/** The answers that wait go out. */
void ends_shut(struct core *core);
/** The number of wants about which words are still owed. */
uint32_t ends_owed(const struct core *core);

#endif
