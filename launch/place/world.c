/* SPDX-License-Identifier: BSD-3-Clause */
/* world: see world.h. */
#include "place/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- nodes, so that those of a switch are neighbours ------------------------------------------------------------- */

struct placed_node {
    struct world_node node;
    uint32_t order;
    uint32_t path[NETWORK_HEIGHT_MAX];
};

static int by_path(const void *x, const void *y)
{
    const struct placed_node *a = x, *b = y;
    for (uint32_t h = NETWORK_HEIGHT_MAX; h-- > 0;)
        if (a->path[h] != b->path[h])
            return a->path[h] < b->path[h] ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* A node that the network does not name is alone; without a network one switch has them all. */
static void find_path(const struct network *network, struct placed_node *n)
{
    memset(n->path, 0, sizeof n->path);
    if (network != NULL && !network_path(network, n->node.host, n->path))
        for (uint32_t h = 0; h < network->height; h++)
            n->path[h] = network->num_switches + n->order;
}

/* ---- seats ------------------------------------------------------------------------------------------------------- */

/* Whether all of a seat's cores are in the same NUMA node, say, as its first. */
static bool is_within(const struct machine *m, const struct machine_seat *s, uint32_t level)
{
    const struct machine_core *first = &m->cores[s->first_core];
    for (uint32_t i = s->first_core; i < s->end_core; i++) {
        const struct machine_core *c = &m->cores[i];
        if ((level == CLUSTER_CACHE && c->cache != first->cache) || (level == CLUSTER_NUMA && c->numa != first->numa) ||
            (level == CLUSTER_PACKAGE && c->package != first->package))
            return false;
    }
    return true;
}

/* A seat that is larger than a cache, say, is a group of its own there. */
static void group_seat(const struct placed_node *n, uint32_t number, uint32_t levels, uint32_t seat,
                       struct cluster_seat *out)
{
    const struct machine *m = n->node.machine;
    const struct machine_seat *s = &n->node.seats[number];
    const struct machine_core *core = &m->cores[s->first_core];
    const uint32_t own[] = {core->cache, core->numa, core->package};
    for (uint32_t level = CLUSTER_CACHE; level <= CLUSTER_PACKAGE; level++)
        out->group[level] = is_within(m, s, level) ? own[level] : UINT32_MAX - seat;
    out->group[CLUSTER_NODE] = n->order;
    for (uint32_t h = 0; CLUSTER_NETWORK + h + 1 < levels; h++)
        out->group[CLUSTER_NETWORK + h] = n->path[h];
    out->group[levels - 1] = 0;
}

static void find_costs(const struct costs *costs, uint32_t levels, double *out)
{
    uint32_t steps = levels - 1 - CLUSTER_NETWORK;
    double near = costs->of[COST_SWITCH], far = costs->of[COST_FAR];
    out[CLUSTER_CACHE] = costs->of[COST_CACHE];
    out[CLUSTER_NUMA] = costs->of[COST_NUMA];
    out[CLUSTER_PACKAGE] = costs->of[COST_PACKAGE];
    out[CLUSTER_NODE] = costs->of[COST_NODE];
    for (uint32_t h = 0; h <= steps; h++) /* between one switch and none in equal steps */
        out[CLUSTER_NETWORK + h] = near + (far - near) * h / (steps > 0 ? steps : 1);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static int build(struct world *w, const struct placed_node *placed, uint32_t num_seats, uint32_t levels,
                 const struct costs *costs, struct why *why)
{
    double cost[CLUSTER_LEVELS_MAX];
    struct cluster_seat *seats = calloc((size_t)num_seats + 1, sizeof *seats);
    uint32_t *capacity = calloc((size_t)w->num_nodes + 1, sizeof *capacity), at = 0;
    uint8_t *sides = calloc((size_t)w->num_nodes + 1, sizeof *sides);
    int rc = seats != NULL && capacity != NULL && sides != NULL ? 0 : -1;
    for (uint32_t i = 0; rc == 0 && i < w->num_nodes; i++) {
        const struct world_node *n = &w->nodes[i];
        capacity[i] = n->capacity;
        sides[i] = n->sides != 0 ? n->sides : UINT8_MAX;
        for (uint32_t k = 0; k < n->num_seats; k++, at++)
            group_seat(&placed[i], k, levels, at, &seats[at]);
    }
    find_costs(costs, levels, cost);
    if (rc == 0)
        rc = cluster_init(&w->cluster, seats, num_seats, levels, capacity, cost);
    if (rc == 0)
        cluster_set_sides(&w->cluster, sides);
    free(seats);
    free(sides);
    free(capacity);
    return rc == 0 ? 0 : why_set(why, "no memory for %u seats", num_seats);
}

int world_init(struct world *w, const struct world_node *nodes, uint32_t num, const struct machine_cut *cut,
               const struct network *network, const struct costs *costs, struct why *why)
{
    uint32_t levels = CLUSTER_NETWORK + 1 + (network != NULL ? network->height : 0);
    uint64_t num_seats = 0;
    *w = (struct world){0};
    w->cut = *cut;
    w->nodes = calloc((size_t)num + 1, sizeof *w->nodes);
    struct placed_node *placed = calloc((size_t)num + 1, sizeof *placed);
    int rc = w->nodes != NULL && placed != NULL ? 0 : why_set(why, "no memory for %u nodes", num);
    for (uint32_t i = 0; rc == 0 && i < num; i++) {
        placed[i] = (struct placed_node){.node = nodes[i], .order = i};
        find_path(network, &placed[i]);
    }
    if (rc == 0)
        qsort(placed, num, sizeof *placed, by_path);
    for (; rc == 0 && w->num_nodes < num; w->num_nodes++) {
        struct world_node *n = &w->nodes[w->num_nodes];
        struct machine_cut own = *cut;
        *n = placed[w->num_nodes].node;
        n->above = network != NULL ? network_switch(network, n->host) : NULL;
        if (n->capacity != WORLD_SEATS && own.slots == 0)
            own.slots = n->capacity;
        n->seats = machine_seats(n->machine, &own, &n->num_seats);
        if (n->seats == NULL) {
            rc = why_set(why, "no memory for the seats of %s", n->host);
            break;
        }
        placed[w->num_nodes].node = *n;
        num_seats += n->num_seats;
    }
    if (rc == 0 && num_seats >= PLACE_NONE)
        rc = why_set(why, "%llu seats are too many", (unsigned long long)num_seats);
    if (rc == 0)
        rc = build(w, placed, (uint32_t)num_seats, levels, costs, why);
    free(placed);
    return rc;
}

void world_fini(struct world *w)
{
    for (uint32_t i = 0; i < w->num_nodes; i++)
        free(w->nodes[i].seats);
    free(w->nodes);
    cluster_fini(&w->cluster);
    *w = (struct world){0};
}

/* ---- what ranks get ---------------------------------------------------------------------------------------------- */

/* The cores of the NUMA node that holds this one. */
static void numa_range(const struct machine *m, uint32_t core, uint32_t *first, uint32_t *end)
{
    for (*first = core; *first > 0 && m->cores[*first - 1].numa == m->cores[core].numa;)
        --*first;
    for (*end = core; *end < m->num_cores && m->cores[*end].numa == m->cores[core].numa;)
        ++*end;
}

/* Ranks of one NUMA node, in order of seat, share all its cores out, those of free seats too. 0; -1: no memory. */
static int widen(const struct machine *m, struct machine_seat *seats, uint32_t num)
{
    for (uint32_t i = 0, next, first, end; i < num; i = next) {
        next = i + 1;
        numa_range(m, seats[i].first_core, &first, &end);
        if (seats[i].end_core > end || seats[i].num_gpus > 0)
            continue;
        while (next < num && seats[next].first_core < end && seats[next].end_core <= end)
            next++;
        if (machine_share(m, first, end, next - i, &seats[i]) != 0)
            return -1;
    }
    return 0;
}

int world_places(const struct world *w, const uint32_t *seat_of, uint32_t num_ranks, struct world_place *places)
{
    const struct cluster *c = &w->cluster;
    uint32_t *rank_at = cluster_ranks(c, seat_of, num_ranks);
    struct machine_seat *seats = calloc((size_t)num_ranks + 1, sizeof *seats);
    uint32_t *ranks = calloc((size_t)num_ranks + 1, sizeof *ranks);
    int rc = rank_at != NULL && seats != NULL && ranks != NULL ? 0 : -1;
    for (uint32_t i = 0; rc == 0 && i < w->num_nodes; i++) {
        const struct world_node *n = &w->nodes[i];
        uint32_t first = c->groups[CLUSTER_NODE][i].first, num = 0;
        for (uint32_t k = 0; k < n->num_seats; k++)
            if (rank_at[first + k] != CLUSTER_FREE) {
                ranks[num] = rank_at[first + k];
                seats[num++] = n->seats[k];
            }
        rc = widen(n->machine, seats, num);
        for (uint32_t k = 0; rc == 0 && k < num; k++)
            places[ranks[k]] = (struct world_place){i, seats[k], machine_nic(n->machine, seats[k].first_core, k)};
    }
    free(rank_at);
    free(seats);
    free(ranks);
    return rc;
}

const char *world_level_name(const struct world *w, uint32_t level, char text[32])
{
    static const char *const names[] = {"cache", "NUMA node", "package", "node"};
    uint32_t up = level - CLUSTER_NETWORK;
    if (level < CLUSTER_NETWORK)
        snprintf(text, 32, "%s", names[level]);
    else if (level + 1 == w->cluster.num_levels)
        snprintf(text, 32, "%s", level == CLUSTER_NETWORK ? "switch" : "far");
    else if (up == 0)
        snprintf(text, 32, "switch");
    else
        snprintf(text, 32, "%u switch%s up", up, up == 1 ? "" : "es");
    return text;
}
