/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sketch: see sketch.h. Sizes come from inside out: a NUMA node is as large as its cores, ranks and devices need, a
 * package as its NUMA nodes need, in rows, and so on. Then places come from outside in.
 */
#include "place/sketch.h"

#include <math.h>
#include <stdlib.h>

#define GAP_PX 3
#define RANK_WIDTH_PX 92
#define RANK_HEIGHT_PX 15
#define RANKS_A_COLUMN 8
#define DEVICE_WIDTH_PX 44.5 /* two are as wide as a rank */
#define DEVICE_HEIGHT_PX 13
#define PACKAGE_WIDTH_PX 440 /* of rows of NUMA nodes, packages and nodes, unless one is wider */
#define NODE_WIDTH_PX 900
#define PAGE_WIDTH_PX 1840
#define NODE_GAP_PX 14
#define SWITCH_PX 18 /* room above the first node of a switch */

/* ---- parts of a node --------------------------------------------------------------------------------------------- */

static bool is_within(const struct machine_device *d, const struct sketch_part *part)
{
    return d->first_core >= part->first_core && d->end_core <= part->end_core;
}

bool sketch_is_of(const struct sketch_node *n, const struct machine_device *d, const struct sketch_part *part)
{
    bool is_numa = part >= n->numas && part < n->numas + n->num_numas;
    if (!is_within(d, part))
        return false;
    for (uint32_t i = 0; !is_numa && i < n->num_numas; i++)
        if (is_within(d, &n->numas[i]))
            return false;
    for (uint32_t i = 0; part == &n->whole && i < n->num_packages; i++)
        if (is_within(d, &n->packages[i]))
            return false;
    return true;
}

static uint32_t count_devices(const struct sketch_node *n, const struct machine *m, const struct sketch_part *part)
{
    uint32_t num = 0;
    for (uint32_t i = 0; i < m->num_gpus; i++)
        num += sketch_is_of(n, &m->gpus[i], part);
    for (uint32_t i = 0; i < m->num_nics; i++)
        num += sketch_is_of(n, &m->nics[i], part);
    return num;
}

/* Runs of cores with one number; a package with two runs is drawn as two. */
static uint32_t cut_parts(const struct machine *m, bool of_packages, struct sketch_part *parts)
{
    uint32_t num = 0;
    for (uint32_t i = 0; i < m->num_cores; i++) {
        const struct machine_core *c = &m->cores[i], *before = &m->cores[i > 0 ? i - 1 : 0];
        bool is_new = i == 0 || c->package != before->package || (!of_packages && c->numa != before->numa);
        if (is_new)
            parts[num++] = (struct sketch_part){.first_core = i};
        parts[num - 1].end_core = i + 1;
    }
    return num;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static double inner(const struct sketch_part *p)
{
    return p->box.width - 2 * SKETCH_PAD_PX;
}

static uint32_t devices_a_row(const struct sketch_part *p)
{
    return (uint32_t)((inner(p) + GAP_PX) / (DEVICE_WIDTH_PX + GAP_PX));
}

static uint32_t cores_a_row(const struct sketch_part *p)
{
    return (uint32_t)((inner(p) + 2) / (SKETCH_CORE_PX + 2));
}

static uint32_t squares(const struct sketch_part *p)
{
    return divide_up(p->end_core - p->first_core, p->cores_a_px);
}

/* Room for its devices below what it has already. */
static void add_devices(struct sketch_part *p, uint32_t num)
{
    p->devices = num;
    p->devices_y = p->box.height;
    p->box.height += divide_up(num, devices_a_row(p)) * (DEVICE_HEIGHT_PX + GAP_PX) + SKETCH_PAD_PX - GAP_PX;
}

static uint32_t rank_columns(const struct sketch_part *p)
{
    return p->ranks > RANKS_A_COLUMN ? divide_up(p->ranks, RANKS_A_COLUMN) : 1;
}

static double ranks_y(const struct sketch_part *p)
{
    return SKETCH_TITLE_PX + divide_up(squares(p), cores_a_row(p)) * (SKETCH_CORE_PX + 2) + GAP_PX;
}

static void size_numa(struct sketch_part *p, uint32_t num_devices)
{
    uint32_t columns = rank_columns(p);
    p->cores_a_px = divide_up(p->end_core - p->first_core, SKETCH_CORES_MAX);
    p->box.width = columns * (RANK_WIDTH_PX + GAP_PX) - GAP_PX + 2 * SKETCH_PAD_PX;
    p->box.height = ranks_y(p) + divide_up(p->ranks, columns) * (RANK_HEIGHT_PX + GAP_PX);
    add_devices(p, num_devices);
}

/* Puts the parts into rows within their parent, whose box gets their size. */
static void shelve(struct sketch_part *parent, struct sketch_part *parts, uint32_t num, double width,
                   struct drawing_box *scratch)
{
    for (uint32_t i = 0; i < num; i++)
        scratch[i] = parts[i].box;
    struct drawing_box all = drawing_shelve(scratch, num, width, GAP_PX);
    for (uint32_t i = 0; i < num; i++) {
        parts[i].box.x = scratch[i].x + SKETCH_PAD_PX;
        parts[i].box.y = scratch[i].y + SKETCH_TITLE_PX + GAP_PX;
    }
    parent->box.width = all.width + 2 * SKETCH_PAD_PX;
    parent->box.height = all.height + SKETCH_TITLE_PX + 2 * GAP_PX;
}

static void size_node(const struct explain *e, struct sketch_node *n, struct drawing_box *scratch)
{
    const struct machine *m = e->world->nodes[n->number].machine;
    uint32_t numa = 0;
    for (uint32_t i = 0; i < n->num_numas; i++)
        size_numa(&n->numas[i], count_devices(n, m, &n->numas[i]));
    for (uint32_t i = 0; i < n->num_packages; i++) {
        struct sketch_part *p = &n->packages[i];
        uint32_t first = numa;
        while (numa < n->num_numas && n->numas[numa].end_core <= p->end_core)
            numa++;
        shelve(p, &n->numas[first], numa - first, PACKAGE_WIDTH_PX, scratch);
        add_devices(p, count_devices(n, m, p));
    }
    shelve(&n->whole, n->packages, n->num_packages, NODE_WIDTH_PX, scratch);
    add_devices(&n->whole, count_devices(n, m, &n->whole));
    n->box = n->whole.box;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static void move_part(struct sketch_part *p, const struct drawing_box *parent)
{
    p->box.x += parent->x;
    p->box.y += parent->y;
    p->devices_y += p->box.y;
}

static void move_node(struct sketch_node *n)
{
    n->whole.box = n->box;
    n->whole.devices_y += n->box.y;
    for (uint32_t i = 0; i < n->num_packages; i++) {
        move_part(&n->packages[i], &n->box);
        for (uint32_t k = 0; k < n->num_numas; k++)
            if (n->numas[k].first_core >= n->packages[i].first_core && n->numas[k].end_core <= n->packages[i].end_core)
                move_part(&n->numas[k], &n->packages[i].box);
    }
}

/* Nodes in rows, and those of each switch in rows of their own, below a title. */
static void place_nodes(struct sketch *s, struct drawing_box *scratch)
{
    const struct cluster *c = &s->explain->world->cluster;
    const struct cluster_group *groups = c->groups[CLUSTER_NODE];
    bool titled = c->num_groups[CLUSTER_NETWORK] > 1;
    double y = 0;
    for (uint32_t i = 0, next; i < s->num_nodes; i = next) {
        uint32_t above = c->group_of[CLUSTER_NETWORK][groups[s->nodes[i].number].first];
        for (next = i;
             next < s->num_nodes && c->group_of[CLUSTER_NETWORK][groups[s->nodes[next].number].first] == above; next++)
            scratch[next - i] = s->nodes[next].box;
        struct drawing_box all = drawing_shelve(scratch, next - i, PAGE_WIDTH_PX, NODE_GAP_PX);
        y += titled ? SWITCH_PX : 0;
        for (uint32_t k = i; k < next; k++) {
            s->nodes[k].box.x = scratch[k - i].x;
            s->nodes[k].box.y = scratch[k - i].y + y;
            move_node(&s->nodes[k]);
        }
        y += all.height + NODE_GAP_PX;
        s->page.width = all.width > s->page.width ? all.width : s->page.width;
    }
    s->page.height = y - NODE_GAP_PX;
}

static void place_ranks(struct sketch *s, const struct sketch_node *n)
{
    const struct explain *e = s->explain;
    const struct cluster_group *g = &e->world->cluster.groups[CLUSTER_NODE][n->number];
    for (uint32_t i = 0; i < n->num_numas; i++) {
        const struct sketch_part *p = &n->numas[i];
        uint32_t columns = rank_columns(p), k = 0;
        for (uint32_t seat = g->first; seat < g->end; seat++) {
            uint32_t rank = s->rank_at[seat];
            if (rank == CLUSTER_FREE || e->places[rank].seat.first_core < p->first_core ||
                e->places[rank].seat.first_core >= p->end_core)
                continue;
            s->ranks[rank] = (struct drawing_box){
                p->box.x + SKETCH_PAD_PX + k % columns * (RANK_WIDTH_PX + GAP_PX),
                p->box.y + ranks_y(p) + floor((double)k / columns) * (RANK_HEIGHT_PX + GAP_PX),
                RANK_WIDTH_PX,
                RANK_HEIGHT_PX,
            };
            k++;
        }
    }
}

struct drawing_box sketch_device(const struct sketch_part *part, uint32_t k)
{
    uint32_t a_row = devices_a_row(part);
    return (struct drawing_box){part->box.x + SKETCH_PAD_PX + k % a_row * (DEVICE_WIDTH_PX + GAP_PX),
                                part->devices_y + floor((double)k / a_row) * (DEVICE_HEIGHT_PX + GAP_PX),
                                DEVICE_WIDTH_PX, DEVICE_HEIGHT_PX};
}

struct drawing_box sketch_core(const struct sketch_part *numa, uint32_t k)
{
    uint32_t a_row = cores_a_row(numa);
    return (struct drawing_box){numa->box.x + SKETCH_PAD_PX + k % a_row * (SKETCH_CORE_PX + 2),
                                numa->box.y + SKETCH_TITLE_PX + floor((double)k / a_row) * (SKETCH_CORE_PX + 2),
                                SKETCH_CORE_PX, SKETCH_CORE_PX};
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static int init_node(const struct sketch *s, uint32_t number, struct sketch_node *n, struct drawing_box *scratch)
{
    const struct explain *e = s->explain;
    const struct machine *m = e->world->nodes[number].machine;
    const struct cluster_group *g = &e->world->cluster.groups[CLUSTER_NODE][number];
    *n = (struct sketch_node){.number = number, .whole = {.end_core = m->num_cores}};
    n->packages = calloc(m->num_cores, sizeof *n->packages);
    n->numas = calloc(m->num_cores, sizeof *n->numas);
    if (n->packages == NULL || n->numas == NULL)
        return -1;
    n->num_packages = cut_parts(m, true, n->packages);
    n->num_numas = cut_parts(m, false, n->numas);
    for (uint32_t seat = g->first; seat < g->end; seat++)
        for (uint32_t i = 0; s->rank_at[seat] != CLUSTER_FREE && i < n->num_numas; i++) {
            uint32_t core = e->places[s->rank_at[seat]].seat.first_core;
            n->numas[i].ranks += core >= n->numas[i].first_core && core < n->numas[i].end_core;
        }
    size_node(e, n, scratch);
    return 0;
}

static bool is_idle(const struct sketch *s, uint32_t number)
{
    const struct cluster_group *g = &s->explain->world->cluster.groups[CLUSTER_NODE][number];
    for (uint32_t seat = g->first; seat < g->end; seat++)
        if (s->rank_at[seat] != CLUSTER_FREE)
            return false;
    return true;
}

int sketch_init(struct sketch *s, const struct explain *e)
{
    uint32_t most = SKETCH_NODES_MAX;
    for (uint32_t i = 0; i < e->world->num_nodes; i++)
        most = e->world->nodes[i].machine->num_cores > most ? e->world->nodes[i].machine->num_cores : most;
    *s = (struct sketch){.explain = e,
                         .nodes = calloc(SKETCH_NODES_MAX, sizeof *s->nodes),
                         .ranks = calloc((size_t)e->job->num_ranks + 1, sizeof *s->ranks),
                         .rank_at = cluster_ranks(&e->world->cluster, e->seat_of, e->job->num_ranks)};
    struct drawing_box *scratch = calloc(most, sizeof *scratch);
    int rc = s->nodes != NULL && s->ranks != NULL && s->rank_at != NULL && scratch != NULL ? 0 : -1;
    for (uint32_t i = 0; rc == 0 && i < e->world->num_nodes; i++) {
        if (is_idle(s, i))
            continue;
        if (s->num_nodes < SKETCH_NODES_MAX)
            rc = init_node(s, i, &s->nodes[s->num_nodes++], scratch);
        else
            s->left_out++;
    }
    if (rc == 0)
        place_nodes(s, scratch);
    for (uint32_t i = 0; rc == 0 && i < s->num_nodes; i++)
        place_ranks(s, &s->nodes[i]);
    free(scratch);
    return rc;
}

void sketch_fini(struct sketch *s)
{
    for (uint32_t i = 0; i < s->num_nodes; i++) {
        free(s->nodes[i].packages);
        free(s->nodes[i].numas);
    }
    free(s->nodes);
    free(s->ranks);
    free(s->rank_at);
    *s = (struct sketch){0};
}
