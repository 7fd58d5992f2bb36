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

#include "base/ring.h"
#include "base/settings.h"
#include "core/core.h"
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

enum context_state { CONTEXT_OPEN, CONTEXT_STARTED, CONTEXT_FAILED };

#define SNAPSHOT_PENDING 64

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
    uint32_t num_events; /* places for events of BATON_REQUESTS calls */
    bool hears;          /* verdicts are told to this rank: each call has a place for one, and there are places for
                            as many of calls that other ranks made */
    _Atomic uint32_t strange_verdicts;
    int event_fd;
    _Atomic uint32_t open_events; /* places of events, of calls accepted and not yet polled */
    _Atomic uint32_t open_leases; /* offers and pushed wants accepted and not yet ended: each may need a lease */
    _Atomic uint32_t waiting;     /* events in the ring */
    _Atomic uint64_t next_id, refused;

    /* the reactor */
    pthread_t thread;
    bool threaded; /* the thread runs */
    sem_t go;      /* posted once: every rank is ready, or the thread is to stop */
    _Atomic bool stop;
    bool shut;                        /* everything is being ended */
    uint64_t close_until, census_due; /* while shut */
    bool restless;                    /* it gave up before all was quiet */
    bool lost;                        /* a rank, or the control channel: no collective may follow */
    _Atomic uint64_t turn_ns;         /* when the turn under way began; 0: none */
    pthread_t watchdog;               /* makes no MPI call: it ends the open calls when a turn does not end */
    bool watched;
    sem_t rest;                        /* posted to end it */
    _Atomic bool stalled, told;        /* told: it ended calls that the reactor has not given up yet */
    struct failure_log stall_failures; /* the watchdog's */
    uint64_t turns, sleeps, verdicts_lost, snapshot_due;
    bool snapshot_stale;
    struct core_submit *held;    /* an ended call whose event found no place yet */
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

/** Makes and ends the watchdog. */
int stall_watch_start(struct baton *b);
void stall_watch_stop(struct baton *b);

/** Counts an event that is about to be handed out, by its reason. Any thread. */
void reactor_count(struct baton *b, const baton_event_t *e);

/** Hands an ended call's record to the pollers. False: no place now. Any thread. */
bool reactor_publish(struct baton *b, struct core_submit *s);

/** One turn. True: something happened. The reactor's, or in caller mode the caller's. */
bool reactor_turn(struct baton *b);

#endif
