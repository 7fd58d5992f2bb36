/* SPDX-License-Identifier: BSD-3-Clause */
/* with_vicinity: the ranks of a node of a test, at spots from 1 on in the order in which they are given. */
#ifndef BATON_TESTS_WITH_VICINITY_H
#define BATON_TESTS_WITH_VICINITY_H

#include <stdlib.h>

#include "shm/vicinity.h"

/* All ranks of the world: rank r has spot r + 1. */
static inline struct vicinity *with_whole_vicinity(uint32_t self, uint32_t ranks)
{
    struct vicinity *v;
    if (vicinity_create(self, ranks, ranks, &v) != 0)
        abort();
    for (uint32_t i = 0; i < ranks; i++)
        vicinity_add(v, i);
    return v;
}

static inline struct vicinity *with_vicinity(uint32_t self, uint32_t ranks, const uint32_t *of_node, uint32_t num)
{
    struct vicinity *v;
    if (vicinity_create(self, ranks, num, &v) != 0)
        abort();
    for (uint32_t i = 0; i < num; i++)
        vicinity_add(v, of_node[i]);
    return v;
}

#endif
