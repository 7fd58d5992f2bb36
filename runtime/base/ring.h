/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring: a bounded queue of pointers for any number of producers and consumers, on C11 atomics (after D. Vyukov's
 * bounded MPMC queue: a sequence number in each cell tells whose turn it is).
 *
 * PROGRESS. A push or pop touches one cell and retries only when another thread took that cell. A thread that is
 * stopped between taking a cell and filling it hides all items behind that one, until it goes on. One that is stopped
 * while it pops holds up pushes once they have gone round to its cell.
 *
 * ORDER. First in, first out, in the order in which cells were taken. What was written before ring_push happens before
 * the ring_pop that returns the item.
 */
#ifndef BATON_BASE_RING_H
#define BATON_BASE_RING_H

#include <stdbool.h>
#include <stddef.h>

struct ring;

/** `capacity` is rounded up to a power of two, at least 2. NULL: no memory. */
struct ring *ring_create(size_t capacity);
void ring_destroy(struct ring *r);

/** `item` must not be NULL. False: the ring is full. */
bool ring_push(struct ring *r, void *item);

/** NULL: the ring is empty, or the next item is still being pushed. */
void *ring_pop(struct ring *r);

/** A hint; exact while no thread pushes or pops. */
bool ring_is_empty(const struct ring *r);

#endif
