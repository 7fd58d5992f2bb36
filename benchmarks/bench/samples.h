/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * samples: measured times in nanoseconds, all of them kept; percentiles by sorting (nearest rank). And ways: times of
 * several ways of doing the same, of which the best one counts. And intervals: the median of differences that were
 * measured in pairs, and where it lies. Nothing here runs while a clock runs.
 */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#define WAYS_MAX 3

struct samples {
    size_t count, room;
    uint64_t *ns;
};

/** Zero the struct first. Fails without memory. */
void samples_add(struct samples *s, uint64_t ns);

/** The smallest sample that at least the share q (0 < q <= 1) of all samples do not exceed, and 0 without samples.
   Sorts them. */
uint64_t samples_quantile(struct samples *s, double q);
/** The same in microseconds. */
double samples_us(struct samples *s, double q);

void samples_fini(struct samples *s);

/** One way after the other has its turn. */
struct ways {
    unsigned num, turns;
    struct samples of[WAYS_MAX];
};

/** The way whose turn it is, and which has had it then. */
unsigned ways_next(struct ways *w);
/** Samples of all ways. */
size_t ways_count(const struct ways *w);
/** The best way's median, and 0 without samples. *way (or NULL) is that way then. */
uint64_t ways_best_ns(struct ways *w, unsigned *way);
/** Forgets the samples. */
void ways_reset(struct ways *w);

/**
 * The interval in which the median lies with a confidence of 95 % at least, by the ranks of the values: nothing is
 * assumed of how they are spread.
 */
struct interval {
    double low, median, high;
};

/** Sorts the values, of which there is one at least. With fewer than six it is the least and the most of them. */
struct interval interval_of(double *values, size_t count);

#endif
