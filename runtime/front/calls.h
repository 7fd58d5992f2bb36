/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls: the calls that were accepted and have not ended, known outside of the protocol core too: so that when the
 * reactor is stuck inside MPI, another thread can tell that they are given up. A short lock; a fixed number of places.
 */
#ifndef BATON_FRONT_CALLS_H
#define BATON_FRONT_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ring.h"
#include "core/core.h"

struct calls;

/** NULL: out of memory. */
struct calls *calls_create(uint32_t most);
void calls_destroy(struct calls *c);

/**
 * Enters an offer or a want and hands it over: pushes it into the ring. end.place says where it is. False: the ring is
 * full, and the call never was. There is a place for each: the caller has counted. Any thread.
 */
bool calls_submit(struct calls *c, struct call *call, struct ring *ring);

struct calls_end {
    baton_id_t id;
    baton_status_t status;
    int error;
};

/**
 * The calls that calls_give_up told of, and that the core has not been told to end yet: each is given once. A call that
 * is still in the ring is not in the core: calls_is_given_up says so when it is taken.
 */
uint32_t calls_given_up(struct calls *c, struct calls_end *ends, uint32_t max);
bool calls_is_given_up(struct calls *c, uint32_t place);

/**
 * An end or a GIVEN_UP of a call is about to be handed out. True: it goes out as it is, or as it was changed: a terminal
 * event after calls_give_up says what that said. False: it is a GIVEN_UP that was told already; free it.
 */
bool calls_pass(struct calls *c, struct outcome *outcome);

/** Why calls are given up: of all, or of those whose time was over at due_ns. */
struct calls_reason {
    uint64_t due_ns; /* UINT64_MAX: of all */
    baton_status_t status;
    int error;
    const char *detail;
};

/** Takes a GIVEN_UP, under the lock: must not wait. False: it cannot be told now, and stays the caller's. */
typedef bool (*calls_tell_fn)(void *arg, struct outcome *outcome);

/**
 * Makes a BATON_EVENT_GIVEN_UP for each call that has none, and tells it; a call of which it cannot be told is not given
 * up. Told under the lock, so that no terminal event can overtake it. Returns how many. Any thread.
 */
uint32_t calls_give_up(struct calls *c, uint64_t now, const struct calls_reason *why, calls_tell_fn tell, void *arg);

#endif
