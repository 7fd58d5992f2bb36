/* SPDX-License-Identifier: BSD-3-Clause */
/* explain: see explain.h. */
#include "place/explain.h"

#include <stdlib.h>
#include <string.h>

#include "base/layout.h"
#include "place/pairs.h"

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* "3x2x1": engines, TP, PP. */
static void print_size(FILE *out, const struct engine_size *s)
{
    fprintf(out, s->pp > 1 ? "%ux%ux%u" : "%ux%u", s->engines, s->tp, s->pp);
}

const char *explain_bytes(double bytes, char text[32])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    unsigned unit = 0;
    for (; bytes >= 1000 && unit < 5; unit++)
        bytes /= 1000;
    snprintf(text, 32, bytes < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

static const char *plural(uint32_t n)
{
    return n == 1 ? "" : "s";
}

/* "0-3", or "2" where both are the same. */
static const char *range(uint32_t first, uint32_t last, char text[32])
{
    snprintf(text, 32, last > first ? "%u-%u" : "%u", first, last);
    return text;
}

const char *explain_gpus(const struct explain *e, uint32_t rank, char text[EXPLAIN_GPUS_BYTES])
{
    const struct world_place *p = &e->places[rank];
    const struct machine_device *gpus = e->world->nodes[p->node].machine->gpus;
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < p->seat.num_gpus && at + MACHINE_DEVICE_BYTES < EXPLAIN_GPUS_BYTES; i++)
        at += (size_t)snprintf(text + at, EXPLAIN_GPUS_BYTES - at, "%s%s", i > 0 ? "," : "",
                               gpus[p->seat.first_gpu + i].name);
    return text;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static void print_machine(FILE *out, const struct world_node *n)
{
    const struct machine *m = n->machine;
    uint32_t packages = machine_packages(m), numas = machine_numas(m);
    fprintf(out, "%s: %u package%s, %u NUMA node%s, %u cores, %u hardware threads", n->host, packages, plural(packages),
            numas, plural(numas), m->num_cores, m->num_pus);
    if (m->num_gpus > 0)
        fprintf(out, ", %u GPU%s", m->num_gpus, plural(m->num_gpus));
    if (m->num_nics > 0)
        fprintf(out, ", %u NIC%s", m->num_nics, plural(m->num_nics));
    uint32_t room = n->capacity > 0 && n->capacity < n->num_seats ? n->capacity : n->num_seats;
    fprintf(out, "; room for %u rank%s\n", room, plural(room));
}

void explain_role(const struct explain *e, uint32_t rank, baton_open_params_t *role)
{
    const struct engine_size *prefill = &e->sizes[JOB_PREFILL], *decode = &e->sizes[JOB_DECODE];
    const struct layout layout = {{prefill->engines, prefill->tp, prefill->pp},
                                  {decode->engines, decode->tp, decode->pp}};
    layout_find(&layout, rank, role);
}

/* Of the column with GPUs. */
static int gpu_width(const struct explain *e)
{
    char gpus[EXPLAIN_GPUS_BYTES];
    size_t most = 10;
    for (uint32_t r = 0; r < e->job->num_ranks; r++) {
        size_t length = strlen(explain_gpus(e, r, gpus));
        most = length > most ? length : most;
    }
    return (int)most;
}

#define CORES_WIDTH 9

static void print_rank(FILE *out, const struct explain *e, uint32_t rank, int width)
{
    const struct world_place *p = &e->places[rank];
    const struct machine *m = e->world->nodes[p->node].machine;
    baton_open_params_t role;
    char cores[32] = "all", numa[32], gpus[EXPLAIN_GPUS_BYTES];
    uint32_t first = e->bound ? p->seat.first_core : 0, last = (e->bound ? p->seat.end_core : m->num_cores) - 1;
    explain_role(e, rank, &role);
    range(m->cores[first].numa, m->cores[last].numa, numa);
    if (e->bound)
        range(first, last, cores);
    fprintf(out, "  %6u  %-12s %4u %4u  %5s  %-*s", rank, role.engine, role.tp_rank, role.pp_rank, numa,
            m->num_gpus + m->num_nics > 0 ? CORES_WIDTH : 0, cores);
    if (m->num_gpus > 0)
        fprintf(out, "  %-*s", m->num_nics > 0 ? width : 0, p->seat.num_gpus > 0 ? explain_gpus(e, rank, gpus) : "-");
    if (m->num_nics > 0)
        fprintf(out, "  %s", p->nic != NULL ? p->nic->name : "-");
    fputc('\n', out);
}

/* Ranks in order of seat. A node without any is one of `idle`. */
static void print_nodes(FILE *out, const struct explain *e, const uint32_t *rank_at)
{
    const struct cluster *c = &e->world->cluster;
    uint32_t idle = 0;
    int width = gpu_width(e);
    for (uint32_t i = 0; i < e->world->num_nodes; i++) {
        const struct cluster_group *g = &c->groups[CLUSTER_NODE][i];
        const struct machine *m = e->world->nodes[i].machine;
        bool any = false;
        for (uint32_t seat = g->first; seat < g->end; seat++) {
            if (rank_at[seat] == CLUSTER_FREE)
                continue;
            if (!any) {
                print_machine(out, &e->world->nodes[i]);
                fprintf(out, "    rank  engine         tp   pp   NUMA  %-*s",
                        m->num_gpus + m->num_nics > 0 ? CORES_WIDTH : 0, "cores");
                if (m->num_gpus > 0)
                    fprintf(out, "  %-*s", m->num_nics > 0 ? width : 0, "GPU");
                fputs(m->num_nics > 0 ? "  NIC\n" : "\n", out);
            }
            any = true;
            print_rank(out, e, rank_at[seat], width);
        }
        idle += !any;
    }
    if (idle > 0)
        fprintf(out, "%u node%s without ranks%s\n", idle, idle == 1 ? " is" : "s are",
                e->choice->rules->nodes == PLACE_ANY ? "; --spread uses as many nodes as there are TP groups" : "");
}

/* ---- TP groups on several nodes ---------------------------------------------------------------------------------- */

#define STRADDLING_SHOWN 8

static uint32_t node_of(const struct explain *e, uint32_t rank)
{
    return e->places[rank].node;
}

static bool straddles(const struct explain *e, const struct job_team *team)
{
    for (uint32_t i = 1; i < team->count; i++)
        if (node_of(e, team->first + i) != node_of(e, team->first))
            return true;
    return false;
}

/* "decode0, stage 1: ranks 4-6 on n0, 7 on n2" */
static void print_straddling(FILE *out, const struct explain *e, const struct job_team *team)
{
    baton_open_params_t role;
    char ranks[32];
    explain_role(e, team->first, &role);
    fprintf(out, "  %s", role.engine);
    if (e->sizes[team->side].pp > 1)
        fprintf(out, ", stage %u", role.pp_rank);
    for (uint32_t first = team->first, end = first + team->count, next; first < end; first = next) {
        for (next = first + 1; next < end && node_of(e, next) == node_of(e, first);)
            next++;
        fprintf(out, "%s %s on %s", first == team->first ? ": ranks" : ",", range(first, next - 1, ranks),
                e->world->nodes[node_of(e, first)].host);
    }
    fputc('\n', out);
}

static void print_all_straddling(FILE *out, const struct explain *e)
{
    uint32_t num = 0;
    for (uint32_t i = 0; i < e->job->num_teams; i++) {
        const struct job_team *team = &e->job->teams[i];
        if (!straddles(e, team))
            continue;
        if (num == 0)
            fputs(e->choice->rules->straddle ? "TP groups on several nodes, as --straddle permits:\n"
                                             : "TP groups on several nodes, since no node takes one whole:\n",
                  out);
        if (num++ < STRADDLING_SHOWN)
            print_straddling(out, e, team);
    }
    if (num > STRADDLING_SHOWN)
        fprintf(out, "  and %u more\n", num - STRADDLING_SHOWN);
}

/* ---- what it is worth -------------------------------------------------------------------------------------------- */

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

static const char *breach(enum place_breach what)
{
    switch (what) {
    case PLACE_BREACH_SEATS:
        return "  and breaks the rules: a node has more ranks than it takes";
    case PLACE_BREACH_TEAM:
        return "  and breaks the rules: it cuts TP groups that a node takes whole";
    case PLACE_BREACH_SIDES:
        return "  and breaks the rules: a node has engines of a side that it does not take";
    default:
        return "";
    }
}

/* What a launcher's mapping costs with the flows that follow from it, this placement as 1. -1: no memory. */
static int print_default(FILE *out, const struct explain *e, const char *name, const uint32_t *seat_of)
{
    const struct cluster *c = &e->world->cluster;
    const struct place_rules *rules = e->choice->rules;
    double cost = place_value(c, e->job, rules, e->seat_of).cost;
    struct job job;
    struct why why;
    int rc = choice_job(e->choice, seat_of, e->job->num_ranks, &job, &why);
    if (rc == 0)
        fprintf(out, "  %-36s %6.2f%s\n", name, cost > 0 ? place_value(c, &job, rules, seat_of).cost / cost : 1,
                breach(place_breach(c, &job, rules, seat_of)));
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

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

#define NEAREST_SHOWN 8

static int print_pairs(FILE *out, const struct explain *e)
{
    struct serve_place *places = choice_places(e->world, e->seat_of, e->job->num_ranks);
    const struct pairs pairs = {&e->choice->source, e->world, e->seat_of, places};
    uint32_t num = e->sizes[JOB_DECODE].engines;
    struct pairs_near near[NEAREST_SHOWN];
    int shown = places != NULL ? 0 : -1;
    fputs("decode engines by distance, for a router (average distance of a request's bytes):\n", out);
    for (uint32_t i = 0; shown >= 0 && i < e->sizes[JOB_PREFILL].engines; i++) {
        shown = pairs_find(&pairs, JOB_PREFILL, i, near, NEAREST_SHOWN);
        fprintf(out, "  prefill%u:", i);
        for (int k = 0; k < shown; k++)
            fprintf(out, " decode%u (%.1f)%s", near[k].engine, near[k].distance, (uint32_t)k + 1 < num ? "," : "");
        if (num > NEAREST_SHOWN)
            fprintf(out, " and %u more", num - NEAREST_SHOWN);
        fputc('\n', out);
    }
    free(places);
    return shown < 0 ? -1 : 0;
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

void explain_headline(FILE *out, const struct explain *e)
{
    for (unsigned side = 0; side < JOB_SIDES; side++) {
        if (e->sizes[side].engines == 0)
            continue;
        fputs(side == JOB_DECODE && e->sizes[JOB_PREFILL].engines > 0 ? " and " : "", out);
        print_size(out, &e->sizes[side]);
        fprintf(out, " %s", pairs_side_name((enum job_side)side));
    }
    fprintf(out, ", %u rank%s, on %u node%s (%s; %s); flows %s %s", e->job->num_ranks, plural(e->job->num_ranks),
            e->world->num_nodes, plural(e->world->num_nodes), allocation_source_name(e->allocation->source),
            e->machines, e->uncut != NULL ? "within engines alone, of" : "of", e->model);
}

int explain_costs(FILE *out, const struct explain *e)
{
    print_flows(out, e);
    return print_defaults(out, e);
}

int explain_print(FILE *out, const struct explain *e)
{
    uint32_t *rank_at = cluster_ranks(&e->world->cluster, e->seat_of, e->job->num_ranks);
    if (rank_at == NULL)
        return -1;
    explain_headline(out, e);
    fputs("\n\n", out);
    print_nodes(out, e, rank_at);
    print_all_straddling(out, e);
    if (e->warning != NULL)
        fprintf(out, "warning: %s\n", e->warning);
    free(rank_at);
    fputc('\n', out);
    int rc = explain_costs(out, e);
    if (rc == 0 && e->choice->source.serve != NULL)
        rc = print_pairs(out, e);
    if (e->uncut != NULL)
        fprintf(out, "decode engines by distance: not known, since the engines cannot be cut of %s\n", e->uncut);
    return rc;
}
