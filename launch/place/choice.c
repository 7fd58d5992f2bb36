/* SPDX-License-Identifier: BSD-3-Clause */
/* choice: see choice.h. */
#include "place/choice.h"

#include <stdlib.h>
#include <string.h>

#include "place/board.h"

#define ROUNDS_MAX 4

/* ---- places ------------------------------------------------------------------------------------------------------ */

static struct serve_place place_of(const struct world *w, uint32_t seat)
{
    uint32_t node = cluster_node(&w->cluster, seat);
    const struct world_node *n = &w->nodes[node];
    const struct machine_seat *s = &n->seats[seat - w->cluster.groups[CLUSTER_NODE][node].first];
    const struct machine_core *cores = n->machine->cores;
    struct serve_place place = {node, cores[s->first_core].package, cores[s->first_core].numa};
    for (uint32_t i = s->first_core; i < s->end_core; i++) {
        if (cores[i].package != place.package)
            place.package = PLAN_UNKNOWN;
        if (cores[i].numa != place.numa)
            place.numa = PLAN_UNKNOWN;
    }
    return place;
}

struct serve_place *choice_places(const struct world *w, const uint32_t *seat_of, uint32_t num_ranks)
{
    struct serve_place *places = calloc((size_t)num_ranks + 1, sizeof *places);
    for (uint32_t r = 0; places != NULL && r < num_ranks; r++)
        places[r] = place_of(w, seat_of[r]);
    return places;
}

static bool depends_on_places(const struct choice *c)
{
    return c->source.serve != NULL && c->source.serve->has_replicas;
}

int choice_job(const struct choice *c, const uint32_t *seat_of, uint32_t num_ranks, struct job *out, struct why *why)
{
    struct serve_place *places = depends_on_places(c) ? choice_places(c->world, seat_of, num_ranks) : NULL;
    *out = (struct job){0};
    if (depends_on_places(c) && places == NULL)
        return why_set(why, "no memory for the places of %u ranks", num_ranks);
    int rc = flows_job(&c->source, places, out, why);
    if (rc != 0)
        job_fini(out);
    free(places);
    return rc;
}

/* ---- places and flows by turns ----------------------------------------------------------------------------------- */

/** The best so far. */
struct best {
    bool found;
    struct place_value value;
    uint32_t *seat_of;
    struct job job;
};

/* Takes the job over. True: it is better. */
static bool keep(const struct choice *c, struct best *best, const uint32_t *seat_of, struct job *job)
{
    struct place_value value = place_value(&c->world->cluster, job, c->rules, seat_of);
    if (best->found && !value_is_less(value, best->value)) {
        job_fini(job);
        return false;
    }
    job_fini(&best->job);
    memcpy(best->seat_of, seat_of, job->num_ranks * sizeof *seat_of);
    best->job = *job;
    best->value = value;
    best->found = true;
    return true;
}

/* Places for these flows, then flows of these places, and again while that makes it better. */
static enum place_error settle(const struct choice *c, const struct job *job, uint32_t *seat_of, struct best *best)
{
    struct job next;
    struct why why;
    bool better = true;
    for (unsigned round = 0; better && round < ROUNDS_MAX; round++) {
        enum place_error error = place_find(&c->world->cluster, round == 0 ? job : &best->job, c->rules, seat_of);
        if (error != PLACE_GOOD)
            return error;
        if (choice_job(c, seat_of, job->num_ranks, &next, &why) != 0)
            return PLACE_NO_MEMORY;
        better = keep(c, best, seat_of, &next);
    }
    return PLACE_GOOD;
}

/* From a launcher's mapping, if that is better than what was found. */
static enum place_error settle_default(const struct choice *c, const struct job *job, enum place_default how,
                                       uint32_t *seat_of, struct best *best)
{
    struct job own;
    struct why why;
    enum place_error error = place_repaired(&c->world->cluster, job, c->rules, how, seat_of);
    if (error != PLACE_GOOD)
        return error == PLACE_NO_MEMORY ? error : PLACE_GOOD; /* the rules leave it no way */
    if (choice_job(c, seat_of, job->num_ranks, &own, &why) != 0)
        return PLACE_NO_MEMORY;
    return keep(c, best, seat_of, &own) ? settle(c, &best->job, seat_of, best) : PLACE_GOOD;
}

enum place_error choice_find(const struct choice *c, struct job *job, uint32_t *seat_of)
{
    if (!depends_on_places(c))
        return place_find(&c->world->cluster, job, c->rules, seat_of);
    struct best best = {.seat_of = calloc((size_t)job->num_ranks + 1, sizeof *seat_of)};
    enum place_error error = best.seat_of != NULL ? settle(c, job, seat_of, &best) : PLACE_NO_MEMORY;
    if (error == PLACE_GOOD)
        error = settle_default(c, job, PLACE_BY_CORE, seat_of, &best);
    if (error == PLACE_GOOD)
        error = settle_default(c, job, PLACE_BY_NODE, seat_of, &best);
    if (error == PLACE_GOOD) {
        memcpy(seat_of, best.seat_of, job->num_ranks * sizeof *seat_of);
        job_fini(job);
        *job = best.job;
    } else {
        job_fini(&best.job);
    }
    free(best.seat_of);
    return error;
}
