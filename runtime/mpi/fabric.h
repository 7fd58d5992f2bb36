/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric: all that one context has of MPI: the world (communicators, nodes, agreement), the windows (each rank's
 * segment), the exchange of the directory, control messages, and the rma path. It fills the three tables by which front
 * reaches them (core/ground.h, core/net.h, core/world.h). README.md of this folder says which file
 * does what.
 *
 * Nobody includes this header but this room, the room that opens a world of MPI, and tests.
 */
#ifndef BATON_MPI_FABRIC_H
#define BATON_MPI_FABRIC_H

#include "baton.h"

#include "base/settings.h"
#include "core/ground.h"
#include "core/net.h"
#include "core/world.h"
#include "mpi/control.h"
#include "mpi/meeting.h"
#include "mpi/quirks.h"
#include "mpi/ringing.h"
#include "mpi/rma.h"
#include "mpi/windows.h"
#include "mpi/world.h"
#include "observe/log.h"

struct fabric {
    struct ground ground;
    struct ground_peer *peers;
    struct net net;
    struct world_calls calls;
    struct world world;
    struct windows windows;
    struct control control;
    struct quirks quirks;
    struct rma rma;
    struct meeting meeting;
    struct ringing ringing;
    bool is_started;
    unsigned turn;
};

/**
 * Duplicates the communicator, finds out the thread level and who shares a node (BATON_FAKE_NODES splits a host's
 * ranks, in order, into so many parts), and agrees that all ranks came here. MPI_COMM_NULL stands for MPI_COMM_WORLD;
 * MPI is initialised where it is not. BATON_PROGRESS_AUTO is resolved by the thread level. `local` is an error that
 * this rank found before (with its sentence set), or 0. Errors are agreed on, `local` too: every rank returns the same,
 * and error_set has the sentence, which names the rank where it arose. Collective.
 */
int fabric_open(MPI_Comm comm, const struct settings *settings, baton_progress_mode_t mode, struct logger *log,
                int local, struct fabric **out);

/**
 * The communicator of a Fortran handle; BATON_COMM_NULL_F: MPI_COMM_NULL. 0, BATON_EINVAL, or BATON_ESTATE without MPI.
 */
int fabric_comm(int handle, MPI_Comm *out);

/** Fills the net's table (net.c). */
void fabric_fill_net(struct fabric *f);

/** What a window's one-sided component is called. */
const char *fabric_component(const struct fabric *f, const char *name);

#endif
