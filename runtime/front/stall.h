/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stall: a watchdog thread that makes no MPI call and looks whether the reactor's turns end. MPI cannot be interrupted.
 * While a turn lasts, calls are given up here when their time is over; where it lasts longer than BATON_STALL_MS (an
 * operation on a dead rank that never returns, say), all of them are, and what the engine calls is refused until the turn
 * ends after all.
 */
#ifndef BATON_FRONT_STALL_H
#define BATON_FRONT_STALL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/latch.h"

struct baton;

struct stall {
    /* the thread that opened the context */
    pthread_t thread;
    bool is_watching; /* `thread` runs */
    /* any thread */
    struct latch rest; /* opened to end it */
    _Atomic bool is_on;
    _Atomic bool has_given_up; /* calls that the reactor has not ended yet */
};

void stall_init(struct stall *s);

/** Makes and ends the watchdog. */
int stall_watch_start(struct baton *b);
void stall_watch_stop(struct baton *b);

/** The turn under way has lasted longer than BATON_STALL_MS. Any thread. */
bool stall_is_on(const struct stall *s);

/** The reactor's, after each step: whether calls were given up since it last asked. They are to end. */
bool stall_take_given_up(struct stall *s);
/** The turn went on. True: it was a stall. */
bool stall_end(struct stall *s);

#endif
