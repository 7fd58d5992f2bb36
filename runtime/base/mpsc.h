/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpsc: a bounded queue with many producers and a single consumer, first in, first out. A thread that is stopped while
 * it pushes, at whatever point, delays nobody else: its item is either not there yet or there. (base/mpmc.h does not
 * promise that: a place that was taken and not filled yet hides the items behind it.)
 *
 * An item begins with a struct mpsc_item. The queue owns it from the push until the pop.
 */
#ifndef BATON_BASE_MPSC_H
#define BATON_BASE_MPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct mpsc_item {
    struct mpsc_item *next;
};

struct mpsc {
    _Atomic(struct mpsc_item *) newest; /* each leads to the one before it */
    _Atomic uint32_t taken;             /* places that are taken */
    uint32_t most;
    struct mpsc_item *oldest; /* of the items that the consumer has put in order */
};

void mpsc_init(struct mpsc *q, uint32_t most);

/** Takes a place for an item. False: there is none. Any thread. */
bool mpsc_reserve(struct mpsc *q);
/** Pushes an item for which a place was taken. What was written before happens before the pop. Any thread. */
void mpsc_push(struct mpsc *q, struct mpsc_item *item);

/** NULL: there is none. The place is free again. One thread at a time, which sees what the one before did. */
struct mpsc_item *mpsc_pop(struct mpsc *q);
/** An upper bound of the items that it holds now: each that was pushed counts. */
static inline uint32_t mpsc_held(const struct mpsc *q)
{
    const uint32_t taken = atomic_load_explicit(&q->taken, memory_order_relaxed);
    return taken < q->most ? taken : q->most;
}

/** By whoever may pop: exact but for what is pushed meanwhile. */
bool mpsc_is_empty(const struct mpsc *q);

#endif
