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
#include "front/fault.h"
#include "front/paths.h"
#include "mpi/fabric.h"
#include "observe/log.h"
#include "topo/topo.h"

struct baton_cache {
    baton_geometry_t geometry; /* tensors: our copy */
    void *base;                /* after start */
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
    uint32_t num_events; /* places for events: BATON_REQUESTS calls' */
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
    bool lost; /* it could not be stopped in order */
    uint64_t turns, sleeps, snapshot_due;
    bool snapshot_stale;
    struct core_submit *held;    /* an ended call whose event found no place yet */
    uint32_t peers[BATON_PATHS]; /* ranks of the world by path */

    pthread_mutex_t snapshot_lock;
    baton_stats_t stats;
    baton_pending_t pending[SNAPSHOT_PENDING];
    int num_pending;
};

/* reactor.c */

/** Makes the thread (BATON_PROGRESS_THREAD), which waits for `go`, so that all ranks can agree that theirs is there. */
int reactor_start(struct baton *b);

/**
 * Ends all transfers and stops: the thread is joined. BATON_EPEER if it does not come to rest within BATON_START_MS:
 * then it is left alone and nothing of it may be freed.
 */
int reactor_stop(struct baton *b);

/** One turn. True: something happened. The reactor's, or in caller mode the caller's. */
bool reactor_turn(struct baton *b);

#endif
