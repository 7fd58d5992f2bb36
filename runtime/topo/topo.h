/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topo: where this rank runs and what is near it, as hwloc says. The thread that opens calls it, once. Never fails the
 * start: what cannot be found is unknown.
 */
#ifndef BATON_TOPO_TOPO_H
#define BATON_TOPO_TOPO_H

#include <stdint.h>

#define TOPO_UNKNOWN UINT32_MAX

struct topo_place {
    char host[64];          /* this machine's name: always known */
    uint32_t numa, package; /* logical indexes of those that this process may run on; TOPO_UNKNOWN: there are several */
    uint32_t numa_os;       /* the system's number of that NUMA node; TOPO_UNKNOWN as it is */
    uint32_t cpus;          /* processing units it may run on */
    uint64_t llc_bytes;     /* the last-level cache above its first PU; 0: unknown */
    uint32_t llc;           /* logical index of that cache, if all its PUs are below it; else TOPO_UNKNOWN */
    uint64_t
        memory_bytes; /* that it may use: the machine's, or the control group's limit if that is less; 0: unknown */
    char nic[32], gpu[32]; /* OS names of the nearest ones; empty: none */
};

/**
 * `xml`: a topology file instead of this machine (for tests), or NULL. `cpus`: a list of OS indexes like "0-3,8" of the
 * PUs that the process may run on; NULL: those that this one may. 0, or BATON_ESYSTEM with all but the host unknown.
 */
int topo_find(const char *xml, const char *cpus, struct topo_place *out);

/**
 * Binds [base, base + bytes) to NUMA node `numa` (logical index). 0, or BATON_ESYSTEM where the system does not
 * permit it: the memory then stays where it is first touched.
 */
int topo_bind_memory(void *base, uint64_t bytes, uint32_t numa);

#endif
