/* SPDX-License-Identifier: BSD-3-Clause */
/* world: the nodes of an allocation as a cluster, and what each rank got there: host, cores, GPUs, NIC. */
#ifndef BATON_PLACE_WORLD_H
#define BATON_PLACE_WORLD_H

#include "place/allocation.h"
#include "place/costs.h"
#include "place/machine.h"
#include "place/network.h"
#include "place/place.h"

#define WORLD_NETWORK_LEVELS (NETWORK_HEIGHT_MAX + 1) /* switches, and all nodes together */

#define WORLD_SEATS UINT32_MAX

/** One node. The world keeps neither the names nor the machine. */
struct world_node {
    const char *host;
    const struct machine *machine;
    uint32_t capacity; /* ranks that it takes; WORLD_SEATS: as many as it has seats */
    uint8_t sides;     /* as the cluster has it; 0: all */
    const char *above; /* the switch right above it; NULL: none is known */
    struct machine_seat *seats;
    uint32_t num_seats;
};

struct world {
    uint32_t num_nodes;
    struct world_node *nodes; /* in the order of the cluster's */
    struct machine_cut cut;   /* of all nodes, but for their slots */
    struct cluster cluster;
};

/**
 * Cuts each node into seats and builds the cluster. `nodes`: host, machine and capacity of each. `network`: or
 * NULL. 0, or -1 with *why. Call world_fini in both cases.
 */
int world_init(struct world *w, const struct world_node *nodes, uint32_t num, const struct machine_cut *cut,
               const struct network *network, const struct costs *costs, struct why *why);
void world_fini(struct world *w);

/** A rank's place. Ranks that are alone in a NUMA node, or few there, have the cores of free seats too. */
struct world_place {
    uint32_t node;
    struct machine_seat seat;
    const struct machine_device *nic; /* NULL: none is known */
};

/** Fills places[rank] from seat_of[rank]. 0; -1: no memory. */
int world_places(const struct world *w, const uint32_t *seat_of, uint32_t num_ranks, struct world_place *places);

/**
 * "cache", "NUMA node", …, "switch", "2 switches up", "far": the name of a level of the cluster. Without a network,
 * "switch" holds all nodes.
 */
const char *world_level_name(const struct world *w, uint32_t level, char text[32]);

#endif
