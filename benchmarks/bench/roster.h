/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * roster: the engines and each rank's place in them, as the launcher said, gathered once; and the benchmark's own
 * messages between the ranks, over a communicator of their own (channel_…).
 */
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

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/*
 * Messages are sent between measurements, never during one.
 *
 * How a rank waits is part of the measurement. An engine does not sit in MPI while it computes. So while Baton or the
 * memory copy is measured, a waiting rank sleeps and looks now and then: a rank that spun in MPI would make progress
 * for Baton and take a core from the copy. While raw MPI is measured, the target waits inside a blocking MPI_Recv,
 * which is the best case for raw MPI.
 */
enum channel_wait { CHANNEL_ASLEEP, CHANNEL_IN_MPI };

void channel_send(MPI_Comm comm, int peer, const void *message, int bytes);
void channel_receive(MPI_Comm comm, int peer, void *message, int bytes, enum channel_wait wait);

/** All ranks of comm, waiting asleep. */
void channel_barrier(MPI_Comm comm);
/** The same, but `root` waits for none: what it has is what all have then. */
void channel_share(MPI_Comm comm, int root, void *data, int bytes);

#endif
