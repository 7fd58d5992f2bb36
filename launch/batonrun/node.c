/* SPDX-License-Identifier: BSD-3-Clause */
/* node: see node.h. */
#include "batonrun/node.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "batonrun/child.h"
#include "batonrun/descriptor.h"

#define UCX_PATIENCE_MS 10000

/* ---- UCX --------------------------------------------------------------------------------------------------------- */

/* Of ucp.h, which is not there where UCX is only used. It stays as it is as long as the library is libucp.so.0. */
enum { UCS_THREAD_MODE_MULTI = 2 };
struct lib_attr {        /* how ucp_lib_attr_t begins */
    uint64_t field_mask; /* bit 0: the mode */
    int max_thread_level;
    char rest[256];
};

/* True also where it is not known: UCX before 1.11 does not say it. */
static bool takes_threads(void *ucp)
{
    int (*query)(void *);
    struct lib_attr most = {.field_mask = 1};
    *(void **)&query = dlsym(ucp, "ucp_lib_query");
    return query == NULL || query(&most) != 0 || most.max_thread_level >= UCS_THREAD_MODE_MULTI;
}

/* What is known of UCX. */
struct ucx {
    uint32_t version;  /* 0: unknown */
    bool for_a_thread; /* only: it was built without support of several */
};

/*
 * The UCX that Open MPI uses: that of its plug-ins, or of its library, where the plug-ins are inside it; else the one
 * that the system finds. Symbols are looked up in what these are linked to, too. NULL: there is none.
 */
static void *load_ucx(const char *root, const char *plugins)
{
    static const char *const files[] = {"mca_pml_ucx.so", "mca_osc_ucx.so", "../libmpi.so.40"};
    char path[PATH_MAX];
    for (unsigned i = 0; plugins[0] != '\0' && i < sizeof files / sizeof files[0]; i++) {
        int length = snprintf(path, sizeof path, "%s%s/%s", root, plugins, files[i]);
        void *file = length > 0 && (size_t)length < sizeof path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
        if (file != NULL && dlsym(file, "ucp_get_version") != NULL)
            return file;
    }
    return dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
}

static struct ucx ask_library(const char *root, const char *plugins)
{
    struct ucx found = {0};
    unsigned major, minor, patch;
    void (*version)(unsigned *, unsigned *, unsigned *);
    void *ucp = load_ucx(root, plugins);
    if (ucp == NULL)
        return found;
    *(void **)&version = dlsym(ucp, "ucp_get_version");
    if (version != NULL) {
        version(&major, &minor, &patch);
        found.version = PROFILE_VERSION(major, minor, patch);
    }
    found.for_a_thread = !takes_threads(ucp);
    return found;
}

/* In a process of its own, since UCX takes signals over and opens devices; what it prints there is of no interest. */
static struct ucx ask_ucx(const char *root, const char *plugins)
{
    struct ucx found = {0}, answer;
    int ends[2], raw;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return found;
    pid_t pid = child_fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        answer = ask_library(root, plugins);
        _exit(descriptor_write(ends[1], &answer, sizeof answer) == 0 ? 0 : 1);
    }
    close(ends[1]);
    if (pid > 0 && descriptor_await(ends[0], POLLIN, UCX_PATIENCE_MS) &&
        descriptor_read(ends[0], &answer, sizeof answer))
        found = answer;
    close(ends[0]);
    if (pid > 0) {
        kill(pid, SIGKILL);
        child_reap(pid, &raw);
    }
    return found;
}

/* ---- Open MPI's components --------------------------------------------------------------------------------------- */

static bool has_file(const char *root, const char *folder, const char *name)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    return length > 0 && (size_t)length < sizeof path && access(path, F_OK) == 0;
}

/* ob1 is never left out of a build, so that where its file is missing the components are no files at all. */
static bool has_component(const char *root, const char *plugins, const char *file)
{
    return plugins[0] == '\0' || has_file(root, plugins, file) || !has_file(root, plugins, "mca_pml_ob1.so");
}

/* ---- adapters ---------------------------------------------------------------------------------------------------- */

#define ADAPTERS "/sys/class/infiniband"
#define INTERFACES "/sys/class/net"

typedef bool (*entry_fn)(void *arg, const char *name);

/* Calls `take` for each name of a folder, in no order, until it returns true; whether it did. */
static bool find_entry(const char *root, const char *folder, entry_fn take, void *arg)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s%s", root, folder);
    DIR *dir = length > 0 && (size_t)length < sizeof path ? opendir(path) : NULL;
    bool found = false;
    struct dirent *e;
    while (!found && dir != NULL && (e = readdir(dir)) != NULL)
        found = e->d_name[0] != '.' && take(arg, e->d_name);
    if (dir != NULL)
        closedir(dir);
    return found;
}

/* The first line of a file below the root, without its end. False: there is none. */
static bool read_line(const char *root, const char *path, char *line, int room)
{
    char whole[PATH_MAX];
    int length = snprintf(whole, sizeof whole, "%s%s", root, path);
    FILE *f = length > 0 && (size_t)length < sizeof whole ? fopen(whole, "re") : NULL;
    bool good = f != NULL && fgets(line, room, f) != NULL;
    if (f != NULL)
        fclose(f);
    if (good)
        line[strcspn(line, "\n")] = '\0';
    return good;
}

struct ports {
    const char *root, *adapter;
    uint32_t least;                    /* the first active port; 0: none */
    bool any;                          /* a port of an adapter is active */
    bool several;                      /* active ports are in several networks, or it is unknown in which */
    char fabric[PROFILE_FABRIC_BYTES]; /* the network of those seen so far */
};

#define PORT_PATH_BYTES 400

static void port_path(const struct ports *p, const char *port, const char *file, char path[PORT_PATH_BYTES])
{
    snprintf(path, PORT_PATH_BYTES, ADAPTERS "/%.60s/ports/%.8s/%s", p->adapter, port, file);
}

/* The IPv4 network in which the interface reaches others without a gateway. False: none. */
static bool find_network(const char *root, const char *interface, char network[PROFILE_FABRIC_BYTES])
{
    char path[PATH_MAX], line[512], name[IF_NAMESIZE];
    unsigned long destination, gateway, mask;
    bool found = false;
    snprintf(path, sizeof path, "%.3000s/proc/net/route", root);
    FILE *f = fopen(path, "re");
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL)
        found = sscanf(line, "%15s %8lx %8lx %*s %*s %*s %*s %8lx", name, &destination, &gateway, &mask) == 4 &&
                strcmp(name, interface) == 0 && gateway == 0 && mask != 0;
    if (f != NULL)
        fclose(f);
    if (found)
        snprintf(network, PROFILE_FABRIC_BYTES, "%08lx-%08lx", destination, mask);
    return found;
}

/*
 * A word for the network of an active port: InfiniBand's by the prefix of its subnet and the address of its subnet
 * manager, since separate fabrics often have the same prefix; RoCE's by IP. False: it is unknown.
 */
static bool find_fabric(const struct ports *p, const char *port, char fabric[PROFILE_FABRIC_BYTES])
{
    char path[PORT_PATH_BYTES], layer[32], gid[64], manager[16], interface[IF_NAMESIZE];
    unsigned prefix[4], lid;
    port_path(p, port, "link_layer", path);
    if (!read_line(p->root, path, layer, sizeof layer))
        return false;
    if (strcmp(layer, "Ethernet") == 0) {
        port_path(p, port, "gid_attrs/ndevs/0", path);
        return read_line(p->root, path, interface, sizeof interface) && find_network(p->root, interface, fabric);
    }
    port_path(p, port, "gids/0", path);
    if (!read_line(p->root, path, gid, sizeof gid) ||
        sscanf(gid, "%4x:%4x:%4x:%4x", &prefix[0], &prefix[1], &prefix[2], &prefix[3]) != 4)
        return false;
    port_path(p, port, "sm_lid", path);
    if (!read_line(p->root, path, manager, sizeof manager) || sscanf(manager, "%x", &lid) != 1)
        return false;
    return snprintf(fabric, PROFILE_FABRIC_BYTES, "%04x%04x%04x%04x-%x", prefix[0], prefix[1], prefix[2], prefix[3],
                    lid) < PROFILE_FABRIC_BYTES;
}

static bool look_at_port(void *arg, const char *name)
{
    struct ports *p = arg;
    char path[PORT_PATH_BYTES], state[32], fabric[PROFILE_FABRIC_BYTES];
    const char *at = name;
    uint32_t number;
    port_path(p, name, "state", path);
    if (!read_line(p->root, path, state, sizeof state) || strstr(state, ": ACTIVE") == NULL ||
        !number_take(&at, 255, &number) || *at != '\0')
        return false;
    if (p->least == 0 || number < p->least)
        p->least = number;
    bool known = find_fabric(p, name, fabric);
    p->several |= !known || (p->any && strcmp(fabric, p->fabric) != 0);
    if (known)
        memcpy(p->fabric, fabric, sizeof p->fabric);
    p->any = true;
    return false;
}

static bool look_at_adapter(void *arg, const char *adapter)
{
    struct ports *p = arg;
    char folder[PORT_PATH_BYTES];
    snprintf(folder, sizeof folder, ADAPTERS "/%.60s/ports", adapter);
    p->adapter = adapter;
    p->least = 0;
    find_entry(p->root, folder, look_at_port, p);
    return false;
}

bool node_port(const char *root, const char *adapter, char port[64])
{
    struct ports p = {.root = root};
    look_at_adapter(&p, adapter);
    if (adapter[0] == '\0' || p.least == 0)
        return false;
    return snprintf(port, 64, "%s:%u", adapter, p.least) < 64;
}

/* ---- interfaces -------------------------------------------------------------------------------------------------- */

struct interface {
    const char *root, *name;
    unsigned depth;
};

/* Whether packets leave the node there: it is a device, or lies above one (a bond, a VLAN, a bridge with a member). */
static bool has_hardware(struct interface *i);

static bool is_above_hardware(void *arg, const char *entry)
{
    const struct interface *i = arg;
    struct interface below = {i->root, entry + 6, i->depth + 1};
    return strncmp(entry, "lower_", 6) == 0 && has_hardware(&below);
}

static bool has_hardware(struct interface *i)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, INTERFACES "/%.64s", i->name);
    return has_file(i->root, folder, "device") || (i->depth < 4 && find_entry(i->root, folder, is_above_hardware, i));
}

/*
 * The one interface with a route, and hardware behind it, where others have a route and no hardware. Empty: several
 * have hardware, or none, or there is nothing to choose.
 */
static void find_interface(const char *root, char found[IF_NAMESIZE])
{
    char path[PATH_MAX], line[512], name[IF_NAMESIZE], first[IF_NAMESIZE] = "";
    bool several = false, others = false;
    found[0] = '\0';
    snprintf(path, sizeof path, "%.3000s/proc/net/route", root);
    FILE *f = fopen(path, "re");
    if (f == NULL || fgets(line, sizeof line, f) == NULL) { /* the heading */
        if (f != NULL)
            fclose(f);
        return;
    }
    while (fgets(line, sizeof line, f) != NULL && sscanf(line, "%15s", name) == 1) {
        if (strcmp(name, "lo") == 0 || strcmp(name, first) == 0)
            continue;
        bool has = has_hardware(&(struct interface){root, name, 0});
        others |= !has;
        several |= has && first[0] != '\0';
        if (has)
            memcpy(first, name, sizeof first);
    }
    fclose(f);
    if (others && !several)
        memcpy(found, first, sizeof first);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

void node_look(const char *root, const char *plugins, struct profile_facts *f)
{
    struct ucx ucx = ask_ucx(root, plugins);
    struct ports ports = {.root = root};
    f->ucx_version = ucx.version;
    f->osc_ucx = !ucx.for_a_thread && has_component(root, plugins, "mca_osc_ucx.so");
    f->pml_ucx = !ucx.for_a_thread && has_component(root, plugins, "mca_pml_ucx.so");
    find_entry(root, ADAPTERS, look_at_adapter, &ports);
    f->port_is_active = ports.any;
    snprintf(f->fabric, sizeof f->fabric, "%s", ports.several ? "" : ports.fabric);
    _Static_assert(sizeof f->interface == IF_NAMESIZE, "a name of an interface");
    find_interface(root, f->interface);
}

void node_write(const struct profile_facts *f, char text[NODE_TEXT_BYTES])
{
    snprintf(text, NODE_TEXT_BYTES, "%u.%d%d%d.%s.%s", f->ucx_version, f->osc_ucx, f->pml_ucx, f->port_is_active,
             f->fabric, f->interface);
}

static bool take_flag(const char **at, bool *out)
{
    *out = **at == '1';
    if (**at != '0' && **at != '1')
        return false;
    ++*at;
    return true;
}

/* Up to the next dot. */
static bool take_word(const char **at, char *out, size_t room)
{
    size_t length = strcspn(*at, ".");
    if (length >= room)
        return false;
    memcpy(out, *at, length);
    out[length] = '\0';
    *at += length;
    return true;
}

bool node_parse(const char *text, struct profile_facts *f)
{
    struct profile_facts g = *f;
    const char *at = text;
    if (!number_take(&at, UINT32_MAX, &g.ucx_version) || *at++ != '.' || !take_flag(&at, &g.osc_ucx) ||
        !take_flag(&at, &g.pml_ucx) || !take_flag(&at, &g.port_is_active) || *at++ != '.' ||
        !take_word(&at, g.fabric, sizeof g.fabric) || *at++ != '.' || strlen(at) >= sizeof g.interface)
        return false;
    snprintf(g.interface, sizeof g.interface, "%s", at);
    *f = g;
    return true;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

/* The number of tasks on the n-th node of Slurm's "4(x2),3". 0: it says nothing of that one. */
static uint32_t count_tasks(const char *text, uint32_t node)
{
    for (const char *at = text;; at++) {
        uint32_t tasks, times;
        if (!number_take_times(&at, UINT32_MAX, &tasks, &times))
            return 0;
        if (node < times)
            return tasks;
        node -= times;
        if (*at != ',')
            return 0;
    }
}

uint32_t node_ranks(char *(*variable)(const char *name))
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"};
    uint32_t n, node;
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = variable(names[i]);
        if (text != NULL && number_take(&text, UINT32_MAX, &n) && *text == '\0')
            return n;
    }
    const char *tasks = variable("SLURM_STEP_TASKS_PER_NODE"), *id = variable("SLURM_NODEID");
    if (tasks == NULL || id == NULL || !number_take(&id, UINT32_MAX, &node))
        return 0;
    return count_tasks(tasks, node);
}
