/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * admission: whether another call may be accepted. Every place that a call may need is counted here, and nowhere else.
 *
 * THE INVARIANT. Whatever an accepted call still has to tell has its place in the queue of events:
 *
 *     events in the queue, and events that open calls may still have  <=  places taken  <=  places that there are
 *
 * So the queue is never full when an event goes out, no call ends without one, and a poller that is slow, or never comes,
 * costs a bounded amount of memory. Places are taken and come back like this:
 *
 *   a call is accepted      takes a place for its end, one for a GIVEN_UP before that, and, where this rank hears
 *                           verdicts, one for its verdict. An offer or a pushed want also takes a lease.
 *   it ends                 its lease comes back, as the end leaves the core: before anyone can see the end
 *   an event is polled      its own place comes back; with an end, also the places of those events that cannot come any
 *                           more: the GIVEN_UP if there was none, the verdict if the end says that none follows
 *   a verdict on a call that this rank did not make ("stray") has a place of its own kind: BATON_REQUESTS of them wait to
 *                           be polled, further ones are lost
 *
 * Places are those of BATON_REQUESTS whole calls. A call whose GIVEN_UP was polled holds fewer than at first, and is open
 * all the same, so more calls than BATON_REQUESTS may be open: as many as there are places, since each holds one.
 *
 * Any thread. The counters order nothing: what travels with a call or an event is ordered by the rings.
 */
#ifndef BATON_FRONT_ADMISSION_H
#define BATON_FRONT_ADMISSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "baton.h"

struct admission {
    bool hears;    /* verdicts are told to this rank */
    uint32_t most; /* places of calls' events */
    uint32_t most_leases, most_strays;
    _Atomic uint32_t taken, leases, strays;
    _Atomic uint64_t refused; /* calls: BATON_EAGAIN */
};

void admission_init(struct admission *a, uint32_t requests, uint32_t leases, bool hears);

/** Verdicts are told to this rank. */
bool admission_hears(const struct admission *a);
/** How many calls may be open at once, and how many events may wait to be polled. */
uint32_t admission_most_calls(const struct admission *a);
uint32_t admission_most_events(const struct admission *a);

/** Takes the places of a call. 0, or BATON_EAGAIN with its sentence: the call is refused. */
int admission_take(struct admission *a, bool leased);
/** Gives them back: the call was not handed over after all. */
void admission_undo(struct admission *a, bool leased);

/** Refuses a call because `what` is at its limit, which `variable` raises. BATON_EAGAIN, always. */
int admission_refuse(struct admission *a, const char *what, const char *variable);

/** An event is about to go out, once. False: a stray verdict without a place. It is lost. */
bool admission_tell(struct admission *a, const baton_event_t *event);
/** An event that went out was polled. */
void admission_polled(struct admission *a, const baton_event_t *event);

/** Calls refused so far. */
uint64_t admission_refused(const struct admission *a);

#endif
