/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory: who makes the memory of a rank's cache, and how, as one table. An engine of Baton's users allocates a tensor
 * for each layer; so does this one, where it makes the memory.
 */
#ifndef ENGINE_MEMORY_H
#define ENGINE_MEMORY_H

#include <stdint.h>

#include "baton.h"
#include "engine/shape.h"
#include "option/option.h"

enum memory_kind { MEMORY_SLAB, MEMORY_PRIVATE, MEMORY_MAPPED };

/** A rank's: of what kind, and what the engine has made of it itself, which is nothing where Baton makes it. */
struct memory {
    enum memory_kind kind;
    uint32_t count;
    baton_region_t regions[SHAPE_LAYERS_MAX];
};

extern const struct option_choice memory_choices[];

/** Whether the engine makes it, and what Baton is told of it. */
bool memory_is_own(const struct memory *m);
baton_memory_t memory_word(const struct memory *m);

/**
 * Makes memory for a geometry of a usual layout, a region for each tensor, and sets the tensors' places. Where layers
 * lie block by block, one region holds all tensors. 0, or -1 for want of memory.
 */
int memory_make(struct memory *m, const baton_geometry_t *geometry, baton_tensor_t *tensors);
void memory_drop(struct memory *m);

#endif
