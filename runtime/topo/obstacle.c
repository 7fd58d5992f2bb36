/* SPDX-License-Identifier: BSD-3-Clause */
/* obstacle: see obstacle.h. What cannot be read is taken to be good. */
#include "topo/obstacle.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "topo/cgroup.h"

/* ---- CPUs -------------------------------------------------------------------------------------------------------- */

bool obstacle_cores(uint32_t cpus, uint64_t thousandths, struct obstacle *out)
{
    bool by_quota = thousandths < (uint64_t)cpus * 1000;
    double all = by_quota ? (double)thousandths / 1000 : cpus;
    if (cpus == 0 || all >= 2)
        return false;
    snprintf(out->what, sizeof out->what,
             "this process may use %.3g CPU%s%s, on which the engine's thread, the reactor and the copy worker take "
             "turns",
             all, all > 1 ? "s" : "", by_quota ? " (the control group's quota)" : "");
    snprintf(out->remedy, sizeof out->remedy,
             "give each rank two CPUs at least (mpirun --bind-to none, batonrun --cores-per-rank 2, srun "
             "--cpus-per-task=2, docker run "
             "--cpus=2, a wider taskset)");
    return true;
}

/* ---- reading other processes' memory ----------------------------------------------------------------------------- */

/*
 * Why this process may not read another's memory, as far as it can be known without another process: an errno. 0:
 * nothing is known against it.
 */
static int memory_error(void)
{
    uint64_t from = 1, to = 0;
    struct iovec mine = {&to, sizeof to}, other = {&from, sizeof from};
    int scope = 0;
    if (process_vm_readv(getpid(), &mine, 1, &other, 1, 0) != (ssize_t)sizeof to)
        return errno;
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%d", &scope) != 1)
        scope = 0;
    fclose(file);
    return scope >= 2 && geteuid() != 0 ? EPERM : 0; /* at 1, UCX asks for permission itself */
}

bool obstacle_memory(int error, struct obstacle *out)
{
    if (error == 0)
        return false;
    snprintf(out->what, sizeof out->what,
             "processes may not read each other's memory (process_vm_readv: %s), so MPI copies messages within a node "
             "twice",
             strerror(error));
    snprintf(out->remedy, sizeof out->remedy,
             "permit it (docker run --cap-add=SYS_PTRACE, sysctl kernel.yama.ptrace_scope=0), or set UCX_TLS=^cma so "
             "that UCX does not try");
    return true;
}

/* ---- UCX_NET_DEVICES --------------------------------------------------------------------------------------------- */

static bool is_there(const char *root, const char *name)
{
    char path[PATH_MAX];
    int device = (int)strcspn(name, ":");
    snprintf(path, sizeof path, "%s/sys/class/net/%s", root, name);
    if (access(path, F_OK) == 0)
        return true;
    snprintf(path, sizeof path, "%s/sys/class/infiniband/%.*s%s%s", root, device, name,
             name[device] == ':' ? "/ports/" : "", name[device] == ':' ? name + device + 1 : "");
    return access(path, F_OK) == 0;
}

/* Adds the devices of a folder to a list with commas, as far as there is room. */
static void add_devices(const char *root, const char *folder, const char *suffix, char *list, size_t size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/sys/class/%s", root, folder);
    DIR *d = opendir(path);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        size_t used = strlen(list);
        if (e->d_name[0] != '.' && used + strlen(e->d_name) + strlen(suffix) + 3 < size)
            snprintf(list + used, size - used, "%s%s%s", used > 0 ? ", " : "", e->d_name, suffix);
    }
    if (d != NULL)
        closedir(d);
}

bool obstacle_devices(const char *root, const char *names, struct obstacle *out)
{
    char name[64], here[120] = "";
    /* A pattern, or a list of what is excluded, is left to UCX. */
    if (names == NULL || names[0] == '^' || strpbrk(names, "*?[") != NULL || strcmp(names, "all") == 0)
        return false;
    add_devices(root, "infiniband", ":1", here, sizeof here);
    add_devices(root, "net", "", here, sizeof here);
    if (here[0] == '\0')
        return false;
    for (const char *at = names; *at != '\0'; at += *at == ',') {
        size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        at += length;
        if (length == 0 || is_there(root, name))
            continue;
        snprintf(out->what, sizeof out->what,
                 "UCX_NET_DEVICES names \"%s\", which is no device of this host (it has %s)", name, here);
        snprintf(out->remedy, sizeof out->remedy,
                 "name devices that each host has, or unset UCX_NET_DEVICES, and UCX chooses");
        return true;
    }
    return false;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

unsigned obstacles_find(const struct topo_place *place, struct obstacle out[OBSTACLES_MAX])
{
    unsigned n = 0;
    n += obstacle_cores(place->cpus, cgroup_cpu_limit(""), &out[n]);
    n += obstacle_memory(memory_error(), &out[n]);
    n += obstacle_devices("", getenv("UCX_NET_DEVICES"), &out[n]);
    return n;
}
