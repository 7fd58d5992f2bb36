/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * latch: opens once and stays open; threads wait for that with a deadline. They sleep on a bell, since the C library's
 * own waits by the monotonic clock (sem_clockwait, pthread_clockjoin_np) are newer than the oldest glibc that Baton
 * supports.
 */
#ifndef BATON_BASE_LATCH_H
#define BATON_BASE_LATCH_H

#include <stdbool.h>

#include "base/bell.h"
#include "base/clock.h"

#define LATCH_LOOK_NS (50 * CLOCK_NS_PER_MS)

struct latch {
    struct bell bell;
    atomic_bool is_open;
};

static inline void latch_init(struct latch *l)
{
    bell_init(&l->bell);
    atomic_init(&l->is_open, false);
}

/** Whoever finds the latch open sees what the caller stored before. Any thread. */
void latch_open(struct latch *l);

/** True: it is open. False: clock_now_ns has passed `until_ns`. Any thread. */
bool latch_wait(struct latch *l, uint64_t until_ns);

/**
 * The same for so long at most. The time is counted in looks, not read from the clock, so that a pause of the whole
 * process counts as one look. Any thread.
 */
static inline bool latch_wait_for(struct latch *l, uint64_t ns)
{
    bool is_open = false;
    while (!is_open && ns > 0) {
        const uint64_t look = ns < LATCH_LOOK_NS ? ns : LATCH_LOOK_NS;
        is_open = latch_wait(l, clock_now_ns() + look);
        ns -= look;
    }
    return is_open;
}

#endif
