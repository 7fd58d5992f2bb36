/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * place: gives each rank of a job a seat of a cluster, so that bytes times distance is small. This is the process
 * mapping problem, a quadratic assignment problem on a hierarchy; it is NP-hard.
 *
 * Method. A job of at most EXACT_RANKS_MAX ranks is placed exactly, by dynamic programming over sets of ranks. Of a
 * larger job teams are placed whole, one after the other, where they are nearest to what they exchange bytes with
 * (greedy growth; three forms of it, and both default mappings of launchers, as starting points; where teams may lie on
 * several nodes, one that fills nodes with them; where the search is soon done, random ones too). Each start is
 * improved by moves and exchanges of teams between nodes, then of ranks within a node (local search as in Heider 1972
 * and Brandfass, Alrutz and Gerhold 2013); a node with few ranks is placed exactly at last. The best is kept, starts as
 * they were among them, and of equal ones the one in order of ranks. Random numbers have a fixed seed, and nothing
 * depends on time or on addresses, so the same input has the same result.
 */
#ifndef BATON_PLACE_PLACE_H
#define BATON_PLACE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "place/cluster.h"
#include "place/job.h"

#define PLACE_NONE UINT32_MAX

/** Which nodes are used, before costs count. */
enum place_nodes { PLACE_ANY, PLACE_PACK, PLACE_SPREAD };

/** Whether nodes hold both sides, before costs count. TOGETHER: as few nodes as can be hold one side alone. */
enum place_sides { PLACE_MIXED, PLACE_TOGETHER, PLACE_APART };

struct place_rules {
    bool straddle; /* a team may lie on several nodes; without it only a team larger than every node does */
    enum place_nodes nodes;
    enum place_sides sides;
};

/** How good a placement is. Less is better; `broken` counts before cost. */
struct place_value {
    uint64_t broken; /* nodes that are used against PACK or SPREAD, or hold one side alone against TOGETHER */
    double cost;     /* bytes times distance, over all flows */
};

/** What stood in the way. */
enum place_error {
    PLACE_GOOD,
    PLACE_NO_MEMORY,
    PLACE_TOO_FEW, /* the nodes take fewer ranks than there are */
    PLACE_NO_FIT   /* teams do not fit without straddling, or sides do not fit apart */
};

/** Fills seat_of[rank]. On an error nothing in it counts. */
enum place_error place_find(const struct cluster *c, const struct job *j, const struct place_rules *rules,
                            uint32_t *seat_of);

/** What a launcher would do by itself: ranks in order, filling each node, or dealt out to the nodes in turn. */
enum place_default { PLACE_BY_CORE, PLACE_BY_NODE };

/** PLACE_TOO_FEW or PLACE_GOOD. Rules do not count. */
enum place_error place_default(const struct cluster *c, const struct job *j, enum place_default how, uint32_t *seat_of);

/**
 * The same made to hold the rules: TP groups as a whole, each on the first node that takes it, or on the next one in
 * turn. PLACE_NO_FIT: some group finds no node.
 */
enum place_error place_repaired(const struct cluster *c, const struct job *j, const struct place_rules *rules,
                                enum place_default how, uint32_t *seat_of);

/** Which rule does not hold; of several the first. No memory to find out counts as PLACE_BREACH_SEATS. */
enum place_breach {
    PLACE_KEPT,
    PLACE_BREACH_SEATS, /* one rank a seat, and no more on a node than it takes */
    PLACE_BREACH_TEAM,  /* a team that some node takes whole is on one node */
    PLACE_BREACH_SIDES  /* sides that nodes take, and apart */
};
enum place_breach place_breach(const struct cluster *c, const struct job *j, const struct place_rules *rules,
                               const uint32_t *seat_of);
struct place_value place_value(const struct cluster *c, const struct job *j, const struct place_rules *rules,
                               const uint32_t *seat_of);

#endif
