/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offer_inside: an offer's fields, and what its files call of each other. For offer.c, near.c, offer_serve.c and
 * offer_call.c.
 */
#ifndef BATON_CORE_OFFER_INSIDE_H
#define BATON_CORE_OFFER_INSIDE_H

#include "base/hash.h"
#include "core/attempt.h"
#include "core/lease.h"
#include "core/offer.h"
#include "core/timer.h"

enum offer_state { OFFER_LIVE, OFFER_DRAINING, OFFER_ENDED };

struct offer {
    struct attempt *attempt;
    enum offer_state state;
    struct call *call;
    baton_id_t id; /* the call's */
    UT_hash_handle by_id;
    struct lease lease;
    bool is_entered; /* ranks of this node may take it without a message */
    bool is_unheard; /* a word about it could not be heard yet */
    bool is_far;     /* it was granted to a rank that reads it over a far path */
    struct seats *seats;
    struct reach reach;    /* what is in place */
    uint8_t *ready;        /* of one in layers: bit i: so is my layer layer_first + i of tokens [done, next) */
    uint32_t pushes;       /* readers that are written to */
    struct timer timer;    /* LIVE: its time; DRAINING: until it is given up */
    baton_status_t status; /* DRAINING, ENDED: what it ends as */
    int error;             /* likewise */
};

struct offers {
    struct offer *by_id;    /* LIVE or DRAINING, by their calls' ids; in the order in which they came */
    struct offer **by_slot; /* by the slot of its lease: LIVE ones that are entered */
    uint32_t *near;         /* ranks of this node */
    uint32_t num_near, num_unheard;
    struct timer more_told; /* not all that ranks spoke of was heard */
};

/* near.c: ranks of this node, which take it without a message */

/** Its lease begins: whoever finds it may read. Offers in parts are found by message. */
void near_enter(struct core *core, struct offer *o);
/** It ends: who reads by then finds another generation, and why. */
void near_leave(struct core *core, const struct offer *o, int error);
/** Acts on a rank's word as on its messages. False: it is not known yet which ranks of its engine read. */
bool near_hear_word(struct core *core, struct offer *o, uint32_t rank, const struct handoff_word *w);
/** Hears all words of this node about it. */
void near_hear(struct core *core, struct offer *o);

/* offer.c */

struct offer *offer_of(const struct core *core, baton_id_t id);
/** The offer of that attempt, if it is open; NULL: it is not. */
struct offer *offer_find(const struct core *core, const char *key, uint32_t attempt);
/** One that is LIVE, with its lease raised, and known to its attempt. NULL: no memory. */
struct offer *offer_create(struct core *core, struct attempt *a, struct call *call, const struct lease *lease);
/** Its time is over then. */
void offer_until(struct core *core, struct offer *o, uint64_t due_ns);
bool offer_is_whole(const struct offer *o);

/** The same, for its caller's fault. */
void offer_fail(struct core *core, struct offer *o, int error, const char *detail);
/** A reader with nothing in flight has ended; with the last, the offer ends. */
void offer_close_reader(struct core *core, struct offer *o, struct reader *r, int32_t error);
/** Nothing is written to that reader any more. */
void offer_drop_push(struct core *core, struct offer *o, struct reader *r);
/** What became of a push of it. */
void offer_on_push(struct core *core, struct offer *o, struct push_end end);

/* offer_serve.c */

/** A word that came before it meets it, LIVE or not. */
void offer_meet(struct core *core, struct offer *o, const struct word *w);
/** Readers that were granted it hear that more is in place. */
void offer_tell_reach(struct core *core, struct offer *o);

#endif
