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
/** Adds `times` values that are known only to be at most `value`. They add nothing to the sum. */
void histogram_add_times(struct histogram *h, uint64_t value, uint64_t times);
/** Takes what was counted before out of a later state of the same histogram; max stays. */
void histogram_subtract(struct histogram *later, const struct histogram *before);
void histogram_merge(struct histogram *into, const struct histogram *from);

/**
 * A value that the share `q` (0..1) of all values does not exceed: the upper bound of a bucket, but never above max. 0:
 * there is none.
 */
uint64_t histogram_quantile(const struct histogram *h, double q);

/** The greatest value that counts in the same bucket as `value`. */
uint64_t histogram_top(uint64_t value);

/** How many values there are in the buckets up to that of `value`: those of at most histogram_top(value). */
uint64_t histogram_up_to(const struct histogram *h, uint64_t value);

#endif
