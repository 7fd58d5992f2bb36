/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster: the machines of an allocation as placement sees them. A seat is a place for one rank. Seats are the leaves
 * of a tree, and how far two of them are apart depends on the smallest group that holds both: their last-level cache,
 * NUMA node, package, node, switch, and so on up to all of the cluster. Distances of this kind are what hierarchical
 * process mapping works on (Schulz and Träff, "Better Process Mapping and Sparse Quadratic Assignment", 2017).
 *
 * Pure: no hwloc and no files; machine.h reads these and builds a cluster of them.
 */
#ifndef BATON_PLACE_CLUSTER_H
#define BATON_PLACE_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#define CLUSTER_LEVELS_MAX 12
#define CLUSTER_FREE UINT32_MAX

/** The levels within a node, innermost first. Those above are the network's, the last of which holds all seats. */
enum cluster_level { CLUSTER_CACHE, CLUSTER_NUMA, CLUSTER_PACKAGE, CLUSTER_NODE, CLUSTER_NETWORK };

/** A group of one level: seats [first, end). */
struct cluster_group {
    uint32_t first, end;
    uint32_t first_child, end_child; /* groups of the level below; of the innermost: none */
    uint64_t shape;                  /* groups of one level with equal shapes are interchangeable */
};

struct cluster {
    uint32_t num_levels, num_seats;
    uint32_t num_groups[CLUSTER_LEVELS_MAX];
    struct cluster_group *groups[CLUSTER_LEVELS_MAX];
    uint32_t *group_of[CLUSTER_LEVELS_MAX]; /* by seat */
    uint32_t *capacity;                     /* by node: ranks that it takes, its seats at most */
    uint8_t *sides;                         /* by node: bit 1 << s stands for side s, whose ranks it takes */
    double cost[CLUSTER_LEVELS_MAX];        /* of a byte between seats whose smallest common group is of that level */
};

/** One seat's place: for each level a number that its neighbours in the same group have too, and others have not. */
struct cluster_seat {
    uint32_t group[CLUSTER_LEVELS_MAX];
};

/**
 * Builds the tree of seats that are given in its order: a group begins where a seat has another number than the one
 * before, at this level or above. `capacity`: by node in order, or NULL for as many ranks as it has seats. `cost`: by
 * level. 0; -1: no memory. Call cluster_fini in both cases.
 */
int cluster_init(struct cluster *c, const struct cluster_seat *seats, uint32_t num_seats, uint32_t num_levels,
                 const uint32_t *capacity, const double *cost);
void cluster_fini(struct cluster *c);

/** Says which sides nodes take; before, they take all. */
void cluster_set_sides(struct cluster *c, const uint8_t *sides);

static inline uint32_t cluster_node(const struct cluster *c, uint32_t seat)
{
    return c->group_of[CLUSTER_NODE][seat];
}

/** Whether rank `rank` is on a node that has none of ranks [first, rank). */
static inline bool cluster_is_new_node(const struct cluster *c, const uint32_t *seat_of, uint32_t first, uint32_t rank)
{
    for (uint32_t r = first; r < rank; r++)
        if (cluster_node(c, seat_of[r]) == cluster_node(c, seat_of[rank]))
            return false;
    return true;
}

static inline bool cluster_takes(const struct cluster *c, uint32_t node, unsigned side)
{
    return (c->sides[node] >> side & 1) != 0;
}

/** The level of the smallest group, of level `least` or above, that holds both seats. */
static inline uint32_t cluster_level_from(const struct cluster *c, uint32_t least, uint32_t a, uint32_t b)
{
    uint32_t level = least;
    while (c->group_of[level][a] != c->group_of[level][b])
        level++;
    return level;
}

static inline uint32_t cluster_level(const struct cluster *c, uint32_t a, uint32_t b)
{
    return cluster_level_from(c, 0, a, b);
}

static inline double cluster_distance(const struct cluster *c, uint32_t a, uint32_t b)
{
    return c->cost[cluster_level(c, a, b)];
}

/** The same between nodes: what is within one node counts as its distance. */
static inline double cluster_node_distance(const struct cluster *c, uint32_t a, uint32_t b)
{
    return c->cost[cluster_level_from(c, CLUSTER_NODE, a, b)];
}

/** Ranks that all nodes take. */
uint64_t cluster_room(const struct cluster *c);

/**
 * Which rank sits where, by seat, from seat_of[rank]; CLUSTER_FREE: none. The caller frees it. NULL: no memory.
 */
uint32_t *cluster_ranks(const struct cluster *c, const uint32_t *seat_of, uint32_t num_ranks);

#endif
