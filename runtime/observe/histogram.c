/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * histogram: log-linear buckets. Values below 16 have a bucket each; from there every octave [2^e, 2^(e+1)) is cut
 * into 16 buckets of equal width, 2^e / 16 or 1/16 of its least value. That makes 16 + 59 * 16 = 960 buckets for the
 * octaves 4 to 62; the rare values from 2^63 on count in the last one. There is no lock: whoever reads while another
 * thread writes needs one of its own.
 */
#include "observe/histogram.h"

#define SUB_BITS 4
#define SUB_BUCKETS (1u << SUB_BITS)
#define OCTAVE_LAST 62

_Static_assert(HISTOGRAM_BUCKETS == SUB_BUCKETS + (OCTAVE_LAST - SUB_BITS + 1) * SUB_BUCKETS,
               "one bucket each below 16, then 16 an octave");

static unsigned bucket_of(uint64_t value)
{
    if (value < SUB_BUCKETS)
        return (unsigned)value;
    const unsigned octave = 63 - (unsigned)__builtin_clzll(value);
    if (octave > OCTAVE_LAST)
        return HISTOGRAM_BUCKETS - 1;
    const unsigned shift = octave - SUB_BITS;
    return (shift + 1) * SUB_BUCKETS + ((unsigned)(value >> shift) & (SUB_BUCKETS - 1));
}

/* The greatest value that counts in a bucket. */
static uint64_t bucket_top(unsigned bucket)
{
    if (bucket < SUB_BUCKETS)
        return bucket;
    if (bucket == HISTOGRAM_BUCKETS - 1)
        return UINT64_MAX;
    const unsigned shift = bucket / SUB_BUCKETS - 1;
    const uint64_t least = (uint64_t)(SUB_BUCKETS + bucket % SUB_BUCKETS) << shift;
    return least + (UINT64_C(1) << shift) - 1;
}

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

void histogram_add(struct histogram *h, uint64_t value)
{
    h->count++;
    h->sum = add_saturating(h->sum, value);
    if (value > h->max)
        h->max = value;
    h->bucket[bucket_of(value)]++;
}

void histogram_add_times(struct histogram *h, uint64_t value, uint64_t times)
{
    if (times == 0)
        return;
    h->count += times;
    if (value > h->max)
        h->max = value;
    h->bucket[bucket_of(value)] += times;
}

/* A histogram that has begun anew is later than any. */
void histogram_subtract(struct histogram *later, const struct histogram *before)
{
    if (later->count < before->count)
        return;
    later->count -= before->count;
    later->sum -= before->sum < later->sum ? before->sum : later->sum;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        later->bucket[i] -= before->bucket[i] < later->bucket[i] ? before->bucket[i] : later->bucket[i];
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    into->count += from->count;
    into->sum = add_saturating(into->sum, from->sum);
    if (from->max > into->max)
        into->max = from->max;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        into->bucket[i] += from->bucket[i];
}

/* Which of the values in rising order, counted from 1, has the share q at or below it: ceil(q * count), at least 1. */
static uint64_t rank_of(double q, uint64_t count)
{
    if (!(q > 0)) /* NaN too */
        return 1;
    const double exact = q * (double)count;
    uint64_t rank = (uint64_t)exact;
    if ((double)rank < exact)
        rank++;
    return rank > 0 ? rank : 1;
}

uint64_t histogram_quantile(const struct histogram *h, double q)
{
    if (h->count == 0)
        return 0;
    if (q >= 1)
        return h->max;
    const uint64_t rank = rank_of(q, h->count);
    uint64_t passed = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        passed += h->bucket[i];
        if (passed >= rank)
            return bucket_top(i) < h->max ? bucket_top(i) : h->max;
    }
    return h->max;
}

uint64_t histogram_top(uint64_t value)
{
    return bucket_top(bucket_of(value));
}

uint64_t histogram_up_to(const struct histogram *h, uint64_t value)
{
    const unsigned last = bucket_of(value);
    uint64_t sum = 0;
    for (unsigned i = 0; i <= last; i++)
        sum += h->bucket[i];
    return sum;
}
