/* SPDX-License-Identifier: BSD-3-Clause */
/* topology: see topology.h. */
#include "info/topology.h"

#include <hwloc.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_NODE UINT32_MAX

/* What is drawn. */
struct drawing {
    FILE *out;
    hwloc_topology_t t;
    const struct machine *m;
};

/* ---- devices ----------------------------------------------------------------------------------------------------- */

/* The NUMA node that all cores near a device are in; NO_NODE: there are several. */
static uint32_t node_of(const struct machine *m, const struct machine_device *d)
{
    for (uint32_t i = d->first_core + 1; i < d->end_core; i++)
        if (m->cores[i].numa != m->cores[d->first_core].numa)
            return NO_NODE;
    return m->cores[d->first_core].numa;
}

/* Those of a node, behind `before`. True: there is one. */
static bool add_devices(const struct drawing *p, const char *before, const char *kind,
                        const struct machine_device *devices, uint32_t num, uint32_t node)
{
    bool any = false;
    for (uint32_t i = 0; i < num; i++) {
        if (node_of(p->m, &devices[i]) != node)
            continue;
        fprintf(p->out, "%s%s%s%s", any ? ", " : before, any ? "" : kind, any ? "" : " ", devices[i].name);
        any = true;
    }
    return any;
}

/* ---- cores, caches, memory --------------------------------------------------------------------------------------- */

static void add_size(FILE *out, uint64_t bytes)
{
    if (bytes >= UINT64_C(1) << 30)
        fprintf(out, "%.1f GiB", (double)bytes / (1 << 30));
    else if (bytes >= 1 << 20)
        fprintf(out, "%" PRIu64 " MiB", bytes >> 20);
    else
        fprintf(out, "%" PRIu64 " KiB", bytes >> 10);
}

/* "L3 2 x 32 MiB", or "L3 32 MiB, shared" where other NUMA nodes have the same one. */
static void add_cache(const struct drawing *p, hwloc_const_cpuset_t cpus, hwloc_obj_type_t type, const char *name)
{
    int num = hwloc_get_nbobjs_inside_cpuset_by_type(p->t, cpus, type);
    hwloc_obj_t cache = num > 0 ? hwloc_get_obj_inside_cpuset_by_type(p->t, cpus, type, 0)
                                : hwloc_get_next_obj_covering_cpuset_by_type(p->t, cpus, type, NULL);
    if (cache == NULL)
        return;
    fprintf(p->out, "; %s ", name);
    if (num > 1)
        fprintf(p->out, "%d x ", num);
    add_size(p->out, cache->attr->cache.size);
    if (num <= 0)
        fputs(", shared", p->out);
}

static void add_cores(const struct drawing *p, hwloc_const_cpuset_t cpus)
{
    int cores = hwloc_get_nbobjs_inside_cpuset_by_type(p->t, cpus, HWLOC_OBJ_CORE);
    int pus = hwloc_get_nbobjs_inside_cpuset_by_type(p->t, cpus, HWLOC_OBJ_PU);
    fprintf(p->out, "%d core%s, %d hardware thread%s", cores, cores == 1 ? "" : "s", pus, pus == 1 ? "" : "s");
}

static void add_node(const struct drawing *p, hwloc_obj_t node)
{
    fprintf(p->out, "  NUMA node %u: ", node->logical_index);
    add_size(p->out, node->attr->numanode.local_memory);
    if (!hwloc_bitmap_iszero(node->cpuset)) {
        fputs(", ", p->out);
        add_cores(p, node->cpuset);
        add_cache(p, node->cpuset, HWLOC_OBJ_L3CACHE, "L3");
        add_cache(p, node->cpuset, HWLOC_OBJ_L2CACHE, "L2");
        add_cache(p, node->cpuset, HWLOC_OBJ_L1CACHE, "L1");
    }
    add_devices(p, "; ", "GPU", p->m->gpus, p->m->num_gpus, node->logical_index);
    add_devices(p, "; ", "NIC", p->m->nics, p->m->num_nics, node->logical_index);
    fputc('\n', p->out);
}

/* Each NUMA node stands below the package that has its first core. Memory without cores comes last. */
static void draw(const struct drawing *p)
{
    hwloc_obj_t package = NULL, node = NULL;
    while ((package = hwloc_get_next_obj_by_type(p->t, HWLOC_OBJ_PACKAGE, package)) != NULL) {
        fprintf(p->out, "package %u: ", package->logical_index);
        add_cores(p, package->cpuset);
        fputc('\n', p->out);
        while ((node = hwloc_get_next_obj_by_type(p->t, HWLOC_OBJ_NUMANODE, node)) != NULL)
            if (!hwloc_bitmap_iszero(node->cpuset) &&
                hwloc_bitmap_isset(package->cpuset, (unsigned)hwloc_bitmap_first(node->cpuset)))
                add_node(p, node);
    }
    bool has_packages = hwloc_get_nbobjs_by_type(p->t, HWLOC_OBJ_PACKAGE) > 0;
    while ((node = hwloc_get_next_obj_by_type(p->t, HWLOC_OBJ_NUMANODE, node)) != NULL)
        if (!has_packages || hwloc_bitmap_iszero(node->cpuset))
            add_node(p, node);
    bool gpus = add_devices(p, "near no NUMA node alone: ", "GPU", p->m->gpus, p->m->num_gpus, NO_NODE);
    if (add_devices(p, gpus ? "; " : "near no NUMA node alone: ", "NIC", p->m->nics, p->m->num_nics, NO_NODE) || gpus)
        fputc('\n', p->out);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* In place: what is left out is longer than the line that says so. */
static void cut(char *text)
{
    unsigned lines = 0;
    char *end = text;
    for (const char *at = text; *at != '\0'; at++)
        if (*at == '\n' && ++lines == TOPOLOGY_LINES_MAX - 1)
            end = text + (at - text) + 1;
    if (lines > TOPOLOGY_LINES_MAX)
        snprintf(end, strlen(end), "%u lines more: see lstopo\n", lines - TOPOLOGY_LINES_MAX + 1);
}

char *topology_draw(const struct machine *m, enum machine_form form, const char *text)
{
    char *lines = NULL;
    size_t size;
    struct drawing p = {open_memstream(&lines, &size), machine_topology(form, text), m};
    if (p.out != NULL && p.t != NULL)
        draw(&p);
    bool good = p.out != NULL && p.t != NULL && ferror(p.out) == 0;
    if (p.out != NULL)
        good = fclose(p.out) == 0 && good;
    if (p.t != NULL)
        hwloc_topology_destroy(p.t);
    if (good)
        cut(lines);
    else
        free(lines);
    return good ? lines : NULL;
}
