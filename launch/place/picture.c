/* SPDX-License-Identifier: BSD-3-Clause */
/* picture: see picture.h. */
#include "place/picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "launch/plan/dot.h"
#include "place/pairs.h"

#define FIRST_HUE 0.55        /* of 0 to 1: blue */
#define GOLDEN_RATIO 0.618034 /* of hues in turn: each differs from all before */
#define ROUNDING 1e-9         /* bytes that differ by this part are equal */
#define WIDTH_LEAST 0.5       /* of a line of a flow */
#define WIDTH_MOST 2.0

static const struct job_team *team_of(const struct explain *e, uint32_t rank)
{
    return &e->job->teams[e->job->team_of[rank]];
}

/* ---- which nodes are drawn --------------------------------------------------------------------------------------- */

struct view {
    const struct explain *explain;
    bool *is_drawn;          /* by node */
    uint32_t left_out, idle; /* nodes with ranks that are not drawn, and nodes without ranks */
};

static int view_init(struct view *v, const struct explain *e)
{
    uint32_t num = 0;
    *v = (struct view){.explain = e, .is_drawn = calloc((size_t)e->world->num_nodes + 1, sizeof *v->is_drawn)};
    if (v->is_drawn == NULL)
        return -1;
    for (uint32_t r = 0; r < e->job->num_ranks; r++)
        v->is_drawn[e->places[r].node] = true;
    for (uint32_t i = 0; i < e->world->num_nodes; i++) {
        v->idle += !v->is_drawn[i];
        if (v->is_drawn[i] && num++ >= PICTURE_NODES_MAX) {
            v->is_drawn[i] = false;
            v->left_out++;
        }
    }
    return 0;
}

static bool has_rank(const struct view *v, uint32_t rank)
{
    return v->is_drawn[v->explain->places[rank].node];
}

/* ---- flows ------------------------------------------------------------------------------------------------------- */

struct flows {
    uint32_t num, of; /* drawn; there are */
    struct job_pair *list;
};

static int heaviest_first(const void *x, const void *y)
{
    const struct job_pair *a = x, *b = y;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->a != b->a ? (a->a < b->a ? -1 : 1) : a->b < b->b ? -1 : a->b > b->b;
}

/* Where not all flows of a size are drawn, those are that are spread evenly over all of them in order of rank. */
static void thin_out(struct flows *f)
{
    const double size = f->list[PICTURE_FLOWS_MAX].bytes;
    uint32_t first = 0, end = PICTURE_FLOWS_MAX;
    while (f->list[first].bytes > size * (1 + ROUNDING))
        first++;
    while (end < f->of && f->list[end].bytes > size * (1 - ROUNDING))
        end++;
    for (uint32_t i = 0; i < PICTURE_FLOWS_MAX - first; i++)
        f->list[first + i] = f->list[first + (uint64_t)i * (end - first) / (PICTURE_FLOWS_MAX - first)];
    f->num = PICTURE_FLOWS_MAX;
}

/* The flows between ranks that are drawn: from prefill to decode, or within engines. 0; -1: no memory. */
static int flows_init(struct flows *f, const struct view *v, bool inside)
{
    const struct job *j = v->explain->unweighted;
    *f = (struct flows){.list = calloc((size_t)j->first_flow[j->num_ranks] + 1, sizeof *f->list)};
    if (f->list == NULL)
        return -1;
    for (uint32_t r = 0; r < j->num_ranks; r++)
        for (uint32_t i = j->first_flow[r]; i < j->first_flow[r + 1]; i++) {
            const uint32_t peer = j->flows[i].peer;
            const bool same = team_of(v->explain, r)->side == team_of(v->explain, peer)->side;
            if (peer > r && same == inside && has_rank(v, r) && has_rank(v, peer))
                f->list[f->of++] = (struct job_pair){r, peer, j->flows[i].bytes};
        }
    qsort(f->list, f->of, sizeof *f->list, heaviest_first);
    f->num = f->of;
    if (f->of > PICTURE_FLOWS_MAX)
        thin_out(f);
    return 0;
}

/* Those from prefill to decode go from left to right. The others have no part in that, and run on the left of ranks. */
static void put_flows(FILE *out, const struct flows *f, bool inside)
{
    char bytes[32];
    fputs(inside ? "edge [color=gray40, style=dashed, arrowhead=none, constraint=false, tailport=w, headport=w];\n"
                 : "edge [color=\"#b2182b\"];\n",
          out);
    for (uint32_t i = 0; i < f->num; i++)
        fprintf(out, "r%u -> r%u [%s=\"%s\", penwidth=%.1f];\n", f->list[i].a, f->list[i].b,
                inside ? "xlabel" : "label", explain_bytes(f->list[i].bytes, bytes),
                WIDTH_LEAST + (WIDTH_MOST - WIDTH_LEAST) * f->list[i].bytes / f->list[0].bytes);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

/* Each engine has one of its own. */
static double hue_of(const struct explain *e, const struct job_team *team)
{
    const uint32_t before = team->side == JOB_DECODE ? e->sizes[JOB_PREFILL].engines : 0;
    return fmod(FIRST_HUE + GOLDEN_RATIO * (before + team->engine), 1);
}

/* A rank, its engine, and its cores, GPUs and NIC. */
static void put_rank(FILE *out, const struct explain *e, uint32_t rank)
{
    const struct job_team *team = team_of(e, rank);
    const struct world_place *p = &e->places[rank];
    char cores[32], gpus[EXPLAIN_GPUS_BYTES];
    baton_open_params_t role;
    explain_role(e, rank, &role);
    fprintf(out, "r%u [label=\"%u: ", rank, rank);
    dot_escaped(out, role.engine);
    fprintf(out, " tp %u", role.tp_rank);
    if (e->sizes[team->side].pp > 1)
        fprintf(out, " pp %u", role.pp_rank);
    fprintf(out, "\\ncores %s", e->bound ? explain_range(p->seat.first_core, p->seat.end_core - 1, cores) : "all");
    if (p->seat.num_gpus > 0) {
        fputs("\\n", out);
        dot_escaped(out, explain_gpus(e, rank, gpus));
    }
    if (p->nic != NULL) {
        fputs(p->seat.num_gpus > 0 ? ", " : "\\n", out);
        dot_escaped(out, p->nic->name);
    }
    fprintf(out, "\", style=%s, fillcolor=\"%.3f 0.35 0.95\"];\n",
            team->side == JOB_DECODE ? "\"filled,rounded\"" : "filled", hue_of(e, team));
}

/* A part of a node is a run of its cores with one number. */
enum part { PART_NODE, PART_PACKAGE, PART_NUMA };

static bool is_together(const struct machine *m, enum part part, uint32_t a, uint32_t b)
{
    const struct machine_core *x = &m->cores[a], *y = &m->cores[b];
    return part == PART_NODE || (x->package == y->package && (part == PART_PACKAGE || x->numa == y->numa));
}

static uint32_t part_end(const struct machine *m, enum part part, uint32_t first)
{
    uint32_t end = first + 1;
    while (end < m->num_cores && is_together(m, part, first, end))
        end++;
    return end;
}

/* The devices whose cores are in this part, and not all in a smaller one. */
static void put_devices(FILE *out, const struct machine *m, enum part part, uint32_t first, uint32_t end)
{
    for (uint32_t i = 0; i < m->num_gpus + m->num_nics; i++) {
        const struct machine_device *d = i < m->num_gpus ? &m->gpus[i] : &m->nics[i - m->num_gpus];
        const bool is_smaller = part != PART_NUMA && d->end_core <= part_end(m, part + 1, d->first_core);
        if (d->first_core < first || d->end_core > end || is_smaller)
            continue;
        fputs(i < m->num_gpus ? ", GPU " : ", NIC ", out);
        dot_escaped(out, d->name);
    }
}

/* Those that begin in cores [first, end) of a node, or what says that there are none: an empty cluster is not drawn. */
static void put_ranks(FILE *out, const struct explain *e, uint32_t node, uint32_t first, uint32_t end)
{
    bool any = false;
    for (uint32_t r = 0; r < e->job->num_ranks; r++) {
        const struct world_place *p = &e->places[r];
        if (p->node != node || p->seat.first_core < first || p->seat.first_core >= end)
            continue;
        put_rank(out, e, r);
        any = true;
    }
    if (!any)
        fprintf(out, "free%u_%u [label=\"no rank\", color=white];\n", node, first);
}

static void put_part(FILE *out, const struct explain *e, uint32_t node, enum part part, uint32_t first)
{
    static const char *const kinds[] = {"node", "package", "numa"};
    const struct machine *m = e->world->nodes[node].machine;
    const uint32_t end = part_end(m, part, first);
    char cores[32];
    fprintf(out, "subgraph cluster_%s%u_%u {\nlabel=\"", kinds[part], node, first);
    if (part == PART_NODE)
        dot_escaped(out, e->world->nodes[node].host);
    else if (part == PART_PACKAGE)
        fprintf(out, "package %u", m->cores[first].package);
    else
        fprintf(out, "NUMA node %u, cores %s", m->cores[first].numa, explain_range(first, end - 1, cores));
    put_devices(out, m, part, first, end);
    fputs(part == PART_PACKAGE ? "\";\nbgcolor=gray95;\n" : "\";\nbgcolor=white;\n", out);
    if (part == PART_NUMA)
        put_ranks(out, e, node, first, end);
    for (uint32_t at = first; part != PART_NUMA && at < end; at = part_end(m, part + 1, at))
        put_part(out, e, node, part + 1, at);
    fputs("}\n", out);
}

/* Nodes in their order, in which those of a switch follow each other. */
static void put_nodes(FILE *out, const struct view *v)
{
    const struct world *w = v->explain->world;
    const struct cluster *c = &w->cluster;
    const bool has_switches = c->num_groups[CLUSTER_NETWORK] > 1;
    uint32_t last = UINT32_MAX;
    for (uint32_t i = 0; i < w->num_nodes; i++) {
        const uint32_t above = c->group_of[CLUSTER_NETWORK][c->groups[CLUSTER_NODE][i].first];
        if (!v->is_drawn[i])
            continue;
        if (has_switches && above != last) {
            fprintf(out, "%ssubgraph cluster_switch%u {\nlabel=\"", last != UINT32_MAX ? "}\n" : "", above);
            fputs(w->nodes[i].above != NULL ? "switch " : "no known switch", out);
            dot_escaped(out, w->nodes[i].above != NULL ? w->nodes[i].above : "");
            fputs("\";\n", out);
            last = above;
        }
        put_part(out, v->explain, i, PART_NODE, 0);
    }
    fputs(last != UINT32_MAX ? "}\n" : "", out);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static void put_kind(FILE *out, const struct flows *f, const char *what)
{
    if (f->num < f->of)
        fprintf(out, "%s: %u of the heaviest flows, of %u\n", what, f->num, f->of);
    else
        fprintf(out, "%s: %u flow%s\n", what, f->num, f->num == 1 ? "" : "s");
}

/* All that is said of the picture as a whole. 0, or -1: no memory. */
static int say(FILE *out, const struct view *v, const struct flows *between, const struct flows *inside)
{
    explain_headline(out, v->explain);
    fputs("\nboxes: prefill; rounded: decode; a colour for each engine\n", out);
    put_kind(out, between, "lines from prefill to decode");
    put_kind(out, inside, "dashed lines within engines");
    if (v->left_out > 0)
        fprintf(out, "nodes with ranks that are not drawn: %u\n", v->left_out);
    if (v->idle > 0)
        fprintf(out, "nodes without ranks, which are not drawn: %u\n", v->idle);
    return explain_costs(out, v->explain);
}

/* Each line of a text, at the left. */
static void put_words(FILE *out, char *text)
{
    fputs("fontname=monospace;\nlabel=\"", out);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        dot_escaped(out, line);
        fputs("\\l", out);
    }
    fputs("\";\n", out);
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

int picture_write(FILE *out, const struct explain *e)
{
    struct view view = {0};
    struct flows between = {0}, inside = {0};
    char *words = NULL;
    size_t length;
    FILE *text = open_memstream(&words, &length);
    int rc = text != NULL && view_init(&view, e) == 0 && flows_init(&between, &view, false) == 0 &&
                     flows_init(&inside, &view, true) == 0 && say(text, &view, &between, &inside) == 0
                 ? 0
                 : -1;
    if (text != NULL && fclose(text) != 0)
        rc = -1;
    if (rc == 0) {
        dot_head(out, "placement");
        put_nodes(out, &view);
        put_flows(out, &between, false);
        put_flows(out, &inside, true);
        put_words(out, words);
        fputs("}\n", out);
    }
    free(words);
    free(inside.list);
    free(between.list);
    free(view.is_drawn);
    return rc;
}
