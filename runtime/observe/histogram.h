/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * histogram: counts of positive values in buckets of at most 1/16 relative width, fixed size, no allocation. One
 * writer; values up to 2^63.
 */
#ifndef BATON_OBSERVE_HISTOGRAM_H
#define BATON_OBSERVE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS 960

struct histogram {
    uint64_t count, sum, max;
    uint64_t bucket[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t value);
void histogram_merge(struct histogram *into, const struct histogram *from);

/** The upper bound of the bucket where the share `q` (0..1) of the values lies; never above max; 0 when empty. */
uint64_t histogram_quantile(const struct histogram *h, double q);

#endif
