/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attempt: what this rank knows of one attempt of a request, found by key and number, from the first word about it
 * until its tombstone goes. So wants and offers may come in either order, and a want that comes too late is told so at
 * once.
 *
 *   AWAITED  words of consumers came and wait here; the offer did not
 *   OFFERED  its offer lives, or drains (offer.h)
 *   ENDED    a tombstone. It answers words of this attempt and of older ones. Without attempts (number 0) it answers
 *            only words that were meant for the offer that ended; others wait here for the next offer
 *
 * Three files make it: attempt.c the index and tombstones, waiter.c the words that wait, former.c what is remembered of
 * the wants of former offers. The files of the offer call it.
 */
#ifndef BATON_CORE_ATTEMPT_H
#define BATON_CORE_ATTEMPT_H

#include "core/core.h"
#include "core/seat.h"
#include "core/word.h"

struct attempt;
struct offer;

enum attempt_state { ATTEMPT_AWAITED, ATTEMPT_OFFERED, ATTEMPT_ENDED };

/** 0 or BATON_ENOMEM. Before attempts_destroy, each attempt is dropped. */
int attempts_create(struct core *core);
void attempts_destroy(struct core *core);

/** NULL: nothing is known of it. */
struct attempt *attempt_find(const struct core *core, const char *key, uint32_t number);
/** The same, but AWAITED from now on if nothing was known of it. NULL: no memory. */
struct attempt *attempt_make(struct core *core, const char *key, uint32_t number);
/** It goes if it is AWAITED and no word waits there. */
void attempt_release(struct core *core, struct attempt *a);

enum attempt_state attempt_state(const struct attempt *a);
uint32_t attempt_number(const struct attempt *a);
/** OFFERED: its offer; else NULL. */
struct offer *attempt_offer(const struct attempt *a);
/** ENDED: how. */
int attempt_error(const struct attempt *a);

/** It is OFFERED. */
void attempt_begin(struct core *core, struct attempt *a, struct offer *offer);
/** Its last offer has refused that want for good: the want is over here, up to a limit of how many are remembered. */
void attempt_note(struct core *core, struct attempt *a, uint32_t rank, uint64_t want);
/** It is about to end. What its seats say of whose wants were meant for it is remembered. */
void attempt_remember(struct core *core, struct attempt *a, const struct seats *seats);
/** It is ENDED. */
void attempt_end(struct core *core, struct attempt *a, int error);
/** The tombstone that answers a word about that attempt; NULL: it is about an offer to come. */
const struct attempt *attempt_ended(struct core *core, const struct wire_name *name, const struct word *word);
/** Whether that want was refused for good: a repetition of it may be on its way still. */
bool attempt_has_refused(const struct attempt *a, uint32_t rank, uint64_t want);
/** Whether that want, or a later one of its rank, was one of a former offer of this attempt. */
bool attempt_is_former(const struct attempt *a, uint32_t rank, uint64_t want);

/** The word of that rank that waits there; NULL: none. */
const struct word *waiter_word(const struct attempt *a, uint32_t rank);
/** Keeps a word there for so long, in the place of that rank's former one. False: at a limit. */
bool waiter_keep(struct core *core, const struct wire_name *name, const struct word *word, uint64_t keep_ms);
/** The word of that rank waits no more; with the last, the attempt may go. */
void waiter_leave(struct core *core, struct attempt *a, uint32_t rank);
/** Takes the first that waits. False: none. */
bool waiter_take(struct core *core, struct attempt *a, struct word *word);
/** A member has gone: no word of it waits any more, and its former wants are forgotten. */
void attempts_lose(struct core *core, uint32_t rank);
/** This rank closes: every want that waits is refused, and what is AWAITED goes. */
void waiters_shut(struct core *core);

/** All attempts, one after the other; NULL: the first, or there is no other. */
struct attempt *attempts_next(const struct core *core, const struct attempt *a);
/** It goes, with all words that wait there. */
void attempt_drop(struct core *core, struct attempt *a);

#endif
