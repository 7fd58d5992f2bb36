/* SPDX-License-Identifier: BSD-3-Clause */
/* topo: see topo.h. */
#include "topo/topo.h"

#include <hwloc.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "baton.h"

/* ---- memory limits ----------------------------------------------------------------------------------------------- */

static uint64_t read_limit(const char *path)
{
    unsigned long long value;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return UINT64_MAX;
    int n = fscanf(file, "%llu", &value); /* "max" is no number: no limit */
    fclose(file);
    return n == 1 ? value : UINT64_MAX;
}

/* The least limit from this group up to the root: control group version 2, and the memory controller of version 1. */
static uint64_t group_limit(void)
{
    char line[1024], path[1200];
    uint64_t least = UINT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL)
        return least;
    while (fgets(line, sizeof line, file) != NULL) {
        bool v2 = strncmp(line, "0::", 3) == 0;
        char *group = v2 ? line + 3 : strstr(line, ":memory:");
        if (group == NULL)
            continue;
        group += v2 ? 0 : strlen(":memory:");
        group[strcspn(group, "\n")] = '\0';
        for (;;) {
            snprintf(path, sizeof path, v2 ? "/sys/fs/cgroup%s/memory.max" : "/sys/fs/cgroup/memory%s/memory.limit_in_bytes",
                     group);
            uint64_t limit = read_limit(path);
            least = limit < least ? limit : least;
            char *slash = strrchr(group, '/');
            if (slash == NULL || group[0] == '\0')
                break;
            *slash = '\0';
        }
    }
    fclose(file);
    return least;
}

static uint64_t memory_limit(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    uint64_t machine = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;
    uint64_t group = group_limit();
    uint64_t least = machine < group ? machine : group;
    return least == UINT64_MAX ? 0 : least;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* The one object of that type that covers or holds all of `set`; unknown if there are several. */
static uint32_t only_of(hwloc_topology_t t, hwloc_obj_type_t type, hwloc_const_cpuset_t set)
{
    uint32_t found = TOPO_UNKNOWN;
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(t, type, o)) != NULL;) {
        if (!hwloc_bitmap_intersects(o->cpuset, set))
            continue;
        if (found != TOPO_UNKNOWN)
            return TOPO_UNKNOWN;
        found = o->logical_index;
    }
    return found;
}

static uint64_t last_cache(hwloc_topology_t t, hwloc_const_cpuset_t set)
{
    hwloc_obj_t pu = hwloc_get_next_obj_inside_cpuset_by_type(t, set, HWLOC_OBJ_PU, NULL);
    uint64_t bytes = 0;
    for (; pu != NULL; pu = pu->parent)
        if (hwloc_obj_type_is_dcache(pu->type) && pu->attr->cache.size > bytes)
            bytes = pu->attr->cache.size;
    return bytes;
}

static unsigned shared_cpus(hwloc_topology_t t, hwloc_obj_t device, hwloc_const_cpuset_t set)
{
    hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(t, device);
    /* The smaller the part of the machine that the device hangs on, the nearer; only where we run in it. */
    if (near == NULL || !hwloc_bitmap_intersects(near->cpuset, set))
        return UINT32_MAX;
    return (unsigned)hwloc_bitmap_weight(near->cpuset);
}

static int device_rank(hwloc_obj_t o, bool nic)
{
    hwloc_obj_osdev_type_t type = o->attr->osdev.type;
    if (nic)
        return type == HWLOC_OBJ_OSDEV_OPENFABRICS ? 2 : type == HWLOC_OBJ_OSDEV_NETWORK ? 1 : 0;
    return type == HWLOC_OBJ_OSDEV_COPROC ? 2 : type == HWLOC_OBJ_OSDEV_GPU ? 1 : 0;
}

static void nearest(hwloc_topology_t t, hwloc_const_cpuset_t set, bool nic, char out[32])
{
    unsigned best_cpus = UINT32_MAX;
    int best_rank = 0;
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_osdev(t, o)) != NULL;) {
        int rank = device_rank(o, nic);
        unsigned cpus = shared_cpus(t, o, set);
        if (rank == 0 || o->name == NULL || strcmp(o->name, "lo") == 0)
            continue;
        if (best_rank == 0 || rank > best_rank || (rank == best_rank && cpus < best_cpus)) {
            best_rank = rank;
            best_cpus = cpus;
            snprintf(out, 32, "%s", o->name);
        }
    }
}

static int load(hwloc_topology_t *t, const char *xml)
{
    if (hwloc_topology_init(t) != 0)
        return BATON_ESYSTEM;
    if (hwloc_topology_set_io_types_filter(*t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) == 0 &&
        (xml == NULL || hwloc_topology_set_xml(*t, xml) == 0) && hwloc_topology_load(*t) == 0)
        return 0;
    hwloc_topology_destroy(*t);
    return BATON_ESYSTEM;
}

int topo_find(const char *xml, struct topo_place *out)
{
    hwloc_topology_t t;
    *out = (struct topo_place){.numa = TOPO_UNKNOWN, .package = TOPO_UNKNOWN, .memory_bytes = memory_limit()};
    if (gethostname(out->host, sizeof out->host - 1) != 0)
        out->host[0] = '\0';
    if (load(&t, xml) != 0)
        return BATON_ESYSTEM;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (set == NULL) {
        hwloc_topology_destroy(t);
        return BATON_ESYSTEM;
    }
    if (!hwloc_topology_is_thissystem(t) || hwloc_get_cpubind(t, set, HWLOC_CPUBIND_PROCESS) != 0)
        hwloc_bitmap_copy(set, hwloc_topology_get_topology_cpuset(t));
    out->numa = only_of(t, HWLOC_OBJ_NUMANODE, set);
    out->package = only_of(t, HWLOC_OBJ_PACKAGE, set);
    out->cpus = (uint32_t)hwloc_bitmap_weight(set);
    out->llc_bytes = last_cache(t, set);
    nearest(t, set, true, out->nic);
    nearest(t, set, false, out->gpu);
    hwloc_bitmap_free(set);
    hwloc_topology_destroy(t);
    return 0;
}

int topo_bind_memory(void *base, uint64_t bytes, uint32_t numa)
{
    hwloc_topology_t t;
    if (load(&t, NULL) != 0)
        return BATON_ESYSTEM;
    hwloc_obj_t node = hwloc_get_obj_by_type(t, HWLOC_OBJ_NUMANODE, (int)numa);
    int rc = node == NULL ? -1
                          : hwloc_set_area_membind(t, base, (size_t)bytes, node->nodeset, HWLOC_MEMBIND_BIND,
                                                   HWLOC_MEMBIND_BYNODESET);
    hwloc_topology_destroy(t);
    return rc == 0 ? 0 : BATON_ESYSTEM;
}
