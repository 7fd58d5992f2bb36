/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ask: what the legs of one want share: what is wanted of every rank that serves it, whom it was wanted of, and what
 * they report to the want. A plain record that is part of the want (want.c), which begins and ends it; legs read it,
 * and change it by the functions below.
 */
#ifndef BATON_CORE_ASK_H
#define BATON_CORE_ASK_H

#include "core/call.h"
#include "core/lease.h"
#include "core/link.h"
#include "wire/message.h"

/** A rank that a leg was taken away from. */
struct ask_left {
    uint32_t rank;
    uint64_t generation; /* of the lease that it granted; 0: of none */
};

/** Why the want cannot go on. */
struct ask_failure {
    int error; /* 0: it can */
    int32_t rank;
    char detail[128];
};

struct ask {
    uint64_t want; /* its number: the call's id */
    struct call *call;
    struct link *link;
    struct lease lease; /* push: my block table */
    bool is_far;        /* a rank that reads it over a far path was told of it */
    bool is_over;       /* the want has failed: its legs turn to no other rank */
    int error;          /* then: why */
    uint32_t num_legs, fenced, closed;
    uint32_t attached_by;  /* the leg whose producer's attached bytes the event has; UINT32_MAX: it has none */
    uint32_t *ranks;       /* by leg: the one that it is with */
    struct ask_left *left; /* ranks that legs were taken away from */
    uint32_t num_left;
    struct ask_failure failure; /* of the first leg that failed */
    struct queue *told;         /* the want's files look there */
    struct queued news;         /* a leg failed, is fenced or is closed */
};

/** For the legs of its link. 0 or BATON_ENOMEM. */
int ask_begin(struct ask *ask);
void ask_fini(struct ask *ask);

/** Until the want's deadline; at least 1. */
uint32_t ask_left_ms(const struct core *core, const struct ask *ask);
/** A leg is, or was, with that rank. */
bool ask_knows(const struct ask *ask, uint32_t rank);
/** Leg i goes to that rank. `left`: what it leaves behind. False: no memory. */
bool ask_turn(struct ask *ask, uint32_t i, const struct ask_left *left, uint32_t rank);
/**
 * Sends that rank the word of the want's end until it is answered. DONE and CANCEL name the lease that the rank
 * granted. Where none is known (0), RELEASE names the offer as the want did: by key and attempt.
 */
void ask_tell_end(struct core *core, const struct ask *ask, uint32_t rank, uint64_t generation, int error);

/** The offer of that leg has these attached bytes. The event has those of the first leg in order that has any. */
void ask_take_attached(struct ask *ask, uint32_t leg, const struct wire_bytes *attach);

/** The want is to look at its legs. */
void ask_tell(struct ask *ask);
/** A leg cannot go on, and the want is told. The first reason counts. */
void ask_fail(struct ask *ask, uint32_t rank, int error, const char *detail);

#endif
