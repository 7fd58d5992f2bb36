/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * choice: who serves whom in placed engines. Where several prefill ranks hold the same heads, the library's planner has
 * each decode rank read the nearest of them, so that flows depend on places, and good places on flows.
 */
#ifndef BATON_PLACE_CHOICE_H
#define BATON_PLACE_CHOICE_H

#include "place/flows.h"
#include "place/world.h"

/** All that flows follow from. */
struct choice {
    struct flows_source source;
    const struct world *world;
    const struct place_rules *rules;
};

/** Where ranks run that sit there, by rank; free it. NULL: no memory. */
struct serve_place *choice_places(const struct world *w, const uint32_t *seat_of, uint32_t num_ranks);

/** The flows of ranks that sit there. 0, or -1 with *why. Call job_fini in both cases. */
int choice_job(const struct choice *c, const uint32_t *seat_of, uint32_t num_ranks, struct job *out, struct why *why);

/**
 * As place_find, for flows that may depend on places. `job` has those of ranks without places, and gets those of the
 * placement. Places and flows are found by turns while that makes it better, beginning with the job's flows, and with a
 * launcher's mapping (place_repaired) where that is better than what was found.
 */
enum place_error choice_find(const struct choice *c, struct job *job, uint32_t *seat_of);

#endif
