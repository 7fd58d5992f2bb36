/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * board: a placement under way: which rank has which seat, and what each node holds. Units are what moves between nodes
 * as a whole: a team, or a part of a team that may straddle or is larger than every node.
 */
#ifndef BATON_PLACE_BOARD_H
#define BATON_PLACE_BOARD_H

#include "place/place.h"

/** Ranks [first, first + count), on one node. */
struct unit {
    uint32_t first, count;
    enum job_side side;
};

struct board {
    const struct cluster *cluster;
    const struct job *job;
    const struct place_rules *rules;
    uint32_t num_units;
    struct unit *units;                /* in order of rank */
    uint32_t *unit_of;                 /* by rank */
    uint32_t *seat_of;                 /* by rank; PLACE_NONE: none yet */
    uint32_t *rank_at;                 /* by seat; PLACE_NONE: free */
    uint32_t (*held)[JOB_SIDES];       /* by node: ranks of each side */
    uint32_t *in_numa;                 /* by group of CLUSTER_NUMA: its ranks */
    uint32_t nodes_used, nodes_lonely; /* nodes with any rank; with ranks of one side alone */
    uint64_t looks;                    /* at flows, that searches have taken so far; they stand for time */
};

/** Of a team that may lie on several nodes, a unit is a rank; or as many ranks as the largest node takes, in order. */
enum board_cut { BOARD_RANKS, BOARD_FILLS };

/** All ranks without a seat. 0; -1: no memory. Call board_fini in both cases. */
int board_init(struct board *b, const struct cluster *c, const struct job *j, const struct place_rules *rules,
               enum board_cut cut);
void board_fini(struct board *b);
/** Takes all ranks off. */
void board_clear(struct board *b);
/** Takes over where all ranks sit. */
void board_load(struct board *b, const uint32_t *seat_of);

void board_put(struct board *b, uint32_t rank, uint32_t seat);
void board_take(struct board *b, uint32_t rank);
/** Puts a unit's ranks on a node's first free seats, or takes them off. */
void board_put_unit(struct board *b, uint32_t unit, uint32_t node);
void board_take_unit(struct board *b, uint32_t unit);

/** The node of a unit that has been put somewhere. */
uint32_t board_node(const struct board *b, uint32_t unit);
/** Ranks that a node still takes. */
uint32_t board_room(const struct board *b, uint32_t node);
/**
 * Whether a node takes so many ranks of that side: it has room, takes that side at all, and does not hold the other
 * side where these are apart.
 */
bool board_takes(const struct board *b, uint32_t node, uint32_t count, enum job_side side);

/** As place_value counts it, of what sits. */
uint64_t board_broken(const struct board *b);
/** Bytes times distance of a rank's flows to ranks that sit, as if it sat there. */
double board_cost_at(const struct board *b, uint32_t rank, uint32_t seat);
double board_cost(const struct board *b);

/* Costs that differ by rounding alone are equal. */
static inline bool value_is_less(struct place_value a, struct place_value b)
{
    double close = 1e-12 * (b.cost < 0 ? -b.cost : b.cost);
    return a.broken != b.broken ? a.broken < b.broken : a.cost < b.cost - close;
}

/**
 * A part of a placement. Of equal values the one with less crowd is better: the sum, over the NUMA nodes of a node, of
 * their ranks squared by their seats. It is least where the ranks of a node have equal shares of its cores.
 */
struct worth {
    struct place_value value;
    double crowd;
};

static inline bool worth_is_less(struct worth a, struct worth b)
{
    bool is_equal = !value_is_less(a.value, b.value) && !value_is_less(b.value, a.value);
    return is_equal ? a.crowd < b.crowd - 1e-9 : value_is_less(a.value, b.value);
}

/** Crowd of so many ranks in a group of CLUSTER_NUMA. */
static inline double crowd_of(const struct cluster_group *numa, uint32_t ranks)
{
    return (double)ranks * ranks / (numa->end - numa->first);
}

/** Crowd of a node's ranks that sit. */
double board_crowd(const struct board *b, uint32_t node);

static inline struct place_value board_value(const struct board *b)
{
    return (struct place_value){board_broken(b), board_cost(b)};
}

/** How start_greedy chooses between nodes of equal cost. */
enum start_tie { START_FIRST, START_TIGHT, START_ROOMY };

/** Starting points, of a board without ranks. False: not all units found a node; some may sit. */
bool start_greedy(struct board *b, enum start_tie tie);
/** Units in order, each on the first node with room (PLACE_BY_CORE), or on the next one in turn. */
bool start_default(struct board *b, enum place_default how);
/** Units in an order, and each from a node on, that are drawn from *random; the first node that takes it has it. */
bool start_random(struct board *b, uint64_t *random);
/**
 * For where there is little room: finds a way if there is one and units have at most two sizes (sides, where nodes do
 * not take both, count as sizes). Otherwise larger units first, each on the fullest node that takes it.
 */
bool start_packed(struct board *b);

/** Moves and exchanges units between nodes until none makes it better. 0; -1: no memory. */
int improve_nodes(struct board *b);
/** The same of ranks between the seats of each node. */
int improve_seats(struct board *b);

/** As place_find, without exact_place for the whole job, however few its ranks are. */
enum place_error place_heuristic(const struct cluster *c, const struct job *j, const struct place_rules *rules,
                                 uint32_t *seat_of);

#define EXACT_RANKS_MAX 10

/**
 * Gives these ranks, EXACT_RANKS_MAX at most, the best seats in one group of a level whose other seats are free. They
 * come in order, and in whole units unless the level is within a node. PLACE_NO_FIT or PLACE_NO_MEMORY: nothing has
 * changed.
 */
enum place_error exact_place(struct board *b, const uint32_t *ranks, uint32_t num, uint32_t level, uint32_t group);

#endif
