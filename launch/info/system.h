/* SPDX-License-Identifier: BSD-3-Clause */
/* system: what the kernel and its administrator give this process. Nothing here starts MPI or UCX. One thread. */
#ifndef BATON_INFO_SYSTEM_H
#define BATON_INFO_SYSTEM_H

#include "info/info.h"

/** The machine as hwloc sees it, and what this process may use of it. */
void system_machine(struct info *i);

/** Shared memory, huge pages, locked memory, reading of other processes' memory, control groups. */
void system_limits(struct info *i);

/** UCX_NET_DEVICES and such, which may stand in the way: topo/obstacle.h. */
void system_obstacles(struct info *i);

#endif
