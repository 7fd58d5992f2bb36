/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stall: a watchdog thread that looks whether the reactor's turns end. It makes no MPI call, since a call of MPI
 * cannot be interrupted. While a turn lasts, the watchdog gives up calls whose time is over. When a turn has lasted
 * longer than BATON_STALL_MS (say, an operation on a dead rank never returns), it gives up all calls, and the engine's
 * calls are refused until the turn ends.
 */
#ifndef BATON_FRONT_STALL_H
#define BATON_FRONT_STALL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/latch.h"

struct baton;

struct stall {
    /* the thread that opened the context */
    pthread_t thread;
    bool is_watching; /* `thread` runs */
    /* any thread */
    struct latch rest;         /* opened to end it */
    _Atomic uint64_t turn_ns;  /* when the last turn began that lasted too long; 0: none has */
    _Atomic uint64_t over_ns;  /* when the last turn began of which the reactor knows that, and goes on */
    _Atomic bool has_given_up; /* calls, and the reactor has not taken notice yet */
};

void stall_init(struct stall *s);

/** Makes and ends the watchdog. */
int stall_watch_start(struct baton *b);
void stall_watch_stop(struct baton *b);

/** The turn under way has lasted longer than BATON_STALL_MS. Any thread. */
bool stall_is_on(const struct baton *b);

/** Whether calls were given up since the last time that this was asked. The reactor ends them then. */
bool stall_take_given_up(struct stall *s);
/** The reactor goes on in its turn. True: it was stalled. */
bool stall_end(struct baton *b);

#endif
