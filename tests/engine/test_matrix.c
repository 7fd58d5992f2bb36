/* SPDX-License-Identifier: BSD-3-Clause */
/* matrix: sums against naive ones, and parts of sums that add up to the same bits however they were cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/matrix.h"
#include "engine/scalar.h"
#include "replay/random.h"

static float number(uint64_t *state)
{
    return (float)((double)(random_next(state) >> 40) / 8388608.0 - 1.0);
}

static struct matrix random_matrix(uint32_t in, uint32_t out, uint64_t seed)
{
    struct matrix m = {0};
    assert_int_equal(matrix_init(&m, in, out), 0);
    for (uint32_t i = 0; i < in; i++)
        for (uint32_t o = 0; o < out; o++)
            m.w[(size_t)i * m.stride + o] = number(&seed);
    return m;
}

static void products_are_in_order(void **state)
{
    (void)state;
    for (uint32_t out = 1; out < 40; out += 3) {
        const uint32_t in = 75, rows = 5;
        struct matrix m = random_matrix(in, out, out);
        float x[5 * 75], y[5 * 40];
        uint64_t seed = 7;
        for (uint32_t i = 0; i < rows * in; i++)
            x[i] = number(&seed);
        matrix_multiply(&m, x, rows, y);
        for (uint32_t r = 0; r < rows; r++)
            for (uint32_t o = 0; o < out; o++) {
                float sum = 0;
                for (uint32_t i = 0; i < in; i++)
                    sum += m.w[(size_t)i * m.stride + o] * x[r * in + i];
                assert_memory_equal(&sum, &y[r * out + o], sizeof sum);
            }
        matrix_fini(&m);
    }
}

/* Against llrint of each product, for values up to the bound. */
static void sums_are_those_of_llrint(void **state)
{
    (void)state;
    const uint32_t in = 300, out = 21;
    for (int exponent = -40; exponent <= 18; exponent++) {
        struct matrix m = random_matrix(in, out, 3);
        float x[300];
        int64_t sums[21];
        uint64_t seed = (uint64_t)exponent;
        for (uint32_t i = 0; i < in; i++)
            x[i] = ldexpf(number(&seed), exponent);
        matrix_sum(&m, x, 1, sums);
        for (uint32_t o = 0; o < out; o++) {
            int64_t sum = 0;
            for (uint32_t i = 0; i < in; i++)
                sum += llrint((double)m.w[(size_t)i * m.stride + o] * (double)x[i] * 4294967296.0);
            assert_int_equal(sums[o], sum);
        }
        matrix_fini(&m);
    }
}

/* The rows of a matrix, cut at random places over any number of ranks. */
static void parts_add_up(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int round = 0; round < 200; round++) {
        const uint32_t in = 2 + random_below(&seed, 100), out = 1 + random_below(&seed, 40);
        struct matrix m = random_matrix(in, out, random_next(&seed));
        float x[102];
        int64_t whole[40], sum[40] = {0}, part[40];
        for (uint32_t i = 0; i < in; i++)
            x[i] = 100 * number(&seed);
        matrix_sum(&m, x, 1, whole);
        for (uint32_t from = 0, rows; from < in; from += rows) {
            rows = 1 + random_below(&seed, in - from);
            const struct matrix cut = {.in = rows, .out = out, .stride = m.stride, .w = m.w + (size_t)from * m.stride};
            matrix_sum(&cut, x + from, 1, part);
            for (uint32_t o = 0; o < out; o++)
                sum[o] += part[o];
        }
        assert_memory_equal(sum, whole, out * sizeof *sum);
        matrix_fini(&m);
    }
}

static void a_nan_is_seen(void **state)
{
    (void)state;
    struct matrix m = random_matrix(8, 3, 1);
    float x[8] = {1, 1, 1, NAN, 1, 1, 1, 1}, y[3] = {0};
    int64_t sums[3];
    matrix_sum(&m, x, 1, sums);
    matrix_add_sums(y, sums, 3);
    for (int o = 0; o < 3; o++)
        assert_true(fabsf(y[o]) > 1e8F);
    matrix_multiply(&m, x, 1, y);
    for (int o = 0; o < 3; o++)
        assert_true(isnan(y[o]));
    matrix_fini(&m);
}

static void functions_are_close(void **state)
{
    (void)state;
    for (double x = -86.9; x <= 0; x += 0.0137) {
        assert_true(fabs(scalar_exp((float)x) / exp((double)(float)x) - 1) < 1.3e-7);
        const double at = x + 43, silu = (double)(float)at / (1 + exp(-(double)(float)at));
        assert_true(fabs(scalar_silu((float)at) - silu) < 4e-7 * (fabs(silu) + 1e-3));
    }
    assert_true(scalar_exp(0) == 1.0F);
    assert_true(scalar_exp(-INFINITY) == 0.0F && scalar_exp(-100) == 0.0F);
    assert_true(isnan(scalar_exp(NAN)) && isnan(scalar_silu(NAN)));
    float x[4] = {3, -3, 3, -3}, gain[4] = {1, 1, 0.5F, 1}, out[4];
    scalar_norm(x, gain, 4, out);
    assert_true(fabsf(out[0] - 1) < 1e-6F && fabsf(out[1] + 1) < 1e-6F && fabsf(out[2] - 0.5F) < 1e-6F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_in_order), cmocka_unit_test(sums_are_those_of_llrint),
        cmocka_unit_test(parts_add_up),          cmocka_unit_test(a_nan_is_seen),
        cmocka_unit_test(functions_are_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
