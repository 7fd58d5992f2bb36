/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interval: the median of differences that were measured in pairs, and the interval in which it lies with a confidence
 * of 95 % at least, by the ranks of the differences: nothing is assumed of how they are spread. Pure.
 */
#ifndef BENCH_INTERVAL_H
#define BENCH_INTERVAL_H

#include <stddef.h>

struct interval {
    double low, median, high;
};

/** Sorts the values, of which there is one at least. With fewer than six it is the least and the most of them. */
struct interval interval_of(double *values, size_t count);

#endif
