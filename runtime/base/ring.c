/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring: see ring.h. Each cell's sequence number says whose turn it is: equal to a position, the cell is free for the
 * push of that position; one above it, it holds that push's item; the pop then sets it to the position one lap on.
 */
#include "base/ring.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define CACHE_LINE 64

struct cell {
    _Atomic size_t sequence;
    void *item;
};

struct ring {
    _Alignas(CACHE_LINE) _Atomic size_t head; /* next push */
    _Alignas(CACHE_LINE) _Atomic size_t tail; /* next pop */
    _Alignas(CACHE_LINE) size_t mask;
    struct cell cells[];
};

struct ring *ring_create(size_t capacity)
{
    size_t n = 2;
    while (n < capacity && n <= SIZE_MAX / 4)
        n *= 2;
    if (n < capacity || n > (SIZE_MAX / 2 - sizeof(struct ring)) / sizeof(struct cell))
        return NULL;
    size_t bytes = (sizeof(struct ring) + n * sizeof(struct cell) + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
    struct ring *r = aligned_alloc(CACHE_LINE, bytes);
    if (r == NULL)
        return NULL;
    atomic_init(&r->head, 0);
    atomic_init(&r->tail, 0);
    r->mask = n - 1;
    for (size_t i = 0; i < n; i++)
        atomic_init(&r->cells[i].sequence, i);
    return r;
}

void ring_destroy(struct ring *r)
{
    free(r);
}

bool ring_push(struct ring *r, void *item)
{
    size_t at = atomic_load_explicit(&r->head, memory_order_relaxed);
    for (;;) {
        struct cell *c = &r->cells[at & r->mask];
        /* acquire: the pop that freed the cell has read its item before we overwrite it */
        size_t turn = atomic_load_explicit(&c->sequence, memory_order_acquire);
        intptr_t ahead = (intptr_t)turn - (intptr_t)at;
        if (ahead < 0)
            return false;
        if (ahead > 0) {
            at = atomic_load_explicit(&r->head, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak_explicit(&r->head, &at, at + 1, memory_order_relaxed,
                                                         memory_order_relaxed)) {
            c->item = item;
            /* release: whoever sees the number sees the item, and all that was written before it */
            atomic_store_explicit(&c->sequence, at + 1, memory_order_release);
            return true;
        }
    }
}

void *ring_pop(struct ring *r)
{
    size_t at = atomic_load_explicit(&r->tail, memory_order_relaxed);
    for (;;) {
        struct cell *c = &r->cells[at & r->mask];
        /* acquire: pairs with the push's release */
        size_t turn = atomic_load_explicit(&c->sequence, memory_order_acquire);
        intptr_t ahead = (intptr_t)turn - (intptr_t)(at + 1);
        if (ahead < 0)
            return NULL;
        if (ahead > 0) {
            at = atomic_load_explicit(&r->tail, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak_explicit(&r->tail, &at, at + 1, memory_order_relaxed,
                                                         memory_order_relaxed)) {
            void *item = c->item;
            /* release: the item was read before the next lap's push may overwrite it */
            atomic_store_explicit(&c->sequence, at + r->mask + 1, memory_order_release);
            return item;
        }
    }
}

bool ring_is_empty(const struct ring *r)
{
    size_t at = atomic_load_explicit(&r->tail, memory_order_relaxed);
    return atomic_load_explicit(&r->cells[at & r->mask].sequence, memory_order_acquire) != at + 1;
}
