/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * world: the communicators of one context, who shares a node with whom, the thread level, and agreement.
 *
 * Works on an own duplicate of the caller's communicator, with MPI_ERRORS_RETURN on that alone. Only the thread that
 * opens, starts and closes the context runs it. Every collective here that can be is nonblocking and polled until the
 * deadline; those that cannot (splits) run under a watchdog.
 *
 * STEPS. Each collective step has a number. A rank that comes to one tells rank 0 so by a tiny message, so that rank 0
 * can name the silent ranks when the deadline passes. After that the world is `lost`: requests are still open in MPI,
 * their buffers (here) must stay, and no collective may follow.
 *
 * The context that initialised MPI finalises it: of several in one process it is the last to be closed.
 */
#ifndef BATON_MPI_WORLD_H
#define BATON_MPI_WORLD_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "baton.h"

#include "base/settings.h"
#include "mpi/watchdog.h"
#include "observe/log.h"

#define WORLD_SENTENCE_BYTES 256

/** An MPI_2INT, for MPI_MINLOC. */
struct world_ballot {
    int code, rank;
};

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
    bool owns_mpi, lost, is_leaving;
    int finalize_key; /* of the attribute of MPI_COMM_SELF by which MPI_Finalize calls the hook */
    void (*on_finalize)(void *arg);
    void *on_finalize_arg;

    /* The step under way. These are MPI's until the step's requests are complete. */
    uint32_t step, agreements;
    uint32_t announced; /* what I told rank 0 */
    MPI_Request announcement;
    uint32_t *arrived;      /* rank 0: by rank, the step it came to */
    int first_silent;       /* rank 0: all ranks before it came to this step */
    MPI_Request *farewells; /* rank 0, leaving: by rank */
    struct world_ballot ballot, verdict;
    int least_in[2], least_out[2];
    char sentence[WORLD_SENTENCE_BYTES]; /* broadcast by the rank that failed */
    char agreed[WORLD_SENTENCE_BYTES];   /* the last one that was, so that it is not given a rank twice */
};

/** Fills *w, zeroed before. See fabric_open. On an error everything is undone, but where the world was lost. */
int world_open(struct world *w, MPI_Comm comm, const struct settings *settings, baton_progress_mode_t mode,
               struct logger *log, int local);

/** Frees the communicators, and finalises MPI where world_open initialised it. Not for a lost world. */
void world_close(struct world *w);

/** See fabric_agree. */
int world_agree(struct world *w, const char *step, int local);

/** Whether `mine` is true on every rank: one step. *all is set only on success. */
int world_unanimous(struct world *w, const char *step, bool mine, bool *all);

/** Begins a step: counts it and tells rank 0. Then start one nonblocking collective and world_finish it. */
int world_begin(struct world *w, const char *step);
/** Polls the step's request until the deadline. `rc` is what the call that started it returned. */
int world_finish(struct world *w, const char *step, int rc, MPI_Request *request);

/**
 * A barrier that does not block, before leaving: 0 when every rank has called it, BATON_EAGAIN before; call it until
 * then. With `late`, BATON_ETIMEDOUT instead of BATON_EAGAIN, and rank 0 names those that did not come. Point to point,
 * through rank 0: where a rank has died, a collective's request would end this process (Open MPI 4.1 raises its errors on
 * MPI_COMM_WORLD), whatever error handler its communicator has.
 */
int world_leave(struct world *w, bool late);

/** See fabric_on_finalize. */
int world_on_finalize(struct world *w, void (*hook)(void *arg), void *arg);

/** MPI_Iallgather of `bytes` bytes a rank, as one step. */
int world_allgather(struct world *w, const char *step, const void *in, int bytes, void *out);

/** Puts a watchdog beside the blocking collective that follows; watchdog_stop ends it. */
void world_watch(const struct world *w, struct watchdog *d, const char *step);

/** Sets the sentence "<call> failed: <what MPI says>" and returns `error`. */
int world_mpi_error(int error, const char *call, int rc);

/** The class of an error that a call returned: what the standard has names for. */
int world_error_class(int rc);

/** Lets others run between two polls: yields at first, sleeps up to 1 ms after many. */
void world_pause(unsigned polls);

#endif
