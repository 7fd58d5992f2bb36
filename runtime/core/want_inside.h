/* SPDX-License-Identifier: BSD-3-Clause */
/* want_inside: a want's fields. For want.c, want_say.c, and tests that look inside. */
#ifndef BATON_CORE_WANT_INSIDE_H
#define BATON_CORE_WANT_INSIDE_H

#include "base/hash.h"
#include "core/ask.h"
#include "core/claim.h"
#include "core/leg.h"
#include "core/tail.h"
#include "core/timer.h"
#include "core/want.h"

enum want_state { WANT_QUEUED, WANT_AWAITING, WANT_ACTIVE, WANT_DRAINING };

/** A rank has at most one open want for each key, attempt and engine. */
struct want_name {
    char key[BATON_KEY_MAX];
    uint32_t attempt, engine;
};

struct want {
    struct ask ask;
    UT_hash_handle by_id; /* by ask.want */
    struct want_name name;
    UT_hash_handle by_name; /* from its engine being there until it is reported */
    enum want_state state;
    struct queued behind; /* QUEUED: its link */
    struct leg *legs;
    struct tail *tail;     /* what is zeroed behind its tokens; NULL: nothing, or done */
    bool claims;           /* its blocks: claim.h */
    bool leased;           /* ask.lease */
    bool never_told;       /* before any producer heard of it */
    bool told;             /* ranks without a leg know its end */
    struct timer timer;    /* its deadline; DRAINING: until it is given up */
    baton_status_t status; /* DRAINING: what it will end as */
    int32_t rank;          /* likewise: at which it failed; -1: at none */
    char detail[128];
};

struct wants {
    struct want *by_id;   /* in the order in which they came */
    struct want *by_name; /* those that have not been reported */
    struct queue told;    /* news of their legs */
    uint32_t num_legs;
    struct claims *claims; /* BATON_PARANOID; NULL: none yet */
};

/* ---- want_say.c -------------------------------------------------------------------------------------------------- */

/**
 * Tells every producer rank that holds a part of it how it ended (all ranks, before it is known which those are). Those
 * that never heard of the want get a RELEASE, so that an offer, here or still to come, does not wait for us. When the
 * want is given up, those are told whose legs are quiet, and at its end the others.
 */
void want_tell_end(struct core *core, struct want *want, int error);
/** Tells ranks of the producer's engine that nobody of mine reads. */
void want_tell_idle(struct core *core, const struct want *want, int error);

#endif
