/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context: who owns what, on which thread.
 *
 *   any thread     submits (ring), events (ring), counters (atomics), snapshot (under its lock)
 *   the reactor    core, paths, fabric after start
 *   opening thread everything before start and after the reactor has been joined
 */
#ifndef BATON_FRONT_CONTEXT_H
#define BATON_FRONT_CONTEXT_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "baton.h"

#include "base/latch.h"
#include "base/ring.h"
#include "base/settings.h"
#include "core/core.h"
#include "front/admission.h"
#include "front/calls.h"
#include "front/fault.h"
#include "front/paths.h"
#include "mpi/fabric.h"
#include "observe/failure.h"
#include "observe/log.h"
#include "topo/topo.h"

struct baton_cache {
    baton_geometry_t geometry; /* what it points to: our copies */
    baton_group_t groups[BATON_GROUPS_MAX];
    baton_split_t splits[BATON_SPLITS_MAX];
    void *base; /* after start */
};

enum context_state { CONTEXT_OPEN, CONTEXT_STARTED, CONTEXT_FAILED, CONTEXT_LEFT /* by MPI_Finalize */ };

#define SNAPSHOT_PENDING 64
#define WHY_BYTES 256

/* Progress by the caller's thread. */
struct lent {
    int wake_fd, timer_fd;     /* -1: none. What baton_event_fd gives, and the timer in it */
    _Atomic(pthread_t) thread; /* whose calls of baton_poll make turns */
    atomic_bool busy;          /* a turn is under way */
    bool is_due;               /* the timer ran out, or will at once */
    uint64_t idle_since;       /* 0: the last turn had something to do */
};

struct baton {
    struct settings settings;
    struct logger log;
    baton_open_params_t who;
    struct topo_place place;
    enum context_state state;

    struct fabric *fabric;
    struct baton_cache *cache; /* NULL: none declared */
    struct directory *directory;
    struct paths *paths;
    struct faults *faults; /* NULL: none are injected */
    struct core *core;
    uint64_t incarnation;

    /* between any thread and the reactor */
    struct ring *submits, *events;
    struct calls *calls; /* open; the reactor, the watchdog and callers, under its lock */
    struct admission admission;
    int event_fd;
    struct lent lent;
    _Atomic uint32_t waiting; /* events in the ring */
    _Atomic uint64_t next_id;

    /* the reactor */
    pthread_t thread;
    bool threaded;                 /* the thread runs */
    struct latch ended;            /* it is at its end */
    sem_t go;                      /* posted once: every rank is ready, or the thread is to stop */
    _Atomic bool stop, abandon;    /* abandon: MPI is being finalised, nothing may be called any more */
    bool shut;                     /* everything is being ended */
    uint64_t close_until, loss_ns; /* while shut; loss_ns: when a loss was first known */
    bool leave_failed;             /* MPI did, towards rank 0 */
    int64_t loss;                  /* the rank without which it closes; -1: none */
    char close_why[WHY_BYTES];     /* under snapshot_lock: why windows cannot be freed; empty: they can */
    bool waits_for_quiet;          /* of calls that were given up, and nothing else */
    bool restless;                 /* it gave up before all was quiet */
    bool lost;                     /* a rank, or the control channel: no collective may follow */
    _Atomic uint64_t turn_ns;      /* when the turn under way began; 0: none */
    pthread_t watchdog;            /* makes no MPI call: it gives calls up when a turn does not end */
    bool watched;
    struct latch rest;          /* opened to end it */
    _Atomic bool stalled, told; /* told: it gave up calls that the reactor has not ended yet */
    uint64_t turns, sleeps, verdicts_lost, snapshot_due;
    bool snapshot_stale;
    struct outcome *held;        /* its event found no place yet */
    uint32_t peers[BATON_PATHS]; /* ranks of the world by path */

    pthread_mutex_t snapshot_lock;
    baton_stats_t stats;
    uint64_t reasons[BATON_REASONS];
    uint32_t num_ranks;
    uint64_t **reasons_of; /* by rank: as many; NULL where nothing failed */
    baton_pending_t pending[SNAPSHOT_PENDING];
    int num_pending;
};

/* reactor.c */

/** Makes the thread (BATON_PROGRESS_THREAD), which waits for `go`, so that all ranks can agree that theirs is there. */
int reactor_start(struct baton *b);

/**
 * Ends all transfers, waits until every rank has, and stops: the thread is joined. BATON_EPEER if it does not come to
 * rest within BATON_CLOSE_MS: then nothing that it used may be freed.
 */
int reactor_stop(struct baton *b);

/** MPI_Finalize was called while the context is open (`arg`): stops the reactor where it stands. */
void reactor_abandon(void *arg);

/** Makes and ends the watchdog. */
int stall_watch_start(struct baton *b);
void stall_watch_stop(struct baton *b);

/** Hands an event to the pollers and counts it by its reason. False: no place now. Never waits. Any thread. */
bool reactor_tell(struct baton *b, struct outcome *outcome);

/** After an idle turn, where nothing has happened since `idle_since`: how long to sleep now; 0: not at all. */
uint64_t reactor_rest_ns(struct baton *b, uint64_t idle_since);

/** One turn. True: something happened. The reactor's, or in caller mode the caller's. */
bool reactor_turn(struct baton *b);

/* lend.c */

/** Makes the descriptors. False: the system gives none. */
bool lend_init(struct baton *b);
void lend_fini(struct baton *b);

/** baton_start's last step: the calling thread is the one that lends itself. */
void lend_start(struct baton *b);

/** True in the thread that lends itself; nowhere where the reactor has its own. Any thread, after baton_start. */
bool lend_is_mine(const struct baton *b);

/** One turn in the calling thread, which lends itself from now on; none while another thread is in one. */
void lend_turn(struct baton *b);

#endif
