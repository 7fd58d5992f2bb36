/* SPDX-License-Identifier: BSD-3-Clause */
/* explain: see explain.h. */
#include "place/explain.h"

#include <stdlib.h>
#include <string.h>

#include "place/pairs.h"

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* "3x2x1": engines, TP, PP. */
static void print_size(FILE *out, const struct engine_size *s)
{
    fprintf(out, s->pp > 1 ? "%ux%ux%u" : "%ux%u", s->engines, s->tp, s->pp);
}

static const char *plural(uint32_t n)
{
    return n == 1 ? "" : "s";
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static void print_machine(FILE *out, const struct explain *e, const struct world_node *n)
{
    const struct machine *m = n->machine;
    uint32_t packages = machine_packages(m), numas = machine_numas(m);
    fputs(n->host, out);
    if (n->above != NULL)
        fprintf(out, " (switch %s)", n->above);
    else if (e->world->cluster.num_levels > CLUSTER_NETWORK + 1)
        fputs(" (no known switch)", out);
    fprintf(out, ": %u package%s, %u NUMA node%s, %u cores, %u hardware threads", packages, plural(packages), numas,
            plural(numas), m->num_cores, m->num_pus);
    if (m->num_gpus > 0)
        fprintf(out, ", %u GPU%s", m->num_gpus, plural(m->num_gpus));
    if (m->num_nics > 0)
        fprintf(out, ", %u NIC%s", m->num_nics, plural(m->num_nics));
    uint32_t room = n->capacity < n->num_seats ? n->capacity : n->num_seats;
    fprintf(out, "; room for %u rank%s\n", room, plural(room));
}

static const char gpu_title[] = "GPU (BATON_GPU)";

/* Of the column with GPUs. */
static int gpu_width(const struct explain *e)
{
    char gpus[EXPLAIN_GPUS_BYTES];
    size_t most = strlen(gpu_title);
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
    explain_range(m->cores[first].numa, m->cores[last].numa, numa);
    if (e->bound)
        explain_range(first, last, cores);
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
                print_machine(out, e, &e->world->nodes[i]);
                fprintf(out, "    rank  engine         tp   pp   NUMA  %-*s",
                        m->num_gpus + m->num_nics > 0 ? CORES_WIDTH : 0, "cores");
                if (m->num_gpus > 0)
                    fprintf(out, "  %-*s", m->num_nics > 0 ? width : 0, gpu_title);
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
        fprintf(out, "%s %s on %s", first == team->first ? ": ranks" : ",", explain_range(first, next - 1, ranks),
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

/* ---- where engines are ------------------------------------------------------------------------------------------- */

#define SUMMARY_NODES 8 /* the page of more nodes begins with a summary */

static bool have_equal_nodes(const struct explain *e, uint32_t a, uint32_t b, uint32_t ranks)
{
    for (uint32_t i = 0; i < ranks; i++)
        if (node_of(e, a + i) != node_of(e, b + i))
            return false;
    return true;
}

/* "decode0-1: n1": engines that follow each other on the same hosts are one line. */
static void print_engines(FILE *out, const struct explain *e, enum job_side side)
{
    const uint32_t num = e->sizes[side].engines, ranks = engine_size_ranks(&e->sizes[side]);
    char engines[32];
    for (uint32_t i = 0, next; i < num; i = next) {
        const uint32_t first = flows_first_rank(e->sizes, side, i);
        for (next = i + 1; next < num && have_equal_nodes(e, first, flows_first_rank(e->sizes, side, next), ranks);)
            next++;
        fprintf(out, "%s%s:", pairs_side_name(side), explain_range(i, next - 1, engines));
        for (uint32_t r = first; r < first + ranks; r++)
            if (cluster_is_new_node(&e->world->cluster, e->seat_of, first, r))
                fprintf(out, " %s", e->world->nodes[node_of(e, r)].host);
        fputc('\n', out);
    }
}

static void print_summary(FILE *out, const struct explain *e)
{
    if (e->world->num_nodes <= SUMMARY_NODES)
        return;
    print_engines(out, e, JOB_PREFILL);
    print_engines(out, e, JOB_DECODE);
    fputc('\n', out);
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

int explain_print(FILE *out, const struct explain *e)
{
    uint32_t *rank_at = cluster_ranks(&e->world->cluster, e->seat_of, e->job->num_ranks);
    if (rank_at == NULL)
        return -1;
    explain_headline(out, e);
    fputs("\n\n", out);
    print_summary(out, e);
    print_nodes(out, e, rank_at);
    print_all_straddling(out, e);
    int rc = explain_idle_cores(out, e);
    for (unsigned i = 0; i < EXPLAIN_WARNINGS && e->warnings[i] != NULL; i++)
        fprintf(out, "warning: %s\n", e->warnings[i]);
    free(rank_at);
    fputc('\n', out);
    if (rc == 0)
        rc = explain_costs(out, e);
    if (rc == 0 && e->choice->source.serve != NULL)
        rc = print_pairs(out, e);
    if (e->uncut != NULL)
        fprintf(out, "decode engines by distance: not known, since the engines cannot be cut of %s\n", e->uncut);
    return rc;
}
