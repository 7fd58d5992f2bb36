/* SPDX-License-Identifier: BSD-3-Clause */
/* clock: this rank's monotonic time. All processes of one machine have the same clock. Only one figure compares it
   between ranks, and only if all ranks are on one machine (result.c). */
#ifndef REPLAY_CLOCK_H
#define REPLAY_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

static inline uint64_t clock_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static inline void clock_sleep_ns(uint64_t ns)
{
    const struct timespec ts = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    nanosleep(&ts, NULL);
}

#endif
