/* SPDX-License-Identifier: BSD-3-Clause */
/* start: placements to begin with, see board.h. */
#include <stdlib.h>

#include "place/board.h"

/* ---- greedy growth ----------------------------------------------------------------------------------------------- */

/* The unit without a seat that exchanges most with those that sit; among equals the largest, then the first. */
static uint32_t next_unit(const struct board *b, const double *pull)
{
    uint32_t best = PLACE_NONE;
    for (uint32_t u = 0; u < b->num_units; u++) {
        if (b->seat_of[b->units[u].first] != PLACE_NONE)
            continue;
        if (best == PLACE_NONE || pull[u] > pull[best] ||
            (pull[u] == pull[best] && b->units[u].count > b->units[best].count))
            best = u;
    }
    return best;
}

/* What a unit exchanges with each node, as a list of the nodes. */
struct pulls {
    double *bytes; /* by node */
    uint32_t *nodes, num;
};

static void find_pulls(const struct board *b, uint32_t unit, struct pulls *p)
{
    const struct job *j = b->job;
    const struct unit *u = &b->units[unit];
    for (uint32_t i = 0; i < p->num; i++)
        p->bytes[p->nodes[i]] = 0;
    p->num = 0;
    for (uint32_t f = j->first_flow[u->first]; f < j->first_flow[u->first + u->count]; f++) {
        uint32_t seat = b->seat_of[j->flows[f].peer];
        if (seat == PLACE_NONE)
            continue;
        uint32_t node = cluster_node(b->cluster, seat);
        if (p->bytes[node] == 0 && j->flows[f].bytes > 0)
            p->nodes[p->num++] = node;
        p->bytes[node] += j->flows[f].bytes;
    }
}

static double cost_on(const struct board *b, const struct pulls *p, uint32_t node)
{
    const struct cluster_group *nodes = b->cluster->groups[CLUSTER_NODE];
    double cost = 0;
    for (uint32_t i = 0; i < p->num; i++)
        cost += p->bytes[p->nodes[i]] * cluster_node_distance(b->cluster, nodes[node].first, nodes[p->nodes[i]].first);
    return cost;
}

/* What the rules lose by a unit on this node: -1 to 2. */
static int broken_by(const struct board *b, uint32_t unit, uint32_t node)
{
    const uint32_t *held = b->held[node];
    enum job_side side = b->units[unit].side;
    int is_new = held[0] + held[1] == 0, broken = 0;
    if (b->rules->nodes != PLACE_ANY)
        broken += b->rules->nodes == PLACE_PACK ? is_new : -is_new;
    if (b->rules->sides == PLACE_TOGETHER)
        broken += is_new ? 1 : held[side] == 0 ? -1 : 0;
    return broken;
}

struct choice {
    uint32_t node;
    int broken;
    double cost;
    uint32_t room;
};

static bool is_better(const struct choice *a, const struct choice *b, enum start_tie tie)
{
    if (b->node == PLACE_NONE || a->broken != b->broken)
        return b->node == PLACE_NONE || a->broken < b->broken;
    if (a->cost != b->cost)
        return a->cost < b->cost;
    return tie == START_TIGHT ? a->room < b->room : tie == START_ROOMY && a->room > b->room;
}

static bool seat_unit(struct board *b, uint32_t unit, enum start_tie tie, struct pulls *p)
{
    struct choice best = {.node = PLACE_NONE};
    find_pulls(b, unit, p);
    for (uint32_t node = 0; node < b->cluster->num_groups[CLUSTER_NODE]; node++) {
        if (!board_takes(b, node, b->units[unit].count, b->units[unit].side))
            continue;
        struct choice here = {node, broken_by(b, unit, node), cost_on(b, p, node), board_room(b, node)};
        if (is_better(&here, &best, tie))
            best = here;
    }
    if (best.node != PLACE_NONE)
        board_put_unit(b, unit, best.node);
    return best.node != PLACE_NONE;
}

static void add_pull(const struct board *b, uint32_t unit, double *pull)
{
    const struct job *j = b->job;
    const struct unit *u = &b->units[unit];
    for (uint32_t f = j->first_flow[u->first]; f < j->first_flow[u->first + u->count]; f++)
        pull[b->unit_of[j->flows[f].peer]] += j->flows[f].bytes;
}

bool start_greedy(struct board *b, enum start_tie tie)
{
    uint32_t nodes = b->cluster->num_groups[CLUSTER_NODE], unit;
    struct pulls p = {.bytes = calloc((size_t)nodes + 1, sizeof *p.bytes),
                      .nodes = calloc((size_t)nodes + 1, sizeof *p.nodes)};
    double *pull = calloc((size_t)b->num_units + 1, sizeof *pull);
    bool good = p.bytes != NULL && p.nodes != NULL && pull != NULL;
    while (good && (unit = next_unit(b, pull)) != PLACE_NONE) {
        good = seat_unit(b, unit, tie, &p);
        if (good)
            add_pull(b, unit, pull);
    }
    free(p.bytes);
    free(p.nodes);
    free(pull);
    return good;
}

/* ---- launchers' defaults ----------------------------------------------------------------------------------------- */

/* The first node from `first` on that takes a unit. PLACE_NONE: none does. */
static uint32_t next_node(const struct board *b, uint32_t unit, uint32_t first)
{
    uint32_t nodes = b->cluster->num_groups[CLUSTER_NODE];
    for (uint32_t tried = 0; tried < nodes; tried++) {
        uint32_t node = (first + tried) % nodes;
        if (board_takes(b, node, b->units[unit].count, b->units[unit].side))
            return node;
    }
    return PLACE_NONE;
}

bool start_default(struct board *b, enum place_default how)
{
    uint32_t nodes = b->cluster->num_groups[CLUSTER_NODE], turn = 0;
    for (uint32_t u = 0; u < b->num_units; u++) {
        uint32_t node = next_node(b, u, how == PLACE_BY_CORE ? 0 : turn);
        if (node == PLACE_NONE)
            return false;
        board_put_unit(b, u, node);
        turn = (node + 1) % nodes;
    }
    return true;
}

/* ---- by chance --------------------------------------------------------------------------------------------------- */

/* A number below `num`: splitmix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014). */
static uint32_t draw(uint64_t *random, uint32_t num)
{
    uint64_t z = *random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ z >> 31) % num);
}

bool start_random(struct board *b, uint64_t *random)
{
    uint32_t *order = calloc((size_t)b->num_units + 1, sizeof *order);
    bool good = order != NULL;
    for (uint32_t i = 0; good && i < b->num_units; i++) { /* a shuffle from inside out */
        uint32_t k = draw(random, i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    for (uint32_t i = 0; good && i < b->num_units; i++) {
        uint32_t node = next_node(b, order[i], draw(random, b->cluster->num_groups[CLUSTER_NODE]));
        good = node != PLACE_NONE;
        if (good)
            board_put_unit(b, order[i], node);
    }
    free(order);
    return good;
}

/* ---- where there is little room ---------------------------------------------------------------------------------- */

/* Units of one size, and of one side where not every node takes both or sides are apart. */
struct kind {
    uint32_t size, num, next; /* next: the first unit that may be one of these and has no node */
    int side;                 /* JOB_SIDES: both */
};

#define KINDS 2u
#define CHOICES_MAX (UINT64_C(1) << 26)

static bool is_kind(const struct board *b, const struct kind *k, uint32_t unit)
{
    return b->units[unit].count == k->size && (k->side == JOB_SIDES || (int)b->units[unit].side == k->side);
}

static bool takes_kind(const struct board *b, const struct kind *k, uint32_t node)
{
    return k->side == JOB_SIDES || cluster_takes(b->cluster, node, (unsigned)k->side);
}

static bool sides_differ(const struct board *b)
{
    for (uint32_t node = 0; node < b->cluster->num_groups[CLUSTER_NODE]; node++)
        if (!cluster_takes(b->cluster, node, JOB_PREFILL) || !cluster_takes(b->cluster, node, JOB_DECODE))
            return true;
    return b->rules->sides == PLACE_APART;
}

/* False: there are more kinds than two. */
static bool find_kinds(const struct board *b, struct kind kinds[KINDS])
{
    bool by_side = sides_differ(b);
    uint32_t n = 0;
    for (uint32_t u = 0; u < b->num_units; u++) {
        uint32_t k = 0;
        while (k < n && !is_kind(b, &kinds[k], u))
            k++;
        if (k == KINDS)
            return false;
        if (k == n)
            kinds[n++] = (struct kind){.size = b->units[u].count, .side = by_side ? (int)b->units[u].side : JOB_SIDES};
        kinds[k].num++;
    }
    return true;
}

/* How many of the second kind a node takes beside `first` of the first. */
static uint32_t beside(const struct board *b, const struct kind kinds[KINDS], uint32_t node, uint32_t first)
{
    uint32_t room = b->cluster->capacity[node] - first * kinds[0].size;
    if (kinds[1].size == 0 || !takes_kind(b, &kinds[1], node) || (first > 0 && b->rules->sides == PLACE_APART))
        return 0;
    return room / kinds[1].size;
}

static void put_kind(struct board *b, struct kind *k, uint32_t node, uint32_t num)
{
    for (; num > 0 && k->num > 0; k->next++)
        if (is_kind(b, k, k->next)) {
            board_put_unit(b, k->next, node);
            k->num--;
            num--;
        }
}

/*
 * A knapsack over nodes: it finds a way if there is one. most[n]: how many of the second kind the nodes so far take at
 * most beside n of the first; -1: they do not take these. taken[i][n]: how many of those n are node i's.
 */
static bool fit(struct board *b, struct kind kinds[KINDS])
{
    uint32_t nodes = b->cluster->num_groups[CLUSTER_NODE], width = kinds[0].num + 1;
    int64_t *most = calloc(width, sizeof *most);
    uint32_t *taken = calloc((size_t)nodes * width + 1, sizeof *taken);
    bool good = most != NULL && taken != NULL;
    for (uint32_t n = 0; good && n < width; n++)
        most[n] = n == 0 ? 0 : -1;
    for (uint32_t i = 0; good && i < nodes; i++)
        for (uint32_t n = width; n-- > 0;) {
            int64_t best = -1;
            uint32_t room = takes_kind(b, &kinds[0], i) ? b->cluster->capacity[i] : 0;
            for (uint32_t x = 0; x <= n && x * kinds[0].size <= room; x++)
                if (most[n - x] >= 0 && most[n - x] + beside(b, kinds, i, x) > best) {
                    best = most[n - x] + beside(b, kinds, i, x);
                    taken[(size_t)i * width + n] = x;
                }
            most[n] = best;
        }
    good = good && most[kinds[0].num] >= (int64_t)kinds[1].num;
    for (uint32_t i = nodes, n = kinds[0].num; good && i-- > 0;) {
        uint32_t x = taken[(size_t)i * width + n];
        put_kind(b, &kinds[0], i, x);
        put_kind(b, &kinds[1], i, beside(b, kinds, i, x));
        n -= x;
    }
    free(most);
    free(taken);
    return good;
}

bool start_packed(struct board *b)
{
    struct kind kinds[KINDS] = {{0}};
    uint32_t most = 0;
    if (find_kinds(b, kinds) &&
        (uint64_t)b->cluster->num_groups[CLUSTER_NODE] * ((uint64_t)kinds[0].num + 1) <= CHOICES_MAX)
        return fit(b, kinds);
    for (uint32_t u = 0; u < b->num_units; u++)
        most = b->units[u].count > most ? b->units[u].count : most;
    for (uint32_t size = most; size > 0; size--) {
        for (uint32_t u = 0; u < b->num_units; u++) {
            uint32_t best = PLACE_NONE;
            if (b->units[u].count != size)
                continue;
            for (uint32_t node = 0; node < b->cluster->num_groups[CLUSTER_NODE]; node++)
                if (board_takes(b, node, size, b->units[u].side) &&
                    (best == PLACE_NONE || board_room(b, node) < board_room(b, best)))
                    best = node;
            if (best == PLACE_NONE)
                return false;
            board_put_unit(b, u, best);
        }
    }
    return true;
}
