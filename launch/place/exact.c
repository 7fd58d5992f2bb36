/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exact: the best placement of few ranks, by dynamic programming over their subsets, see board.h. A table says for each
 * set of ranks what it costs at least within a group: the least, over all ways to share the set out to the group's
 * children, of what the children cost and of the flows between them, which cost the group's distance. Of equal ways the
 * one is taken that shares out the cores of each node most evenly. Groups of equal shape have equal tables. With n
 * ranks a child takes 3^n steps, one for each set and each of its subsets.
 */
#include <stdlib.h>
#include <string.h>

#include "place/board.h"

typedef uint32_t set_t; /* of ranks: bit i stands for the i-th of the list */

/* Of one shape. */
struct table {
    struct table *next; /* of the same level */
    uint64_t shape;
    struct worth *worth; /* by set; `broken` IMPOSSIBLE: it may not be there */
    uint32_t num;        /* children that the set is shared out to; none at the innermost level */
    uint32_t *child;     /* their places among the group's children */
    set_t *given;        /* [child][set]: what that child and those before it give to it, of a set they share */
};

struct exact {
    struct board *board;
    const uint32_t *ranks;
    uint32_t num, level;
    double *bytes; /* by set: of the flows within it */
    struct table *tables[CLUSTER_LEVELS_MAX];
    bool no_memory;
};

#define IMPOSSIBLE (UINT64_MAX / 2)

static uint32_t size_of(set_t set)
{
    return (uint32_t)__builtin_popcount(set);
}

/* ---- one group --------------------------------------------------------------------------------------------------- */

/* What the rules say to a set on a node. */
static uint64_t broken_by(const struct exact *x, uint32_t node, set_t set)
{
    const struct board *b = x->board;
    uint32_t held[JOB_SIDES] = {0, 0};
    if (size_of(set) > b->cluster->capacity[node])
        return IMPOSSIBLE;
    for (uint32_t i = 0; i < x->num; i++) {
        const struct unit *u = &b->units[b->unit_of[x->ranks[i]]];
        if (i > 0 && b->unit_of[x->ranks[i - 1]] == b->unit_of[x->ranks[i]] && (set >> i & 1) != (set >> (i - 1) & 1))
            return IMPOSSIBLE;
        held[u->side] += set >> i & 1;
    }
    for (unsigned side = 0; side < JOB_SIDES; side++)
        if (held[side] > 0 && !cluster_takes(b->cluster, node, side))
            return IMPOSSIBLE;
    bool is_used = set != 0, is_lonely = (held[0] > 0) != (held[1] > 0);
    if (b->rules->sides == PLACE_APART && is_used && !is_lonely)
        return IMPOSSIBLE;
    return (b->rules->sides == PLACE_TOGETHER && is_lonely) + (b->rules->nodes == PLACE_PACK && is_used) +
           (b->rules->nodes == PLACE_SPREAD && !is_used);
}

/* Shares each set out between what the children so far take and this one. `gain`: of a byte within the child. */
static void add_child(const struct exact *x, struct worth *worth, const struct worth *child, double gain, set_t *given)
{
    for (set_t set = (set_t)1 << x->num; set-- > 0;) {
        struct worth least = {{IMPOSSIBLE, 0}, 0};
        set_t part = 0; /* of equal ways the one that leaves this child empty, or gives it the later ranks */
        do {
            const struct worth *rest = &worth[set ^ part], *own = &child[part];
            struct worth here = {
                {rest->value.broken + own->value.broken, rest->value.cost + own->value.cost - gain * x->bytes[part]},
                rest->crowd + own->crowd};
            if (here.value.broken < IMPOSSIBLE && worth_is_less(here, least)) {
                least = here;
                given[set] = part;
            }
            part = ((part == 0 ? set + 1 : part) - 1) & set;
        } while (part != 0);
        worth[set] = least; /* larger sets need smaller ones as they were: these come later */
    }
}

static struct table *table_of(struct exact *x, uint32_t level, uint32_t group);

/* The children that sets are shared out to: of equal ones as many as there are ranks are enough. */
static uint32_t choose_children(const struct exact *x, uint32_t level, const struct cluster_group *g, uint32_t *child)
{
    const struct cluster_group *children = x->board->cluster->groups[level - 1];
    uint32_t n = 0;
    for (uint32_t i = g->first_child; i < g->end_child; i++) {
        uint32_t equal = 0;
        for (uint32_t k = 0; k < n && equal < x->num; k++)
            equal += children[g->first_child + child[k]].shape == children[i].shape;
        if (equal < x->num)
            child[n++] = i - g->first_child;
    }
    return n;
}

/* A set in a group, whose children have been added. Crowd counts within a node: between nodes costs alone do. */
static void finish(const struct exact *x, struct worth *w, uint32_t level, uint32_t group, set_t set)
{
    uint64_t broken = level == CLUSTER_NODE && x->level > level ? broken_by(x, group, set) : 0;
    w->value.cost += x->board->cluster->cost[level] * x->bytes[set];
    w->value.broken = w->value.broken + broken < IMPOSSIBLE ? w->value.broken + broken : IMPOSSIBLE;
    if (level == CLUSTER_NUMA)
        w->crowd = crowd_of(&x->board->cluster->groups[level][group], size_of(set));
    else if (level == CLUSTER_NODE)
        w->crowd = 0;
}

static void fill(struct exact *x, struct table *t, uint32_t level, uint32_t group)
{
    const struct cluster *c = x->board->cluster;
    const struct cluster_group *g = &c->groups[level][group];
    set_t sets = (set_t)1 << x->num;
    for (set_t set = 0; set < sets; set++) { /* a group without children, whose seats are all alike */
        bool fits = level == 0 ? size_of(set) <= g->end - g->first : set == 0;
        t->worth[set].value.broken = fits ? 0 : IMPOSSIBLE;
    }
    for (uint32_t i = 0; i < t->num && !x->no_memory; i++) {
        const struct table *child = table_of(x, level - 1, g->first_child + t->child[i]);
        if (child != NULL)
            add_child(x, t->worth, child->worth, c->cost[level], &t->given[(size_t)i * sets]);
    }
    for (set_t set = 0; set < sets; set++)
        finish(x, &t->worth[set], level, group, set);
}

/* NULL: no memory. */
static struct table *table_of(struct exact *x, uint32_t level, uint32_t group)
{
    const struct cluster_group *g = &x->board->cluster->groups[level][group];
    size_t sets = (size_t)1 << x->num;
    struct table *t = x->tables[level];
    while (t != NULL && t->shape != g->shape)
        t = t->next;
    if (t != NULL)
        return t;
    t = calloc(1, sizeof *t);
    if (t == NULL) {
        x->no_memory = true;
        return NULL;
    }
    t->shape = g->shape;
    t->next = x->tables[level];
    x->tables[level] = t;
    t->worth = calloc(sets, sizeof *t->worth);
    t->child = calloc(g->end_child - g->first_child + 1, sizeof *t->child);
    if (t->child != NULL && level > 0)
        t->num = choose_children(x, level, g, t->child);
    t->given = calloc(sets * t->num + 1, sizeof *t->given);
    x->no_memory |= t->worth == NULL || t->child == NULL || t->given == NULL;
    if (!x->no_memory)
        fill(x, t, level, group);
    return x->no_memory ? NULL : t;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static void seat(struct exact *x, uint32_t level, uint32_t group, set_t set)
{
    const struct cluster_group *g = &x->board->cluster->groups[level][group];
    const struct table *t = table_of(x, level, group);
    uint32_t at = g->first;
    for (uint32_t i = 0; level == 0 && i < x->num; i++)
        if (set >> i & 1)
            board_put(x->board, x->ranks[i], at++);
    for (uint32_t i = t->num; i-- > 0;) {
        set_t part = t->given[((size_t)i << x->num) + set];
        if (part != 0)
            seat(x, level - 1, g->first_child + t->child[i], part);
        set ^= part;
    }
}

static void sum_bytes(struct exact *x)
{
    const struct job *j = x->board->job;
    for (set_t set = 1; set < (set_t)1 << x->num; set++) {
        uint32_t last = size_of(set) == 0 ? 0 : (uint32_t)(31 - __builtin_clz(set)), rank = x->ranks[last];
        double bytes = x->bytes[set ^ (set_t)1 << last];
        for (uint32_t f = j->first_flow[rank]; f < j->first_flow[rank + 1]; f++)
            for (uint32_t i = 0; i < last; i++)
                bytes += set >> i & 1 && x->ranks[i] == j->flows[f].peer ? j->flows[f].bytes : 0;
        x->bytes[set] = bytes;
    }
}

enum place_error exact_place(struct board *b, const uint32_t *ranks, uint32_t num, uint32_t level, uint32_t group)
{
    struct exact x = {.board = b, .ranks = ranks, .num = num, .level = level};
    if (num > EXACT_RANKS_MAX)
        return PLACE_NO_FIT;
    set_t all = ((set_t)1 << num) - 1;
    x.bytes = calloc((size_t)all + 1, sizeof *x.bytes);
    enum place_error error = PLACE_NO_MEMORY;
    if (x.bytes != NULL) {
        sum_bytes(&x);
        const struct table *t = table_of(&x, level, group);
        if (t != NULL)
            error = t->worth[all].value.broken < IMPOSSIBLE ? PLACE_GOOD : PLACE_NO_FIT;
    }
    if (error == PLACE_GOOD) {
        for (uint32_t i = 0; i < num; i++)
            if (b->seat_of[ranks[i]] != PLACE_NONE)
                board_take(b, ranks[i]);
        seat(&x, level, group, all);
    }
    for (uint32_t l = 0; l <= level; l++)
        while (x.tables[l] != NULL) {
            struct table *t = x.tables[l];
            x.tables[l] = t->next;
            free(t->worth);
            free(t->child);
            free(t->given);
            free(t);
        }
    free(x.bytes);
    return error;
}
