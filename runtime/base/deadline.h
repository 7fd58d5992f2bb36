/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deadline: of a loop that looks again and again, at least every DEADLINE_PAUSE_NS. Where it looks later than
 * that, its process was paused (SIGSTOP, a frozen cgroup, a machine that slept), perhaps together with those that it
 * waits for: such a time does not count.
 */
#ifndef BATON_BASE_DEADLINE_H
#define BATON_BASE_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define DEADLINE_PAUSE_NS CLOCK_NS_PER_S

struct deadline {
    uint64_t until_ns, looked_ns; /* by clock_now_ns */
};

static inline struct deadline deadline_in(uint64_t now, uint64_t ms)
{
    return (struct deadline){now + ms * CLOCK_NS_PER_MS, now};
}

/** A look at `now`: for how long the process was paused since the one before, which *looked_ns is of. */
static inline uint64_t deadline_pause_ns(uint64_t *looked_ns, uint64_t now)
{
    const uint64_t paused = now > *looked_ns + DEADLINE_PAUSE_NS ? now - *looked_ns : 0;
    *looked_ns = now;
    return paused;
}

/** A look at `now`. True: the time is over. */
static inline bool deadline_is_past(struct deadline *p, uint64_t now)
{
    p->until_ns += deadline_pause_ns(&p->looked_ns, now);
    return now > p->until_ns;
}

#endif
