/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timer: deadlines of the core, in a pairing heap whose nodes lie in their owners: arming allocates nothing and cannot
 * fail, any timer can be moved or stopped at any time.
 *
 * WHEN A TIMER MAY FIRE. A timer that fires concludes that something has not come. But a turn takes a bounded part of
 * what has come, and this process may have been stopped. So core_step fires only timers that were due by the beginning
 * of the last look that ended (front/reactor.h, core/path.h): all that had come by then was handled. What a turn
 * bounds, and why no timer acts on what is left behind:
 *
 *   the queue of calls (front/reactor.c)        ready and append begin an offer's time anew. A look takes them all
 *   messages of this node (shm/lanes.c)         deadlines, silence, pauses. A look takes them all, of each sender
 *   messages by MPI (mpi/control.c)             the same. MPI does not say how many came: a look ends when none is
 *                                               left, or after as many as all ranks have credits for, 4,096 at most
 *   a rank that no message reaches              it is lost by a try that failed after its time, when what came from it
 *   (mpi/outbox.c)                              was read. This is no timer of the core's
 *   ends of copies and other answers (shm.c,    deadlines, patience with blocks that are not quiet, silence of who
 *   staged.c, mpi/rma.c)                        holds a budget. A look takes them all
 *   parked operations, one a turn (mpi/rma.c)   the same, but no look waits: they have been open for park_ms, and
 *                                               a silent rank must not hold up the timers of others
 *   slots that were lent (staged/slots.c)       taken back by the clock: its reader finds the generation raised
 *   words of readers (offer.c, HEARD_A_STEP)    an offer's time, and a loss. Each offer reads its own words first
 *   who reads (survey.c, LOOKS_A_STEP)          words wait until it is known. Meanwhile an offer's time goes on, for
 *                                               quiet_ms at most
 *   links, bytes, hashes, zeros, messages that  deadlines. Nothing that came waits here: it is this rank's own work
 *   wait for credits (link.c, mover.c, post.c)  that is not done in time
 *
 * A look ends soon, whoever sends without end: every queue has a bound, and only what lay there at its beginning counts
 * (base/look.h). So a timer fires late by the turns that a look takes. Whatever a timer compares with the time, it
 * compares with core->timers.heard_ns, not with core->now.
 */
#ifndef BATON_CORE_TIMER_H
#define BATON_CORE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct core;

struct timer {
    uint64_t due_ns;
    void (*fire)(struct core *core, struct timer *timer);
    struct timer *child, *next, *prev; /* prev: the left sibling, or the parent of a first child */
    bool armed;
};

struct timers {
    struct timer *root;
    uint64_t heard_ns; /* all that had come by then was handled */
};

/** Arms the timer, or moves it if it is armed. It fires once. */
void timer_arm(struct timers *t, struct timer *timer, uint64_t due_ns,
               void (*fire)(struct core *core, struct timer *timer));
/** No-op where it is not armed. */
void timer_stop(struct timers *t, struct timer *timer);
/** Takes the next timer due at `now`, disarmed; NULL: none. */
struct timer *timer_due(struct timers *t, uint64_t now);
/** UINT64_MAX: none armed. */
uint64_t timer_next(const struct timers *t);

#endif
