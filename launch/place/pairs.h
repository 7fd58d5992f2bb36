/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs: for each engine those of the other side, nearest first, for a router. */
#ifndef BATON_PLACE_PAIRS_H
#define BATON_PLACE_PAIRS_H

#include <stdio.h>

#include "place/flows.h"
#include "place/world.h"

/** What a placement says of pairs. */
struct pairs {
    const struct flows_source *source;
    const struct world *world;
    const uint32_t *seat_of;
    const struct serve_place *places; /* by rank */
};

/* Engines without a node in common are taken to share out their bytes evenly where that depends on places. */

/** An engine of the other side, and how far a byte of a request goes on average to or from there. */
struct pairs_near {
    uint32_t engine;
    double distance;
};

/** Fills near[] with up to `most` (not 0) engines of the other side, nearest first. Their number, or -1: no memory. */
int pairs_find(const struct pairs *p, enum job_side side, uint32_t engine, struct pairs_near *near, uint32_t most);

#define PAIRS_WRITTEN_MAX 64

/**
 * Writes the nearest PAIRS_WRITTEN_MAX of each engine as JSON: {"prefill0": {"hosts": ["n0"], "decode": [{"engine":
 * "decode0", "distance": 2.0}, ...]}, ..., "decode0": {"hosts": [...], "prefill": [...]}}. 0, or -1: the file
 * cannot be written, or there is no memory.
 */
int pairs_write(const struct pairs *p, FILE *out);

/** "prefill", "decode". */
const char *pairs_side_name(enum job_side side);

#endif
