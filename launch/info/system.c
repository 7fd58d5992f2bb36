/* SPDX-License-Identifier: BSD-3-Clause */
/* system: see system.h. */
#include "info/system.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "info/topology.h"
#include "batonrun/child.h"
#include "place/machine.h"
#include "topo/cgroup.h"
#include "topo/obstacle.h"

#define MIB(bytes) ((double)(bytes) / (1 << 20))
#define SHM_LEAST (UINT64_C(1) << 30)     /* free; a cache usually has several GiB, a container by default 64 MiB */
#define MEMLOCK_LEAST (UINT64_C(1) << 30) /* adapters lock what they move */

/* The first line of a file; empty: it cannot be read. */
static void read_line(const char *path, char *line, size_t size)
{
    line[0] = '\0';
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fgets(line, (int)size, file) == NULL)
        line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    fclose(file);
}

/* ---- the machine ------------------------------------------------------------------------------------------------- */

static void list_devices(struct info *i, const char *name, const struct machine_device *devices, uint32_t num)
{
    char text[512] = "";
    for (uint32_t k = 0; k < num; k++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", k > 0 ? ", " : "", devices[k].name);
    }
    info_fact(i, INFO_OF_NODE, "machine", name, "%s", num > 0 ? text : "none");
}

static void add_place(struct info *i)
{
    struct topo_place p;
    if (topo_find(NULL, NULL, &p) != 0)
        return;
    info_fact(i, INFO_OF_NODE, "machine", "usable",
              p.numa == TOPO_UNKNOWN ? "%" PRIu32 " CPU%s of several NUMA nodes, last cache %" PRIu64 " KiB"
                                     : "%" PRIu32 " CPU%s of one NUMA node, last cache %" PRIu64 " KiB",
              p.cpus, p.cpus == 1 ? "" : "s", p.llc_bytes >> 10);
    info_fact(i, INFO_OF_NODE, "machine", "memory", "%.1f GiB", MIB(p.memory_bytes) / 1024);
    info_fact(i, INFO_OF_NODE, "machine", "nearest", "NIC %s, GPU %s", p.nic[0] ? p.nic : "none",
              p.gpu[0] ? p.gpu : "none");
}

/* What may be used of it, in numbers: machines of which they are equal are compared. */
static void add_kind(struct info *i, const struct machine *m)
{
    uint32_t packages = machine_packages(m), numas = machine_numas(m);
    info_fact(i, INFO_OF_NODE, INFO_KIND_SECTION, INFO_KIND_NAME,
              "%u package%s, %u NUMA node%s, %u core%s, %u hardware thread%s, %u GPU%s, %u NIC%s", packages,
              packages == 1 ? "" : "s", numas, numas == 1 ? "" : "s", m->num_cores, m->num_cores == 1 ? "" : "s",
              m->num_pus, m->num_pus == 1 ? "" : "s", m->num_gpus, m->num_gpus == 1 ? "" : "s", m->num_nics,
              m->num_nics == 1 ? "" : "s");
}

static void add_picture(struct info *i, const struct machine *m)
{
    char *lines = topology_draw(m, MACHINE_HERE, NULL);
    if (lines != NULL)
        info_fact(i, INFO_OF_NODE, "machine", "picture", "%s", lines);
    free(lines);
}

void system_machine(struct info *i)
{
    struct machine m;
    struct why why;
    struct utsname kernel;
    if (uname(&kernel) == 0)
        info_fact(i, INFO_OF_ALL, "machine", "kernel", "%s %s", kernel.sysname, kernel.release);
    if (machine_read(&m, MACHINE_HERE, NULL, &why) == 0) {
        add_kind(i, &m);
        add_picture(i, &m);
        list_devices(i, "GPUs", m.gpus, m.num_gpus);
        list_devices(i, "NICs", m.nics, m.num_nics);
    } else {
        info_problem(i, "hwloc cannot read this machine", "see whether /sys and /proc are mounted", why.text);
    }
    machine_fini(&m);
    add_place(i);
}

/* ---- shared memory, pages, locked memory ------------------------------------------------------------------------- */

static void add_shm(struct info *i)
{
    struct statvfs fs;
    char text[256];
    if (statvfs("/dev/shm", &fs) != 0) {
        snprintf(text, sizeof text, "there is no /dev/shm: %s", strerror(errno));
        info_problem(i, text, "mount a tmpfs there: the caches of the ranks of a node lie in it", NULL);
        return;
    }
    uint64_t size = (uint64_t)fs.f_blocks * fs.f_frsize, room = (uint64_t)fs.f_bavail * fs.f_frsize;
    info_fact(i, INFO_OF_KIND, "limits", "/dev/shm", "%.0f MiB", MIB(size));
    info_fact(i, INFO_OF_NODE, "limits", "/dev/shm free", "%.0f MiB", MIB(room));
    if (room >= SHM_LEAST)
        return;
    snprintf(text, sizeof text,
             "/dev/shm has %.0f MiB free of %.0f, and the caches of all ranks of a node lie there, with 12 MiB more a "
             "rank",
             MIB(room), MIB(size));
    info_problem(i, text,
                 size < SHM_LEAST ? "enlarge it (docker run --shm-size=16g, mount -o remount,size=16g /dev/shm)"
                                  : "remove what old programs left there (ls -l /dev/shm), or enlarge it",
                 NULL);
}

/* "always [madvise] never" becomes "madvise". */
static const char *chosen(char *line)
{
    char *begin = strchr(line, '['), *end = strchr(line, ']');
    if (begin == NULL || end == NULL || end < begin)
        return line[0] != '\0' ? line : "unknown";
    *end = '\0';
    return begin + 1;
}

static void add_pages(struct info *i)
{
    char transparent[64], shared[64], pages[64];
    read_line("/sys/kernel/mm/transparent_hugepage/enabled", transparent, sizeof transparent);
    read_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", shared, sizeof shared);
    read_line("/proc/sys/vm/nr_hugepages", pages, sizeof pages);
    info_fact(i, INFO_OF_KIND, "limits", "huge pages", "transparent %s, in shared memory %s, reserved %s",
              chosen(transparent), chosen(shared), chosen(pages));
}

static bool has_verbs(void)
{
    DIR *d = opendir("/sys/class/infiniband");
    bool any = false;
    for (struct dirent *e; d != NULL && !any && (e = readdir(d)) != NULL;)
        any = e->d_name[0] != '.';
    if (d != NULL)
        closedir(d);
    return any;
}

static void add_memlock(struct info *i)
{
    struct rlimit r;
    char text[256];
    if (getrlimit(RLIMIT_MEMLOCK, &r) != 0)
        return;
    if (r.rlim_cur == RLIM_INFINITY)
        info_fact(i, INFO_OF_KIND, "limits", "locked memory", "unlimited");
    else
        info_fact(i, INFO_OF_KIND, "limits", "locked memory", "%.0f MiB", MIB(r.rlim_cur));
    if (r.rlim_cur == RLIM_INFINITY || r.rlim_cur >= MEMLOCK_LEAST || !has_verbs())
        return;
    snprintf(text, sizeof text,
             "only %.0f MiB of memory may be locked, and the InfiniBand or RoCE adapters of this host lock the caches",
             MIB(r.rlim_cur));
    info_problem(i, text,
                 "permit it (ulimit -l unlimited in limits.conf, PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, "
                 "docker run --ulimit memlock=-1)",
                 NULL);
}

/* ---- reading other processes' memory ----------------------------------------------------------------------------- */

/* Forks. `read_from` 0: a process that only waits to be read. Its status is an errno. */
static pid_t fork_one(pid_t read_from, const uint64_t *word)
{
    pid_t pid = child_fork();
    if (pid != 0)
        return pid;
    if (read_from == 0) {
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* as UCX does */
        for (;;)
            pause();
    }
    uint64_t copy = 0;
    struct iovec mine = {&copy, sizeof copy}, other = {(void *)(uintptr_t)word, sizeof *word};
    for (int turn = 0; turn < 100; turn++) { /* the other one may not have called prctl yet */
        if (process_vm_readv(read_from, &mine, 1, &other, 1, 0) == (ssize_t)sizeof copy)
            _exit(copy == *word ? 0 : EIO);
        clock_sleep_until(clock_now_ns() + 2 * CLOCK_NS_PER_MS);
    }
    _exit(errno);
}

/* One process reads a word of another, a sibling, as ranks of a node do. 0, or an errno. */
static int try_reading(void)
{
    static const uint64_t word = UINT64_C(0x6261746f6e);
    int raw = 0;
    pid_t owner = fork_one(0, &word);
    if (owner < 0)
        return errno;
    pid_t reader = fork_one(owner, &word);
    int error = reader < 0 ? errno : 0;
    if (error == 0)
        error = !child_reap(reader, &raw) ? ETIMEDOUT : WIFEXITED(raw) ? WEXITSTATUS(raw) : EIO;
    kill(owner, SIGKILL);
    child_reap(owner, &raw);
    return error;
}

static void add_reading(struct info *i)
{
    char scope[64];
    struct obstacle o;
    int error = try_reading();
    read_line("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof scope);
    info_fact(i, INFO_OF_ALL, "limits", "process_vm_readv", "%s", error == 0 ? "works" : strerror(error));
    info_fact(i, INFO_OF_ALL, "limits", "ptrace scope", "%s", scope[0] ? scope : "none");
    if (obstacle_memory(error, &o))
        info_problem(i, o.what, o.remedy, NULL);
}

/* ---- control groups and affinity --------------------------------------------------------------------------------- */

static void add_groups(struct info *i)
{
    uint64_t cpu = cgroup_cpu_limit(""), memory = cgroup_memory_limit("");
    char status[256], *cpus = NULL;
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && cpus == NULL && fgets(status, sizeof status, file) != NULL)
        if (strncmp(status, "Cpus_allowed_list:", 18) == 0)
            cpus = status + 18 + strspn(status + 18, " \t");
    if (file != NULL)
        fclose(file);
    if (cpus != NULL)
        info_fact(i, INFO_OF_NODE, "limits", "cpuset", "%.*s", (int)strcspn(cpus, "\n"), cpus);
    if (cpu == UINT64_MAX)
        info_fact(i, INFO_OF_NODE, "limits", "cpu quota", "none");
    else
        info_fact(i, INFO_OF_NODE, "limits", "cpu quota", "%.3g CPUs", (double)cpu / 1000);
    if (memory >= UINT64_C(1) << 60)
        info_fact(i, INFO_OF_NODE, "limits", "memory limit", "none");
    else
        info_fact(i, INFO_OF_NODE, "limits", "memory limit", "%.0f MiB", MIB(memory));
}

void system_limits(struct info *i)
{
    add_shm(i);
    add_reading(i);
    add_groups(i);
    add_memlock(i);
    add_pages(i);
}

void system_obstacles(struct info *i)
{
    struct obstacle found[OBSTACLES_MAX];
    struct topo_place place;
    topo_find(NULL, NULL, &place);
    unsigned n = obstacles_find(&place, found);
    for (unsigned k = 0; k < n; k++)
        info_problem(i, found[k].what, found[k].remedy, NULL);
}
