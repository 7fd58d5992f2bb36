/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reactor: the loop. One thread makes all of Baton's MPI calls after start (or the caller's: see lend.h).
 *
 * A turn drains submissions, collects what happened on the paths, steps the core and hands out events. Between turns
 * it idles by degrees: it spins BATON_SPIN_US; then, where MPI must be polled for something under way (rma requests,
 * messages, or a lease that a peer reads through this process' progress), it yields; else it sleeps on the doorbell,
 * which submissions, copy workers and peers of this node ring. A sleep lasts until the next timer at most, and
 * BATON_SLEEP_US where every peer shares the node. With peers on other nodes, and where a caller's loop sleeps, it
 * lasts a quarter of the time that nothing has happened, up to BATON_IDLE_US: what rings no doorbell is noticed late by
 * at most a quarter of the time that it took, and a process that has long been idle costs next to nothing.
 *
 * While the thread sleeps, it lends its turns: a thread of the engine that makes a call takes the next ones itself,
 * where nothing of MPI is needed (paths_can_spare_mpi). So a short transfer within a node wakes nobody. Whoever
 * makes turns holds `lock`; a call that finds it taken leaves all to the reactor, so no caller waits for it.
 */
#ifndef BATON_FRONT_REACTOR_H
#define BATON_FRONT_REACTOR_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/latch.h"

struct baton;
struct outcome;

struct loop {
    /* the thread that opened the context */
    pthread_t thread;
    bool is_threaded; /* `thread` runs */
    /* any thread */
    sem_t go;                   /* posted once: every rank is ready, or the thread is to stop */
    _Atomic bool stop, abandon; /* abandon: MPI is being finalised, nothing may be called any more */
    struct latch ended;         /* the thread is at its end */
    _Atomic uint64_t turn_ns;   /* when the turn under way began; 0: none */
    pthread_mutex_t lock;       /* who has it makes turns, and owns what follows */
    bool lends;                 /* turns are lent: the thread has begun its loop, and nothing closes */
    bool can_lend;              /* they can be, in this world; set before the thread begins */
    bool is_lent;               /* the turn under way is a caller's */
    uint64_t woken_ns;          /* when the thread wakes of itself; 0: it does not sleep */
    _Atomic uint64_t lent_ns;   /* how long callers made turns since events were last polled */
    _Atomic bool owes;          /* rings that a caller put off */
    struct outcome *held;       /* taken from the core, and not handed out yet */
    bool gave_up;               /* it stopped before all was quiet */
    uint64_t turns, sleeps, verdicts_lost;
    uint64_t snapshot_due_ns;
    bool snapshot_is_stale;
};

void reactor_init(struct loop *l);
void reactor_fini(struct loop *l);

/** Makes the thread, which waits for reactor_go. Under BATON_PROGRESS_CALLER there is none to make. */
int reactor_start(struct baton *b);
/** Every rank is ready: the thread begins its turns. */
void reactor_go(struct baton *b);

/**
 * Ends all transfers, waits until every rank has done so, and joins the thread. BATON_EPEER if this rank does not come
 * to rest within BATON_CLOSE_MS: then nothing that the reactor used may be freed.
 */
int reactor_stop(struct baton *b);

/** MPI_Finalize was called while the context (`arg`) is open: stops the reactor at the end of its turn. */
void reactor_abandon(void *arg);

/** A call was queued: makes turns in this thread if it is quick and they are lent, else wakes the reactor. */
void reactor_call(struct baton *b, bool is_quick);
/** Events were polled, and there were any or none: calls may make turns again. Any thread. */
void reactor_polled(struct baton *b, bool any);

/** Whether the thread is to end. Any thread. */
bool reactor_must_end(const struct loop *l);

/** When the turn under way began; 0: none is. Any thread. */
uint64_t reactor_turn_ns(const struct baton *b);

/** One turn. True: something happened. The reactor's thread, or in caller mode the caller's. */
bool reactor_turn(struct baton *b);

/** After an idle turn, where nothing has happened since `idle_since`: how long to sleep now; 0: not at all. */
uint64_t reactor_rest_ns(struct baton *b, uint64_t idle_since);

#endif
