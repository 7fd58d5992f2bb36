/* SPDX-License-Identifier: BSD-3-Clause */
/* load and quantiles: what waits counts, what failed is not in time, and the rates are those of the trace's clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "replay/load.h"

#define MS UINT64_C(1000000)

static void near(double found, double expected)
{
    assert_true(fabs(found - expected) <= 1e-9 * fabs(expected));
}

static void latency_runs_from_the_arrival(void **state)
{
    (void)state;
    /* It arrives 100 ms after the start, is called for 70 ms later, and takes 5. */
    const struct load_times t = load_times(1000 * MS, 1100 * MS, 1170 * MS, true, 5 * MS);
    assert_int_equal(t.late_ns, 70 * MS);
    assert_int_equal(t.latency_ns, 75 * MS);
    assert_int_equal(t.received_ns, 175 * MS);
    assert_int_equal(load_times(1000 * MS, 1100 * MS, 1170 * MS, false, 5 * MS).latency_ns, LOAD_FAILED);
    assert_int_equal(load_times(0, 7, 7, true, 0).latency_ns, 1); /* 0 would say that nobody wanted it */
}

static void a_point(void **state)
{
    (void)state;
    struct trace_request requests[5];
    const struct trace trace = {.count = 5, .requests = requests};
    struct load_times times[5];
    uint64_t room[5];
    for (uint32_t i = 0; i < 5;
         i++) { /* one each 100 ms of the trace: at speed 2 each 50 ms; each takes 10 ms longer */
        requests[i] = (struct trace_request){.arrival_ms = 1000 + 100 * i};
        times[i] = load_times(0, 50 * i * MS, 50 * i * MS, true, 10 * (i + 1) * MS);
    }
    const struct load_bytes bytes = {10000000000, 5000000000}; /* half of it came */
    const struct load l = load_point(&trace, 2, times, bytes, 30, room);
    near(l.offered_per_s, 20);
    near(l.offered_gb_per_s, 40);
    near(l.achieved_per_s, 5 / (0.25 + 0.05)); /* and the mean time between two arrivals */
    near(l.achieved_gb_per_s, 5 / 0.3);
    assert_int_equal(l.done, 5);
    assert_int_equal(l.in_time, 3); /* 10, 20 and 30 ms */
    near(l.in_time_per_s, 3 / 0.3);
    assert_int_equal(l.latency.p50_ns, 30 * MS);
    assert_int_equal(l.latency.p999_ns, 50 * MS);
    assert_int_equal(l.late.p999_ns, 0);
    times[0] = load_times(0, 0, 0, false, 10 * MS);
    assert_int_equal(l.failed, 0);
    assert_int_equal(load_point(&trace, 2, times, bytes, 30, room).in_time, 2);
    assert_int_equal(load_point(&trace, 2, times, bytes, 30, room).failed, 1);
    assert_int_equal(load_point(&trace, 2, times, bytes, 0, room).in_time, 0);
    for (uint32_t i = 0; i < 5; i++)
        requests[i].arrival_ms = 0;
    assert_true(load_point(&trace, 2, times, bytes, 30, room).offered_per_s == 0); /* all at one moment */
}

static void ranks_of_values(void **state)
{
    (void)state;
    static uint64_t values[10000];
    for (uint64_t i = 0; i < 10000; i++)
        values[i] = 10000 - i;
    const struct quantiles q = quantiles_of(values, 10000);
    assert_int_equal(q.p50_ns, 5000);
    assert_int_equal(q.p90_ns, 9000);
    assert_int_equal(q.p99_ns, 9900);
    assert_int_equal(q.p999_ns, 9990);
    assert_int_equal(quantiles_of(values, 0).p50_ns, 0);
    assert_int_equal(quantiles_of(values, 1).p50_ns, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latency_runs_from_the_arrival),
        cmocka_unit_test(a_point),
        cmocka_unit_test(ranks_of_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
