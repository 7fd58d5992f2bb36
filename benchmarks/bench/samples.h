/* SPDX-License-Identifier: BSD-3-Clause */
/* samples: measured times in nanoseconds, all of them kept; percentiles by sorting (nearest rank). */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

struct samples {
    size_t count, room;
    uint64_t *ns;
};

/** 0, or -1 for want of memory. Zero the struct first. */
int samples_add(struct samples *s, uint64_t ns);

/** The smallest sample that at least the share q (0 < q <= 1) of all samples do not exceed, and 0 without samples.
   Sorts them. */
uint64_t samples_quantile(struct samples *s, double q);

void samples_fini(struct samples *s);

#endif
