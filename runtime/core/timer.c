/* SPDX-License-Identifier: BSD-3-Clause */
/* timer: see timer.h. Arming is O(1), taking and stopping O(log n) amortised (Fredman et al., 1986). */
#include "core/timer.h"

#include <stddef.h>

static struct timer *join(struct timer *a, struct timer *b)
{
    if (a == NULL)
        return b;
    if (b == NULL)
        return a;
    if (b->due_ns < a->due_ns) {
        struct timer *swap = a;
        a = b;
        b = swap;
    }
    b->prev = a;
    b->next = a->child;
    if (a->child != NULL)
        a->child->prev = b;
    a->child = b;
    return a;
}

/* Joins siblings pair by pair, then the pairs from the last to the first: both passes without recursion. */
static struct timer *join_siblings(struct timer *first)
{
    struct timer *pairs = NULL;
    while (first != NULL) {
        struct timer *a = first, *b = a->next;
        first = b != NULL ? b->next : NULL;
        a->next = a->prev = NULL;
        if (b != NULL)
            b->next = b->prev = NULL;
        a = join(a, b);
        a->next = pairs;
        pairs = a;
    }
    struct timer *root = NULL;
    while (pairs != NULL) {
        struct timer *rest = pairs->next;
        pairs->next = NULL;
        root = join(root, pairs);
        pairs = rest;
    }
    return root;
}

void timer_stop(struct timers *t, struct timer *timer)
{
    if (!timer->armed)
        return;
    struct timer *below = join_siblings(timer->child);
    if (timer == t->root) {
        t->root = below;
    } else {
        if (timer->prev->child == timer)
            timer->prev->child = timer->next;
        else
            timer->prev->next = timer->next;
        if (timer->next != NULL)
            timer->next->prev = timer->prev;
        t->root = join(t->root, below);
    }
    timer->child = timer->next = timer->prev = NULL;
    timer->armed = false;
}

void timer_arm(struct timers *t, struct timer *timer, uint64_t due_ns,
               void (*fire)(struct core *core, struct timer *timer))
{
    timer_stop(t, timer);
    timer->due_ns = due_ns;
    timer->fire = fire;
    timer->child = timer->next = timer->prev = NULL;
    timer->armed = true;
    t->root = join(t->root, timer);
}

struct timer *timer_due(struct timers *t, uint64_t now)
{
    struct timer *first = t->root;
    if (first == NULL || first->due_ns > now)
        return NULL;
    timer_stop(t, first);
    return first;
}

uint64_t timer_next(const struct timers *t)
{
    return t->root != NULL ? t->root->due_ns : UINT64_MAX;
}
