/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * explain_cores: whether ranks could have more cores, a remark of the page of explain.h. By themselves ranks share out
 * the cores of the NUMA nodes that they are in; larger places leave no room for all of them in a few NUMA nodes.
 */
#include <stdlib.h>

#include "place/explain.h"

/** Of the nodes with ranks. */
struct use {
    uint32_t *ranks;       /* by node */
    uint64_t cores, taken; /* of all; by ranks */
    uint32_t widest;       /* the most cores that a rank has */
    uint32_t share;        /* of a rank if each had as many cores, on the node where they are fewest */
};

/* Whether GPUs decide how this node is cut. */
static bool is_cut_by_gpu(const struct world *w, const struct machine *m)
{
    return w->cut.gpus_per_rank > 0 && m->num_gpus > 0;
}

/* Cores that several ranks share count once for each of them. False: a node with ranks is cut by its GPUs. */
static bool count_use(const struct explain *e, struct use *u)
{
    for (uint32_t r = 0; r < e->job->num_ranks; r++) {
        const struct machine_seat *seat = &e->places[r].seat;
        const uint32_t own = seat->end_core - seat->first_core;
        u->ranks[e->places[r].node]++;
        u->taken += own;
        u->widest = own > u->widest ? own : u->widest;
    }
    for (uint32_t i = 0; i < e->world->num_nodes; i++) {
        const struct machine *m = e->world->nodes[i].machine;
        if (u->ranks[i] == 0)
            continue;
        if (is_cut_by_gpu(e->world, m))
            return false;
        u->cores += m->num_cores;
        u->share = m->num_cores / u->ranks[i] < u->share ? m->num_cores / u->ranks[i] : u->share;
    }
    return true;
}

/* How many places of so many cores a node has, as many as it takes ranks at most. 0: it has none; -1: no memory. */
static int64_t count_places(const struct world *w, const struct world_node *n, uint32_t cores)
{
    struct machine_cut cut = {.cores_per_rank = cores, .gpus_per_rank = w->cut.gpus_per_rank};
    uint32_t num, wide = 0;
    struct machine_seat *seats = machine_seats(n->machine, &cut, &num);
    const bool is_known = seats != NULL;
    free(seats);
    cut.slots = n->capacity > 0 && n->capacity < num ? n->capacity : num;
    seats = is_known ? machine_seats(n->machine, &cut, &num) : NULL;
    if (seats == NULL)
        return -1;
    for (uint32_t i = 0; i < num; i++)
        wide += seats[i].end_core - seats[i].first_core >= cores;
    free(seats);
    return wide == num ? num : 0;
}

/* Whether each node has such places for all its ranks. -1: no memory. */
static int fits(const struct explain *e, const struct use *u, uint32_t cores)
{
    const struct world_node *last = NULL;
    int64_t num = 0;
    for (uint32_t i = 0; i < e->world->num_nodes; i++) {
        const struct world_node *n = &e->world->nodes[i];
        if (u->ranks[i] == 0)
            continue;
        if (last == NULL || n->machine != last->machine || n->capacity != last->capacity) { /* many are alike */
            num = count_places(e->world, n, cores);
            last = n;
        }
        if (num < u->ranks[i])
            return num < 0 ? -1 : 0;
    }
    return 1;
}

/* The most cores that each rank can have where it is, more than any has now. 0: there are none; -1: no memory. */
static int64_t find_more(const struct explain *e, const struct use *u)
{
    for (uint32_t cores = u->share; cores > u->widest; cores--) {
        const int found = fits(e, u, cores);
        if (found != 0)
            return found > 0 ? (int64_t)cores : -1;
    }
    return 0;
}

/* With --pack and --straddle, --cores-per-rank does not keep ranks off a node that has slots for them. */
int explain_idle_cores(FILE *out, const struct explain *e)
{
    struct use u = {.ranks = calloc((size_t)e->world->num_nodes + 1, sizeof *u.ranks), .share = UINT32_MAX};
    const struct place_rules *rules = e->choice->rules;
    const bool is_open =
        e->bound && e->world->cut.cores_per_rank == 0 && rules->nodes != PLACE_PACK && !rules->straddle;
    int64_t more = u.ranks != NULL ? 0 : -1;
    if (u.ranks != NULL && is_open && count_use(e, &u) && 2 * u.taken < u.cores)
        more = find_more(e, &u);
    if (more > 0)
        fprintf(out,
                "%llu of %llu cores of the nodes with ranks have no rank: with --cores-per-rank %lld each has %lld or "
                "more\n",
                (unsigned long long)(u.cores - u.taken), (unsigned long long)u.cores, (long long)more, (long long)more);
    free(u.ranks);
    return more < 0 ? -1 : 0;
}
