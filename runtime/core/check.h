/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check: compares hashes of what arrived (BATON_CHECKSUM), 64 bits for each block of a leg. Where the two sides have
 * blocks of different sizes, the larger ones count. When the bytes of a leg are proved to have landed, the consumer
 * hashes them where they lie now and asks the producer (CHECK) for the hashes of what it has in its blocks. Both go by
 * the plan of that pair, which is the same on both sides, so layouts do not matter. Only when all are equal does the
 * leg count as done. Hashing is done by the copy workers, a slice at a time.
 *
 * A leg begins and stops the consumer's checks; core.c hands on CHECK messages and what the workers have done. check.c
 * knows neither legs nor offers: it gives back a leg's pointer, and is told whether a want is granted.
 */
#ifndef BATON_CORE_CHECK_H
#define BATON_CORE_CHECK_H

#include "core/call.h"
#include "core/contact.h"
#include "core/op.h"
#include "wire/message.h"

struct check;
struct leg;

/* How a check stands: one of these, or an error, with *why. It is gone unless it is OPEN. */
#define CHECK_OPEN 0
#define CHECK_GOOD 1 /* all hashes are equal */

/** 0 or BATON_ENOMEM. */
int checks_create(struct core *core);
void checks_destroy(struct core *core);
/** Hands slices to the workers. */
void checks_run(struct core *core);

/* ---- the consumer ------------------------------------------------------------------------------------------------ */

/** What is to be checked; all of it outlives the check. */
struct check_job {
    struct leg *leg;
    uint64_t want;
    const struct contact *contact;
    const struct call *call;
};

/** Begins, and asks. OPEN with *out; GOOD: there is nothing to hash; or BATON_ENOMEM. */
int check_begin(struct core *core, const struct check_job *job, struct check **out);
/** Asks again. */
void check_ask(struct core *core, const struct check *c);
/** Gives up. NULL is ignored. */
void check_stop(struct core *core, struct check *c);
int check_on_sums(struct core *core, struct check *c, const struct wire_message *m, struct plan_why *why);

/**
 * Workers have hashed some of it, or failed to. *leg: whose it is; NULL: a producer's (GOOD: check_answer is due), or
 * given up.
 */
int check_on_event(struct core *core, struct check *c, int error, struct leg **leg, struct plan_why *why);

/* ---- the producer ------------------------------------------------------------------------------------------------ */

/** What a consumer asked. */
struct check_question {
    struct wire_name name;
    uint32_t peer;
    uint64_t want;
};

/** `granted`: the call of the offer that this want is granted; NULL: none. */
void check_on_ask(struct core *core, uint32_t peer, const struct wire_message *m, const struct call *granted);
/** That rank's card has come, or is refused: takes a question of it that waited for that. False: none. */
bool checks_take_waiting(struct core *core, uint32_t peer, struct wire_message *m);
/** How many questions wait for cards: at most BATON_REQUESTS. */
uint32_t checks_waiting(const struct core *core);
/** Whether something is hashed that this rank asked for. */
bool checks_know(const struct core *core, uint32_t peer);
/** Another member may have that rank: its questions that wait are dropped. */
void checks_forget(struct core *core, uint32_t peer);
const struct check_question *check_asked(const struct check *c);
void check_answer(struct core *core, struct check *c, const struct call *granted);

#endif
