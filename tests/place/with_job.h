/* SPDX-License-Identifier: BSD-3-Clause */
/* job: clusters of equal nodes, and jobs of prefill and decode engines, described by small numbers. */
#ifndef TEST_WITH_JOB_H
#define TEST_WITH_JOB_H

#include "place/place.h"

/** So many nodes a switch, packages a node, NUMA nodes a package, caches a NUMA node, and seats a cache. */
struct shape {
    const char *name;
    uint32_t nodes, per_switch, packages, numas, caches, seats;
};

/** Builds it, with test costs. `capacity`: by node, or NULL. */
void shape_build(const struct shape *s, const uint32_t *capacity, struct cluster *c);

/** Engines of TP by PP ranks. */
struct engines {
    uint32_t num, tp, pp;
};

/**
 * Every prefill engine makes the same bytes and every decode engine takes the same, in order of engine; bytes go
 * between two ranks by the heads and layers that both hold; a team's ranks exchange `inside` times an engine's bytes
 * with each of their neighbours in a ring.
 */
void engines_build(const struct engines *prefill, const struct engines *decode, double inside, struct job *j);

#endif
