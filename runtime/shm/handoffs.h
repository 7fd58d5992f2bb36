/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handoffs: the part of the port by which ranks of this node take each other's offers (core/handoff.h), over the areas
 * in their segments (handoff.h).
 *
 * The thread that steps the core. The areas are made elsewhere and outlive this.
 */
#ifndef BATON_SHM_HANDOFFS_H
#define BATON_SHM_HANDOFFS_H

#include "base/bell.h"
#include "shm/handoff.h"

struct handoffs;

/** One rank of the world. */
struct handoffs_rank {
    struct handoff at;  /* without area: it is not reached so */
    uint32_t node_rank; /* among the ranks of its node */
    struct bell *bell;
};

/** `ranks` is copied. 0 or BATON_ENOMEM. */
int handoffs_create(uint32_t self, const struct handoffs_rank *ranks, uint32_t num_ranks, struct handoffs **out);
void handoffs_destroy(struct handoffs *h);

/** The table; NULL: no other rank is reached so. */
const struct port_handoff *handoffs_port(const struct handoffs *h);

/** Whether ranks to which a lease is given back are rung later, by handoffs_ring: a ring may cost ten microseconds. */
void handoffs_put_off(struct handoffs *h, bool on);
/** Whether there are such ranks. */
bool handoffs_owe(const struct handoffs *h);
void handoffs_ring(struct handoffs *h);

#endif
