/* SPDX-License-Identifier: BSD-3-Clause */
/* cgroup: how much memory and CPU time the control groups of this process leave it. Called once, at open. */
#ifndef BATON_TOPO_CGROUP_H
#define BATON_TOPO_CGROUP_H

#include <stdint.h>

/**
 * The least memory limit, in bytes, of this process's control group and of all groups above it that can be seen, of
 * version 1 and 2. UINT64_MAX: there is none. `root` is put before every path that is read: "" for this system, or a
 * folder that plays one in a test.
 */
uint64_t cgroup_memory_limit(const char *root);

/** The same for CPU time, in thousandths of one CPU. */
uint64_t cgroup_cpu_limit(const char *root);

#endif
