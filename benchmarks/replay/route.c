/* SPDX-License-Identifier: BSD-3-Clause */
/* route: see route.h. */
#include "replay/route.h"

#include <stdlib.h>

static uint32_t fewest(const uint32_t *given, uint32_t count)
{
    uint32_t least = given[0];
    for (uint32_t d = 1; d < count; d++)
        if (given[d] < least)
            least = given[d];
    return least;
}

/* given[]: the requests of each decode engine so far. */
static uint32_t choose(const struct distances *distances, const double *of, const uint32_t *given, uint32_t lead)
{
    const uint32_t most = fewest(given, distances->decodes) + lead;
    uint32_t best = distances->decodes;
    for (uint32_t d = 0; d < distances->decodes; d++)
        if (given[d] < most &&
            (best == distances->decodes || of[d] < of[best] || (of[d] == of[best] && given[d] < given[best])))
            best = d;
    return best;
}

static double nearest(const double *of, uint32_t count)
{
    double least = of[0];
    for (uint32_t d = 1; d < count; d++)
        if (of[d] < least)
            least = of[d];
    return least;
}

static int follow(struct route *r, uint32_t requests, const struct distances *distances, uint32_t lead, struct why *why)
{
    uint32_t *given = calloc(distances->decodes, sizeof *given);
    if (given == NULL)
        return why_set(why, "no memory for the requests of %u decode engines", distances->decodes);
    for (uint32_t i = 0; i < requests; i++) {
        const double *of = distances->of + (size_t)r->engine_of[SIDE_PREFILL][i] * distances->decodes;
        const uint32_t d = choose(distances, of, given, lead);
        r->engine_of[SIDE_DECODE][i] = d;
        r->nearest += of[d] == nearest(of, distances->decodes);
        given[d]++;
    }
    free(given);
    return 0;
}

int route_init(struct route *r, const uint32_t num_engines[SIDES], uint32_t requests, const struct distances *distances,
               uint32_t lead, struct why *why)
{
    *r = (struct route){.nearest = 0};
    for (unsigned side = 0; side < SIDES; side++) {
        r->engine_of[side] = malloc((size_t)requests * sizeof *r->engine_of[side]);
        if (r->engine_of[side] == NULL)
            return why_set(why, "no memory for the route of %u requests", requests);
        for (uint32_t i = 0; i < requests; i++)
            r->engine_of[side][i] = i % num_engines[side];
    }
    return distances != NULL ? follow(r, requests, distances, lead, why) : 0;
}

void route_fini(struct route *r)
{
    for (unsigned side = 0; side < SIDES; side++)
        free(r->engine_of[side]);
    *r = (struct route){.nearest = 0};
}
