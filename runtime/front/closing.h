/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * closing: how a context ends. Its first part needs no other rank: offers are retracted, all calls end, and the context
 * comes to rest, so that nothing touches its blocks any more. What follows depends on what it stands on:
 *
 *   a world   it leaves that together with all ranks (departure.h), which says how long both parts may take
 *   none      it leaves alone: it waits for its rest for quiet_ms at most, tells its peers (LEAVE), rested or not, and
 *             waits for nobody
 *
 * For calls that were given up, once no others are left, it waits two seconds at most.
 *
 * Whoever makes turns calls closing_begin and closing_step; the thread that closes the context calls the others.
 */
#ifndef BATON_FRONT_CLOSING_H
#define BATON_FRONT_CLOSING_H

#include <stdbool.h>
#include <stdint.h>

#include "front/departure.h"

struct baton;

struct closing {
    bool begun;
    bool has_told;              /* without a world: peers know that this context leaves */
    uint64_t until_ns;          /* without a world: when it stops waiting */
    uint64_t given_up_ns;       /* when it stops waiting for calls that were given up */
    uint64_t looked_ns;         /* the last step, or the beginning */
    struct departure departure; /* with a world */
};

/** Before the turns are stopped. */
void closing_prepare(struct baton *b);

/** Ends all transfers. Turns go on. */
void closing_begin(struct baton *b, uint64_t now);

/** After each turn. 0: turns may stop. BATON_EAGAIN: they must go on. BATON_EPEER: they stop, and it is not at rest. */
int closing_step(struct baton *b, uint64_t now);

static inline bool closing_has_begun(const struct closing *c)
{
    return c->begun;
}

/**
 * Turns have stopped, with that result of the last step, or BATON_EPEER where a turn does not end. 0: the context's
 * parts may be freed. BATON_EPEER, with an error sentence: nothing may be, since something still uses it.
 */
int closing_check(struct baton *b, int rest);

/**
 * Then its parts were freed, but for `local` (paths_destroy): frees what it stands on, and returns what baton_close
 * does.
 */
int closing_end(struct baton *b, int local);

#endif
