/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * box: what boxes have in common, and which rank serves what. Any thread; pure functions. Split by split, the
 * boundaries of the members' boxes cut the consumer's box into a grid, of which each member holds a cell whole or not
 * at all. Each cell goes to one member, and neighbouring cells of one member are joined to rectangles again. The work
 * grows with the cells that each member holds, not with members times cells.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

static bool range_intersect(uint32_t a, uint32_t na, uint32_t b, uint32_t nb, uint32_t *first, uint32_t *count)
{
    uint64_t lo = a > b ? a : b;
    uint64_t ea = (uint64_t)a + na, eb = (uint64_t)b + nb, hi = ea < eb ? ea : eb;
    if (lo >= hi)
        return false;
    *first = (uint32_t)lo;
    *count = (uint32_t)(hi - lo);
    return true;
}

bool box_intersect(const struct plan_box *a, const struct plan_box *b, struct plan_box *out)
{
    struct plan_box box = {.split = a->split};
    if (a->split != b->split ||
        !range_intersect(a->layer_first, a->layer_count, b->layer_first, b->layer_count, &box.layer_first,
                         &box.layer_count) ||
        !range_intersect(a->head_first, a->head_count, b->head_first, b->head_count, &box.head_first, &box.head_count))
        return false;
    *out = box;
    return true;
}

bool plan_members_share(const struct plan_member *a, const struct plan_member *b)
{
    struct plan_box common;
    for (uint32_t i = 0; i < a->num_boxes && i < b->num_boxes; i++)
        if (box_intersect(&a->box[i], &b->box[i], &common))
            return true;
    return false;
}

bool plan_member_covers(const struct plan_member *m, const struct plan_box *box)
{
    struct plan_box common;
    return box->split < m->num_boxes && box_intersect(&m->box[box->split], box, &common) &&
           memcmp(&common, box, sizeof common) == 0;
}

uint32_t plan_boxes(const baton_geometry_t *g, struct plan_box out[BATON_SPLITS_MAX])
{
    uint32_t n = g->num_splits;
    for (uint32_t i = 0; i < n; i++) {
        baton_split_t s = g->splits[i];
        out[i] = (struct plan_box){g->layer_first, g->layer_count, s.head_first, s.head_count, i};
    }
    return n;
}

/* ---- the grid ---------------------------------------------------------------------------------------------------- */

struct candidate {
    uint32_t member, distance;
    struct plan_box box;                       /* what it holds of the consumer's box */
    uint32_t layer, layer_end, head, head_end; /* the same, in cells of the grid */
};

/* One cell: the distance of its nearest holders, how many these are, and the candidate that serves it. */
struct cell {
    uint32_t least, ties, owner;
};

struct grid {
    uint32_t split;
    uint32_t num_layers, num_heads; /* cells in each direction */
    uint32_t *layer, *head;         /* boundaries in each direction: one more than cells */
    struct cell *cell;              /* by layer, then by head */
};

#define NOBODY UINT32_MAX

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t sort_unique(uint32_t *v, uint32_t n)
{
    uint32_t kept = 0;
    qsort(v, n, sizeof *v, compare);
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || v[i] != v[i - 1])
            v[kept++] = v[i];
    return kept;
}

baton_distance_t plan_distance(const struct plan_member *a, const struct plan_member *b)
{
    if (a->node != b->node)
        return BATON_DISTANCE_WORLD;
    if (a->numa == b->numa && a->numa != PLAN_UNKNOWN)
        return BATON_DISTANCE_NUMA;
    return a->package == b->package && a->package != PLAN_UNKNOWN ? BATON_DISTANCE_PACKAGE : BATON_DISTANCE_NODE;
}

/* Makes the grid from the boundaries of `mine` and of all candidates' boxes. */
static int grid_init(struct grid *g, const struct plan_box *mine, const struct candidate *c, uint32_t n,
                     struct plan_why *why)
{
    g->layer = malloc((2 * (size_t)n + 2) * sizeof *g->layer);
    g->head = malloc((2 * (size_t)n + 2) * sizeof *g->head);
    uint32_t num = 0;
    if (g->layer == NULL || g->head == NULL)
        return BATON_ENOMEM;
    for (uint32_t i = 0; i <= n; i++) {
        const struct plan_box *b = i < n ? &c[i].box : mine;
        if (i > 0 && memcmp(b, &c[i - 1].box, sizeof *b) == 0)
            continue; /* a replica of the one before adds no boundary, and sorting thousands of them takes long */
        g->layer[num] = b->layer_first;
        g->head[num++] = b->head_first;
        g->layer[num] = b->layer_first + b->layer_count;
        g->head[num++] = b->head_first + b->head_count;
    }
    g->num_layers = sort_unique(g->layer, num) - 1;
    g->num_heads = sort_unique(g->head, num) - 1;
    if ((uint64_t)g->num_layers * g->num_heads > PLAN_CELLS_MAX) {
        snprintf(why->text, sizeof why->text, "the producers cut split %u into more than %d cells", mine->split,
                 PLAN_CELLS_MAX);
        return BATON_EGEOMETRY;
    }
    uint32_t cells = g->num_layers * g->num_heads;
    g->cell = malloc(cells * sizeof *g->cell);
    for (uint32_t i = 0; g->cell != NULL && i < cells; i++)
        g->cell[i] = (struct cell){.least = UINT32_MAX, .owner = NOBODY};
    return g->cell != NULL ? 0 : BATON_ENOMEM;
}

static void grid_fini(struct grid *g)
{
    free(g->layer);
    free(g->head);
    free(g->cell);
}

/* The index of a boundary that the grid has. */
static uint32_t place_of(const uint32_t *boundary, uint32_t n, uint32_t value)
{
    const uint32_t *at = bsearch(&value, boundary, n, sizeof *boundary, compare);
    return (uint32_t)(at - boundary);
}

static void place(const struct grid *g, struct candidate *c)
{
    c->layer = place_of(g->layer, g->num_layers + 1, c->box.layer_first);
    c->layer_end = place_of(g->layer, g->num_layers + 1, c->box.layer_first + c->box.layer_count);
    c->head = place_of(g->head, g->num_heads + 1, c->box.head_first);
    c->head_end = place_of(g->head, g->num_heads + 1, c->box.head_first + c->box.head_count);
}

static struct cell *cell_at(const struct grid *g, uint32_t layer, uint32_t head)
{
    return &g->cell[(size_t)layer * g->num_heads + head];
}

uint32_t plan_turn(const char *engine)
{
    const char *end = engine + strlen(engine), *digits = end;
    uint32_t number = 0, hash = 0;
    while (digits > engine && digits[-1] >= '0' && digits[-1] <= '9')
        digits--;
    for (const char *at = digits; at < end; at++)
        number = 10 * number + (uint32_t)(*at - '0');
    for (const char *at = engine; at < digits; at++)
        hash = 31 * hash + (uint8_t)*at;
    return hash + number;
}

/* The consumer's index in its engine and its engine's turn, which decide whose turn it is among equals. */
struct turn {
    uint32_t index, engine;
};

/* Which of so many equals serves this consumer: see plan_sources. */
static uint32_t turn_among(const struct turn *of, uint32_t ties)
{
    uint64_t turn = (uint64_t)of->index + of->engine;
    for (uint32_t rest = of->index / ties; ties > 1 && rest > 0; rest /= ties)
        turn += rest;
    return (uint32_t)(turn % ties);
}

/*
 * Gives each cell to its nearest holder, and among equals to the one whose turn it is. False: nobody holds the cell
 * *unheld.
 */
static bool give_out(const struct grid *g, const struct candidate *c, uint32_t n, const struct turn *of,
                     uint32_t *unheld)
{
    uint32_t cells = g->num_layers * g->num_heads;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t l = c[i].layer; l < c[i].layer_end; l++)
            for (uint32_t h = c[i].head; h < c[i].head_end; h++) {
                struct cell *cell = cell_at(g, l, h);
                if (c[i].distance < cell->least)
                    *cell = (struct cell){.least = c[i].distance, .owner = NOBODY};
                cell->ties += c[i].distance == cell->least;
            }
    for (*unheld = 0; *unheld < cells; ++*unheld) {
        struct cell *cell = &g->cell[*unheld];
        if (cell->ties == 0)
            return false;
        /* From here on `ties` counts down to the chosen holder, which finds 1. */
        cell->ties = turn_among(of, cell->ties) + 1;
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t l = c[i].layer; l < c[i].layer_end; l++)
            for (uint32_t h = c[i].head; h < c[i].head_end; h++) {
                struct cell *cell = cell_at(g, l, h);
                if (c[i].distance == cell->least && cell->ties > 0 && --cell->ties == 0)
                    cell->owner = i;
            }
    return true;
}

/*
 * Takes a rectangle of `who` that begins at this cell out of the grid: as many heads as follow each other, then as many
 * layers as have all of these.
 */
static struct plan_box take(struct grid *g, uint32_t who, uint32_t l, uint32_t h)
{
    uint32_t h_end = h, l_end = l;
    while (h_end < g->num_heads && cell_at(g, l, h_end)->owner == who)
        h_end++;
    for (bool whole = true; whole;) {
        for (uint32_t k = h; k < h_end; k++)
            cell_at(g, l_end, k)->owner = NOBODY;
        l_end++;
        whole = l_end < g->num_layers;
        for (uint32_t k = h; whole && k < h_end; k++)
            whole = cell_at(g, l_end, k)->owner == who;
    }
    return (struct plan_box){.layer_first = g->layer[l],
                             .layer_count = g->layer[l_end] - g->layer[l],
                             .head_first = g->head[h],
                             .head_count = g->head[h_end] - g->head[h],
                             .split = g->split};
}

/* Where sources are collected: up to `max` of them. */
struct sources {
    struct plan_source *out;
    uint32_t num, max;
};

/* Adds the sources of a split. */
static int collect(struct grid *g, const struct candidate *c, uint32_t n, struct sources *sources, struct plan_why *why)
{
    for (uint32_t who = 0; who < n; who++)
        for (uint32_t l = c[who].layer; l < c[who].layer_end; l++)
            for (uint32_t h = c[who].head; h < c[who].head_end; h++) {
                if (cell_at(g, l, h)->owner != who)
                    continue;
                if (sources->num == sources->max) {
                    snprintf(why->text, sizeof why->text, "the consumer would read more than %u boxes", sources->max);
                    return BATON_EGEOMETRY;
                }
                sources->out[sources->num++] = (struct plan_source){.member = c[who].member, .box = take(g, who, l, h)};
            }
    return 0;
}

/* Adds the sources of one box of the consumer. `c` has room for all members. */
static int serve(const struct plan_member *me, const struct plan_box *box, const struct turn *turn,
                 const struct plan_member *members, uint32_t n, struct candidate *c, struct sources *sources,
                 struct plan_why *why)
{
    struct grid g = {.split = box->split};
    uint32_t num = 0;
    for (uint32_t i = 0; i < n; i++)
        if (box->split < members[i].num_boxes && box_intersect(box, &members[i].box[box->split], &c[num].box)) {
            c[num].member = i;
            c[num++].distance = plan_distance(me, &members[i]);
        }
    int rc = grid_init(&g, box, c, num, why);
    for (uint32_t i = 0; rc == 0 && i < num; i++)
        place(&g, &c[i]);
    uint32_t unheld;
    if (rc == 0 && !give_out(&g, c, num, turn, &unheld)) {
        snprintf(why->text, sizeof why->text, "no rank holds layer %u, head %u of split %u",
                 g.layer[unheld / g.num_heads], g.head[unheld % g.num_heads], box->split);
        rc = BATON_ESOURCE;
    }
    if (rc == 0)
        rc = collect(&g, c, num, sources, why);
    grid_fini(&g);
    return rc;
}

static int by_member(const void *a, const void *b)
{
    const struct plan_source *x = a, *y = b;
    const uint32_t order[][2] = {{x->member, y->member},
                                 {x->box.split, y->box.split},
                                 {x->box.layer_first, y->box.layer_first},
                                 {x->box.head_first, y->box.head_first}};
    for (unsigned i = 0; i < sizeof order / sizeof order[0]; i++)
        if (order[i][0] != order[i][1])
            return order[i][0] < order[i][1] ? -1 : 1;
    return 0;
}

int plan_sources(const struct plan_member *me, uint32_t me_index, uint32_t turn, const struct plan_member *members,
                 uint32_t n, struct plan_source *out, uint32_t max, struct plan_why *why)
{
    const struct turn of = {me_index, turn};
    struct sources sources = {.out = out, .max = max};
    struct candidate *c = malloc((n ? n : 1) * sizeof *c);
    int rc = c != NULL ? 0 : BATON_ENOMEM;
    for (uint32_t i = 0; rc == 0 && i < me->num_boxes; i++)
        if (me->box[i].layer_count > 0 && me->box[i].head_count > 0)
            rc = serve(me, &me->box[i], &of, members, n, c, &sources, why);
    free(c);
    if (rc == 0 && sources.num > 0 && me->num_boxes > 1)
        qsort(out, sources.num, sizeof *out, by_member);
    return rc == 0 ? (int)sources.num : rc;
}

int plan_check_whole(const baton_geometry_t *g, const struct plan_member *members, uint32_t n, struct plan_why *why)
{
    struct plan_member model = {.num_boxes = g->num_splits};
    for (uint32_t i = 0; i < g->num_splits; i++)
        model.box[i] = (struct plan_box){0, g->layers_total, 0, g->splits[i].heads_total, i};
    struct plan_source *sources = malloc(PLAN_CELLS_MAX * sizeof *sources);
    if (sources == NULL)
        return BATON_ENOMEM;
    int rc = plan_sources(&model, 0, 0, members, n, sources, PLAN_CELLS_MAX, why);
    free(sources);
    return rc < 0 ? rc : 0;
}
