/* SPDX-License-Identifier: BSD-3-Clause */
/* histogram: bucket bounds at every octave, and quantiles against a sorted array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "observe/histogram.h"

#define LARGEST (UINT64_MAX / 2) /* 2^63 - 1 */

static struct histogram *fresh(void)
{
    struct histogram *h = calloc(1, sizeof *h);
    assert_non_null(h);
    return h;
}

/* Whether `got` is not below the exact value, and above it by at most a sixteenth. */
static bool is_close(uint64_t got, uint64_t exact)
{
    return got >= exact && got - exact <= exact / 16;
}

/* The upper bound of the bucket that `value` counts in: a larger value keeps `max` from hiding it. */
static uint64_t top_of(uint64_t value)
{
    struct histogram *h = fresh();
    histogram_add(h, value);
    histogram_add(h, UINT64_MAX);
    const uint64_t top = histogram_quantile(h, 0.5);
    free(h);
    return top;
}

/* ---- buckets ----------------------------------------------------------------------------------------------------- */

static void small_values_are_exact(void **state)
{
    (void)state;
    for (uint64_t v = 0; v < 32; v++)
        assert_true(top_of(v) == v);
}

static void width_is_bounded_at_every_octave(void **state)
{
    (void)state;
    for (int e = 4; e < 63; e++) {
        const uint64_t octave = UINT64_C(1) << e;
        assert_true(is_close(top_of(octave - 1), octave - 1));
        assert_true(top_of(octave - 1) < octave);  /* a bucket never reaches into the next octave */
        const uint64_t bounded = e < 62 ? 16 : 15; /* the very last bucket has no upper bound */
        for (uint64_t sub = 0; sub < bounded; sub++) {
            const uint64_t least = octave + sub * (octave / 16);
            assert_true(top_of(least) == least + octave / 16 - 1);
            assert_true(top_of(least + octave / 16 - 1) == top_of(least));
        }
    }
}

/* All values above the last bounded bucket share one bucket, whose upper bound is the greatest value seen. */
static void largest_values_share_the_last_bucket(void **state)
{
    (void)state;
    static const uint64_t values[] = {LARGEST, LARGEST + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct histogram *h = fresh();
        histogram_add(h, values[i]);
        assert_int_equal(h->bucket[HISTOGRAM_BUCKETS - 1], 1);
        assert_true(histogram_quantile(h, 0.5) == values[i]);
        free(h);
    }
}

/* ---- quantiles --------------------------------------------------------------------------------------------------- */

static void empty_gives_zero(void **state)
{
    (void)state;
    struct histogram *h = fresh();
    assert_int_equal(histogram_quantile(h, 0.0), 0);
    assert_int_equal(histogram_quantile(h, 0.5), 0);
    assert_int_equal(histogram_quantile(h, 1.0), 0);
    free(h);
}

static void one_value_is_every_quantile(void **state)
{
    (void)state;
    struct histogram *h = fresh();
    histogram_add(h, 1000003);
    static const double shares[] = {0.0, 0.001, 0.5, 1.0};
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++)
        assert_int_equal(histogram_quantile(h, shares[i]), 1000003); /* cut at the maximum */
    free(h);
}

static void shares_outside_are_cut(void **state)
{
    (void)state;
    struct histogram *h = fresh();
    histogram_add(h, 3);
    histogram_add(h, 900);
    assert_int_equal(histogram_quantile(h, -1.0), 3);
    assert_int_equal(histogram_quantile(h, NAN), 3);
    assert_int_equal(histogram_quantile(h, 2.0), 900);
    free(h);
}

static void middle_of_few_values(void **state)
{
    (void)state;
    struct histogram *h = fresh();
    for (uint64_t v = 1; v <= 10; v++)
        histogram_add(h, v);
    assert_int_equal(histogram_quantile(h, 0.5), 5);
    assert_int_equal(histogram_quantile(h, 0.51), 6);
    assert_int_equal(histogram_quantile(h, 0.9), 9);
    assert_int_equal(histogram_quantile(h, 0.99), 10);
    free(h);
}

static uint64_t random_state;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* A random value, evenly spread over the octaves below 2^bits. */
static uint64_t random_value(unsigned bits)
{
    const uint64_t value = random_next();
    return value >> (64 - bits) >> (random_next() % bits);
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void expect_quantiles(const struct histogram *h, const uint64_t *sorted, size_t count)
{
    static const double shares[] = {0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0};
    uint64_t before = 0;
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        size_t rank = (size_t)ceil(shares[i] * (double)count);
        rank = rank > 0 ? rank : 1;
        const uint64_t got = histogram_quantile(h, shares[i]);
        assert_true(is_close(got, sorted[rank - 1]));
        assert_true(got >= before && got <= h->max);
        before = got;
    }
    assert_true(histogram_quantile(h, 1.0) == sorted[count - 1]);
}

static void quantiles_match_a_sorted_array(void **state)
{
    (void)state;
    enum { MOST = 5000 };
    static uint64_t values[MOST];
    random_state = 88172645463325252u;
    for (int trial = 0; trial < 60; trial++) {
        const size_t count = 1 + (size_t)(random_next() % MOST);
        const unsigned bits = 1 + (unsigned)(random_next() % 63);
        struct histogram *h = fresh();
        for (size_t i = 0; i < count; i++) {
            values[i] = random_value(bits);
            histogram_add(h, values[i]);
        }
        qsort(values, count, sizeof values[0], compare);
        assert_true(h->count == count);
        expect_quantiles(h, values, count);
        free(h);
    }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static void count_sum_and_max(void **state)
{
    (void)state;
    struct histogram *h = fresh();
    histogram_add(h, 10);
    histogram_add(h, 0);
    histogram_add(h, 7);
    assert_int_equal(h->count, 3);
    assert_int_equal(h->sum, 17);
    assert_int_equal(h->max, 10);
    histogram_add(h, UINT64_MAX);
    histogram_add(h, UINT64_MAX);
    assert_true(h->sum == UINT64_MAX); /* the sum stays there and does not wrap round */
    free(h);
}

static void merging_equals_adding_all(void **state)
{
    (void)state;
    struct histogram *all = fresh(), *a = fresh(), *b = fresh();
    random_state = 362436069u;
    for (int i = 0; i < 3000; i++) {
        const uint64_t value = random_value(40);
        histogram_add(all, value);
        histogram_add(i % 3 == 0 ? a : b, value);
    }
    histogram_merge(a, b);
    assert_memory_equal(a, all, sizeof *a);

    struct histogram *none = fresh();
    histogram_merge(a, none);
    assert_memory_equal(a, all, sizeof *a);
    free(none);
    free(all);
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_values_are_exact),
        cmocka_unit_test(width_is_bounded_at_every_octave),
        cmocka_unit_test(largest_values_share_the_last_bucket),
        cmocka_unit_test(empty_gives_zero),
        cmocka_unit_test(one_value_is_every_quantile),
        cmocka_unit_test(shares_outside_are_cut),
        cmocka_unit_test(middle_of_few_values),
        cmocka_unit_test(quantiles_match_a_sorted_array),
        cmocka_unit_test(count_sum_and_max),
        cmocka_unit_test(merging_equals_adding_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
