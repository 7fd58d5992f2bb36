/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * own: memory of a cache that the benchmark owns, as an engine does: regions that lie apart from each other, so that
 * Baton joins none of them.
 */
#ifndef BENCH_OWN_H
#define BENCH_OWN_H

#include <stdint.h>

#include "baton.h"

enum own_kind {
    OWN_SLAB,    /* none of its own: Baton allocates the cache */
    OWN_PRIVATE, /* anonymous pages of this process */
    OWN_MAPPED,  /* each region a memfd of its own, whose descriptor stays open */
    OWN_KINDS
};

struct own {
    enum own_kind kind;
    uint32_t num;
    void **bases; /* by region */
    uint64_t *bytes;
    int *files; /* OWN_MAPPED */
};

/** "slab", "private", "mapped". */
const char *own_name(enum own_kind kind);

/** Maps `num` regions of `bytes` each, and touches every page. OWN_SLAB: nothing is mapped. Fails without memory. */
void own_create(struct own *o, enum own_kind kind, uint32_t num, uint64_t bytes);
void own_destroy(struct own *o);

/** Hands the regions over to Baton. */
void own_wrap(const struct own *o, baton_t *b, const baton_geometry_t *geometry, baton_cache_t **out);

#endif
