/* SPDX-License-Identifier: BSD-3-Clause */
/* placement: which host and cores each rank of a run gets. */
#ifndef BATON_LAUNCH_PLACEMENT_H
#define BATON_LAUNCH_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "batonrun/placement_options.h"
#include "launch/plan/exchange.h"
#include "place/choice.h"

/** Where everything is. */
struct placement {
    struct placement_options options;
    struct engine_size sizes[JOB_SIDES];
    struct allocation allocation;
    struct machine *machines; /* as they say, or as --topology says */
    uint32_t num_machines;
    uint32_t *machine_of; /* by host, or of this machine alone */
    struct network network;
    struct costs costs;
    struct engine engines[JOB_SIDES];
    struct exchange exchange;
    struct serve *serve; /* NULL: nothing is transferred */
    struct world world;
    struct job job;
    uint32_t *seat_of;          /* by rank, as batonrun numbers them */
    struct world_place *places; /* by rank */
    bool is_model_assumed;      /* nobody named one */
    struct why uncut;           /* why the engines cannot be cut of the model that is assumed; empty: they can */
    bool crowded;               /* there are more ranks than there is room for, which was allowed */
};

/** The hosts that the options name, else the batch system's, else this machine; as allocation.h has it. */
int placement_allocation(struct allocation *a, const struct placement_options *o, struct why *why);

/** Asks named hosts what they are: fills machines[i] for host i. 0, or -1 with *why. */
typedef int (*placement_ask_fn)(const struct allocation *a, struct machine *machines, void *arg, struct why *why);

/**
 * The first half of placement_find: the machines of the hosts in p->allocation, the switches and the costs between
 * them, by p->options. 0, or -1 with *why: also where no host has the cores or GPUs that a rank needs.
 */
int placement_describe(struct placement *p, placement_ask_fn ask, void *arg, struct why *why);

/**
 * Places the ranks of the engines of each side. Hosts that are named, and not described by --topology, are asked by
 * `ask`, which gets `arg`. 0; 1: nobody named hosts or wished anything, so there is nothing to place; -1 with *why.
 * Call placement_fini in any case.
 */
int placement_find(struct placement *p, const struct placement_options *options, const struct engine_size *sizes,
                   placement_ask_fn ask, void *arg, struct why *why);
void placement_fini(struct placement *p);

/** How many hardware threads a rank's seat has. */
uint32_t placement_threads(const struct placement *p, uint32_t rank);
/**
 * How many of them, the last ones, are those of the reactor and the copy workers of a bound rank, and not the engine's:
 * one, or all of the last core of four or more. 0: there is one hardware thread for all, or the rank has a whole host.
 */
uint32_t placement_helpers(const struct placement *p, uint32_t rank);
/** The adapter nearest to a rank. NULL: there is no choice, or it is no fabric's. */
const char *placement_adapter(const struct placement *p, uint32_t rank);
/**
 * Whether each rank can do with one adapter: all active ports of all hosts with ranks are in one network, as the hosts
 * themselves say. False, and *why: one adapter a rank may cut some ranks off from others.
 */
bool placement_has_one_fabric(const struct placement *p, struct why *why);
/**
 * Whether ranks are bound: each has cores of its own, two hardware threads at least unless --cores-per-rank asks for
 * less, and some rank has fewer than its host has.
 */
bool placement_can_bind(const struct placement *p);
/** Whether GPUs count, and some host has them. */
bool placement_has_gpus(const struct placement *p);

/** What makes a place less than a whole one. */
enum placement_lack {
    PLACEMENT_LACKS_CORES, /* two hardware threads, or the cores that --cores-per-rank asks for, of its own */
    PLACEMENT_LACKS_GPUS,  /* GPUs, where some host has any */
    PLACEMENT_LACKS
};
#define PLACEMENT_LACK_BYTES 512
/** Whether any ranks lack this. Then `text` is a sentence about them. */
bool placement_lacks(const struct placement *p, enum placement_lack lack, char text[PLACEMENT_LACK_BYTES]);
/** Whether a rank has all hardware threads of its host. Then it is not bound. */
bool placement_has_whole_host(const struct placement *p, uint32_t rank);
/** Whether ranks are bound or have GPUs, so that their shims are told places. */
bool placement_has_bindings(const struct placement *p);
/**
 * All ranks' places for their shims (bind.h), without hardware threads if ranks are not bound; free it. NULL: no
 * memory.
 */
char *placement_bindings(const struct placement *p);
/** Whether hosts were named, so that the launcher is told the host of each rank. */
bool placement_has_hosts(const struct placement *p);
/** How many hosts have ranks; all of them, if there is no memory to count. */
uint32_t placement_hosts(const struct placement *p);
const char *placement_host(const struct placement *p, uint32_t rank);
/** The component of a heterogeneous Slurm job that the rank's host belongs to; 0 in any other case. */
uint32_t placement_component(const struct placement *p, uint32_t rank);

/** What the flows between its ranks follow from. */
struct choice placement_choice(const struct placement *p, const struct place_rules *rules);

/** Writes the file of --pairs. 0, or -1 with *why. */
int placement_write_pairs(const struct placement *p, struct why *why);

/** Writes the picture of --dot and --svg. 0, or -1 with *why. */
int placement_write_picture(const struct placement *p, struct why *why);

/** The page of --explain. 0, or -1: no memory. */
int placement_explain(const struct placement *p, FILE *out);

#endif
