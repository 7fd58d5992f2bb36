/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topology: a machine in a few lines, as hwloc sees it: packages, NUMA nodes with their memory, cores and caches, and
 * the GPUs and NICs near each. One thread.
 */
#ifndef BATON_INFO_TOPOLOGY_H
#define BATON_INFO_TOPOLOGY_H

#include "place/machine.h"

#define TOPOLOGY_LINES_MAX 12

/**
 * Lines of text; free them. On a machine that needs more than TOPOLOGY_LINES_MAX, the last line says how many are left
 * out. `m` was read from the same `form` and `text`. NULL: hwloc cannot read the machine, or there is no memory.
 */
char *topology_draw(const struct machine *m, enum machine_form form, const char *text);

#endif
