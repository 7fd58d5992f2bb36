/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topo: asks hwloc once, and keeps plain values rather than a topology. What it finds is advice (the nearest device,
 * where to place memory), so nothing in this file sets an error sentence or stops a start.
 */
#include "topo/topo.h"
#include "baton.h"
#include "topo/cgroup.h"
#include "topo/components.h"

#include <hwloc.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- the topology ------------------------------------------------------------------------------------------------ */

/* NULL: failed. */
static hwloc_topology_t load(const char *xml, bool with_devices)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return NULL;
    components_leave_out(topology);
    if (with_devices)
        hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    /* A file describes another machine: without the flag IS_THISSYSTEM hwloc does not ask this one. */
    if ((xml == NULL || hwloc_topology_set_xml(topology, xml) == 0) && hwloc_topology_set_flags(topology, 0) == 0 &&
        hwloc_topology_load(topology) == 0)
        return topology;
    hwloc_topology_destroy(topology);
    return NULL;
}

/*
 * The PUs of the topology that `cpus` lists. Where it is NULL: those that this process may run on, or all of them if
 * the topology is not this machine's. Returns NULL where there is none, or no memory.
 */
static hwloc_cpuset_t find_cpuset(hwloc_topology_t topology, const char *cpus)
{
    hwloc_const_cpuset_t all = hwloc_topology_get_topology_cpuset(topology);
    hwloc_cpuset_t set = hwloc_bitmap_alloc();
    if (set == NULL)
        return NULL;
    if (cpus != NULL) {
        if (hwloc_bitmap_list_sscanf(set, cpus) != 0)
            hwloc_bitmap_zero(set);
    } else if (!hwloc_topology_is_thissystem(topology) ||
               hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_PROCESS) != 0) {
        hwloc_bitmap_copy(set, all);
    }
    hwloc_bitmap_and(set, set, all);
    if (!hwloc_bitmap_iszero(set))
        return set;
    hwloc_bitmap_free(set);
    return NULL;
}

/* ---- where: NUMA node, package, cache, memory -------------------------------------------------------------------- */

/*
 * Of the NUMA nodes near some PU of `set`, the one with the fewest PUs, if it is near all of `set`; else NULL. The
 * fewest, because memory of a second kind may belong to a whole package or machine that has NUMA nodes of its own
 * inside.
 */
static hwloc_obj_t find_numa(hwloc_topology_t topology, hwloc_const_cpuset_t set)
{
    hwloc_obj_t best = NULL;
    if (hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) == 1)
        return hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, 0);
    for (hwloc_obj_t node = NULL; (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != NULL;) {
        if (!hwloc_bitmap_intersects(node->cpuset, set))
            continue;
        if (best == NULL || hwloc_bitmap_weight(node->cpuset) < hwloc_bitmap_weight(best->cpuset))
            best = node;
    }
    return best != NULL && hwloc_bitmap_isincluded(set, best->cpuset) ? best : NULL;
}

static uint32_t find_package(hwloc_topology_t topology, hwloc_const_cpuset_t set)
{
    for (hwloc_obj_t p = NULL; (p = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, p)) != NULL;)
        if (hwloc_bitmap_isincluded(set, p->cpuset))
            return p->logical_index;
    return TOPO_UNKNOWN;
}

static void find_last_cache(hwloc_topology_t topology, hwloc_const_cpuset_t set, struct topo_place *out)
{
    hwloc_obj_t last = NULL, object = hwloc_get_pu_obj_by_os_index(topology, (unsigned)hwloc_bitmap_first(set));
    for (; object != NULL; object = object->parent)
        if (hwloc_obj_type_is_dcache(object->type))
            last = object; /* the walk goes outwards, so the last level stays */
    if (last == NULL)
        return;
    out->llc_bytes = last->attr->cache.size;
    if (hwloc_bitmap_isincluded(set, last->cpuset))
        out->llc = last->logical_index;
}

static uint64_t find_memory(hwloc_topology_t topology)
{
    const uint64_t machine = hwloc_get_root_obj(topology)->total_memory;
    if (!hwloc_topology_is_thissystem(topology))
        return machine;
    const uint64_t group = cgroup_memory_limit("");
    if (machine != 0 && machine < group)
        return machine;
    return group != UINT64_MAX ? group : 0;
}

/* ---- what is near: NIC and GPU ----------------------------------------------------------------------------------- */

/* How well an OS device suits; 0: it is not of the kind. */
typedef unsigned (*suits_fn)(hwloc_obj_t device);

static unsigned suits_as_nic(hwloc_obj_t device)
{
    switch (device->attr->osdev.type) {
    case HWLOC_OBJ_OSDEV_OPENFABRICS:
        return 2;
    case HWLOC_OBJ_OSDEV_NETWORK:
        return strcmp(device->name, "lo") != 0 ? 1 : 0;
    default:
        return 0;
    }
}

static unsigned suits_as_gpu(hwloc_obj_t device)
{
    switch (device->attr->osdev.type) {
    case HWLOC_OBJ_OSDEV_COPROC:
        return 3;
    case HWLOC_OBJ_OSDEV_GPU:
        return device->subtype != NULL
                   ? 2
                   : 1; /* a vendor's library knows the first kind; the other may be a mere display */
    default:
        return 0;
    }
}

/* The depth of the deepest object that holds both the device and our PUs: the deeper, the nearer. */
static int shared_depth(hwloc_topology_t topology, hwloc_obj_t ours, hwloc_obj_t device)
{
    hwloc_obj_t host = hwloc_get_non_io_ancestor_obj(topology, device);
    return hwloc_get_common_ancestor_obj(topology, ours, host)->depth;
}

static void find_nearest(hwloc_topology_t topology, hwloc_const_cpuset_t set, suits_fn suits, char *name, size_t size)
{
    hwloc_obj_t ours = hwloc_get_obj_covering_cpuset(topology, set);
    unsigned best = 0;
    int best_depth = 0;
    for (hwloc_obj_t device = NULL; (device = hwloc_get_next_osdev(topology, device)) != NULL;) {
        const unsigned suit = device->name != NULL ? suits(device) : 0;
        const int depth = suit != 0 ? shared_depth(topology, ours, device) : 0;
        if (suit > best || (suit == best && suit != 0 && depth > best_depth)) {
            best = suit;
            best_depth = depth;
            snprintf(name, size, "%s", device->name);
        }
    }
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* A name has up to 64 bytes on Linux: the last of so many is left out. */
static void read_host(char *host, size_t size)
{
    char name[HOST_NAME_MAX + 1] = "";
    if (gethostname(name, sizeof name) == 0)
        snprintf(host, size, "%.*s", (int)size - 1, name);
    else
        host[0] = '\0';
}

static void set_unknown(struct topo_place *place)
{
    memset(place, 0, sizeof *place);
    place->numa = TOPO_UNKNOWN;
    place->numa_os = TOPO_UNKNOWN;
    place->package = TOPO_UNKNOWN;
    place->llc = TOPO_UNKNOWN;
}

static void find_place(hwloc_topology_t topology, hwloc_const_cpuset_t set, struct topo_place *out)
{
    hwloc_obj_t numa = find_numa(topology, set);
    out->numa = numa != NULL ? numa->logical_index : TOPO_UNKNOWN;
    out->numa_os = numa != NULL ? numa->os_index : TOPO_UNKNOWN;
    out->package = find_package(topology, set);
    out->cpus = (uint32_t)hwloc_bitmap_weight(set);
    find_last_cache(topology, set, out);
    out->memory_bytes = find_memory(topology);
    find_nearest(topology, set, suits_as_nic, out->nic, sizeof out->nic);
    find_nearest(topology, set, suits_as_gpu, out->gpu, sizeof out->gpu);
}

int topo_find(const char *xml, const char *cpus, struct topo_place *out)
{
    set_unknown(out);
    read_host(out->host, sizeof out->host);
    hwloc_topology_t topology = load(xml, true);
    if (topology == NULL)
        return BATON_ESYSTEM;
    hwloc_cpuset_t set = find_cpuset(topology, cpus);
    if (set != NULL)
        find_place(topology, set, out);
    const int error = set != NULL ? 0 : BATON_ESYSTEM;
    hwloc_bitmap_free(set);
    hwloc_topology_destroy(topology);
    return error;
}

int topo_bind_memory(void *base, uint64_t bytes, uint32_t numa)
{
    if (bytes == 0)
        return 0;
    hwloc_topology_t topology = load(NULL, false);
    if (topology == NULL)
        return BATON_ESYSTEM;
    hwloc_obj_t node = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, numa);
    /* Without STRICT, so that memory of a full node comes from others instead of ending the process. */
    const bool bound = node != NULL && hwloc_set_area_membind(topology, base, bytes, node->nodeset, HWLOC_MEMBIND_BIND,
                                                              HWLOC_MEMBIND_BYNODESET) == 0;
    hwloc_topology_destroy(topology);
    return bound ? 0 : BATON_ESYSTEM;
}
