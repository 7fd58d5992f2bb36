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

#endif
