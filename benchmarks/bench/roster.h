/* SPDX-License-Identifier: BSD-3-Clause */
/* roster: the engines and each rank's place in them, as the launcher said, gathered once. */
#ifndef BENCH_ROSTER_H
#define BENCH_ROSTER_H

#include <mpi.h>
#include <stdbool.h>

#include "baton.h"

struct roster_engine {
    char name[BATON_ENGINE_NAME_MAX];
    baton_role_t role;
    uint32_t tp, pp;
    int first; /* world rank of its rank (0, 0) */
};

struct roster {
    MPI_Comm comm; /* the benchmark's own, over all ranks */
    int rank, size;
    baton_open_params_t *ranks; /* by world rank */
    int num_engines;
    struct roster_engine *engines; /* in order of their first world rank */
    int *engine_of;                /* by world rank */
};

/** Collective. `self` is this rank's place. Fails without memory. */
void roster_init(struct roster *r, const baton_open_params_t *self);
void roster_fini(struct roster *r);

/** The nth engine (from 0) of a role (an engine of both roles counts as either), or -1. */
int roster_find(const struct roster *r, baton_role_t role, int nth);
/** Whether an engine has that role, and one rank. */
bool roster_is_single(const struct roster *r, int engine, baton_role_t role);
/** The engine of that name, or -1. */
int roster_named(const struct roster *r, const char *name);

#endif
