/* SPDX-License-Identifier: BSD-3-Clause */
/* placement: see placement.h. */
#include "batonrun/placement.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "place/choice.h"
#include "place/explain.h"
#include "place/hostlist.h"
#include "place/pairs.h"
#include "place/picture.h"

/* ---- what is to be placed ---------------------------------------------------------------------------------------- */

static int find_engines(struct placement *p, struct why *why)
{
    for (unsigned side = 0; side < JOB_SIDES; side++) {
        struct engine_source source = {.role = pairs_side_name((enum job_side)side),
                                       .size = p->sizes[side],
                                       .cut = &p->options.cut,
                                       .tokens = p->options.tokens,
                                       .ranks_per_node = ENGINE_RANKS_MAX}; /* nodes are what is looked for */
        if (p->sizes[side].engines > 0 && engine_init(&p->engines[side], &source, why) != 0)
            return -1;
    }
    struct request request = {.tokens = p->options.tokens};
    if (p->sizes[JOB_PREFILL].engines == 0 || p->sizes[JOB_DECODE].engines == 0)
        return 0;
    return exchange_init(&p->exchange, &p->engines[JOB_PREFILL], &p->engines[JOB_DECODE], &request, why);
}

/* A model that nobody named, and that the engines cannot be cut of, says nothing of what they exchange. */
static int find_flows(struct placement *p, struct why *why)
{
    if (find_engines(p, why) == 0)
        return 0;
    if (!p->is_model_assumed)
        return -1;
    p->uncut = *why;
    exchange_fini(&p->exchange);
    p->exchange.prefill = NULL;
    return 0;
}

/* Without engines on both sides, or where they cannot be cut of the model, nothing is transferred. */
static int find_serve(struct placement *p, struct why *why)
{
    if (p->exchange.prefill == NULL)
        return 0;
    p->serve = calloc(1, sizeof *p->serve);
    if (p->serve == NULL || serve_init(p->serve, &p->exchange) != 0)
        return why_set(why, "no memory for who serves whom");
    return 0;
}

struct choice placement_choice(const struct placement *p, const struct place_rules *rules)
{
    const struct model_cut *cut = &p->options.cut;
    return (struct choice){.source = {.sizes = p->sizes,
                                      .serve = p->serve,
                                      .load = {.tokens = {p->options.tokens, p->options.output_tokens},
                                               .layers = cut->model->layers,
                                               .token_bytes = cut->model->hidden * cut->dtype->bytes,
                                               .inside = p->options.inside}},
                           .world = &p->world,
                           .rules = rules};
}

static int find_job(struct placement *p, struct why *why)
{
    if (find_serve(p, why) != 0)
        return -1;
    const struct choice choice = placement_choice(p, NULL);
    return flows_job(&choice.source, NULL, &p->job, why);
}

/* ---- where it goes ----------------------------------------------------------------------------------------------- */

static uint32_t ranks_of(const struct placement *p, uint8_t sides)
{
    uint32_t ranks = 0;
    for (uint32_t i = 0; i < p->job.num_teams; i++)
        ranks += sides == 0 || sides >> p->job.teams[i].side & 1 ? p->job.teams[i].count : 0;
    return ranks;
}

/* Whether the hosts, or those of a component, take fewer ranks than there are. */
static bool lacks_room(const struct placement *p)
{
    const struct cluster *c = &p->world.cluster;
    uint64_t room[JOB_SIDES] = {0};
    for (uint32_t i = 0; i < p->world.num_nodes; i++)
        for (unsigned side = 0; side < JOB_SIDES; side++)
            room[side] += cluster_takes(c, i, side) ? c->capacity[i] : 0;
    return cluster_room(c) < p->job.num_ranks || room[JOB_PREFILL] < ranks_of(p, 1u << JOB_PREFILL) ||
           room[JOB_DECODE] < ranks_of(p, 1u << JOB_DECODE);
}

/* How many ranks a host takes. */
enum room {
    ROOM_GPUS,   /* as ROOM_WHOLE, and none where there are no GPUs */
    ROOM_WHOLE,  /* as many as have a whole place each: two hardware threads or --cores-per-rank, and GPUs */
    ROOM_SHARES, /* all hosts together take all ranks, each in proportion to its cores; as many as its slots at most */
    ROOM_SLOTS,  /* as many as its slots */
    ROOM_CROWDED /* as ROOM_SHARES, whatever the slots are */
};

/* Slots for all ranks, on each host in proportion to its cores, and in whole teams; each component by itself. */
static void share_out(const struct placement *p, struct world_node *nodes, uint32_t num, bool keep_slots)
{
    uint64_t cores[UINT8_MAX + 1] = {0}; /* by sides */
    uint32_t team = 1;
    for (uint32_t i = 0; i < p->job.num_teams; i++)
        team = p->job.teams[i].count > team ? p->job.teams[i].count : team;
    for (uint32_t i = 0; i < num; i++)
        cores[nodes[i].sides] += nodes[i].machine->num_cores;
    for (uint32_t i = 0; i < num; i++) {
        uint64_t own = (uint64_t)nodes[i].machine->num_cores * ranks_of(p, nodes[i].sides);
        uint64_t share = (own + cores[nodes[i].sides] - 1) / cores[nodes[i].sides];
        share = (share + team - 1) / team * team;
        if (!keep_slots || share < nodes[i].capacity)
            nodes[i].capacity = (uint32_t)share;
    }
}

/* No more ranks on a host than have a whole place each; with GPUs, if these are needed. */
static int keep_whole(const struct machine_cut *cut, bool need_gpus, struct world_node *nodes, uint32_t num,
                      struct why *why)
{
    const struct machine *last = NULL;
    uint32_t whole = 0;
    for (uint32_t i = 0; i < num; i++) {
        const struct machine *m = nodes[i].machine;
        if (m != last && machine_whole_seats(m, cut, &whole) != 0)
            return why_set(why, "no memory for the cores of %s", nodes[i].host);
        last = m; /* hosts often have one description */
        if (need_gpus && m->num_gpus == 0)
            nodes[i].capacity = 0;
        else if (whole < nodes[i].capacity)
            nodes[i].capacity = whole;
    }
    return 0;
}

/* srun numbers ranks component by component, and prefill ranks come first. */
static uint8_t sides_of(const struct allocation *a, uint32_t host)
{
    return a->num_groups > 1 ? (uint8_t)(1u << a->hosts[host].group) : 0;
}

/* Hosts of several components, in the order of their names. */
static int by_name(const void *x, const void *y)
{
    const struct allocation_host *a = *(const struct allocation_host *const *)x;
    const struct allocation_host *b = *(const struct allocation_host *const *)y;
    return strcmp(a->name, b->name);
}

/* Nobody says which cores and GPUs of a host each component has. */
static int check_shared_hosts(const struct allocation *a, struct why *why)
{
    const struct allocation_host **hosts = calloc((size_t)a->num_hosts + 1, sizeof(const struct allocation_host *));
    int rc = hosts != NULL ? 0 : why_set(why, "no memory for %u hosts", a->num_hosts);
    for (uint32_t i = 0; rc == 0 && i < a->num_hosts; i++)
        hosts[i] = &a->hosts[i];
    if (rc == 0)
        qsort(hosts, a->num_hosts, sizeof(const struct allocation_host *), by_name);
    for (uint32_t i = 1; rc == 0 && i < a->num_hosts; i++)
        if (strcmp(hosts[i - 1]->name, hosts[i]->name) == 0)
            rc = why_set(why,
                         "host %.80s is in two components of the Slurm job, and nothing says which of its cores and "
                         "GPUs each has: ask for whole hosts (--exclusive), or for one component",
                         hosts[i]->name);
    free(hosts);
    return rc;
}

static int check_components(const struct placement *p, struct why *why)
{
    bool both = p->sizes[JOB_PREFILL].engines > 0 && p->sizes[JOB_DECODE].engines > 0;
    if (p->allocation.num_groups <= 1)
        return 0;
    if (p->allocation.num_groups == JOB_SIDES && both)
        return check_shared_hosts(&p->allocation, why);
    return why_set(why,
                   "the Slurm job has %u components, and %s: a heterogeneous job needs one for prefill and one for "
                   "decode engines, in this order; --host names hosts in its place",
                   p->allocation.num_groups, both ? "there are two sides" : "all engines are of one side");
}

/* Anew, if there is one already. */
static int build_world(struct placement *p, enum room room, struct why *why)
{
    static char here[HOSTLIST_NAME_BYTES];
    const struct allocation *a = &p->allocation;
    uint32_t num = a->num_hosts > 0 ? a->num_hosts : 1;
    struct machine_cut cut = {.cores_per_rank = p->options.cores_per_rank, .gpus_per_rank = p->options.gpus_per_rank};
    struct world_node *nodes = calloc(num, sizeof *nodes);
    if (nodes == NULL)
        return why_set(why, "no memory for %u hosts", num);
    allocation_here(here);
    for (uint32_t i = 0; i < num; i++) {
        uint32_t slots = a->num_hosts > 0 && a->hosts[i].slots > 0 ? a->hosts[i].slots : WORLD_SEATS;
        if (slots != WORLD_SEATS && slots > p->job.num_ranks)
            slots = p->job.num_ranks; /* more make no difference */
        nodes[i] = (struct world_node){.host = a->num_hosts > 0 ? a->hosts[i].name : here,
                                       .machine = &p->machines[p->machine_of[i]],
                                       .capacity = slots,
                                       .sides = sides_of(a, i)};
    }
    int rc = room == ROOM_GPUS || room == ROOM_WHOLE ? keep_whole(&cut, room == ROOM_GPUS, nodes, num, why) : 0;
    if (room == ROOM_SHARES || room == ROOM_CROWDED)
        share_out(p, nodes, num, room == ROOM_SHARES);
    world_fini(&p->world);
    if (rc == 0)
        rc = world_init(&p->world, nodes, num, &cut, p->options.network != NULL ? &p->network : NULL, &p->costs, why);
    free(nodes);
    return rc;
}

static struct place_rules rules_of(const struct placement_options *o)
{
    struct place_rules rules = {.straddle = o->straddle};
    rules.nodes = o->spread ? PLACE_SPREAD : o->pack ? PLACE_PACK : PLACE_ANY;
    rules.sides = o->together ? PLACE_TOGETHER : o->apart ? PLACE_APART : PLACE_MIXED;
    return rules;
}

/* What helps where hosts take too few ranks. */
static const char *remedy(const struct placement *p)
{
    const enum allocation_source source = p->allocation.source;
    if (source == ALLOCATION_SLURM)
        return "ask Slurm for more tasks, as by --ntasks-per-node, or --oversubscribe permits more";
    if ((source == ALLOCATION_HOSTS || source == ALLOCATION_HOSTFILE) && placement_has_gpus(p))
        return "take more hosts, or --gpus-per-rank 0 if ranks need none; --oversubscribe permits more";
    return "--oversubscribe permits more";
}

static int explain_failure(const struct placement *p, enum place_error error, struct why *why)
{
    uint32_t num = p->world.num_nodes;
    const bool straddle = p->options.straddle;
    switch (error) {
    case PLACE_TOO_FEW:
        return why_set(why, "%u ranks, and the %u host%s take%s %llu: %s", p->job.num_ranks, num, num == 1 ? "" : "s",
                       num == 1 ? "s" : "", (unsigned long long)cluster_room(&p->world.cluster), remedy(p));
    case PLACE_NO_FIT:
        return why_set(why, "the engines do not fit so that %s%s%s: take more hosts or slots%s%s",
                       straddle ? "each rank has a place" : "each TP group is on one host",
                       p->options.apart ? " and no host has both sides" : "",
                       p->allocation.num_groups > 1 ? ", with prefill engines in the Slurm job's first component and "
                                                      "decode engines in its second"
                                                    : "",
                       p->options.apart ? ", or leave --apart out" : "",
                       straddle ? "" : "; --straddle permits that a TP group lies on several");
    default:
        return why_set(why, "no memory to place %u ranks", p->job.num_ranks);
    }
}

static enum place_error find_seats(struct placement *p)
{
    const struct place_rules rules = rules_of(&p->options);
    const struct choice choice = placement_choice(p, &rules);
    enum place_error error = choice_find(&choice, &p->job, p->seat_of);
    if (error == PLACE_GOOD && world_places(&p->world, p->seat_of, p->job.num_ranks, p->places) != 0)
        return PLACE_NO_MEMORY;
    return error;
}

/* The most ranks of a side that a host takes. */
static uint32_t widest(const struct placement *p, unsigned side)
{
    const struct cluster *c = &p->world.cluster;
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->world.num_nodes; i++)
        if (cluster_takes(c, i, side) && c->capacity[i] > most)
            most = c->capacity[i];
    return most;
}

/* Whether these hosts take all ranks, and each TP group whole that some host takes whole by its slots. */
static bool is_enough(const struct placement *p, const uint32_t by_slots[JOB_SIDES])
{
    for (unsigned side = 0; side < JOB_SIDES; side++)
        if (p->sizes[side].engines > 0 && p->sizes[side].tp <= by_slots[side] && p->sizes[side].tp > widest(p, side))
            return false;
    return !lacks_room(p);
}

/*
 * In the world that was built with ROOM_SLOTS or ROOM_CROWDED. Where slots are more than whole places, a rank gets less
 * than one only if there is no other way, or hosts are to be packed; GPUs count even then.
 */
static int find_places(struct placement *p, struct why *why)
{
    static const enum room rooms[] = {ROOM_GPUS, ROOM_WHOLE, ROOM_SHARES, ROOM_SLOTS};
    const uint32_t by_slots[JOB_SIDES] = {widest(p, JOB_PREFILL), widest(p, JOB_DECODE)};
    bool as_it_is = p->crowded || lacks_room(p), gpus = placement_has_gpus(p);
    p->seat_of = calloc((size_t)p->job.num_ranks + 1, sizeof *p->seat_of);
    p->places = calloc((size_t)p->job.num_ranks + 1, sizeof *p->places);
    if (p->seat_of == NULL || p->places == NULL)
        return explain_failure(p, PLACE_NO_MEMORY, why);
    enum place_error error = as_it_is ? find_seats(p) : PLACE_NO_FIT;
    for (unsigned i = 0; !as_it_is && i < sizeof rooms / sizeof rooms[0]; i++) {
        if (rooms[i] == ROOM_GPUS ? !gpus : p->options.pack && rooms[i] != ROOM_SLOTS)
            continue;
        if (build_world(p, rooms[i], why) != 0)
            return -1;
        error = is_enough(p, by_slots) ? find_seats(p) : PLACE_NO_FIT;
        if (error == PLACE_GOOD || error == PLACE_NO_MEMORY)
            break;
    }
    return error == PLACE_GOOD ? 0 : explain_failure(p, error, why);
}

int placement_find(struct placement *p, const struct placement_options *options, const struct engine_size *sizes,
                   placement_ask_fn ask, void *arg, struct why *why)
{
    *p = (struct placement){.options = *options, .sizes = {sizes[JOB_PREFILL], sizes[JOB_DECODE]}};
    p->is_model_assumed = options->cut.model == NULL;
    if (p->is_model_assumed)
        p->options.cut.model = cut_default().model;
    p->options.cut.layers = p->options.cut.model->layers;
    if (placement_allocation(&p->allocation, &p->options, why) != 0)
        return -1;
    if (check_components(p, why) != 0)
        return -1;
    if (p->allocation.source == ALLOCATION_HERE && !placement_is_wished(options))
        return 1;
    if (placement_describe(p, ask, arg, why) != 0 || find_flows(p, why) != 0 || find_job(p, why) != 0 ||
        build_world(p, ROOM_SLOTS, why) != 0)
        return -1;
    /* Nobody named slots on this machine, so that more ranks than fit are only a pity. */
    if (lacks_room(p) && p->allocation.source == ALLOCATION_HERE && p->options.gpus_per_rank > 0) {
        p->options.gpus_per_rank = 0; /* there are fewer GPUs than ranks, so these do not count */
        if (build_world(p, ROOM_SLOTS, why) != 0)
            return -1;
    }
    bool may = options->oversubscribe || p->allocation.source == ALLOCATION_HERE;
    p->crowded = may && lacks_room(p);
    if (p->crowded && build_world(p, ROOM_CROWDED, why) != 0)
        return -1;
    return find_places(p, why);
}

void placement_fini(struct placement *p)
{
    free(p->seat_of);
    free(p->places);
    job_fini(&p->job);
    world_fini(&p->world);
    if (p->serve != NULL)
        serve_fini(p->serve);
    free(p->serve);
    exchange_fini(&p->exchange);
    for (unsigned side = 0; side < JOB_SIDES; side++)
        engine_fini(&p->engines[side]);
    network_fini(&p->network);
    for (uint32_t i = 0; i < p->num_machines; i++)
        machine_fini(&p->machines[i]);
    free(p->machines);
    free(p->machine_of);
    allocation_fini(&p->allocation);
    *p = (struct placement){0};
}

/* ---- what the launcher is told ----------------------------------------------------------------------------------- */

uint32_t placement_component(const struct placement *p, uint32_t rank)
{
    return p->allocation.num_groups > 1 && p->job.teams[p->job.team_of[rank]].side == JOB_DECODE ? 1 : 0;
}

uint32_t placement_hosts(const struct placement *p)
{
    bool *has = calloc((size_t)p->world.num_nodes + 1, sizeof *has);
    uint32_t num = has != NULL ? 0 : p->world.num_nodes;
    for (uint32_t r = 0; has != NULL && r < p->job.num_ranks; r++) {
        num += !has[p->places[r].node];
        has[p->places[r].node] = true;
    }
    free(has);
    return num;
}

int placement_write_pairs(const struct placement *p, struct why *why)
{
    if (p->uncut.text[0] != '\0')
        return why_set(why, "--pairs: the engines cannot be cut of %s: %.300s", p->options.cut.model->name,
                       p->uncut.text);
    if (p->serve == NULL)
        return why_set(why, "--pairs needs engines on both sides");
    const struct choice choice = placement_choice(p, NULL);
    struct serve_place *places = choice_places(&p->world, p->seat_of, p->job.num_ranks);
    const struct pairs pairs = {&choice.source, &p->world, p->seat_of, places};
    if (places == NULL)
        return why_set(why, "--pairs: no memory");
    FILE *out = fopen(p->options.pairs, "w");
    int rc = out != NULL ? pairs_write(&pairs, out) : -1;
    if (out != NULL && fclose(out) != 0)
        rc = -1;
    free(places);
    return rc == 0 ? 0 : why_set(why, "--pairs \"%.200s\": %s", p->options.pairs, strerror(errno));
}

/* Where distances come from, and hosts that the file of switches does not name: their names may differ by a domain. */
static void describe_costs(const struct placement *p, char *text, size_t room)
{
    uint32_t path[NETWORK_HEIGHT_MAX], unnamed = 0;
    const char *first = NULL;
    int at = p->options.costs != NULL
                 ? snprintf(text, room, "by --costs %.200s", p->options.costs)
                 : snprintf(text, room, "assumed; --costs takes those that baton-bench distances measured");
    for (uint32_t i = 0; p->options.network != NULL && i < p->world.num_nodes; i++)
        if (!network_path(&p->network, p->world.nodes[i].host, path) && unnamed++ == 0)
            first = p->world.nodes[i].host;
    if (unnamed > 0)
        snprintf(text + at, room - (size_t)at, "; --network does not name %u of %u hosts, %.80s first: they are far",
                 unnamed, p->world.num_nodes, first);
}

/* Prints it as `print` does. */
static int explain(const struct placement *p, FILE *out, int (*print)(FILE *out, const struct explain *e))
{
    const struct place_rules rules = rules_of(&p->options);
    const struct choice choice = placement_choice(p, &rules);
    struct choice unweighted = choice;
    char model[128], costs[512], uncut[512], warnings[PLACEMENT_LACKS][PLACEMENT_LACK_BYTES];
    struct job flows;
    struct why why;
    unweighted.source.load.inside = 1;
    int rc = choice_job(&unweighted, p->seat_of, p->job.num_ranks, &flows, &why);
    describe_costs(p, costs, sizeof costs);
    snprintf(uncut, sizeof uncut, "%s: %s", p->options.cut.model->name, p->uncut.text);
    snprintf(model, sizeof model, "a request of %u tokens of %s, %s", p->options.tokens, p->options.cut.model->name,
             p->options.cut.dtype->name);
    struct explain page = {.allocation = &p->allocation,
                           .machines = p->options.topologies[0] != NULL ? "each as by --topology"
                                       : p->allocation.num_hosts > 0    ? "as they say themselves"
                                                                        : "as hwloc sees it",
                           .costs = costs,
                           .model = model,
                           .uncut = p->uncut.text[0] != '\0' ? uncut : NULL,
                           .sizes = p->sizes,
                           .choice = &choice,
                           .world = &p->world,
                           .job = &p->job,
                           .unweighted = &flows,
                           .bound = placement_can_bind(p),
                           .seat_of = p->seat_of,
                           .places = p->places};
    for (unsigned lack = 0, num = 0; lack < PLACEMENT_LACKS; lack++)
        if (placement_lacks(p, lack, warnings[lack]))
            page.warnings[num++] = warnings[lack];
    if (rc == 0)
        rc = print(out, &page);
    job_fini(&flows);
    return rc;
}

int placement_explain(const struct placement *p, FILE *out)
{
    return explain(p, out, explain_print);
}

int placement_write_picture(const struct placement *p, struct why *why)
{
    struct dot dot;
    if (dot_begin(&dot, why) != 0)
        return -1;
    int rc = explain(p, dot.out, picture_write) == 0 ? 0 : why_set(why, "no memory for a picture");
    return dot_end(&dot, &p->options.picture, rc, why);
}
