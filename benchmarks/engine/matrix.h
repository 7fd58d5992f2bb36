/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matrix: the model's products, y = x W, computed so that every cut of W over ranks gives the same bits.
 *
 *   columns cut over ranks   each output is one sum over all inputs, in their order, in float. A rank computes whole
 *                            outputs, so the cut changes nothing.
 *   rows cut over ranks      each output is a sum of which every rank has a part. The parts are added as 64-bit
 *                            integers, in units of 2^-32, and integers have no order of addition.
 *
 * One product of two floats has 48 bits and is exact in double. It is rounded to a multiple of 2^-32, by itself, so
 * that the rounding does not depend on the cut either.
 *
 * THE BOUND. A product p must be below 2^19, and the sum of all |p| below 2^31. With n hidden channels (at most 4,096)
 * and f columns of the MLP (at most 16,384):
 *
 *   - Weights of a matrix with m inputs are at most sqrt(3/m), gains of a norm at most 3/2 (weights.h).
 *   - A normed vector has a root mean square of 1, so the sum of its |x| is at most n, and with gains 3n/2. A product
 *     with W of n inputs is then at most sqrt(3/n) * 3n/2 = 1.5 sqrt(3n).
 *   - Attention gives means of values: a channel is at most 1.5 sqrt(3n). The sum over n inputs of the projection is at
 *     most n * sqrt(3/n) * 1.5 sqrt(3n) = 4.5 n <= 18,432.
 *   - silu(g) * u is at most |g| |u| <= 2.25 * 3n = 6.75 n <= 27,648. One product with W is at most 27,648 * sqrt(3/f),
 *     below 2^16. The sum over f inputs is at most 6.75 n sqrt(3f) <= 6,129,372, below 2^23.
 *
 * The roundings of float add a few parts in a million, and one product's rounding at most 2^-33. A NaN, from a page
 * that nobody filled, becomes a number far outside these bounds.
 */
#ifndef ENGINE_MATRIX_H
#define ENGINE_MATRIX_H

#include <stdint.h>

/** W[in][out], rows of `stride` floats, zeros behind `out`. */
struct matrix {
    uint32_t in, out, stride;
    float *w;
};

/** Zeros. 0, or -1 for want of memory. Zero the struct first, so that matrix_fini is always allowed. */
int matrix_init(struct matrix *m, uint32_t in, uint32_t out);
void matrix_fini(struct matrix *m);

/** y[r][out] = x[r][in] W, in float. */
void matrix_multiply(const struct matrix *m, const float *x, uint32_t rows, float *y);

/** sums[r][out] = x[r][in] W, in units of 2^-32. */
void matrix_sum(const struct matrix *m, const float *x, uint32_t rows, int64_t *sums);

/** y[i] += sums[i] * 2^-32. */
void matrix_add_sums(float *y, const int64_t *sums, uint64_t count);

#endif
