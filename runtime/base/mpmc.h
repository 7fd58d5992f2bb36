/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpmc: a bounded queue of pointers with many producers and many consumers, on C11 atomics (after D. Vyukov's bounded
 * MPMC queue: a sequence number in each cell tells which operation the cell is ready for).
 *
 * PROGRESS. A push or pop touches one cell and retries only when another thread took that cell. A thread that is
 * stopped between taking a cell and filling it hides all items behind that one, until it goes on. One that is stopped
 * while it pops holds up pushes once they have gone round to its cell.
 *
 * ORDER. First in, first out, in the order in which cells were taken. What was written before mpmc_push happens before
 * the mpmc_pop that returns the item.
 */
#ifndef BATON_BASE_MPMC_H
#define BATON_BASE_MPMC_H

#include <stdbool.h>
#include <stddef.h>

struct mpmc;

/** `capacity` is rounded up to a power of two, at least 2. NULL: no memory. */
struct mpmc *mpmc_create(size_t capacity);
void mpmc_destroy(struct mpmc *q);

/** `item` must not be NULL. False: the queue is full. */
bool mpmc_push(struct mpmc *q, void *item);

/** NULL: the queue is empty, or the next item is still being pushed. */
void *mpmc_pop(struct mpmc *q);

/** A hint; exact while no thread pushes or pops. */
bool mpmc_is_empty(const struct mpmc *q);

#endif
