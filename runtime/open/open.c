/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open: contexts on a world of MPI. Joins what front needs and what mpi gives: the one place that knows both. In the
 * caller's thread.
 */
#include "baton.h"

#include "front/context.h"
#include "mpi/fabric.h"

static int stand_on(MPI_Comm comm, const struct opening *o, struct footing *out)
{
    struct fabric *f;
    const int rc = fabric_open(comm, o->settings, o->progress, o->log, o->local, &f);
    if (rc == 0)
        *out = (struct footing){&f->ground, &f->net, &f->calls, f->world.mode};
    return rc;
}

static int by_comm(void *comm, const struct opening *o, struct footing *out)
{
    return stand_on(*(MPI_Comm *)comm, o, out);
}

static int by_handle(void *handle, const struct opening *o, struct footing *out)
{
    MPI_Comm comm;
    const int rc = fabric_comm(*(int *)handle, &comm);
    return rc != 0 ? rc : stand_on(comm, o, out);
}

int baton_open(MPI_Comm comm, const baton_open_params_t *params, baton_t **out)
{
    return context_open_on(params, by_comm, &comm, out);
}

int baton_open_f(int comm, const baton_open_params_t *params, baton_t **out)
{
    return context_open_on(params, by_handle, &comm, out);
}
