/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * count: a number that one thread at a time changes and any thread reads. The thread that makes turns changes it, and
 * statistics read it. It costs as much as a plain number. What its writer stores by a release later makes the change
 * visible too: a thread that has taken an event sees all that was counted before the event was put.
 */
#ifndef BATON_BASE_COUNT_H
#define BATON_BASE_COUNT_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t count_t;

/* relaxed: see above. A load and a store, not one atomic operation: no other thread changes it meanwhile. */
static inline void count_set(count_t *count, uint64_t value)
{
    atomic_store_explicit(count, value, memory_order_relaxed);
}

static inline uint64_t count_of(const count_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static inline void count_add(count_t *count, uint64_t n)
{
    count_set(count, count_of(count) + n);
}

#endif
