/* SPDX-License-Identifier: BSD-3-Clause */
/* clock: one monotonic clock, in nanoseconds. The core never reads it: time is handed in. */
#ifndef BATON_BASE_CLOCK_H
#define BATON_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_NS_PER_S UINT64_C(1000000000)
#define CLOCK_NS_PER_MS UINT64_C(1000000)
#define CLOCK_NS_PER_US UINT64_C(1000)

static inline uint64_t clock_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/** So long before `at`; 0, where the clock began later. */
static inline uint64_t clock_before(uint64_t at, uint64_t ns)
{
    return at > ns ? at - ns : 0;
}

#endif
