/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mates: the ranks of one engine, which compute together by MPI, on a communicator of their own. Every wait has a
 * deadline: where a rank does not come, the engine is lost, and no further call waits.
 */
#ifndef ENGINE_MATES_H
#define ENGINE_MATES_H

#include <mpi.h>
#include <stdbool.h>

#include "engine/team.h"

struct mates {
    MPI_Comm engine, stage; /* all ranks, in the order pp_rank * tp + tp_rank; and those of this rank's stage */
    struct seat seat;
    int rank, size;
    uint64_t patience_ns;
    bool lost;
};

/** Collective over `world`: ranks of one engine give the same name. 0, or -1. */
int mates_init(struct mates *m, MPI_Comm world, const char *engine, struct seat seat, uint32_t patience_ms);
/** Collective over the engine. Does nothing where the engine is lost. */
void mates_fini(struct mates *m);

struct team mates_team(struct mates *m);

/** Each number becomes the least, or the greatest, of all ranks'. 0, or -1. */
int mates_least(struct mates *m, int64_t *numbers, uint32_t count);
int mates_most(struct mates *m, int64_t *numbers, uint32_t count);

/** The last stage tells all ranks what a step has brought. 0, or -1. */
int mates_share(struct mates *m, void *bytes, uint32_t count);

/** Waits for a request. 0, or -1: it failed, or patience_ns passed. It naps between looks once it has waited a
 * while. */
int mates_wait(MPI_Request *request, uint64_t patience_ns);

#endif
