/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * obstacle: what of this machine or environment stands in the way of MPI and Baton without ending either, each with
 * what to do. baton_open warns of it, and baton-info prints it. Any thread; the environment must not change meanwhile.
 */
#ifndef BATON_TOPO_OBSTACLE_H
#define BATON_TOPO_OBSTACLE_H

#include <stdbool.h>

#include "topo/topo.h"

#define OBSTACLES_MAX 3

/** Two sentences without their full stops. */
struct obstacle {
    char what[256], remedy[256];
};

/** Returns how many were found. `place`: where this process runs. */
unsigned obstacles_find(const struct topo_place *place, struct obstacle out[OBSTACLES_MAX]);

/**
 * Each of them alone. True: it is there, and *out says so. `thousandths`: the CPU time of this process's control group,
 * in thousandths of one CPU; UINT64_MAX: any. `error`: why one process may not read another's memory; 0: it may.
 */
bool obstacle_cores(uint32_t cpus, uint64_t thousandths, struct obstacle *out);
bool obstacle_memory(int error, struct obstacle *out);
bool obstacle_devices(const char *root, const char *names, struct obstacle *out); /* UCX_NET_DEVICES, or NULL */

#endif
