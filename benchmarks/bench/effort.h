/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * effort: what this process has cost so far, as the kernel counts it: Baton's threads, MPI's and the caller, without
 * the computing thread of --busy. Reading it takes a system call a thread, so that it can stand right before and after
 * a transfer. The clock of the whole process would not do: it lags behind threads that run at that moment.
 */
#ifndef BENCH_EFFORT_H
#define BENCH_EFFORT_H

#include <stdint.h>
#include <time.h>

#include "bench/busy.h"

#define EFFORT_THREADS_MAX 64

/** The clocks of the threads. */
struct effort_meter {
    unsigned count;
    clockid_t clock[EFFORT_THREADS_MAX];
};

struct effort {
    uint64_t cpu_ns;
    uint64_t wakeups; /* how often a thread gave up its processor of its own: it slept, and was woken */
};

/** For the threads that this process has now. None of them may end before the last reading. */
void effort_meter_init(struct effort_meter *m, const struct busy *busy);

struct effort effort_read(const struct effort_meter *m);

/** What was spent from `before` until now. */
struct effort effort_since(const struct effort_meter *m, struct effort before);

void effort_add(struct effort *sum, struct effort more);

#endif
