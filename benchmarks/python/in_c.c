/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * in_c: the calls that benchmarks/python/calls measures, timed in C on the same context, so that both are measured
 * under the same conditions. Called by Python through cffi; only what lies between the two clocks counts.
 */
#include <baton.h>
#include <time.h>

BATON_API uint64_t in_c_want(baton_t *b, const baton_want_params_t *params, int *rc);
BATON_API uint64_t in_c_poll(baton_t *b, baton_event_t *events, int max, int times);

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The nanoseconds of one baton_want. */
uint64_t in_c_want(baton_t *b, const baton_want_params_t *params, int *rc)
{
    uint64_t begin = now_ns();
    *rc = baton_want(b, params, NULL);
    return now_ns() - begin;
}

/* The nanoseconds of that many calls of baton_poll while no event waits. */
uint64_t in_c_poll(baton_t *b, baton_event_t *events, int max, int times)
{
    uint64_t begin = now_ns();
    for (int i = 0; i < times; i++)
        if (baton_poll(b, events, max) != 0)
            return 0;
    return now_ns() - begin;
}
