/* SPDX-License-Identifier: BSD-3-Clause */
/* components: the parts of hwloc that Baton does without, wherever it reads a topology. */
#ifndef BATON_TOPO_COMPONENTS_H
#define BATON_TOPO_COMPONENTS_H

#include <hwloc.h>

/*
 * The first four find devices by starting a GPU runtime or a display connection inside the process, before an engine
 * has chosen its devices. The last one uses libpciaccess, which keeps memory when hwloc unloads it. What the kernel
 * shows of the same devices is enough.
 */
static inline void components_leave_out(hwloc_topology_t topology)
{
    static const char *const components[] = {"cuda", "opencl", "gl", "levelzero", "pci"};
    for (size_t i = 0; i < sizeof components / sizeof components[0]; i++)
        hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, components[i]);
}

#endif
