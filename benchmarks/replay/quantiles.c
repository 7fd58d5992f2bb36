/* SPDX-License-Identifier: BSD-3-Clause */
/* quantiles: see quantiles.h. */
#include "replay/quantiles.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t quantile(const uint64_t *sorted, size_t count, unsigned per_mille)
{
    return count == 0 ? 0 : sorted[(count * per_mille + 999) / 1000 - 1];
}

struct quantiles quantiles_of(uint64_t *values, size_t count)
{
    qsort(values, count, sizeof *values, by_size);
    return (struct quantiles){quantile(values, count, 500), quantile(values, count, 900), quantile(values, count, 990),
                              quantile(values, count, 999)};
}
