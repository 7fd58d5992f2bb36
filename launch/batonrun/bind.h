/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bind: how batonrun tells each rank's shim where the rank runs. One text holds all ranks: the different kinds of
 * place, and for each run of ranks which kinds these have. So it stays short where nodes are alike.
 *
 *     0-6,32-38+7,39/mlx5_0@0|8-14,40-46+15,47/mlx5_1@1#0,1x64
 *
 * is 64 times a rank at the first place and one at the second. Each place is cpus+helpers/nic@gpus; '+' and '@' stand
 * there only before something.
 */
#ifndef BATON_LAUNCH_BIND_H
#define BATON_LAUNCH_BIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BIND_PLACE_BYTES 4096

/** One rank's place. */
struct bind_place {
    char cpus[BIND_PLACE_BYTES]; /* the engine's hardware threads, by the system's numbers: "0-6,32-38"; empty: all */
    char helpers[64];            /* those of the reactor and the copy workers; empty: they have none of their own */
    char nic[64];                /* the adapter; empty: any */
    char gpus[256];              /* its GPUs by number, from the node's lowest PCI address on: "2,3"; empty: unknown */
};

/** Joins the ranks' places to one text, which the caller frees. NULL: no memory. */
char *bind_join(const struct bind_place *places, uint32_t num);

/** Finds one rank's place. False: the text is malformed, or has no such rank. */
bool bind_find(const char *text, uint32_t rank, struct bind_place *out);

/**
 * Binds this process and all that it will start. 0, or an errno; EINVAL: `cpus` is malformed. `missing`: those hardware
 * threads among them that it may not run on all the same, since a cpuset lacks them; empty: there are none. A list
 * longer than `room` is cut.
 */
int bind_to(const char *cpus, char *missing, size_t room);

/** What bind_to would say. This process stays bound as it is. */
int bind_try(const char *cpus, char *missing, size_t room);

/** How many hardware threads a list names; NULL: those that this process may run on. 0: unknown. */
uint32_t bind_count(const char *cpus);

#endif
