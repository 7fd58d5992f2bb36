/* SPDX-License-Identifier: BSD-3-Clause */
/* samples: percentiles by nearest rank; of several ways each has its turn, and the one with the least median counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "bench/samples.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_samples),
        cmocka_unit_test(the_best_way_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
