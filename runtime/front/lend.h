/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lend: progress by the caller's thread (BATON_PROGRESS_CALLER), inside baton_poll and baton_progress.
 *
 * An engine's loop that sleeps on baton_event_fd must also wake up to make turns. So that descriptor is an epoll set of
 * two: the descriptor of the events, and a timer that runs out when a reactor thread would have ended its sleep.
 */
#ifndef BATON_FRONT_LEND_H
#define BATON_FRONT_LEND_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/owned.h"

struct baton;

struct lent {
    int wake_fd, timer_fd;     /* the epoll set, and the timer in it; -1: none */
    _Atomic(pthread_t) thread; /* the thread whose baton_poll makes turns. Any thread reads this */
    struct owned turn;         /* held while a turn is under way. Its holder owns the fields below */
    bool is_due;               /* the timer ran out, or will at once */
    uint64_t idle_since;       /* when turns began to find nothing to do; 0: the last turn did something */
};

void lend_init(struct lent *l);
/** Makes the descriptors. False: the system gives none. */
bool lend_open(struct lent *l, int event_fd);
void lend_fini(struct lent *l);
/** The epoll set; -1: the reactor has a thread of its own. */
int lend_fd(const struct lent *l);

/** The calling thread is the one that makes turns from now on. Any thread. */
void lend_take(struct lent *l);
/** The last step of start: there is something to make turns for. */
void lend_start(struct lent *l);

/** Whether the calling thread is the one that makes turns. False if the reactor has its own. Any thread. */
bool lend_is_mine(const struct baton *b);

/** Makes one turn in the calling thread, which makes turns from now on. Nothing, while another thread makes one. */
void lend_turn(struct baton *b);

#endif
