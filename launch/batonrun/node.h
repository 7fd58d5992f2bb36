/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * node: what this node has that the settings of ranks depend on (profile.h): components of Open MPI, UCX, adapters,
 * interfaces. `root` is put before every path that is read: "" for this system, or a folder that plays one in a test.
 */
#ifndef BATON_LAUNCH_NODE_H
#define BATON_LAUNCH_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "batonrun/profile.h"

/**
 * Fills in what profile.h calls the node's. Starts a process that loads the UCX that Open MPI is linked to, and
 * waits for it for at most 10 s. `plugins`: the folder of Open MPI's components; where it holds none, they are taken to
 * be inside the library.
 */
void node_look(const char *root, const char *plugins, struct profile_facts *f);

/** The same part of the facts as a short word, for the launcher (machine.h). */
#define NODE_TEXT_BYTES 64 /* "11301.111.fe80000000000000-1.ib0" */
void node_write(const struct profile_facts *f, char text[NODE_TEXT_BYTES]);
/** False, and nothing is filled in: it is malformed. */
bool node_parse(const char *text, struct profile_facts *f);

/**
 * An active port of the adapter: "mlx5_0" becomes "mlx5_0:1". False: it has none.
 */
bool node_port(const char *root, const char *adapter, char port[64]);

/** How many ranks of the world the launcher started on this node, by the environment. 0: it does not say. */
uint32_t node_ranks(char *(*variable)(const char *name));

#endif
