/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scalar: the model's functions of single numbers. They are written here, with the operations that IEEE 754 rounds
 * exactly, so that their bits depend neither on the C library nor on which of its variants a processor takes.
 */
#ifndef ENGINE_SCALAR_H
#define ENGINE_SCALAR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/** exp(x) for x of at most 0, to within an ulp of float. */
static inline float scalar_exp(float x)
{
    const double magic = 6755399441055744.0; /* 1.5 * 2^52: what is added to it is rounded to an integer */
    if (!(x > -87.0F))
        return x <= -87.0F ? 0.0F : x; /* a NaN stays one */
    const double twos = (double)x * 1.4426950408889634, whole = (twos + magic) - magic;
    const double r = (twos - whole) * 0.6931471805599453;
    double sum = 1.0 + r / 7.0;
    for (double k = 6.0; k > 0.5; k -= 1.0)
        sum = 1.0 + r / k * sum;
    const uint64_t bits = (uint64_t)(1023 + (int64_t)whole) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return (float)(sum * power);
}

/** x / (1 + exp(-x)) */
static inline float scalar_silu(float x)
{
    const float e = scalar_exp(x < 0.0F ? x : -x);
    return x < 0.0F ? x * e / (1.0F + e) : x / (1.0F + e);
}

/** out = x / rms(x) * gain; the squares are added in order, in double. */
static inline void scalar_norm(const float *x, const float *gain, uint32_t count, float *out)
{
    double squares = 0;
    for (uint32_t i = 0; i < count; i++)
        squares += (double)x[i] * (double)x[i];
    const float scale = (float)(1.0 / sqrt(squares / count + 1e-6));
    for (uint32_t i = 0; i < count; i++)
        out[i] = x[i] * scale * gain[i];
}

#endif
