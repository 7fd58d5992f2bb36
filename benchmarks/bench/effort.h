/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * effort: what this process has cost so far, as the kernel counts it: processor time and wake-ups of Baton's
 * threads, MPI's and the caller, without the computing thread of --busy; and private memory. Reading the former
 * takes a system call a thread, so that it can stand right before and after a transfer. The clock of the whole
 * process would not do: it lags behind threads that run at that moment.
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

/*
 * The kernel calls a page private if only one process maps it, even within a shared mapping: a pool in shared memory
 * that no peer has touched yet would count. So here only private pages of private mappings count. If the pool lies in a
 * private mapping, its bytes are subtracted (MPI allocates it so where a node has one rank, and the pool is populated
 * in full).
 */
struct footprint {
    uint64_t private_kib; /* private pages of private mappings, without the pool */
    uint64_t all_kib;     /* private pages of all mappings */
};

/** Fails where the system does not say. */
struct footprint footprint_read(const void *pool, uint64_t pool_bytes);

/** What the transfers of a row have cost both sides. */
struct cost {
    uint64_t transfers, bytes;
    struct effort consumer, producer;
};

/** So many more transfers, which moved so many bytes together. */
void cost_add(struct cost *c, uint64_t transfers, uint64_t bytes, struct effort consumer, struct effort producer);

/* The last cells of a row of transfers (report_row), where the median time of one of so many blocks is `ns`: µs a
   block (a descriptor of its table); CPU seconds a GiB; times that a thread was woken, a transfer. */
#define COST_COLUMNS                                                                                                   \
    "|us_block=%.3f|consumer_cpu_s_GiB=%.4f|producer_cpu_s_GiB=%.4f|consumer_wakeups=%.2f|producer_wakeups=%.2f"
#define COST_CELLS(c, ns, blocks)                                                                                      \
    (ns) / (double)(blocks) / 1e3, cost_cpu_s_gib(c, &(c)->consumer), cost_cpu_s_gib(c, &(c)->producer),               \
        (double)(c)->consumer.wakeups / (double)(c)->transfers, (double)(c)->producer.wakeups / (double)(c)->transfers
double cost_cpu_s_gib(const struct cost *c, const struct effort *side);

#endif
