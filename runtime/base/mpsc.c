/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpsc: see mpsc.h. A stack: one compare-and-swap pushes an item. The consumer takes the whole stack with one exchange,
 * then reverses its order. No item is popped by itself, so a pusher's compare-and-swap cannot meet ABA.
 */
#include "base/mpsc.h"

#include <stddef.h>

void mpsc_init(struct mpsc *q, uint32_t most)
{
    atomic_init(&q->newest, NULL);
    atomic_init(&q->taken, 0);
    q->most = most;
    q->oldest = NULL;
}

bool mpsc_reserve(struct mpsc *q)
{
    /* relaxed: a place orders nothing. */
    if (atomic_fetch_add_explicit(&q->taken, 1, memory_order_relaxed) < q->most)
        return true;
    atomic_fetch_sub_explicit(&q->taken, 1, memory_order_relaxed);
    return false;
}

void mpsc_push(struct mpsc *q, struct mpsc_item *item)
{
    item->next = atomic_load_explicit(&q->newest, memory_order_relaxed);
    /* release: orders what the pusher wrote, against the acquire in mpsc_pop. Later pushes continue the sequence. */
    while (!atomic_compare_exchange_weak_explicit(&q->newest, &item->next, item, memory_order_release,
                                                  memory_order_relaxed))
        continue;
}

struct mpsc_item *mpsc_pop(struct mpsc *q)
{
    if (q->oldest == NULL && atomic_load_explicit(&q->newest, memory_order_relaxed) != NULL) {
        struct mpsc_item *item = atomic_exchange_explicit(&q->newest, NULL, memory_order_acquire);
        while (item != NULL) {
            struct mpsc_item *before = item->next;
            item->next = q->oldest;
            q->oldest = item;
            item = before;
        }
    }
    struct mpsc_item *first = q->oldest;
    if (first == NULL)
        return NULL;
    q->oldest = first->next;
    atomic_fetch_sub_explicit(&q->taken, 1, memory_order_relaxed);
    return first;
}

bool mpsc_is_empty(const struct mpsc *q)
{
    return q->oldest == NULL && atomic_load_explicit(&q->newest, memory_order_relaxed) == NULL;
}
