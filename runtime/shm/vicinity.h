/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vicinity: the ranks of this node, this one among them, each at a spot of its own, from 1 on. What is kept of
 * neighbours alone is by spot: it is as large as a node has room for, however many ranks there are. Spot 0 is of all
 * others: what stands there is as if it had never been used, so that whoever looks a rank up need not ask first.
 *
 * Whoever makes turns changes it, and reads it.
 */
#ifndef BATON_SHM_VICINITY_H
#define BATON_SHM_VICINITY_H

#include <stdint.h>

struct vicinity {
    uint32_t self;      /* my rank */
    uint32_t most;      /* the last spot */
    uint32_t *rank_at;  /* by spot; VICINITY_NONE: it is free */
    uint32_t spot_of[]; /* by rank */
};

#define VICINITY_NONE UINT32_MAX

/** Of at most `most` neighbours among `ranks` ranks, none so far. 0 or BATON_ENOMEM. */
int vicinity_create(uint32_t self, uint32_t ranks, uint32_t most, struct vicinity **out);
/** NULL is allowed. */
void vicinity_destroy(struct vicinity *v);

/** That rank is a neighbour from now on, if a spot is free. */
void vicinity_add(struct vicinity *v, uint32_t rank);
/** It is none any more, and its spot is free. */
void vicinity_remove(struct vicinity *v, uint32_t rank);

#endif
