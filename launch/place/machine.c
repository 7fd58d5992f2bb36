/* SPDX-License-Identifier: BSD-3-Clause */
/* machine: see machine.h. */
#include "place/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "batonrun/child.h"
#include "topo/components.h"

#define XML_PATIENCE_S 30

/* ---- loading ----------------------------------------------------------------------------------------------------- */

struct hwloc_topology *machine_topology(enum machine_form form, const char *text)
{
    hwloc_topology_t t;
    if (hwloc_topology_init(&t) != 0)
        return NULL;
    components_leave_out(t);
    hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    int rc = 0;
    if (form == MACHINE_XML)
        rc = hwloc_topology_set_xmlbuffer(t, text, (int)strlen(text) + 1);
    else if (form == MACHINE_SYNTHETIC)
        rc = hwloc_topology_set_synthetic(t, text);
    if (rc == 0 && hwloc_topology_load(t) == 0)
        return t;
    hwloc_topology_destroy(t);
    return NULL;
}

/* The PUs that may be used; NULL: no memory. */
static hwloc_bitmap_t usable(hwloc_topology_t t, enum machine_form form)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (set == NULL)
        return NULL;
    if (form != MACHINE_HERE || hwloc_get_cpubind(t, set, HWLOC_CPUBIND_PROCESS) != 0)
        hwloc_bitmap_copy(set, hwloc_topology_get_allowed_cpuset(t));
    hwloc_bitmap_and(set, set, hwloc_topology_get_allowed_cpuset(t));
    return set;
}

/* ---- cores ------------------------------------------------------------------------------------------------------- */

/* Where the PU is: the smallest NUMA node that holds it, since a larger one may be memory of a second kind. */
static uint32_t numa_of(hwloc_topology_t t, hwloc_obj_t pu)
{
    hwloc_obj_t best = NULL, node = NULL;
    while ((node = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, node)) != NULL)
        if (hwloc_bitmap_isincluded(pu->cpuset, node->cpuset) &&
            (best == NULL || hwloc_bitmap_weight(node->cpuset) < hwloc_bitmap_weight(best->cpuset)))
            best = node;
    return best != NULL ? best->logical_index : 0;
}

/* A number of the last data cache above the PU, unlike those of others; where no cache is known, the core's own. */
static uint32_t cache_of(hwloc_obj_t pu, uint32_t core)
{
    hwloc_obj_t last = NULL;
    for (hwloc_obj_t o = pu; o != NULL; o = o->parent)
        if (hwloc_obj_type_is_dcache(o->type))
            last = o;
    return last != NULL ? last->logical_index : core;
}

static uint32_t package_of(hwloc_topology_t t, hwloc_obj_t pu)
{
    hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_PACKAGE, pu);
    return package != NULL ? package->logical_index : 0;
}

static void read_cores(struct machine *m, hwloc_topology_t t, hwloc_const_bitmap_t set)
{
    hwloc_obj_t last = NULL, pu = NULL;
    while ((pu = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_PU, pu)) != NULL) {
        hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_CORE, pu);
        if (!hwloc_bitmap_isset(set, pu->os_index))
            continue;
        if (core == NULL)
            core = pu;
        if (core != last) {
            m->cores[m->num_cores] = (struct machine_core){.cache = cache_of(pu, m->num_cores),
                                                           .numa = numa_of(t, pu),
                                                           .package = package_of(t, pu),
                                                           .first_pu = m->num_pus};
            m->num_cores++;
        }
        last = core;
        m->cores[m->num_cores - 1].num_pus++;
        m->pus[m->num_pus++] = pu->os_index;
    }
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

/* PCI classes and vendors, from the PCI code and ID assignment list. */
enum { CLASS_VGA = 0x0300, CLASS_3D = 0x0302, CLASS_DISPLAY = 0x0380, CLASS_ACCELERATOR = 0x12 };
enum { VENDOR_NVIDIA = 0x10de, VENDOR_AMD = 0x1002 };

/* Displays of management controllers, of virtual machines and of processors are VGA or display devices too. */
static bool is_gpu(hwloc_obj_t pci)
{
    unsigned class = pci->attr->pcidev.class_id, vendor = pci->attr->pcidev.vendor_id;
    return class == CLASS_3D || class >> 8 == CLASS_ACCELERATOR || (class == CLASS_DISPLAY && vendor == VENDOR_AMD) ||
           (class == CLASS_VGA && vendor == VENDOR_NVIDIA);
}

/* How well an OS device names a GPU, or a NIC; 0: not at all. */
static unsigned names(hwloc_obj_t os, hwloc_obj_t pci, bool gpu)
{
    switch (os->attr->osdev.type) {
    case HWLOC_OBJ_OSDEV_COPROC:
        return gpu ? 2 : 0;
    case HWLOC_OBJ_OSDEV_GPU:
        return gpu && is_gpu(pci) ? 1 : 0;
    case HWLOC_OBJ_OSDEV_OPENFABRICS:
        return gpu ? 0 : 2;
    case HWLOC_OBJ_OSDEV_NETWORK:
        return gpu ? 0 : 1;
    default:
        return 0;
    }
}

/* The cores near a device. */
static void find_near(const struct machine *m, hwloc_topology_t t, hwloc_obj_t pci, struct machine_device *d)
{
    hwloc_const_bitmap_t near = hwloc_get_non_io_ancestor_obj(t, pci)->cpuset;
    d->first_core = m->num_cores;
    d->end_core = 0;
    for (uint32_t i = 0; i < m->num_cores; i++)
        if (hwloc_bitmap_isset(near, m->pus[m->cores[i].first_pu])) {
            d->first_core = i < d->first_core ? i : d->first_core;
            d->end_core = i + 1;
        }
    if (d->end_core == 0) { /* it is near cores that may not be used */
        d->first_core = 0;
        d->end_core = m->num_cores;
    }
}

/* A device's name is a word: other bytes than visible ASCII become "_". */
static void copy_name(char name[MACHINE_DEVICE_BYTES], const char *own)
{
    for (size_t i = 0; i + 1 < MACHINE_DEVICE_BYTES && own[i] != '\0'; i++)
        name[i] = own[i] > 0x20 && own[i] < 0x7f ? own[i] : '_';
}

static uint64_t pci_address(hwloc_obj_t pci)
{
    const struct hwloc_pcidev_attr_s *a = &pci->attr->pcidev;
    return (uint64_t)a->domain << 24 | (uint64_t)a->bus << 16 | (uint64_t)a->dev << 8 | a->func;
}

/*
 * One device for each PCI function, by the best of its names. Where a NIC speaks verbs, only such NICs count. There is
 * room for the addresses of all.
 */
static uint32_t read_devices(const struct machine *m, hwloc_topology_t t, bool gpu, struct machine_device *devices,
                             uint64_t *addresses)
{
    uint32_t n = 0;
    unsigned most = 0;
    hwloc_obj_t pci = NULL;
    while ((pci = hwloc_get_next_pcidev(t, pci)) != NULL) {
        hwloc_obj_t best = NULL;
        for (hwloc_obj_t os = NULL; (os = hwloc_get_next_osdev(t, os)) != NULL;)
            if (os->parent == pci && os->name != NULL && names(os, pci, gpu) > (best ? names(best, pci, gpu) : 0))
                best = os;
        unsigned how = best != NULL ? names(best, pci, gpu) : 0;
        if (how > most && !gpu)
            n = 0;
        most = how > most ? how : most;
        if (how == 0 || (how < most && !gpu))
            continue;
        devices[n].is_fabric = best->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
        copy_name(devices[n].name, best->name);
        addresses[n] = pci_address(pci);
        find_near(m, t, pci, &devices[n++]);
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++)
            devices[i].number += addresses[k] < addresses[i];
    return n;
}

static int by_core(const void *x, const void *y)
{
    const struct machine_device *a = x, *b = y;
    if (a->first_core != b->first_core)
        return a->first_core < b->first_core ? -1 : 1;
    if (a->end_core != b->end_core)
        return a->end_core < b->end_core ? -1 : 1;
    return strverscmp(a->name, b->name); /* mlx5_2 before mlx5_10 */
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static int read_all(struct machine *m, enum machine_form form, const char *text, struct why *why)
{
    static const char *const what[] = {[MACHINE_HERE] = "hwloc cannot read this machine",
                                       [MACHINE_XML] = "hwloc cannot read this XML",
                                       [MACHINE_SYNTHETIC] = "hwloc cannot read this synthetic description"};
    *m = (struct machine){0};
    hwloc_topology_t t = machine_topology(form, text);
    if (t == NULL)
        return why_set(why, "%s", what[form]);
    hwloc_bitmap_t set = usable(t, form);
    size_t pus = (size_t)hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU);
    size_t devices = (size_t)hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PCI_DEVICE);
    m->cores = calloc(pus + 1, sizeof *m->cores);
    m->pus = calloc(pus + 1, sizeof *m->pus);
    m->gpus = calloc(devices + 1, sizeof *m->gpus);
    m->nics = calloc(devices + 1, sizeof *m->nics);
    uint64_t *addresses = calloc(devices + 1, sizeof *addresses);
    int rc = set && m->cores && m->pus && m->gpus && m->nics && addresses ? 0 : why_set(why, "no memory for a machine");
    if (rc == 0) {
        read_cores(m, t, set);
        m->num_gpus = read_devices(m, t, true, m->gpus, addresses);
        m->num_nics = read_devices(m, t, false, m->nics, addresses);
        qsort(m->gpus, m->num_gpus, sizeof *m->gpus, by_core);
        qsort(m->nics, m->num_nics, sizeof *m->nics, by_core);
        if (m->num_cores == 0)
            rc = why_set(why, "no core of the machine may be used");
    }
    free(addresses);
    hwloc_bitmap_free(set);
    hwloc_topology_destroy(t);
    return rc;
}

/* hwloc may die of XML that contradicts itself, so a process of its own reads it first. */
static int try_xml(const char *text, struct why *why)
{
    struct machine m;
    struct why unused;
    int raw = 0;
    pid_t pid = child_fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null, STDERR_FILENO);
        prctl(PR_SET_DUMPABLE, 0); /* a core file would be of no use */
        alarm(XML_PATIENCE_S);
        read_all(&m, MACHINE_XML, text, &unused);
        _exit(0);
    }
    pid_t ended = pid;
    while (pid > 0 && (ended = waitpid(pid, &raw, 0)) < 0 && errno == EINTR)
        continue;
    if (ended < 0)
        return why_set(why, "no process can be started to read this XML: %s", strerror(errno));
    if (raw == 0)
        return 0;
    return why_set(why, "hwloc %s this XML",
                   WIFSIGNALED(raw) && WTERMSIG(raw) == SIGALRM ? "does not end with" : "dies of");
}

int machine_read(struct machine *m, enum machine_form form, const char *text, struct why *why)
{
    *m = (struct machine){0};
    if (form == MACHINE_XML && try_xml(text, why) != 0)
        return -1;
    return read_all(m, form, text, why);
}

void machine_fini(struct machine *m)
{
    free(m->cores);
    free(m->pus);
    free(m->gpus);
    free(m->nics);
    *m = (struct machine){0};
}

uint32_t machine_packages(const struct machine *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->num_cores; i++)
        n += i == 0 || m->cores[i].package != m->cores[i - 1].package;
    return n;
}

uint32_t machine_numas(const struct machine *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->num_cores; i++)
        n += i == 0 || m->cores[i].numa != m->cores[i - 1].numa;
    return n;
}

const struct machine_device *machine_nic(const struct machine *m, uint32_t core, uint32_t turn)
{
    uint32_t least = UINT32_MAX, equal = 0;
    for (uint32_t i = 0; i < m->num_nics; i++) {
        const struct machine_device *d = &m->nics[i];
        uint32_t width = d->end_core - d->first_core;
        if (core < d->first_core || core >= d->end_core || width > least)
            continue;
        equal = width < least ? 1 : equal + 1;
        least = width;
    }
    for (uint32_t i = 0, k = 0; i < m->num_nics; i++) {
        const struct machine_device *d = &m->nics[i];
        bool is = core >= d->first_core && core < d->end_core && d->end_core - d->first_core == least;
        if (is && k++ == turn % equal)
            return d;
    }
    return NULL;
}
