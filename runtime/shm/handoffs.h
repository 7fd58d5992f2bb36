/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handoffs: the part of the port by which ranks of this node take each other's offers (core/handoff.h), over the words
 * in their segments (handoff.h). Neighbours join and leave.
 *
 * The thread that steps the core. The words are made elsewhere; they stay from handoffs_join to handoffs_leave.
 */
#ifndef BATON_SHM_HANDOFFS_H
#define BATON_SHM_HANDOFFS_H

#include "shm/handoff.h"
#include "shm/places.h"
#include "shm/rings.h"

struct handoffs;

/** One neighbour. */
struct handoffs_rank {
    struct handoff at; /* its words. Without area: it is not reached so */
    uint32_t place;    /* mine in its area */
    uint32_t its;      /* its in mine */
};

/**
 * For the neighbours of this vicinity, of whom none has joined, this rank among them. A rank to which a lease is given
 * back is owed a ring, which can wait; `vicinity` and `rings` outlive this. 0 or BATON_ENOMEM.
 */
int handoffs_create(const struct vicinity *vicinity, struct rings *rings, struct handoffs **out);
void handoffs_destroy(struct handoffs *h);

/** That rank, a neighbour or this one, is reached so from now on: both places are open. `neighbour` is copied. */
void handoffs_join(struct handoffs *h, uint32_t rank, const struct handoffs_rank *neighbour);
/** It has gone, and nothing of it can land here any more. */
void handoffs_leave(struct handoffs *h, uint32_t rank);

/** The table; NULL: this rank or all others have not joined. */
const struct port_handoff *handoffs_port(const struct handoffs *h);

#endif
