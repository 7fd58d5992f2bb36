/* SPDX-License-Identifier: BSD-3-Clause */
/* search: see with_search.h. */
#include "with_search.h"

#include <float.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

bool search_reaches(const struct job *j, const struct place_rules *rules)
{
    return j->num_ranks <= (rules->straddle || rules->nodes != PLACE_ANY ? 8 : EXACT_RANKS_MAX);
}

/* ---- an exhaustive search, by another method than the one that is tested ----------------------------------------- */

#define SEATS_MAX 4096

struct all {
    const struct cluster *cluster;
    const struct job *job;
    const struct place_rules *rules;
    uint32_t widest[JOB_SIDES]; /* ranks of a side that a node takes at most: larger teams are on several nodes */
    uint32_t seat_of[EXACT_RANKS_MAX], rank_at[SEATS_MAX];
    struct place_value least;
};

static bool is_empty(const struct all *a, const struct cluster_group *g)
{
    for (uint32_t seat = g->first; seat < g->end; seat++)
        if (a->rank_at[seat] != PLACE_NONE)
            return false;
    return true;
}

/* Whether the seat is in an empty group, beside which an equal one is empty too: these give the same placements. */
static bool is_repetition(const struct all *a, uint32_t seat)
{
    const struct cluster *c = a->cluster;
    if (seat > 0 && a->rank_at[seat - 1] == PLACE_NONE && cluster_level(c, seat, seat - 1) == CLUSTER_CACHE)
        return true;
    for (uint32_t level = 0; level + 1 < c->num_levels; level++) {
        uint32_t group = c->group_of[level][seat],
                 first = c->groups[level + 1][c->group_of[level + 1][seat]].first_child;
        if (group > first && is_empty(a, &c->groups[level][group]) && is_empty(a, &c->groups[level][group - 1]) &&
            c->groups[level][group].shape == c->groups[level][group - 1].shape)
            return true;
    }
    return false;
}

/* Whether the rules keep two ranks on one node. */
static bool are_bound(const struct all *a, uint32_t i, uint32_t k)
{
    const struct job_team *team = &a->job->teams[a->job->team_of[i]];
    return !a->rules->straddle && a->job->team_of[i] == a->job->team_of[k] && team->count <= a->widest[team->side];
}

/* Whether rank k may sit there as far as it, the ranks before it and its team are concerned. */
static bool may_sit(const struct all *a, uint32_t k, uint32_t seat)
{
    const struct cluster *c = a->cluster;
    const struct job *j = a->job;
    uint32_t node = cluster_node(c, seat), held = 0;
    for (uint32_t i = 0; i < k; i++) {
        bool here = cluster_node(c, a->seat_of[i]) == node;
        held += here;
        if (!here && are_bound(a, i, k))
            return false;
        if (here && a->rules->sides == PLACE_APART && j->teams[j->team_of[i]].side != j->teams[j->team_of[k]].side)
            return false;
    }
    return held < c->capacity[node] && cluster_takes(c, node, j->teams[j->team_of[k]].side);
}

static uint64_t count_broken(const struct all *a)
{
    uint32_t used = 0, lonely = 0, nodes = a->cluster->num_groups[CLUSTER_NODE];
    for (uint32_t node = 0; node < nodes; node++) {
        bool side[JOB_SIDES] = {false, false};
        for (uint32_t r = 0; r < a->job->num_ranks; r++)
            if (cluster_node(a->cluster, a->seat_of[r]) == node)
                side[a->job->teams[a->job->team_of[r]].side] = true;
        used += side[0] || side[1];
        lonely += side[0] != side[1];
    }
    return (a->rules->nodes == PLACE_PACK     ? used
            : a->rules->nodes == PLACE_SPREAD ? nodes - used
                                              : 0) +
           (a->rules->sides == PLACE_TOGETHER ? lonely : 0);
}

static void search(struct all *a, uint32_t k, double cost)
{
    const struct job *j = a->job;
    bool by_cost_alone = a->rules->nodes == PLACE_ANY && a->rules->sides != PLACE_TOGETHER;
    if (k == j->num_ranks) {
        struct place_value here = {count_broken(a), cost};
        if (value_is_less(here, a->least))
            a->least = here;
        return;
    }
    for (uint32_t seat = 0; seat < a->cluster->num_seats; seat++) {
        double more = 0;
        if (a->rank_at[seat] != PLACE_NONE || is_repetition(a, seat) || !may_sit(a, k, seat))
            continue;
        for (uint32_t f = j->first_flow[k]; f < j->first_flow[k + 1]; f++)
            if (j->flows[f].peer < k)
                more += j->flows[f].bytes * cluster_distance(a->cluster, seat, a->seat_of[j->flows[f].peer]);
        if (by_cost_alone && cost + more >= a->least.cost)
            continue;
        a->seat_of[k] = seat;
        a->rank_at[seat] = k;
        search(a, k + 1, cost + more);
        a->rank_at[seat] = PLACE_NONE;
    }
}

struct place_value search_best(const struct cluster *c, const struct job *j, const struct place_rules *rules)
{
    struct all a = {.cluster = c, .job = j, .rules = rules, .widest = {1, 1}, .least = {UINT64_MAX, DBL_MAX}};
    assert_true(c->num_seats <= SEATS_MAX && j->num_ranks <= EXACT_RANKS_MAX);
    for (uint32_t i = 0; i < c->num_groups[CLUSTER_NODE]; i++)
        for (unsigned side = 0; side < JOB_SIDES; side++)
            if (cluster_takes(c, i, side) && c->capacity[i] > a.widest[side])
                a.widest[side] = c->capacity[i];
    memset(a.rank_at, 0xff, sizeof a.rank_at);
    search(&a, 0, 0);
    return a.least;
}

/* ---- what launchers do, made to hold the rules ------------------------------------------------------------------- */

/* Whole units in order, onto the first node that takes them (by core) or the next one in turn (by node). */
struct place_value search_repaired(const struct cluster *c, const struct job *j, const struct place_rules *rules,
                                   enum place_default how)
{
    struct board b;
    assert_int_equal(board_init(&b, c, j, rules, BOARD_RANKS), 0);
    uint32_t nodes = c->num_groups[CLUSTER_NODE], turn = 0;
    struct place_value value = {0, 0};
    for (uint32_t u = 0; u < b.num_units && value.broken == 0; u++) {
        uint32_t node = how == PLACE_BY_CORE ? 0 : turn, tried = 0;
        for (; tried < nodes && !board_takes(&b, node, b.units[u].count, b.units[u].side); tried++)
            node = (node + 1) % nodes;
        if (tried == nodes)
            value.broken = UINT64_MAX;
        else
            board_put_unit(&b, u, node);
        turn = (node + 1) % nodes;
    }
    if (value.broken == 0)
        value = board_value(&b);
    board_fini(&b);
    return value;
}
