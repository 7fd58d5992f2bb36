/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * network: the tree of switches between nodes, in the form of Slurm's topology.conf(5):
 *
 *     SwitchName=leaf0 Nodes=n[0-15]
 *     SwitchName=leaf1 Nodes=n[16-31]
 *     SwitchName=spine Switches=leaf[0-1]
 *
 * LinkSpeed= has no effect. A backslash at the end of a line continues it.
 */
#ifndef BATON_PLACE_NETWORK_H
#define BATON_PLACE_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "option/why.h"

#define NETWORK_HEIGHT_MAX 6 /* switches between a node and the root */

struct network_name;

struct network {
    struct network_name *names; /* of switches and nodes */
    uint32_t num_switches, height;
    uint32_t line; /* that is read */
};

/**
 * 0, or -1 with *why, which names the line: a key is unknown, a switch is named and not described, a name comes twice.
 * A network without switches is refused too. Call network_fini in both cases.
 */
int network_read(struct network *n, const char *text, struct why *why);
void network_fini(struct network *n);

/**
 * The switches above a node: path[0] is its own, path[height - 1] the highest. A number stands for one switch of that
 * height; below and above its switches a node that has fewer of them than others repeats what it has. False: the
 * network does not name the node, and nothing is written.
 */
bool network_path(const struct network *n, const char *node, uint32_t path[NETWORK_HEIGHT_MAX]);
/** The name of the switch right above a node, which lives as long as the network. NULL: there is none. */
const char *network_switch(const struct network *n, const char *node);

#endif
