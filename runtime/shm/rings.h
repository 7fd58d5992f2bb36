/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rings: whose bells this rank is to ring, for what it has written into memory that they read. To wake a thread takes
 * 10 us and more, and it may take the CPU of who wakes it. So nobody is rung on the way, but once for all of a turn,
 * after its events are out; and for what can wait still later.
 *
 * The thread that steps the core. The bells are made elsewhere and outlive this.
 */
#ifndef BATON_SHM_RINGS_H
#define BATON_SHM_RINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bell.h"
#include "shm/vicinity.h"

struct rings;

enum rings_when { RINGS_NONE, RINGS_LATER, RINGS_NOW };

/** For the neighbours of this vicinity, of whom none has joined. It outlives this. 0 or BATON_ENOMEM. */
int rings_create(const struct vicinity *vicinity, struct rings **out);
void rings_destroy(struct rings *r);

/** From now on that rank, a neighbour, can be rung. */
void rings_join(struct rings *r, uint32_t rank, struct bell *bell);
/** It has gone: it is owed nothing. */
void rings_leave(struct rings *r, uint32_t rank);

/** That rank, which has joined, is to be rung NOW, behind this turn, or LATER. */
void rings_owe(struct rings *r, uint32_t rank, enum rings_when when);
/** A ring that is owed to that rank can wait no longer. */
void rings_hurry(struct rings *r, uint32_t rank);
/** Whether ranks are owed a ring that can wait. */
bool rings_wait(const struct rings *r);
/** NOW: rings those that cannot wait. LATER: all. Nobody who attends the bell is woken. */
void rings_ring(struct rings *r, enum rings_when least);

#endif
