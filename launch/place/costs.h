/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * costs: what a byte costs between two ranks, by the smallest thing that both have in common. In a file each class has
 * a line:
 *
 *     cache 1
 *     node 2.1   # measured
 */
#ifndef BATON_PLACE_COSTS_H
#define BATON_PLACE_COSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "option/why.h"

/** Nearest first. COST_SWITCH: one switch has both; COST_FAR: none has. */
enum cost_class { COST_CACHE, COST_NUMA, COST_PACKAGE, COST_NODE, COST_SWITCH, COST_FAR, COST_CLASSES };

extern const char *const cost_names[COST_CLASSES];

struct costs {
    double of[COST_CLASSES];
};

/**
 * Assumed where none were measured. Within a node as ACPI's tables of machines with two packages have it: 10 within a
 * NUMA node, 12 within a package, 20 or 21 across; a cache is no nearer, since transfers are larger than caches. The
 * network a tenth as fast as memory, as over TCP in benchmarks/README.md, and a twentieth where it is twice
 * oversubscribed between switches.
 */
extern const struct costs costs_assumed;

/**
 * Reads a file's text. A class that it does not name has the assumed cost. 0, or -1 with *why: a line cannot be read, a
 * class comes twice, a cost is not from 0.001 to 1e9 (with the line's number), no class has a cost, or a farther class
 * costs less than a nearer one.
 */
int costs_read(struct costs *c, const char *text, struct why *why);

/**
 * Makes costs of measured times, in ns a byte; 0: the class was not seen. The nearest that was seen has its assumed
 * cost. Others have theirs in proportion to the seen class before them, or, at the near end, as assumed. None is less
 * than that of a nearer class.
 */
struct costs costs_of(const double ns_a_byte[COST_CLASSES]);

#endif
