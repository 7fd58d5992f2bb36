/* SPDX-License-Identifier: BSD-3-Clause */
/* placement: see placement.h. The hardware threads, GPUs and adapters of each rank, which its shim is told. */
#include "batonrun/placement.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"
#include "batonrun/bind.h"
#include "batonrun/node.h"

static const struct machine *machine_of(const struct placement *p, uint32_t rank)
{
    return p->world.nodes[p->places[rank].node].machine;
}

uint32_t placement_threads(const struct placement *p, uint32_t rank)
{
    const struct machine_seat *s = &p->places[rank].seat;
    uint32_t pus = 0;
    for (uint32_t i = s->first_core; i < s->end_core; i++)
        pus += machine_of(p, rank)->cores[i].num_pus;
    return pus;
}

const char *placement_adapter(const struct placement *p, uint32_t rank)
{
    const struct machine_device *nic = p->places[rank].nic;
    return nic != NULL && nic->is_fabric && machine_of(p, rank)->num_nics > 1 ? nic->name : NULL;
}

/* The network of all active ports of a node. Empty, and *why: it has no such one. */
static void find_fabric(const struct world_node *node, char fabric[PROFILE_FABRIC_BYTES], struct why *why)
{
    struct profile_facts f = {0};
    fabric[0] = '\0';
    if (!node_parse(node->machine->facts, &f))
        why_set(why, "host %.80s was not asked what its adapters reach", node->host);
    else if (!f.port_is_active)
        why_set(why, "host %.80s has no active port", node->host);
    else if (f.fabric[0] == '\0')
        why_set(why, "the active ports of host %.80s are not known to be in one network", node->host);
    else
        memcpy(fabric, f.fabric, sizeof f.fabric);
}

bool placement_has_one_fabric(const struct placement *p, struct why *why)
{
    char first[24] = "", fabric[PROFILE_FABRIC_BYTES];
    uint32_t last = UINT32_MAX;
    for (uint32_t r = 0; r < p->job.num_ranks; r++) {
        uint32_t node = p->places[r].node;
        if (node == last) /* neighbours are often on one node */
            continue;
        last = node;
        find_fabric(&p->world.nodes[node], fabric, why);
        if (fabric[0] == '\0')
            return false;
        if (first[0] == '\0')
            memcpy(first, fabric, sizeof first);
        if (strcmp(first, fabric) != 0) {
            why_set(why, "the ports of hosts %.80s and %.80s are in different networks", placement_host(p, 0),
                    p->world.nodes[node].host);
            return false;
        }
    }
    return true;
}

bool placement_has_whole_host(const struct placement *p, uint32_t rank)
{
    return placement_threads(p, rank) == machine_of(p, rank)->num_pus;
}

/* Of a node, among the cores of all. A host in two components of a Slurm job is two nodes with the same cores. */
static size_t first_core(const struct placement *p, const size_t *first, uint32_t node, size_t next)
{
    for (uint32_t i = 0; p->allocation.num_groups > 1 && i < node; i++)
        if (strcmp(p->world.nodes[i].host, p->world.nodes[node].host) == 0)
            return first[i];
    return next;
}

/* Whether two ranks have a core in common; true too if there is no memory to find out. */
static bool share_cores(const struct placement *p)
{
    size_t cores = 0;
    size_t *first = calloc((size_t)p->world.num_nodes + 1, sizeof *first); /* by node: its first core among all */
    for (uint32_t i = 0; first != NULL && i < p->world.num_nodes; i++) {
        first[i] = first_core(p, first, i, cores);
        cores += p->world.nodes[i].machine->num_cores;
    }
    bool *taken = calloc(cores + 1, sizeof *taken), shared = first == NULL || taken == NULL;
    for (uint32_t r = 0; !shared && r < p->job.num_ranks; r++) {
        const struct world_place *place = &p->places[r];
        for (uint32_t k = place->seat.first_core; k < place->seat.end_core; k++) {
            shared |= taken[first[place->node] + k];
            taken[first[place->node] + k] = true;
        }
    }
    free(first);
    free(taken);
    return shared;
}

bool placement_can_bind(const struct placement *p)
{
    bool any = false;
    if (!placement_has_hosts(p) && p->options.cores_per_rank == 0)
        return false;
    for (uint32_t r = 0; r < p->job.num_ranks; r++) {
        uint32_t pus = placement_threads(p, r);
        if (pus < 2 && p->options.cores_per_rank == 0)
            return false;
        any |= !placement_has_whole_host(p, r);
    }
    return any && !p->crowded && !share_cores(p);
}

static int by_number(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

uint32_t placement_helpers(const struct placement *p, uint32_t rank)
{
    const struct machine_seat *s = &p->places[rank].seat;
    if (placement_threads(p, rank) < 2 || placement_has_whole_host(p, rank))
        return 0;
    return s->end_core - s->first_core < 4 ? 1 : machine_of(p, rank)->cores[s->end_core - 1].num_pus;
}

static bool find_cpus(const struct placement *p, uint32_t rank, uint32_t *scratch, struct bind_place *out)
{
    const struct machine *m = machine_of(p, rank);
    const struct machine_seat *s = &p->places[rank].seat;
    uint32_t num = 0, helpers = placement_helpers(p, rank);
    for (uint32_t i = s->first_core; i < s->end_core; i++)
        for (uint32_t k = 0; k < m->cores[i].num_pus; k++)
            scratch[num++] = m->pus[m->cores[i].first_pu + k];
    uint32_t *last = scratch + num - helpers;
    qsort(scratch, num - helpers, sizeof *scratch, by_number);
    qsort(last, helpers, sizeof *last, by_number);
    return cpus_write_numbers(scratch, num - helpers, out->cpus, sizeof out->cpus) &&
           cpus_write_numbers(last, helpers, out->helpers, sizeof out->helpers);
}

/* Their numbers, as many as there is room for. */
static void write_gpus(const struct placement *p, uint32_t rank, char *text, size_t room)
{
    const struct machine_seat *s = &p->places[rank].seat;
    size_t at = 0;
    for (uint32_t i = 0; i < s->num_gpus && at < room; i++)
        at += (size_t)snprintf(text + at, room - at, i > 0 ? ",%u" : "%u",
                               machine_of(p, rank)->gpus[s->first_gpu + i].number);
}

bool placement_has_bindings(const struct placement *p)
{
    bool any = placement_can_bind(p);
    for (uint32_t r = 0; !any && r < p->job.num_ranks; r++)
        any = p->places[r].seat.num_gpus > 0;
    return any;
}

char *placement_bindings(const struct placement *p)
{
    uint32_t most = 1, num = p->job.num_ranks;
    for (uint32_t i = 0; i < p->world.num_nodes; i++)
        most = p->world.nodes[i].machine->num_pus > most ? p->world.nodes[i].machine->num_pus : most;
    struct bind_place *places = calloc((size_t)num + 1, sizeof *places);
    uint32_t *scratch = calloc(most, sizeof *scratch);
    bool good = places != NULL && scratch != NULL, bound = placement_can_bind(p),
         one_adapter = bound && placement_has_one_fabric(p, &(struct why){""});
    for (uint32_t r = 0; good && r < num; r++) {
        write_gpus(p, r, places[r].gpus, sizeof places[r].gpus);
        good = !bound || placement_has_whole_host(p, r) || find_cpus(p, r, scratch, &places[r]);
        if (one_adapter && placement_adapter(p, r) != NULL)
            snprintf(places[r].nic, sizeof places[r].nic, "%s", placement_adapter(p, r));
    }
    char *text = good ? bind_join(places, num) : NULL;
    free(places);
    free(scratch);
    return text;
}
