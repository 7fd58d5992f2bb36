/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring: a bounded queue of pointers, any number of producers and consumers, on C11 atomics (after D. Vyukov's bounded
 * MPMC queue: a sequence number a cell tells whose turn it is).
 *
 * Progress: a push or pop touches one cell and retries only when another thread took that cell; a thread that is
 * stopped between taking a cell and filling it delays those who need that very cell, nobody else. Order: first in,
 * first out by cell. What was written before ring_push happens before ring_pop returns it.
 */
#ifndef BATON_BASE_RING_H
#define BATON_BASE_RING_H

#include <stdbool.h>
#include <stddef.h>

struct ring;

/** capacity is rounded up to a power of two >= 2. NULL: out of memory. */
struct ring *ring_create(size_t capacity);
void ring_destroy(struct ring *r);

/** false: full. item must not be NULL. */
bool ring_push(struct ring *r, void *item);

/** NULL: empty (or the next item is still being pushed). */
void *ring_pop(struct ring *r);

/** A hint, exact when no thread is at work. */
bool ring_is_empty(const struct ring *r);

#endif
