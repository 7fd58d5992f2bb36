/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls: the calls that were accepted and have not ended. The core knows them too, but only the reactor may ask it.
 * This table lets another thread give calls up while the reactor is stuck inside MPI. Any thread, under one short
 * lock. The number of places is fixed.
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
 * Enters an offer or a want, and pushes it into the ring. end.place says where it was entered. False: the ring is full,
 * and it is as if the call had never been made. There is always a place: admission.h has counted.
 */
bool calls_submit(struct calls *c, struct call *call, struct ring *ring);

struct calls_end {
    baton_id_t id;
    baton_status_t status;
    int error;
};

/**
 * Fills `ends` with calls that calls_give_up gave up and that the core does not know of yet: each is returned once. A
 * call that is still in the ring is not in the core: ask calls_is_given_up when it is taken out.
 */
uint32_t calls_given_up(struct calls *c, struct calls_end *ends, uint32_t max);
bool calls_is_given_up(struct calls *c, uint32_t place);

/**
 * Whether an end or a GIVEN_UP of a call may be handed out. The end of a call that was given up is changed to say what
 * its GIVEN_UP said. False: the outcome is a GIVEN_UP, and the engine was told before; free it.
 */
bool calls_pass(struct calls *c, struct outcome *outcome);

/** Which calls are given up, and why. */
struct calls_reason {
    uint64_t due_ns; /* calls that were due by then; UINT64_MAX: all calls */
    baton_status_t status;
    int error;
    const char *detail;
};

/** Takes a GIVEN_UP. Called under the lock, so it must not wait. False: it cannot take it now. */
typedef bool (*calls_tell_fn)(void *arg, struct outcome *outcome);

/**
 * Makes a BATON_EVENT_GIVEN_UP for each of those calls that has none, and hands it to `tell`, under the lock, so that
 * no terminal event can overtake it. A call whose event `tell` does not take is not given up. Returns how many are.
 */
uint32_t calls_give_up(struct calls *c, uint64_t now, const struct calls_reason *why, calls_tell_fn tell, void *arg);

#endif
