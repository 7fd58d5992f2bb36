/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * neighbours: where the memory of ranks of this node lies, by the cards in their segments, and whose processes they
 * are.
 *
 * The thread that builds the context.
 */
#ifndef BATON_FRONT_NEIGHBOURS_H
#define BATON_FRONT_NEIGHBOURS_H

#include "front/areas.h"
#include "front/paths.h"
#include "memory/near.h"
#include "shm/shm.h"

/**
 * Fills tables by rank: for ranks of this node how their caches are reached, their segments and what shm needs of both.
 * Claims places with them. *unseen: how many there are of whom the system does not say whether they live. 0; or an
 * error, with its sentence, and no process is held.
 */
int neighbours_find(const struct paths_wish *wish, struct areas *areas, struct memory_near *near,
                    struct shm_segment *segments, struct shm_memory *memory, uint32_t *unseen);

#endif
