/* SPDX-License-Identifier: BSD-3-Clause */
/* matrix: see matrix.h. The loops over outputs are what a compiler vectorises: outputs are independent of each other,
   so the width of a vector changes no bit. This file must not be compiled with -ffast-math or with contraction. */
#include "engine/matrix.h"

#include <stdlib.h>
#include <string.h>

#define LANES 16                 /* outputs of a tile */
#define UNIT 4294967296.0        /* 2^32 */
#define ROUND 6755399441055744.0 /* 1.5 * 2^52: a number below 2^51 that is added is rounded as llrint rounds */

/* Where GCC can, one body for each width of vectors. Sanitizers are not ready when such a body is chosen. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__)
#define WIDTHS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDTHS
#endif

int matrix_init(struct matrix *m, uint32_t in, uint32_t out)
{
    const uint32_t stride = (out + LANES - 1) / LANES * LANES;
    *m = (struct matrix){.in = in, .out = out, .stride = stride};
    m->w = calloc((size_t)in * stride, sizeof *m->w);
    return m->w != NULL ? 0 : -1;
}

void matrix_fini(struct matrix *m)
{
    free(m->w);
    *m = (struct matrix){0};
}

static uint32_t lanes_of(const struct matrix *m, uint32_t first)
{
    return m->out - first < LANES ? m->out - first : LANES;
}

WIDTHS static void multiply_row(const struct matrix *m, const float *x, float *y)
{
    for (uint32_t o = 0; o < m->out; o += LANES) {
        float sum[LANES] = {0};
        for (uint32_t i = 0; i < m->in; i++) {
            const float *w = m->w + (size_t)i * m->stride + o;
            for (unsigned l = 0; l < LANES; l++)
                sum[l] += w[l] * x[i];
        }
        memcpy(y + o, sum, lanes_of(m, o) * sizeof *y);
    }
}

void matrix_multiply(const struct matrix *m, const float *x, uint32_t rows, float *y)
{
    for (uint32_t r = 0; r < rows; r++)
        multiply_row(m, x + (size_t)r * m->in, y + (size_t)r * m->out);
}

/* A double of 1.5 * 2^52 plus an integer has that integer in its low bits, and the same high bits for all integers. So
   bits are added, and the bits of ROUND are taken off once for each product at the end. */
WIDTHS static void sum_row(const struct matrix *m, const float *x, int64_t *sums)
{
    const double round = ROUND;
    uint64_t offset;
    memcpy(&offset, &round, sizeof offset);
    offset *= m->in;
    for (uint32_t o = 0; o < m->out; o += LANES) {
        uint64_t sum[LANES] = {0};
        for (uint32_t i = 0; i < m->in; i++) {
            const float *w = m->w + (size_t)i * m->stride + o;
            const double scaled = (double)x[i] * UNIT;
            double rounded[LANES];
            uint64_t bits[LANES];
            for (unsigned l = 0; l < LANES; l++)
                rounded[l] = (double)w[l] * scaled + ROUND;
            memcpy(bits, rounded, sizeof bits);
            for (unsigned l = 0; l < LANES; l++)
                sum[l] += bits[l];
        }
        for (unsigned l = 0; l < lanes_of(m, o); l++)
            sums[o + l] = (int64_t)(sum[l] - offset);
    }
}

void matrix_sum(const struct matrix *m, const float *x, uint32_t rows, int64_t *sums)
{
    for (uint32_t r = 0; r < rows; r++)
        sum_row(m, x + (size_t)r * m->in, sums + (size_t)r * m->out);
}

void matrix_add_sums(float *y, const int64_t *sums, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        y[i] += (float)((double)sums[i] / UNIT);
}
