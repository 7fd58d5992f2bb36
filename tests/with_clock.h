/* SPDX-License-Identifier: BSD-3-Clause */
/* with_clock: time; and calls that must succeed, for programs that a script or ctest judges by their output. */
#ifndef BATON_TESTS_WITH_CLOCK_H
#define BATON_TESTS_WITH_CLOCK_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "baton.h"

/** By the monotonic clock. */
static inline double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/** The processor time of this thread: other load on the machine does not count. */
static inline double thread_cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static inline void sleep_until(double ms)
{
    while (now_ms() < ms)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static inline void sleep_ms(double ms)
{
    sleep_until(now_ms() + ms);
}

/** Ends the process with status 3 if a call failed. */
static inline void check(int rank, int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, baton_errmsg());
    exit(3);
}

#endif
