/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * histogram: values below 16 have a bucket each; above, each power of two is cut into 16, so a bucket is at most 1/16
 * as wide as its lower bound: 16 + 59 * 16 buckets up to 2^63.
 */
#include "observe/histogram.h"

#include <stddef.h>

#define SUB_BITS 4
#define SUBS (1u << SUB_BITS)

static unsigned bucket_of(uint64_t value)
{
    if (value < SUBS)
        return (unsigned)value;
    unsigned power = 63u - (unsigned)__builtin_clzll(value);
    unsigned bucket = (power - SUB_BITS + 1) * SUBS + (unsigned)(value >> (power - SUB_BITS)) - SUBS;
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

static uint64_t bucket_top(unsigned bucket)
{
    if (bucket < SUBS)
        return bucket;
    unsigned shift = bucket / SUBS - 1;
    return ((uint64_t)(SUBS + bucket % SUBS + 1) << shift) - 1;
}

void histogram_add(struct histogram *h, uint64_t value)
{
    h->count++;
    h->sum += value;
    if (value > h->max)
        h->max = value;
    h->bucket[bucket_of(value)]++;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    into->count += from->count;
    into->sum += from->sum;
    if (from->max > into->max)
        into->max = from->max;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        into->bucket[i] += from->bucket[i];
}

uint64_t histogram_quantile(const struct histogram *h, double q)
{
    uint64_t need = (uint64_t)(q * (double)h->count + 0.5), seen = 0;
    if (h->count == 0)
        return 0;
    if (need == 0)
        need = 1;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen >= need)
            return bucket_top(i) < h->max ? bucket_top(i) : h->max;
    }
    return h->max;
}
