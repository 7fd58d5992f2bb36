/* SPDX-License-Identifier: BSD-3-Clause */
/* with_set_clock: replaces the C library's clock, in a program of one file, by a time that the test sets. */
#ifndef BATON_TESTS_WITH_SET_CLOCK_H
#define BATON_TESTS_WITH_SET_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "base/clock.h"

static uint64_t now_ns = 1000 * CLOCK_NS_PER_S;

int clock_gettime(clockid_t id, struct timespec *t)
{
    (void)id;
    *t = (struct timespec){(time_t)(now_ns / CLOCK_NS_PER_S), (long)(now_ns % CLOCK_NS_PER_S)};
    return 0;
}

#endif
