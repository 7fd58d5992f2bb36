/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpmc: D. Vyukov's bounded queue. Never blocks; allocates in mpmc_create alone.
 *
 * Positions count up for ever; position p uses cell p mod capacity. A cell's turn says who may use it: turn == p means
 * free for the push at position p, turn == p + 1 means filled for the pop at p, and the pop sets p + capacity, which
 * frees it for the push one lap later. Producers race for `tail` and consumers for `head` by compare and swap; the
 * winner alone touches the cell's item until it hands the turn on.
 *
 * The turn alone orders the items: whoever hands it on releases it, whoever takes it acquires it. `head` and `tail`
 * only give out positions, so they are relaxed.
 */
#include "base/mpmc.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define LINE_BYTES 64

struct cell {
    _Atomic size_t turn;
    void *item;
};

struct mpmc {
    size_t mask; /* never written: in a cache line of its own, apart from the two that change */
    _Alignas(LINE_BYTES) _Atomic size_t tail; /* the next position to push at */
    _Alignas(LINE_BYTES) _Atomic size_t head; /* the next position to pop at */
    _Alignas(LINE_BYTES) struct cell cells[];
};

/* The power of two to use; 0: the queue's size in bytes would overflow. */
static size_t round_capacity(size_t capacity)
{
    size_t rounded = 2;
    while (rounded < capacity) {
        if (rounded > (SIZE_MAX / 4) / sizeof(struct cell))
            return 0;
        rounded *= 2;
    }
    return rounded;
}

struct mpmc *mpmc_create(size_t capacity)
{
    const size_t rounded = round_capacity(capacity);
    if (rounded == 0)
        return NULL;
    void *memory;
    if (posix_memalign(&memory, LINE_BYTES, sizeof(struct mpmc) + rounded * sizeof(struct cell)) != 0)
        return NULL;
    struct mpmc *q = memory;
    q->mask = rounded - 1;
    atomic_init(&q->tail, 0);
    atomic_init(&q->head, 0);
    for (size_t i = 0; i < rounded; i++) {
        atomic_init(&q->cells[i].turn, i);
        q->cells[i].item = NULL;
    }
    return q;
}

void mpmc_destroy(struct mpmc *q)
{
    free(q);
}

bool mpmc_push(struct mpmc *q, void *item)
{
    size_t at = atomic_load_explicit(&q->tail, memory_order_relaxed);
    for (;;) {
        struct cell *cell = &q->cells[at & q->mask];
        /* acquire: pairs with the pop's release of one lap ago, which has then read the item we are to overwrite. */
        const size_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
        const intptr_t ahead = (intptr_t)(turn - at);
        if (ahead < 0)
            return false; /* the item of the lap before is still there */
        if (ahead > 0) {
            /* Another producer took this position. relaxed: a stale value only costs one more round. */
            at = atomic_load_explicit(&q->tail, memory_order_relaxed);
            continue;
        }
        /* relaxed: taking a position publishes nothing. On failure `at` is the newer tail. */
        if (!atomic_compare_exchange_weak_explicit(&q->tail, &at, at + 1, memory_order_relaxed, memory_order_relaxed))
            continue;
        cell->item = item;
        /* release: the item, and all its producer wrote before, happen before the pop that acquires this turn. */
        atomic_store_explicit(&cell->turn, at + 1, memory_order_release);
        return true;
    }
}

void *mpmc_pop(struct mpmc *q)
{
    size_t at = atomic_load_explicit(&q->head, memory_order_relaxed);
    for (;;) {
        struct cell *cell = &q->cells[at & q->mask];
        /* acquire: pairs with the push's release, so the item and what lies behind it are there. */
        const size_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
        const intptr_t ahead = (intptr_t)(turn - (at + 1));
        if (ahead < 0)
            return NULL; /* not pushed yet, or still being pushed */
        if (ahead > 0) {
            /* Another consumer took this position. relaxed: a stale value only costs one more round. */
            at = atomic_load_explicit(&q->head, memory_order_relaxed);
            continue;
        }
        /* relaxed: taking a position publishes nothing. On failure `at` is the newer head. */
        if (!atomic_compare_exchange_weak_explicit(&q->head, &at, at + 1, memory_order_relaxed, memory_order_relaxed))
            continue;
        void *item = cell->item;
        /* release: our read of the item happens before the push of the next lap overwrites it. */
        atomic_store_explicit(&cell->turn, at + q->mask + 1, memory_order_release);
        return item;
    }
}

bool mpmc_is_empty(const struct mpmc *q)
{
    /* acquire: keeps the two loads in this order. The head never passes the tail, so if the tail, read later, equals
     * the head read before, the queue was empty at the moment between. */
    const size_t head = atomic_load_explicit(&q->head, memory_order_acquire);
    return atomic_load_explicit(&q->tail, memory_order_relaxed) == head;
}
