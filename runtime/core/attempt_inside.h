/* SPDX-License-Identifier: BSD-3-Clause */
/* attempt_inside: an attempt's fields. For attempt.c, waiter.c and former.c, and for tests that look inside. */
#ifndef BATON_CORE_ATTEMPT_INSIDE_H
#define BATON_CORE_ATTEMPT_INSIDE_H

#include "base/hash.h"
#include "core/attempt.h"
#include "core/queue.h"
#include "core/timer.h"

/** A request key, while there is anything of it. */
struct request {
    char key[BATON_KEY_MAX];
    UT_hash_handle hh;
    struct attempt *attempts;
};

/**
 * What a rank wanted of the former offers of an attempt: its wants up to this one are over here. Their late
 * repetitions, and the words of their ends, are no words about the next offer.
 */
struct former {
    uint32_t rank;
    bool open; /* its part of the last offer was never taken: its next want is meant for that */
    uint64_t want;
    uint64_t refused; /* up to this one they were refused for good: the next offer does not serve them either */
};

struct formers {
    struct former *of; /* one a rank at most */
    uint32_t num;
    uint32_t untaken[BATON_CONSUMERS_MAX], num_untaken; /* ENDED: engines whose seats, which name them, nobody took */
};

struct attempt {
    struct request *request;
    uint32_t number;
    struct attempt *before, *behind; /* among the request's attempts */
    enum attempt_state state;
    struct queue waiters; /* AWAITED, ENDED: words for the next offer */
    struct formers formers;
    struct offer *offer;
    int error;                   /* ENDED */
    struct timer timer;          /* ENDED: it is forgotten */
    struct attempt *prev, *next; /* among those that ended */
};

struct attempts {
    struct request *requests;        /* by key */
    struct attempt *ended;           /* oldest first */
    uint32_t num_ended, num_formers; /* tombstones, and ranks whose wants are remembered */
};

/** It is as if it had never been, but for the words that wait there for the next offer. */
void attempt_forget(struct core *core, struct attempt *a);

/**
 * Whether the want was meant for the offer that ended. It is then remembered as one of that offer's, up to the limit.
 * Without attempts this is true of one want for each rank's part.
 */
bool former_was_meant(struct core *core, struct attempt *a, uint32_t rank, uint64_t want);
/** The most `struct former` that all tombstones keep together. Beyond that the oldest tombstones go. */
uint64_t formers_most(const struct core *core);
/** That rank has gone, and its engine with it. */
void former_forget(struct core *core, struct attempt *a, uint32_t rank);
void formers_free(struct core *core, struct attempt *a);

#endif
