/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reactor: the loop. One thread at a time makes Baton's MPI calls after start: this one, or the one that hears rings of
 * other nodes (or the caller: front/caller.h).
 *
 * A turn drains submissions, collects what happened on the paths, steps the core and hands out events. What the reactor
 * does after a turn:
 *
 *   it spins    for spin_us; not after a turn that may have woken the engine, where all ranks are of one node
 *   it yields   as long as MPI must be polled for something under way: rma requests, messages, or a lease that a peer
 *               reads through this process' progress
 *   it sleeps   else, on its bell, which submissions, copy workers and peers of this node ring. A sleep ends at the
 *               next timer at the latest. Its length:
 *
 *     everything that can happen rings the bell   up to sleep_us; after a turn, for a while, no longer than rings are
 *                                                 put off (front/turns.h)
 *     peers on other nodes do not ring, or a      a quarter of the time since anything happened, up to idle_us: so what
 *     caller's loop sleeps                        rings no bell is noticed at most 25 % late, and a process that has
 *                                                 long been idle costs next to nothing
 *     peers on other nodes ring (mpi/doorbell.h)  a quarter of the time since the last ring to or from one of them, up
 *                                                 to sleep_us: whatever else happens rings the bell
 *
 *   Where turns are lent beside other nodes, the first row holds too: the sleep is the shorter one of both.
 *
 * LOOKS. A turn takes a bounded number of calls and events, so it may leave some behind. Timers of the core must not
 * act on what lies unread (core/timer.h). So a look begins with a mark in each queue. It ends, mostly in the same turn,
 * when all of them have handed out what lay before it. Timers that were due by its beginning may fire then. A turn that
 * is lent may begin a look, but does not end one where there are other nodes: the reactor does, which wakes for the
 * timers.
 *
 * While the thread sleeps, other threads may make its turns (front/turns.h).
 */
#ifndef BATON_FRONT_REACTOR_H
#define BATON_FRONT_REACTOR_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/latch.h"
#include "base/look.h"
#include "core/port.h"
#include "front/meter.h"
#include "front/turns.h"

#define LOOP_EVENTS 64 /* that a turn hears of */

struct baton;
struct outcome;

/* An outcome that was taken from the core, and not handed out yet; NULL: there is none. */
struct kept {
    struct outcome *outcome;
    bool is_passed; /* the engine is told of it */
};

/* A look at all that has come (see LOOKS). */
struct hearing {
    uint64_t look_ns;     /* when it began; 0: none is under way */
    uint64_t heard_ns;    /* all that had come by then was handed to the core */
    struct looking calls; /* those that are queued */
};

struct loop {
    /* the thread that opened the context */
    pthread_t thread;
    _Atomic bool is_threaded; /* `thread` runs. Read by any thread */
    /* any thread */
    sem_t go;                   /* posted once: every rank is ready, or the thread is to stop */
    _Atomic bool stop, abandon; /* abandon: MPI is being finalised, nothing may be called any more */
    struct latch ended;         /* the thread is at its end */
    _Atomic uint64_t turn_ns;   /* when the turn under way began; 0: none */
    _Atomic uint64_t judged_ns; /* what was due by then, the core has judged */
    struct turns turns;
    /* whoever makes turns */
    struct port_event events[LOOP_EVENTS]; /* of a turn: not on the stack of a thread that is lent */
    struct hearing hearing;
    struct kept kept;
    bool is_cut;  /* the last turn left some of what had happened to the next one */
    bool gave_up; /* it stopped before all was quiet */
    count_t num_turns, num_sleeps, verdicts_lost;
    uint32_t rings;   /* to and from other nodes, which the last turn has seen */
    uint64_t rung_ns; /* when it saw the last one */
    uint64_t snapshot_due_ns;
    bool snapshot_is_stale;
    uint64_t woke_ns; /* when the last turn that did anything woke a thread of the engine's, which needs a CPU, or 0 */
    /* any thread */
    _Atomic bool snapshot_is_wanted;
    _Atomic uint32_t snapshots; /* taken so far */
    /* whoever makes turns */
    struct meter meter;
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

/** Whether the thread is to end. Any thread. */
bool reactor_must_end(const struct loop *l);

/**
 * Asks for a snapshot, for a thread that reads it, and waits for it for a millisecond at most; then the snapshot is
 * that of an earlier turn. Any thread.
 */
void reactor_refresh(struct baton *b);

/** When the turn under way began; 0: none is. Any thread. */
uint64_t reactor_turn_ns(const struct baton *b);
/** When the last turn that has ended began; 0: none has. Any thread. */
uint64_t reactor_turned_ns(const struct baton *b);
/** What was due by then, the core has judged: all had been heard that came before. Any thread. */
uint64_t reactor_judged_ns(const struct baton *b);

/**
 * One turn, which begins now, at `began`. True: something happened. Whoever holds the lock of turns, who has read the
 * clock under it, or in caller mode the caller.
 */
bool reactor_turn(struct baton *b, uint64_t began);

/** Whether something is under way that no bell tells of, so that turns must follow each other. As reactor_turn. */
bool reactor_must_poll(const struct baton *b);

/** After an idle turn, where nothing has happened since `idle_since`: how long to sleep now; 0: not at all. */
uint64_t reactor_rest_ns(struct baton *b, uint64_t idle_since);

#endif
