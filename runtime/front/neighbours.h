/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * neighbours: the ranks of this node, whose segments are mapped here: their spots (shm/vicinity.h), where the memory of
 * each lies, by the card in its segment, and whose process it is.
 *
 * Made by the thread that builds the context, and not changed after that.
 */
#ifndef BATON_FRONT_NEIGHBOURS_H
#define BATON_FRONT_NEIGHBOURS_H

#include "front/areas.h"
#include "front/paths.h"
#include "memory/near.h"
#include "shm/shm.h"

struct neighbours {
    struct vicinity *vicinity;
    struct memory_near *memory; /* by spot: how their caches are reached; nothing for me */
    uint32_t unseen;            /* of how many the system does not say whether they live */
};

/** Gives them their spots. 0 or BATON_ENOMEM; neighbours_fini is due either way. */
int neighbours_init(struct neighbours *n, const struct ground *g);
void neighbours_fini(struct neighbours *n);

/**
 * Finds their caches and claims places with them. Fills, by spot, what shm needs of them; both tables
 * are zeroed before. 0; or an error, with its sentence, and no process is held.
 */
int neighbours_find(struct neighbours *n, const struct paths_wish *wish, struct areas *areas,
                    struct shm_segment *segments, struct shm_memory *memory);

/** How the cache of a rank is reached; of one of another node nothing is known. */
static inline const struct memory_near *neighbours_memory(const struct neighbours *n, uint32_t rank)
{
    return &n->memory[n->vicinity->spot_of[rank]];
}

#endif
