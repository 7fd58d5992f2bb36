/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls: the calls that were accepted and have not ended. The core knows them too, but only whoever makes turns may ask
 * it. This table lets another thread give calls up while no turns are made. Any thread. No lock: a thread of the engine
 * that is taken off its CPU in here, at whatever point, holds up no other thread. The number of places is fixed.
 */
#ifndef BATON_FRONT_CALLS_H
#define BATON_FRONT_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mpsc.h"
#include "core/core.h"

struct calls;

/** NULL: out of memory. */
struct calls *calls_create(uint32_t most);
void calls_destroy(struct calls *c);

/**
 * Enters an offer or a want, and pushes it into the queue. end.place says where it was entered. False: the queue is
 * full, and it is as if the call had never been made. There is always a place: admission.h has counted.
 */
bool calls_submit(struct calls *c, struct call *call, struct mpsc *queue);

struct calls_end {
    baton_id_t id;
    baton_status_t status;
    int error;
};

/**
 * Fills `ends` with calls that calls_give_up gave up and that the core does not know of yet: each is returned once. A
 * call that is still in the queue is not in the core: ask calls_is_given_up when it is taken out. Whoever makes turns.
 */
uint32_t calls_given_up(struct calls *c, struct calls_end *ends, uint32_t max);
bool calls_is_given_up(struct calls *c, uint32_t place);

/** What becomes of an outcome that the core has handed out. */
enum calls_passing {
    CALLS_PASS,      /* the engine is told */
    CALLS_HELD_BACK, /* a GIVEN_UP, and the engine was told before: free it */
    CALLS_LATER      /* another thread is about to tell the engine that the call is given up: ask again */
};

/**
 * What becomes of an end or a GIVEN_UP of a call. The end of a call that was given up is changed to say what its
 * GIVEN_UP said. Whoever makes turns.
 */
enum calls_passing calls_pass(struct calls *c, struct outcome *outcome);

/** Which calls are given up, and why. */
struct calls_reason {
    uint64_t judged_ns, due_ns; /* calls that were due after the first and by the second; 0, UINT64_MAX: all calls */
    bool wants_only;            /* an offer's time may have moved on by what no turn has heard yet */
    baton_status_t status;
    int error;
    const char *detail;
};

/** Takes a GIVEN_UP. The end of the call waits meanwhile, so it must not wait. False: it cannot take it now. */
typedef bool (*calls_tell_fn)(void *arg, struct outcome *outcome);

/**
 * Makes a BATON_EVENT_GIVEN_UP for each of those calls that has none, and hands it to `tell`, before the call's end can
 * pass. A call whose event `tell` does not take is not given up. Returns how many are.
 */
uint32_t calls_give_up(struct calls *c, uint64_t now, const struct calls_reason *why, calls_tell_fn tell, void *arg);

/** When the next want is due that is due after `after_ns`, among those that are not given up; UINT64_MAX: none is. */
uint64_t calls_next_due_ns(struct calls *c, uint64_t after_ns);

#endif
