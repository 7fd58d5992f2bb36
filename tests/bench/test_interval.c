/* SPDX-License-Identifier: BSD-3-Clause */
/* interval: the ranks that tables of the sign test give, the median, and how many intervals hold the true value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "bench/interval.h"

#define MOST 1000

/* 1 to count, the greatest first. */
static struct interval of_ranks(size_t count)
{
    static double values[MOST];
    for (size_t i = 0; i < count; i++)
        values[i] = (double)(count - i);
    return interval_of(values, count);
}

static void ranks_are_those_of_the_sign_test(void **state)
{
    static const struct {
        size_t count;
        double low, high;
    } cases[] = {{1, 1, 1},   {5, 1, 5},    {6, 1, 6},     {10, 2, 9},
                 {20, 6, 15}, {30, 10, 21}, {100, 40, 61}, {1000, 469, 532}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct interval found = of_ranks(cases[i].count);
        if (found.low != cases[i].low || found.high != cases[i].high)
            fail_msg("%zu values: %g to %g, not %g to %g", cases[i].count, found.low, found.high, cases[i].low,
                     cases[i].high);
    }
}

static void the_median_is_in_the_middle(void **state)
{
    (void)state;
    assert_true(of_ranks(1).median == 1);
    assert_true(of_ranks(2).median == 1.5);
    assert_true(of_ranks(21).median == 11);
    assert_true(of_ranks(20).median == 10.5);
}

static void most_intervals_hold_the_true_median(void **state)
{
    uint32_t random = 1;
    unsigned held = 0;
    (void)state;
    for (unsigned round = 0; round < 2000; round++) {
        double values[20];
        for (unsigned i = 0; i < 20; i++) {
            random = random * 1664525u + 1013904223u;
            values[i] = (double)random / 4294967296.0 - 0.5;
        }
        const struct interval found = interval_of(values, 20);
        held += found.low <= 0 && 0 <= found.high;
    }
    assert_in_range(held, 1880, 1960); /* 95.9 % of 2,000, and four standard deviations */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_those_of_the_sign_test),
        cmocka_unit_test(the_median_is_in_the_middle),
        cmocka_unit_test(most_intervals_hold_the_true_median),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
