/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * histogram: counts values in buckets whose width is at most 1/16 of their least value. Of fixed size; never allocates.
 * One thread writes it.
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

/**
 * A value that the share `q` (0..1) of all values does not exceed: the upper bound of a bucket, but never above max. 0:
 * there is none.
 */
uint64_t histogram_quantile(const struct histogram *h, double q);

#endif
