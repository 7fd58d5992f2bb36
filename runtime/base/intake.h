/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * intake: a bounded queue from any number of threads to one, first in, first out. A thread that is stopped while it
 * pushes, at whatever point, delays nobody else: its item is either not there yet or there. (A ring does not promise
 * that: there the items behind a place that was taken and not filled yet cannot be reached.)
 *
 * An item begins with a struct intake_item, which is the queue's from the push until the pop.
 */
#ifndef BATON_BASE_INTAKE_H
#define BATON_BASE_INTAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct intake_item {
    struct intake_item *next;
};

struct intake {
    _Atomic(struct intake_item *) newest; /* each leads to the one before it */
    _Atomic uint32_t taken;               /* places that are taken */
    uint32_t most;
    struct intake_item *oldest; /* those that the consumer has turned round, in their order */
};

void intake_init(struct intake *q, uint32_t most);

/** Takes a place for an item. False: there is none. Any thread. */
bool intake_reserve(struct intake *q);
/** Pushes an item for which a place was taken. What was written before happens before the pop. Any thread. */
void intake_push(struct intake *q, struct intake_item *item);

/** NULL: there is none. The place is free again. One thread at a time, which sees what the one before did. */
struct intake_item *intake_pop(struct intake *q);
/** It holds no more items than so many now: each that was pushed counts. */
static inline uint32_t intake_held(const struct intake *q)
{
    const uint32_t taken = atomic_load_explicit(&q->taken, memory_order_relaxed);
    return taken < q->most ? taken : q->most;
}

/** By whoever may pop: exact but for what is pushed meanwhile. */
bool intake_is_empty(const struct intake *q);

#endif
