/* SPDX-License-Identifier: BSD-3-Clause */
/* placement_hosts: what is known of the hosts: their names, what they are, and how far apart; see placement.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batonrun/placement.h"
#include "option/file.h"
#include "place/hostlist.h"

#define FILE_MAX_BYTES ((size_t)64 << 20)

static char *read_file(const char *path)
{
    return file_read(path, FILE_MAX_BYTES, NULL);
}

/* The text of the file that an option names; free it. NULL, and *why: it cannot be read. */
static char *read_named(const char *option, const char *path, struct why *why)
{
    char *text = read_file(path);
    if (text == NULL)
        why_set(why, "%s \"%.200s\": %s", option, path, strerror(errno));
    return text;
}

/* *why is what is wrong with the value of an option, and which option and value that is. */
static int blame(const char *option, const char *value, const struct why *reason, struct why *why)
{
    return why_set(why, "%s \"%.150s\": %.200s", option, value, reason->text);
}

int placement_allocation(struct allocation *a, const struct placement_options *o, struct why *why)
{
    if (o->hosts != NULL)
        return allocation_from_hosts(a, o->hosts, why);
    if (o->hostfile == NULL)
        return allocation_from_batch(a, getenv, read_file, why);
    char *text = read_named("--hostfile", o->hostfile, why);
    if (text == NULL)
        return -1;
    struct why reason;
    int rc = allocation_from_hostfile(a, text, &reason);
    free(text);
    return rc == 0 ? 0 : blame("--hostfile", o->hostfile, &reason, why);
}

/* A description is a file's, or hwloc's short form itself. */
static int read_topology(struct machine *m, const char *topology, struct why *why)
{
    struct why reason;
    char *text = read_named("--topology", topology, why);
    if (text == NULL && strchr(topology, ':') == NULL)
        return -1;
    int rc = text != NULL ? machine_read(m, text[strspn(text, " \t\r\n")] == '<' ? MACHINE_XML : MACHINE_SYNTHETIC,
                                         text, &reason)
                          : machine_read(m, MACHINE_SYNTHETIC, topology, &reason);
    free(text);
    return rc == 0 ? 0 : blame("--topology", topology, &reason, why);
}

/* The FILE of "HOSTS=FILE". NULL: it stands alone. */
static const char *find_file_of_hosts(const char *topology)
{
    const size_t length = strspn(topology, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,[]");
    return length > 0 && topology[length] == '=' ? topology + length + 1 : NULL;
}

/* The machine that hosts are. */
struct described {
    struct placement *placement;
    uint32_t machine;
};

static int describe_host(void *described, const char *host, struct why *why)
{
    const struct described *d = described;
    const struct allocation *a = &d->placement->allocation;
    char here[HOSTLIST_NAME_BYTES];
    bool found = false;
    if (allocation_is_here(host)) {
        allocation_here(here);
        host = here;
    }
    for (uint32_t i = 0; i < a->num_hosts; i++)
        if (strcmp(a->hosts[i].name, host) == 0) {
            d->placement->machine_of[i] = d->machine;
            found = true;
        }
    return found ? 0 : why_set(why, "--topology describes \"%.80s\", which is none of the hosts", host);
}

static int describe_hosts(struct placement *p, const char *topology, const char *file, uint32_t machine,
                          struct why *why)
{
    struct described d = {p, machine};
    char *hosts = strndup(topology, (size_t)(file - topology) - 1);
    const int rc = hosts != NULL ? hostlist_each(hosts, describe_host, &d, why) : why_set(why, "no memory");
    free(hosts);
    return rc;
}

/* Of several descriptions of a host, the last one counts. */
static int read_descriptions(struct placement *p, uint32_t num_hosts, struct why *why)
{
    for (uint32_t i = 0; i < num_hosts; i++)
        p->machine_of[i] = p->num_machines;
    for (uint32_t k = 0; k < p->num_machines; k++) {
        const char *topology = p->options.topologies[k], *file = find_file_of_hosts(topology);
        if (read_topology(&p->machines[k], file != NULL ? file : topology, why) != 0)
            return -1;
        if (file != NULL && describe_hosts(p, topology, file, k, why) != 0)
            return -1;
        for (uint32_t i = 0; file == NULL && i < num_hosts; i++)
            p->machine_of[i] = k;
    }
    for (uint32_t i = 0; i < num_hosts; i++)
        if (p->machine_of[i] == p->num_machines)
            return why_set(why, "no --topology describes \"%.80s\"",
                           p->allocation.num_hosts > 0 ? p->allocation.hosts[i].name : "this machine");
    return 0;
}

static int find_machines(struct placement *p, placement_ask_fn ask, void *arg, struct why *why)
{
    const uint32_t num_hosts = p->allocation.num_hosts > 0 ? p->allocation.num_hosts : 1;
    uint32_t described = 0;
    while (p->options.topologies[described] != NULL)
        described++;
    p->num_machines = described > 0 ? described : num_hosts;
    p->machines = calloc(p->num_machines, sizeof *p->machines);
    p->machine_of = calloc(num_hosts, sizeof *p->machine_of);
    if (p->machines == NULL || p->machine_of == NULL) {
        p->num_machines = p->machines != NULL ? p->num_machines : 0;
        return why_set(why, "no memory for %u machines", num_hosts);
    }
    if (described > 0)
        return read_descriptions(p, num_hosts, why);
    for (uint32_t i = 0; i < num_hosts; i++)
        p->machine_of[i] = i;
    return p->allocation.num_hosts > 0 ? ask(&p->allocation, p->machines, arg, why)
                                       : machine_read(&p->machines[0], MACHINE_HERE, NULL, why);
}

/* A rank must have its cores and GPUs on one host. */
static int check_needs(const struct placement *p, struct why *why)
{
    const struct placement_options *o = &p->options;
    uint32_t cores = 0, gpus = 0, num_hosts = p->allocation.num_hosts > 0 ? p->allocation.num_hosts : 1;
    for (uint32_t i = 0; i < num_hosts; i++) {
        const struct machine *m = &p->machines[p->machine_of[i]];
        cores = m->num_cores > cores ? m->num_cores : cores;
        gpus = m->num_gpus > gpus ? m->num_gpus : gpus;
    }
    if (o->cores_per_rank > cores)
        return why_set(why, "--cores-per-rank: a rank needs %u cores, and the hosts have at most %u", o->cores_per_rank,
                       cores);
    if (o->gpus_per_rank != PLACEMENT_GPUS_UNSAID && o->gpus_per_rank > gpus)
        return why_set(why, "--gpus-per-rank: a rank needs %u GPU%s, and the hosts have at most %u", o->gpus_per_rank,
                       o->gpus_per_rank > 1 ? "s" : "", gpus);
    return 0;
}

static int take_network(struct placement *p, const char *text, struct why *why)
{
    return network_read(&p->network, text, why);
}

static int take_costs(struct placement *p, const char *text, struct why *why)
{
    return costs_read(&p->costs, text, why);
}

/* `path`: NULL: the option is not given. */
static int read_option(struct placement *p, const char *option, const char *path,
                       int (*take)(struct placement *p, const char *text, struct why *why), struct why *why)
{
    struct why reason;
    if (path == NULL)
        return 0;
    char *text = read_named(option, path, why);
    if (text == NULL)
        return -1;
    int rc = take(p, text, &reason);
    free(text);
    return rc == 0 ? 0 : blame(option, path, &reason, why);
}

int placement_describe(struct placement *p, placement_ask_fn ask, void *arg, struct why *why)
{
    if (find_machines(p, ask, arg, why) != 0 || check_needs(p, why) != 0)
        return -1;
    if (p->options.gpus_per_rank == PLACEMENT_GPUS_UNSAID)
        p->options.gpus_per_rank = 1;
    p->costs = costs_assumed;
    if (read_option(p, "--network", p->options.network, take_network, why) != 0)
        return -1;
    return read_option(p, "--costs", p->options.costs, take_costs, why);
}

bool placement_has_gpus(const struct placement *p)
{
    for (uint32_t i = 0; p->options.gpus_per_rank > 0 && i < p->world.num_nodes; i++)
        if (p->world.nodes[i].machine->num_gpus > 0)
            return true;
    return false;
}

bool placement_has_hosts(const struct placement *p)
{
    return p->allocation.num_hosts > 0;
}

const char *placement_host(const struct placement *p, uint32_t rank)
{
    return p->world.nodes[p->places[rank].node].host;
}
