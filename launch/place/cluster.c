/* SPDX-License-Identifier: BSD-3-Clause */
/* cluster: see cluster.h. */
#include "place/cluster.h"

#include <stdlib.h>
#include <string.h>

/* Multiplied by 2^64 over the golden ratio, and the upper half folded into the lower. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static bool begins_group(const struct cluster_seat *seats, uint32_t i, uint32_t level, uint32_t num_levels)
{
    if (i == 0)
        return true;
    for (uint32_t l = level; l < num_levels; l++)
        if (seats[i].group[l] != seats[i - 1].group[l])
            return true;
    return false;
}

/* What a group is made of, in order. The level counts too, so that a group never has its only child's shape. */
static uint64_t shape_of(const struct cluster *c, uint32_t level, uint32_t number)
{
    const struct cluster_group *g = &c->groups[level][number];
    uint64_t hash = mix(mix(0, level + 1), g->end - g->first);
    if (level == CLUSTER_NODE)
        hash = mix(mix(hash, c->capacity[number]), c->sides[number]);
    for (uint32_t i = g->first_child; i < g->end_child; i++)
        hash = mix(hash, c->groups[level - 1][i].shape);
    return hash;
}

static void find_shapes(struct cluster *c, uint32_t level)
{
    for (uint32_t i = 0; i < c->num_groups[level]; i++)
        c->groups[level][i].shape = shape_of(c, level, i);
}

static int add_level(struct cluster *c, const struct cluster_seat *seats, uint32_t level, const uint32_t *capacity)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->num_seats; i++)
        n += begins_group(seats, i, level, c->num_levels);
    struct cluster_group *groups = calloc(n + 1, sizeof *groups);
    uint32_t *group_of = calloc(c->num_seats + 1, sizeof *group_of);
    c->groups[level] = groups;
    c->group_of[level] = group_of;
    if (groups == NULL || group_of == NULL)
        return -1;
    c->num_groups[level] = n;
    n = 0;
    for (uint32_t i = 0; i < c->num_seats; i++) {
        uint32_t child = level > 0 ? c->group_of[level - 1][i] : 0;
        if (begins_group(seats, i, level, c->num_levels))
            groups[n++] = (struct cluster_group){.first = i, .first_child = child};
        group_of[i] = n - 1;
        groups[n - 1].end = i + 1;
        groups[n - 1].end_child = level > 0 ? child + 1 : 0;
    }
    if (level == CLUSTER_NODE) {
        c->capacity = calloc(n + 1, sizeof *c->capacity);
        c->sides = malloc(n + 1);
        if (c->capacity == NULL || c->sides == NULL)
            return -1;
        memset(c->sides, 0xff, n);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t seats_of = groups[i].end - groups[i].first;
            c->capacity[i] = capacity != NULL && capacity[i] < seats_of ? capacity[i] : seats_of;
        }
    }
    find_shapes(c, level);
    return 0;
}

int cluster_init(struct cluster *c, const struct cluster_seat *seats, uint32_t num_seats, uint32_t num_levels,
                 const uint32_t *capacity, const double *cost)
{
    *c = (struct cluster){.num_seats = num_seats, .num_levels = num_levels};
    memcpy(c->cost, cost, num_levels * sizeof *cost);
    for (uint32_t level = 0; level < num_levels; level++)
        if (add_level(c, seats, level, capacity) != 0)
            return -1;
    return 0;
}

void cluster_set_sides(struct cluster *c, const uint8_t *sides)
{
    memcpy(c->sides, sides, c->num_groups[CLUSTER_NODE]);
    for (uint32_t level = CLUSTER_NODE; level < c->num_levels; level++)
        find_shapes(c, level);
}

void cluster_fini(struct cluster *c)
{
    for (uint32_t level = 0; level < CLUSTER_LEVELS_MAX; level++) {
        free(c->groups[level]);
        free(c->group_of[level]);
    }
    free(c->capacity);
    free(c->sides);
    *c = (struct cluster){0};
}

uint64_t cluster_room(const struct cluster *c)
{
    uint64_t room = 0;
    for (uint32_t i = 0; i < c->num_groups[CLUSTER_NODE]; i++)
        room += c->capacity[i];
    return room;
}

uint32_t *cluster_ranks(const struct cluster *c, const uint32_t *seat_of, uint32_t num_ranks)
{
    uint32_t *rank_at = malloc(((size_t)c->num_seats + 1) * sizeof *rank_at);
    for (uint32_t seat = 0; rank_at != NULL && seat < c->num_seats; seat++)
        rank_at[seat] = CLUSTER_FREE;
    for (uint32_t r = 0; rank_at != NULL && r < num_ranks; r++)
        rank_at[seat_of[r]] = r;
    return rank_at;
}
