/* SPDX-License-Identifier: BSD-3-Clause */
/* cgroup: how much memory the control groups of this process leave it. Called once, at open. */
#ifndef BATON_TOPO_CGROUP_H
#define BATON_TOPO_CGROUP_H

#include <stdint.h>

/**
 * The least memory limit in bytes of this process' group and all groups above it that can be seen, of control groups
 * version 1 and 2; UINT64_MAX where there is none. `root` stands before every path that is read: "" for this system,
 * or a folder that plays one (for tests).
 */
uint64_t cgroup_memory_limit(const char *root);

#endif
