/* SPDX-License-Identifier: BSD-3-Clause */
/* explain_costs: what a placement costs, a part of the page of explain.h. */
#include <stdlib.h>

#include "place/explain.h"
#include "place/pairs.h"

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

#define TRANSFERS_SHOWN 3

/* The decode engines that read from prefill engine i are those whose shares of all requests overlap with its share. */
static void print_transfers(FILE *out, const struct explain *e)
{
    const uint64_t from = e->sizes[JOB_PREFILL].engines, to = e->sizes[JOB_DECODE].engines;
    const uint32_t shown = from < TRANSFERS_SHOWN ? (uint32_t)from : TRANSFERS_SHOWN;
    char decode[32];
    if (e->choice->source.serve == NULL || from * to == 1)
        return;
    fputs("transfers, as if requests were shared out in order: ", out);
    for (uint32_t i = 0; i < shown; i++)
        fprintf(out, "%sprefill%u to decode%s", i > 0 ? ", " : "", i,
                explain_range((uint32_t)(i * to / from), (uint32_t)(((i + 1) * to - 1) / from), decode));
    fputs(from > shown ? ", and so on\n" : "\n", out);
    if (from > 1 && to > 1)
        fputs("  where a router pairs engines otherwise, the distances of --pairs count\n", out);
}

static void print_flows(FILE *out, const struct explain *e)
{
    const struct cluster *c = &e->world->cluster;
    const struct job *j = e->unweighted;
    double inside[CLUSTER_LEVELS_MAX] = {0}, between[CLUSTER_LEVELS_MAX] = {0};
    for (uint32_t r = 0; r < j->num_ranks; r++)
        for (uint32_t f = j->first_flow[r]; f < j->first_flow[r + 1]; f++) {
            const struct job_flow *flow = &j->flows[f];
            const struct job_team *a = &j->teams[j->team_of[r]], *b = &j->teams[j->team_of[flow->peer]];
            uint32_t level = cluster_level(c, e->seat_of[r], e->seat_of[flow->peer]);
            if (flow->peer > r)
                (a->side == b->side ? inside : between)[level] += flow->bytes;
        }
    fprintf(out, "distances: %s\n", e->costs);
    print_transfers(out, e);
    fputs("bytes a request, by the smallest thing that both ranks have in common:\n", out);
    fprintf(out, "                     distance    from prefill to decode    within engines (weight %g)\n",
            e->choice->source.load.inside);
    for (uint32_t level = 0; level < c->num_levels; level++) {
        char name[32], first[32], second[32];
        if (inside[level] + between[level] > 0)
            fprintf(out, "  %-16s  %9.1f  %24s  %16s\n", world_level_name(e->world, level, name), c->cost[level],
                    explain_bytes(between[level], first), explain_bytes(inside[level], second));
    }
}

/* ---- beside launchers' defaults ---------------------------------------------------------------------------------- */

static const char *const breaches[] = {
    [PLACE_KEPT] = "",
    [PLACE_BREACH_SEATS] = "  and breaks the rules: a node has more ranks than it takes",
    [PLACE_BREACH_TEAM] = "  and breaks the rules: it cuts TP groups that a node takes whole",
    [PLACE_BREACH_SIDES] = "  and breaks the rules: a node has engines of a side that it does not take",
};

/* What a launcher's mapping costs with the flows that follow from it, this placement as 1. -1: no memory. */
static int print_default(FILE *out, const struct explain *e, const char *name, const uint32_t *seat_of)
{
    const struct cluster *c = &e->world->cluster;
    const struct place_rules *rules = e->choice->rules;
    const struct place_value here = place_value(c, e->job, rules, e->seat_of);
    struct job job;
    struct why why;
    int rc = choice_job(e->choice, seat_of, e->job->num_ranks, &job, &why);
    if (rc == 0) {
        const struct place_value value = place_value(c, &job, rules, seat_of);
        const enum place_breach what = place_breach(c, &job, rules, seat_of);
        fprintf(out, "  %-36s %6.2f%s\n", name, here.cost > 0 ? value.cost / here.cost : 1,
                what == PLACE_KEPT && value.broken > here.broken ? "  and uses nodes otherwise than was asked"
                                                                 : breaches[what]);
    }
    job_fini(&job);
    return rc;
}

static int print_defaults(FILE *out, const struct explain *e)
{
    static const struct {
        enum place_default how;
        const char *name;
    } defaults[] = {{PLACE_BY_CORE, "ranks in order, filling each node"}, {PLACE_BY_NODE, "ranks dealt out to nodes"}};
    uint32_t *seat_of = malloc(((size_t)e->job->num_ranks + 1) * sizeof *seat_of);
    int rc = seat_of != NULL ? 0 : -1;
    fputs("bytes times distance, this placement as 1:\n", out);
    for (unsigned i = 0; rc == 0 && i < sizeof defaults / sizeof defaults[0]; i++)
        if (place_default(&e->world->cluster, e->job, defaults[i].how, seat_of) == PLACE_GOOD)
            rc = print_default(out, e, defaults[i].name, seat_of);
    free(seat_of);
    return rc;
}

int explain_costs(FILE *out, const struct explain *e)
{
    print_flows(out, e);
    return print_defaults(out, e);
}
