/* SPDX-License-Identifier: BSD-3-Clause */
/* with_regions: regions of one kind of memory, as a test declares them. */
#ifndef BATON_TESTS_WITH_REGIONS_H
#define BATON_TESTS_WITH_REGIONS_H

#include "baton.h"

static inline baton_region_t region_of(baton_memory_t kind, void *base, uint64_t bytes)
{
    return (baton_region_t){.size = sizeof(baton_region_t), .base = base, .bytes = bytes, .kind = kind};
}

/** `num` of them, into *out, of which each has its base and its bytes. Returns out. */
static inline baton_region_t *regions_of(baton_region_t *out, baton_memory_t kind, void *const *bases,
                                         const uint64_t *bytes, uint32_t num)
{
    for (uint32_t i = 0; i < num; i++)
        out[i] = region_of(kind, bases[i], bytes[i]);
    return out;
}

#endif
