/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timer: deadlines of the core, in a pairing heap whose nodes lie in their owners: arming allocates nothing and cannot
 * fail, any timer can be moved or stopped at any time.
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
