/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pace: how long a row goes on: for --iters turns, else until its time is over, within a least and a most number of
 * turns. Meanwhile a terminal sees how far it is. The consumer decides, and all ranks learn of it.
 */
#ifndef BENCH_PACE_H
#define BENCH_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/bench.h"

struct pace {
    struct bench *bench;
    double seconds;
    uint64_t least, most, done, begin_ns;
    uint64_t granted; /* turns that follow in any case */
    char what[64];
};

/** The time of the row begins now. The rest names it on a terminal. */
void pace_begin(struct pace *p, struct bench *b, uint64_t least, uint64_t most, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/** Of turns that do not count: at most so many, and none once that time is over. */
void pace_begin_warming(struct pace *p, struct bench *b, uint64_t most, double seconds);

/** Collective: whether one more turn follows. All wait asleep. */
bool pace_next(struct pace *p);

#endif
