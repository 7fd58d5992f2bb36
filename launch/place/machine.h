/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * machine: one node as hwloc describes it, reduced to what placement needs: cores, the caches, NUMA nodes and packages
 * that they are in, GPUs and NICs; and how it is cut into seats. Read from a description or from this machine; only the
 * launcher does so, never an engine's process, since finding devices may start drivers.
 */
#ifndef BATON_PLACE_MACHINE_H
#define BATON_PLACE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "option/why.h"

#define MACHINE_DEVICE_BYTES 64
#define MACHINE_FACTS_BYTES 64

/** Logical numbers, in hwloc's order, in which neighbours are near. */
struct machine_core {
    uint32_t cache, numa, package;
    uint32_t first_pu, num_pus; /* among the machine's pus */
};

/** A GPU or NIC, and the cores near it: [first_core, end_core), all of them where that is not known. */
struct machine_device {
    char name[MACHINE_DEVICE_BYTES]; /* the system's, a word of visible ASCII: "cuda0", "mlx5_0", "eth0" */
    uint32_t first_core, end_core;
    bool is_fabric;  /* a NIC that speaks verbs */
    uint32_t number; /* of a GPU: its place among the machine's GPUs by PCI address */
};

struct machine {
    uint32_t num_cores, num_pus, num_gpus, num_nics;
    struct machine_core *cores;
    uint32_t *pus; /* the system's numbers; in order of core */
    struct machine_device *gpus, *nics;
    char facts[MACHINE_FACTS_BYTES]; /* what else a node says of itself: a word that is only kept. Empty: nothing */
};

/** How a machine is described. */
enum machine_form {
    MACHINE_HERE,     /* by itself: what this process may run on */
    MACHINE_XML,      /* the text of lstopo's XML */
    MACHINE_SYNTHETIC /* hwloc's short form, "pack:2 numa:4 core:8 pu:2" */
};

/**
 * 0, or -1 with *why. `text` is NULL for this machine. Call machine_fini in both cases; for XML, call it in the main
 * thread.
 */
int machine_read(struct machine *m, enum machine_form form, const char *text, struct why *why);
void machine_fini(struct machine *m);

/** What machine_read reads, for hwloc_topology_destroy; XML has been read by it before. NULL: hwloc cannot read it. */
struct hwloc_topology *machine_topology(enum machine_form form, const char *text);

/** How many packages and NUMA nodes its cores are in. One whose cores are apart in the order counts several times. */
uint32_t machine_packages(const struct machine *m);
uint32_t machine_numas(const struct machine *m);

#define MACHINE_TEXT_BYTES 3072 /* so that a line with it is one write, which no other line cuts apart */

/**
 * The same as one short line, in which a node tells another what it is: equal cores that follow each other are written
 * once, and so are equal groups of them. False: it is longer than MACHINE_TEXT_BYTES.
 */
bool machine_write(const struct machine *m, char text[MACHINE_TEXT_BYTES]);
/** Reads such a line. 0, or -1 with *why: it is malformed. Call machine_fini in both cases. */
int machine_parse(struct machine *m, const char *text, struct why *why);

/** How it is cut. */
struct machine_cut {
    uint32_t slots;          /* so many seats; 0: as many as there is room for */
    uint32_t gpus_per_rank;  /* 0: GPUs do not count; nor do they on a machine that has fewer than its slots need */
    uint32_t cores_per_rank; /* 0: enough for two hardware threads, the engine's and one for reactor and copy workers */
};

/**
 * Cores [first_core, end_core), never none; GPUs [first_gpu, first_gpu + num_gpus). Seats may share cores if need be.
 */
struct machine_seat {
    uint32_t first_core, end_core;
    uint32_t first_gpu, num_gpus;
};

/**
 * Seats with shares as equal as can be, in order of core (of GPU, where GPUs count). They cross the bounds of packages,
 * NUMA nodes and caches only where they are larger than these; parts that are too small for a seat may have none.
 * cores_per_rank limits the seats, unless slots ask for more. Where cores near a GPU are near another one too, but not
 * all of them, the seats share out all cores, and GPUs follow in order. Returns them (free them) and *num, which is 1
 * at least; NULL: no memory.
 */
struct machine_seat *machine_seats(const struct machine *m, const struct machine_cut *cut, uint32_t *num);

/**
 * How many seats without regard to slots are whole: they have the cores they need, and GPUs if the machine has any and
 * these count. 0, or -1: no memory.
 */
int machine_whole_seats(const struct machine *m, const struct machine_cut *cut, uint32_t *num);

/** Seats of cores [first, end) of one NUMA node: n, with equal shares, without GPUs. 0; -1: no memory. */
int machine_share(const struct machine *m, uint32_t first, uint32_t end, uint32_t n, struct machine_seat *seats);

/** The NIC whose cores are the fewest that hold this core; of several, they take turns. NULL: there is none. */
const struct machine_device *machine_nic(const struct machine *m, uint32_t core, uint32_t turn);

#endif
