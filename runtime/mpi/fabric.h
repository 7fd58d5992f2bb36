/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric: all that one context has of MPI: the world (communicators, nodes, agreement), the windows (each rank's
 * segment), the exchange of the directory, control messages, and the rma path. It fills the three tables by which front
 * reaches them (core/ground.h, core/net.h, core/world.h): their headers say what the functions below promise. README.md
 * of this folder says which file does what.
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

/** Fills the tables with all that is known once the world is open. */
void fabric_fill(struct fabric *f);
/** Fills in the segments. Local: 0 or BATON_ENOMEM. */
int fabric_find_peers(struct fabric *f);

/* ---- for the tables: `self` is the fabric ---- */

int fabric_agree(void *self, const char *step, int local);
int fabric_least(void *self, const char *step, const int mine[2], int least[2]);
int fabric_exchange(void *self, const void *row, uint32_t row_bytes, void *rows);
bool fabric_is_lost(const void *self);
int fabric_start(void *self, const struct world_segment *wish);
int fabric_expose(void *self, const struct path_regions *mine);
int fabric_doorbell(void *self, void (*rung)(void *arg), void *arg, const char *cpus);
int fabric_selftest(void *self, uint64_t offset, uint64_t bytes);
int fabric_meet_init(void *self);
int fabric_meet(void *self, bool is_here);
void fabric_meet_missing(const void *self, char *text, size_t size);
int fabric_meet_close(void *self, uint64_t until_ns);
int fabric_leave(void *self, bool late);
bool fabric_silence(void *self);
void fabric_hurry(void *self, uint64_t left_ms);
int fabric_on_finalize(void *self, void (*hook)(void *arg), void *arg);
void fabric_finalize(void *self);
int fabric_close(void *self, int local);
int fabric_leave_open(void *self, const char *why);
void fabric_forget(void *self);

int fabric_send(void *self, uint32_t peer, const void *message, uint32_t bytes);
/** By MPI_Rget. */
int fabric_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag);
/** Likewise. MPI_Win_sync and a full fence come before PORT_BOARD. */
int fabric_read_word(void *self, uint32_t peer, uint64_t offset, uint64_t tag);
int64_t fabric_move(void *self, const struct path_leg *leg, uint64_t budget);
/** At once where a put's request implies remote completion, else by a flush of a peer that answers. */
int fabric_settle(void *self, uint32_t peer, uint64_t tag);
enum path_park fabric_park(void *self, uint32_t peer, uint64_t tag);
/**
 * The connection has ended where one of our one-sided requests to the rank completed in error. A call that was refused
 * does not count. In each BATON_PARK_MS this may send a probe, for the next time that it is asked. It stays false where
 * a refused call poisoned the peer, and over osc/rdma, where an operation on a dead process may never return.
 */
bool fabric_ended(void *self, uint32_t peer);
/** MPI_Win_sync on the windows, and a full fence. */
void fabric_sync(void *self);
/** Parked operations apart. */
bool fabric_busy(const void *self);
int fabric_progress(void *self, struct port_event *events, int max);
void fabric_look(void *self);
bool fabric_has_looked(const void *self);
bool fabric_is_rung(const void *self);
uint32_t fabric_rings(const void *self);
void fabric_ring(void *self);
bool fabric_failed(const void *self);
struct net_counts fabric_counts(const void *self);

/** The world's lines, and the net's. */
void fabric_describe(const void *self, struct page *page);
void fabric_describe_net(const void *self, struct page *page);

#endif
