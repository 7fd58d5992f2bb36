/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * admission: whether another call may be accepted. Every place that a call may need is counted here, and nowhere else.
 *
 * THE INVARIANT. Every event that an accepted call may still have has its place in the queue of events:
 *
 *     events in the queue + events that may still come of accepted calls  <=  places taken  <=  places that there are
 *
 * So the queue is never full when an event goes out, every call ends in an event, and a slow poller costs a bounded
 * amount of memory. Places are taken and given back as follows:
 *
 *   a call is accepted   It takes a place for its end, one for a GIVEN_UP before that, and one for its verdict if this
 *                        rank hears verdicts. An offer or a pushed want also takes a lease.
 *   a call ends          Its lease is given back, before any thread can see the end.
 *   an event is polled   Its place is given back. An end also gives back the places of events that cannot come any
 *                        more: the GIVEN_UP if there was none, and the verdict if the end says that none follows.
 *
 * A verdict on a call that this rank did not make is foreign. Foreign verdicts have places of their own: BATON_REQUESTS
 * of them wait to be polled, further ones are lost.
 *
 * There are places for BATON_REQUESTS whole calls. Once the GIVEN_UP of a call was polled, the call holds fewer places
 * and is still open. So more than BATON_REQUESTS calls may be open, but never more than there are places.
 *
 * Any thread. The counters are relaxed, since they order nothing: queues order what travels with a call or an event.
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
    uint32_t most_leases, most_foreign;
    _Atomic uint32_t taken, leases, foreign;
    _Atomic uint64_t refused; /* calls that got BATON_EAGAIN */
    _Atomic uint64_t last_id; /* that was given; 0: none */
};

void admission_init(struct admission *a, uint32_t requests, uint32_t leases, bool hears);

/** Whether this rank hears verdicts. */
bool admission_hears(const struct admission *a);
/** How many calls may be open at once, and how many events may wait to be polled. */
uint32_t admission_most_calls(const struct admission *a);
uint32_t admission_most_events(const struct admission *a);

/** Takes the places of a call. 0, or BATON_EAGAIN: the call is refused. */
int admission_take(struct admission *a, bool leased);
/** A new id, for a call that has its places. Ids count up from 1. */
baton_id_t admission_id(struct admission *a);
bool admission_gave(const struct admission *a, baton_id_t id);
/** Gives all of them back: the call was not handed over. */
void admission_undo(struct admission *a, bool leased);

/** Refuses a call: `what` says which limit it met, `variable` raises that limit. Returns BATON_EAGAIN. */
int admission_refuse(struct admission *a, const char *what, const char *variable);

/** Called once for each event, before it goes out. False: it is a foreign verdict without a place, and is lost. */
bool admission_tell(struct admission *a, const baton_event_t *event);
/** Called once for each event that was polled. */
void admission_polled(struct admission *a, const baton_event_t *event);

/** Calls refused so far. */
uint64_t admission_refused(const struct admission *a);

#endif
