/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * intake: see intake.h. A stack onto which one compare-and-swap pushes, and of which the consumer takes all at once, so
 * that no item leaves and comes back between a pusher's look and its swap (ABA); then it turns their order round.
 */
#include "base/intake.h"

#include <stddef.h>

void intake_init(struct intake *q, uint32_t most)
{
    atomic_init(&q->newest, NULL);
    atomic_init(&q->taken, 0);
    q->most = most;
    q->oldest = NULL;
}

bool intake_reserve(struct intake *q)
{
    /* relaxed: a place orders nothing. */
    if (atomic_fetch_add_explicit(&q->taken, 1, memory_order_relaxed) < q->most)
        return true;
    atomic_fetch_sub_explicit(&q->taken, 1, memory_order_relaxed);
    return false;
}

void intake_push(struct intake *q, struct intake_item *item)
{
    item->next = atomic_load_explicit(&q->newest, memory_order_relaxed);
    /* release: orders what the pusher wrote, against the acquire in intake_pop. Later pushes continue the sequence. */
    while (!atomic_compare_exchange_weak_explicit(&q->newest, &item->next, item, memory_order_release,
                                                  memory_order_relaxed))
        continue;
}

struct intake_item *intake_pop(struct intake *q)
{
    if (q->oldest == NULL && atomic_load_explicit(&q->newest, memory_order_relaxed) != NULL) {
        struct intake_item *item = atomic_exchange_explicit(&q->newest, NULL, memory_order_acquire);
        while (item != NULL) {
            struct intake_item *before = item->next;
            item->next = q->oldest;
            q->oldest = item;
            item = before;
        }
    }
    struct intake_item *first = q->oldest;
    if (first == NULL)
        return NULL;
    q->oldest = first->next;
    atomic_fetch_sub_explicit(&q->taken, 1, memory_order_relaxed);
    return first;
}

bool intake_is_empty(const struct intake *q)
{
    return q->oldest == NULL && atomic_load_explicit(&q->newest, memory_order_relaxed) == NULL;
}
