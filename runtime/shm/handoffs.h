/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handoffs: the part of the port by which ranks of this node take each other's offers (core/handoff.h), over the areas
 * in their segments (handoff.h).
 *
 * The thread that steps the core. The areas are made elsewhere and outlive this.
 */
#ifndef BATON_SHM_HANDOFFS_H
#define BATON_SHM_HANDOFFS_H

#include "shm/handoff.h"
#include "shm/rings.h"

struct handoffs;

/** One rank of the world. */
struct handoffs_rank {
    struct handoff at;  /* without area: it is not reached so */
    uint32_t node_rank; /* among the ranks of its node */
};

/**
 * `ranks` is copied. A rank to which a lease is given back is owed a ring, which can wait; `rings` outlives this.
 * 0 or BATON_ENOMEM.
 */
int handoffs_create(uint32_t self, const struct handoffs_rank *ranks, uint32_t num_ranks, struct rings *rings,
                    struct handoffs **out);
void handoffs_destroy(struct handoffs *h);

/** The table; NULL: no other rank is reached so. */
const struct port_handoff *handoffs_port(const struct handoffs *h);

#endif
