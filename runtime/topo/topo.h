/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topo: where this rank sits and what is near it, by hwloc. Called once, at open, by the thread that opens. Never
 * fails the start: what cannot be found is said to be unknown.
 */
#ifndef BATON_TOPO_TOPO_H
#define BATON_TOPO_TOPO_H

#include <stdint.h>

#define TOPO_UNKNOWN UINT32_MAX

struct topo_place {
    char host[64];          /* this machine's name, known in any case */
    uint32_t numa, package; /* logical indexes of the NUMA node and package this process may run on; unknown if many */
    uint32_t cpus;          /* processing units it may run on */
    uint64_t llc_bytes;     /* the last-level cache above its first PU; 0: unknown */
    uint64_t memory_bytes;  /* that it may use: the least of the machine's and the control group's limit */
    char nic[32], gpu[32];  /* OS names of the nearest; empty: none */
};

/**
 * `xml`: a topology file instead of this machine (for tests), or NULL. 0, or BATON_ESYSTEM with all but the host
 * unknown.
 */
int topo_find(const char *xml, struct topo_place *out);

/** The same for a process that may run on the PUs of `cpus`, a list as in "0-3,8" (OS indexes). NULL: as topo_find. */
int topo_find_at(const char *xml, const char *cpus, struct topo_place *out);

/**
 * Binds [base, base + bytes) to NUMA node `numa` (logical index). 0, or BATON_ESYSTEM where the system does not
 * permit it: the memory then stays where it is first touched.
 */
int topo_bind_memory(void *base, uint64_t bytes, uint32_t numa);

#endif
