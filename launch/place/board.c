/* SPDX-License-Identifier: BSD-3-Clause */
/* board: see board.h. */
#include "place/board.h"

#include <stdlib.h>
#include <string.h>

/* ---- units ------------------------------------------------------------------------------------------------------- */

static uint32_t largest_node(const struct cluster *c, enum job_side side)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < c->num_groups[CLUSTER_NODE]; i++)
        if (cluster_takes(c, i, side) && c->capacity[i] > most)
            most = c->capacity[i];
    return most;
}

/* Adds ranks [first, first + count) as one. */
static void add_unit(struct board *b, uint32_t first, uint32_t count, enum job_side side)
{
    for (uint32_t i = 0; i < count; i++)
        b->unit_of[first + i] = b->num_units;
    b->units[b->num_units++] = (struct unit){first, count, side};
}

static void cut_units(struct board *b, enum board_cut cut)
{
    uint32_t largest[JOB_SIDES] = {largest_node(b->cluster, JOB_PREFILL), largest_node(b->cluster, JOB_DECODE)};
    for (uint32_t t = 0; t < b->job->num_teams; t++) {
        const struct job_team *team = &b->job->teams[t];
        uint32_t most = largest[team->side];
        if (cut == BOARD_RANKS)
            most = b->rules->straddle || team->count > most ? 1 : team->count;
        for (uint32_t at = 0; at < team->count; at += most)
            add_unit(b, team->first + at, team->count - at < most ? team->count - at : most, team->side);
    }
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

int board_init(struct board *b, const struct cluster *c, const struct job *j, const struct place_rules *rules,
               enum board_cut cut)
{
    *b = (struct board){.cluster = c, .job = j, .rules = rules};
    b->units = calloc((size_t)j->num_ranks + 1, sizeof *b->units);
    b->unit_of = calloc((size_t)j->num_ranks + 1, sizeof *b->unit_of);
    b->seat_of = calloc((size_t)j->num_ranks + 1, sizeof *b->seat_of);
    b->rank_at = calloc((size_t)c->num_seats + 1, sizeof *b->rank_at);
    b->held = calloc((size_t)c->num_groups[CLUSTER_NODE] + 1, sizeof *b->held);
    b->in_numa = calloc((size_t)c->num_groups[CLUSTER_NUMA] + 1, sizeof *b->in_numa);
    if (!b->units || !b->unit_of || !b->seat_of || !b->rank_at || !b->held || !b->in_numa)
        return -1;
    cut_units(b, cut);
    board_clear(b);
    return 0;
}

void board_fini(struct board *b)
{
    free(b->units);
    free(b->unit_of);
    free(b->seat_of);
    free(b->rank_at);
    free(b->held);
    free(b->in_numa);
    *b = (struct board){0};
}

void board_clear(struct board *b)
{
    memset(b->seat_of, 0xff, b->job->num_ranks * sizeof *b->seat_of); /* PLACE_NONE */
    memset(b->rank_at, 0xff, b->cluster->num_seats * sizeof *b->rank_at);
    memset(b->held, 0, b->cluster->num_groups[CLUSTER_NODE] * sizeof *b->held);
    memset(b->in_numa, 0, b->cluster->num_groups[CLUSTER_NUMA] * sizeof *b->in_numa);
    b->nodes_used = b->nodes_lonely = 0;
}

void board_load(struct board *b, const uint32_t *seat_of)
{
    board_clear(b);
    for (uint32_t r = 0; r < b->job->num_ranks; r++)
        board_put(b, r, seat_of[r]);
}

/* ---- moves ------------------------------------------------------------------------------------------------------- */

static enum job_side side_of(const struct board *b, uint32_t rank)
{
    return b->units[b->unit_of[rank]].side;
}

static void count(struct board *b, uint32_t node, int sign)
{
    const uint32_t *held = b->held[node];
    b->nodes_used += (uint32_t)(sign * (held[0] + held[1] > 0));
    b->nodes_lonely += (uint32_t)(sign * ((held[0] > 0) != (held[1] > 0)));
}

void board_put(struct board *b, uint32_t rank, uint32_t seat)
{
    uint32_t node = cluster_node(b->cluster, seat);
    count(b, node, -1);
    b->held[node][side_of(b, rank)]++;
    count(b, node, 1);
    b->in_numa[b->cluster->group_of[CLUSTER_NUMA][seat]]++;
    b->seat_of[rank] = seat;
    b->rank_at[seat] = rank;
}

void board_take(struct board *b, uint32_t rank)
{
    uint32_t node = cluster_node(b->cluster, b->seat_of[rank]);
    count(b, node, -1);
    b->held[node][side_of(b, rank)]--;
    count(b, node, 1);
    b->in_numa[b->cluster->group_of[CLUSTER_NUMA][b->seat_of[rank]]]--;
    b->rank_at[b->seat_of[rank]] = PLACE_NONE;
    b->seat_of[rank] = PLACE_NONE;
}

void board_put_unit(struct board *b, uint32_t unit, uint32_t node)
{
    uint32_t seat = b->cluster->groups[CLUSTER_NODE][node].first;
    for (uint32_t i = 0; i < b->units[unit].count; i++) {
        while (b->rank_at[seat] != PLACE_NONE)
            seat++;
        board_put(b, b->units[unit].first + i, seat);
    }
}

void board_take_unit(struct board *b, uint32_t unit)
{
    for (uint32_t i = 0; i < b->units[unit].count; i++)
        board_take(b, b->units[unit].first + i);
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

uint32_t board_node(const struct board *b, uint32_t unit)
{
    return cluster_node(b->cluster, b->seat_of[b->units[unit].first]);
}

uint32_t board_room(const struct board *b, uint32_t node)
{
    return b->cluster->capacity[node] - b->held[node][JOB_PREFILL] - b->held[node][JOB_DECODE];
}

bool board_takes(const struct board *b, uint32_t node, uint32_t count, enum job_side side)
{
    return board_room(b, node) >= count && cluster_takes(b->cluster, node, side) &&
           (b->rules->sides != PLACE_APART || b->held[node][!side] == 0);
}

uint64_t board_broken(const struct board *b)
{
    uint64_t broken = b->rules->sides == PLACE_TOGETHER ? b->nodes_lonely : 0;
    if (b->rules->nodes == PLACE_PACK)
        broken += b->nodes_used;
    else if (b->rules->nodes == PLACE_SPREAD)
        broken += b->cluster->num_groups[CLUSTER_NODE] - b->nodes_used;
    return broken;
}

double board_crowd(const struct board *b, uint32_t node)
{
    const struct cluster *c = b->cluster;
    const struct cluster_group *g = &c->groups[CLUSTER_NODE][node];
    double crowd = 0;
    for (uint32_t i = c->group_of[CLUSTER_NUMA][g->first]; i <= c->group_of[CLUSTER_NUMA][g->end - 1]; i++)
        crowd += crowd_of(&c->groups[CLUSTER_NUMA][i], b->in_numa[i]);
    return crowd;
}

double board_cost_at(const struct board *b, uint32_t rank, uint32_t seat)
{
    const struct job *j = b->job;
    double cost = 0;
    for (uint32_t f = j->first_flow[rank]; f < j->first_flow[rank + 1]; f++) {
        uint32_t other = b->seat_of[j->flows[f].peer];
        if (other != PLACE_NONE)
            cost += j->flows[f].bytes * cluster_distance(b->cluster, seat, other);
    }
    return cost;
}

double board_cost(const struct board *b)
{
    double cost = 0;
    for (uint32_t r = 0; r < b->job->num_ranks; r++)
        if (b->seat_of[r] != PLACE_NONE)
            cost += board_cost_at(b, r, b->seat_of[r]);
    return cost / 2; /* each flow stands at both ranks */
}
