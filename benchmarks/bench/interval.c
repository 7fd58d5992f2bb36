/* SPDX-License-Identifier: BSD-3-Clause */
/* interval: see interval.h. */
#include "bench/interval.h"

#include <stdlib.h>

#define MISS 0.025 /* on either side */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/*
 * How many values may be left out at either end. The median has fewer than k values below it as often as a fair coin
 * shows heads fewer than k times: the sum of binomials (count over 0) to (count over k - 1), by 2^-count.
 */
static size_t left_out(size_t count)
{
    double term = 1, sum = 0;
    size_t k = 0;
    for (size_t i = 0; i < count; i++)
        term /= 2;
    while (k < count / 2) {
        sum += term;
        if (sum > MISS)
            break;
        term *= (double)(count - k) / (double)(k + 1);
        k++;
    }
    return k > 0 ? k - 1 : 0;
}

struct interval interval_of(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_size);
    const size_t out = left_out(count);
    return (struct interval){values[out], (values[(count - 1) / 2] + values[count / 2]) / 2, values[count - 1 - out]};
}
