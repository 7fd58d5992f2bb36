/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * world: the communicators of one context, who shares a node with whom, and the thread level. It works on a duplicate
 * of the caller's communicator, with MPI_ERRORS_RETURN on that alone. Its collective steps are those of steps.h.
 *
 * The context that initialised MPI finalises it. Of several contexts in one process it must be closed last.
 *
 * The thread that opens, starts and closes the context. Never touches the caller's communicator beyond duplicating it.
 */
#ifndef BATON_MPI_WORLD_H
#define BATON_MPI_WORLD_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "baton.h"

#include "base/settings.h"
#include "mpi/steps.h"
#include "observe/log.h"

struct world {
    struct settings settings;
    struct logger *log;
    MPI_Comm comm; /* own duplicate */
    MPI_Comm host; /* ranks that really share memory */
    MPI_Comm node; /* the ranks of my node, which may be a pretended one */
    int rank, size;
    int node_size, host_size;
    uint32_t *node_of; /* by rank */
    uint32_t nodes;
    int level; /* the thread level of this process */
    baton_progress_mode_t mode;
    bool owns_mpi;
    int finalize_key; /* of the attribute of MPI_COMM_SELF by which MPI_Finalize calls the hook */
    struct finalize_hook *hook;
    struct steps steps;
};

/** Fills *w, zeroed before. See fabric_open. On an error everything is undone, unless the ranks are lost. */
int world_open(struct world *w, MPI_Comm comm, const struct settings *settings, baton_progress_mode_t mode,
               struct logger *log, int local);

/** Frees the communicators, and finalises MPI where world_open initialised it. Not where the ranks are lost. */
void world_close(struct world *w);

/** The ranks in the world of the first `num` ranks of my node, in order. BATON_EMPI. */
int world_of_node(const struct world *w, int num, int *ranks);

/** See core/world.h. */
int world_on_finalize(struct world *w, void (*hook)(void *arg), void *arg);

#endif
