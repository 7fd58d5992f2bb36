/* SPDX-License-Identifier: BSD-3-Clause */
/* clock: the monotonic clock, in nanoseconds. The core never reads it: its callers hand it the time. */
#ifndef BATON_BASE_CLOCK_H
#define BATON_BASE_CLOCK_H

#include <errno.h>
#include <stdint.h>
#include <time.h>

#define CLOCK_NS_PER_S UINT64_C(1000000000)
#define CLOCK_NS_PER_MS UINT64_C(1000000)
#define CLOCK_NS_PER_US UINT64_C(1000)

static inline uint64_t clock_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * CLOCK_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/** The time `ns` before `at`; 0 where the clock began after that. */
static inline uint64_t clock_before(uint64_t at, uint64_t ns)
{
    return at > ns ? at - ns : 0;
}

/** Sleeps until that moment, whatever signals come. */
static inline void clock_sleep_until(uint64_t at)
{
    const struct timespec until = {(time_t)(at / CLOCK_NS_PER_S), (long)(at % CLOCK_NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

#endif
