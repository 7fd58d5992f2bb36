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

/* How many ranks have each core. */
struct owners {
    size_t *first; /* by node: its first core among all */
    uint32_t *of;  /* by core */
};

/* False: no memory. Call owners_fini in both cases. */
static bool owners_init(struct owners *o, const struct placement *p)
{
    size_t cores = 0;
    o->first = calloc((size_t)p->world.num_nodes + 1, sizeof *o->first);
    for (uint32_t i = 0; o->first != NULL && i < p->world.num_nodes; i++) {
        o->first[i] = cores;
        cores += p->world.nodes[i].machine->num_cores;
    }
    o->of = calloc(cores + 1, sizeof *o->of);
    bool good = o->first != NULL && o->of != NULL;
    for (uint32_t r = 0; good && r < p->job.num_ranks; r++) {
        const struct world_place *place = &p->places[r];
        for (uint32_t k = place->seat.first_core; k < place->seat.end_core; k++)
            o->of[o->first[place->node] + k]++;
    }
    return good;
}

static void owners_fini(struct owners *o)
{
    free(o->first);
    free(o->of);
}

/* Whether a rank has a core that another has too. */
static bool shares_cores(const struct placement *p, const struct owners *o, uint32_t rank)
{
    const struct world_place *place = &p->places[rank];
    for (uint32_t k = place->seat.first_core; k < place->seat.end_core; k++)
        if (o->of[o->first[place->node] + k] > 1)
            return true;
    return false;
}

/* Whether any two ranks do; true too if there is no memory to find out. */
static bool any_share_cores(const struct placement *p)
{
    struct owners o;
    bool shared = !owners_init(&o, p);
    for (uint32_t r = 0; !shared && r < p->job.num_ranks; r++)
        shared = shares_cores(p, &o, r);
    owners_fini(&o);
    return shared;
}

/* Whether a rank has fewer hardware threads, or cores, than a whole place. */
static bool is_short(const struct placement *p, uint32_t rank)
{
    const struct machine_seat *s = &p->places[rank].seat;
    uint32_t cores = p->options.cores_per_rank;
    return cores > 0 ? s->end_core - s->first_core < cores : placement_threads(p, rank) < 2;
}

/* Which ranks lack something: how many, and the first of them. False: none, or there is no memory to find out. */
static bool find_lacking(const struct placement *p, enum placement_lack lack, uint32_t *num, uint32_t *first)
{
    struct owners o = {0};
    const bool of_gpus = lack == PLACEMENT_LACKS_GPUS, counts = of_gpus ? placement_has_gpus(p) : owners_init(&o, p);
    *num = *first = 0;
    for (uint32_t r = 0; counts && r < p->job.num_ranks; r++)
        if (of_gpus ? p->places[r].seat.num_gpus == 0 : is_short(p, r) || shares_cores(p, &o, r))
            if ((*num)++ == 0)
                *first = r;
    owners_fini(&o);
    return *num > 0;
}

bool placement_lacks(const struct placement *p, enum placement_lack lack, char text[PLACEMENT_LACK_BYTES])
{
    uint32_t num, first, cores = p->options.cores_per_rank;
    char what[192];
    if (!find_lacking(p, lack, &num, &first))
        return false;
    if (lack == PLACEMENT_LACKS_GPUS && machine_of(p, first)->num_gpus == 0)
        snprintf(what, sizeof what, "no GPU, since that host has none");
    else if (lack == PLACEMENT_LACKS_GPUS)
        snprintf(what, sizeof what, "no GPU, since the %u of that host are too few for %u each",
                 machine_of(p, first)->num_gpus, p->options.gpus_per_rank);
    else if (cores > 0)
        snprintf(what, sizeof what, "less than %u core%s of their own", cores, cores > 1 ? "s" : "");
    else
        snprintf(what, sizeof what,
                 "less than two hardware threads of their own (the engine's, and one for reactor and copy workers)");
    snprintf(text, PLACEMENT_LACK_BYTES,
             "%u of %u ranks, rank %u on %.80s first, have %s: take fewer ranks or more hosts%s", num, p->job.num_ranks,
             first, placement_host(p, first), what, lack == PLACEMENT_LACKS_GPUS ? ", or --gpus-per-rank 0" : "");
    return true;
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
    return any && !p->crowded && !any_share_cores(p);
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
