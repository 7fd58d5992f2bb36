/* SPDX-License-Identifier: BSD-3-Clause */
/* grow: lists that grow one element at a time. */
#ifndef PLAN_TOOL_GROW_H
#define PLAN_TOOL_GROW_H

#include <stdint.h>
#include <stdlib.h>

/** The list with room for one more element behind `used`; NULL: no memory, and the list is as it was. */
static inline void *grow(void *list, uint32_t used, uint32_t *room, size_t size)
{
    if (used < *room)
        return list;
    uint32_t wider = *room ? *room * 2 : 256;
    void *grown = wider > *room ? realloc(list, wider * size) : NULL;
    if (grown != NULL)
        *room = wider;
    return grown;
}

#endif
