/* SPDX-License-Identifier: BSD-3-Clause */
/* samples: percentiles by nearest rank; of several ways each has its turn, and the one with the least median counts.
   Intervals: the ranks that tables of the sign test give, the median, and how many intervals hold the true value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "bench/samples.h"

#define MOST 1000

#undef fail
/* samples.c ends by this where memory runs out. */
void fail(const char *format, ...) __attribute__((noreturn));
void fail(const char *format, ...)
{
    print_error("%s\n", format);
    abort();
}

static void percentiles_are_samples(void **state)
{
    struct samples s = {0};
    (void)state;
    assert_int_equal(samples_quantile(&s, 0.5), 0);
    for (uint64_t i = 1000; i > 0; i--)
        samples_add(&s, i);
    assert_int_equal(s.count, 1000);
    assert_int_equal(samples_quantile(&s, 0.5), 500);
    assert_int_equal(samples_quantile(&s, 0.999), 999);
    assert_int_equal(samples_quantile(&s, 1), 1000);
    assert_int_equal(samples_quantile(&s, 0.0001), 1);
    assert_true(samples_us(&s, 0.9) == 0.9);
    samples_fini(&s);
    assert_int_equal(s.count, 0);
}

static void the_best_way_counts(void **state)
{
    static const uint64_t ns[] = {30, 20, 0};
    struct ways w = {.num = 3};
    unsigned best = 9;
    (void)state;
    assert_int_equal(ways_best_ns(&w, &best), 0);
    assert_int_equal(best, 9);
    for (unsigned turn = 0; turn < 9; turn++) {
        const unsigned way = ways_next(&w);
        assert_int_equal(way, turn % 3);
        if (ns[way] > 0)
            samples_add(&w.of[way], ns[way] + turn);
    }
    assert_int_equal(ways_count(&w), 6);
    assert_int_equal(ways_best_ns(&w, &best), 24);
    assert_int_equal(best, 1);
    ways_reset(&w);
    assert_int_equal(ways_count(&w), 0);
    assert_int_equal(ways_next(&w), 0);
}

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
        int low, high;
    } cases[] = {{1, 1, 1},   {5, 1, 5},    {6, 1, 6},     {10, 2, 9},
                 {20, 6, 15}, {30, 10, 21}, {100, 40, 61}, {1000, 469, 532}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct interval found = of_ranks(cases[i].count);
        assert_int_equal(found.low, cases[i].low); /* ranks are whole numbers */
        assert_int_equal(found.high, cases[i].high);
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
        cmocka_unit_test(percentiles_are_samples),
        cmocka_unit_test(the_best_way_counts),
        cmocka_unit_test(ranks_are_those_of_the_sign_test),
        cmocka_unit_test(the_median_is_in_the_middle),
        cmocka_unit_test(most_intervals_hold_the_true_median),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
