/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * caller: progress by the caller's thread (BATON_PROGRESS_CALLER), inside baton_poll and baton_progress.
 *
 * An engine's loop that sleeps on baton_event_fd must also wake up to make turns. So that descriptor is an epoll set of
 * two: the descriptor of the events, and a timer that runs out when a reactor thread would have ended its sleep.
 */
#ifndef BATON_FRONT_CALLER_H
#define BATON_FRONT_CALLER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/owned.h"

struct baton;

struct caller {
    int wake_fd, timer_fd;     /* the epoll set, and the timer in it; -1: none */
    _Atomic(pthread_t) thread; /* the thread whose baton_poll makes turns. Any thread reads this */
    struct owned turn;         /* held while a turn is under way. Its holder owns the fields below */
    bool is_due;               /* the timer ran out, or will at once */
    uint64_t idle_since;       /* when turns began to find nothing to do; 0: the last turn did something */
};

void caller_init(struct caller *l);
/** Makes the descriptors. False: the system gives none. */
bool caller_open(struct caller *l, int event_fd);
void caller_fini(struct caller *l);
/** The epoll set; -1: the reactor has a thread of its own. */
int caller_fd(const struct caller *l);

/** The calling thread is the one that makes turns from now on. Any thread. */
void caller_take(struct caller *l);
/** The last step of start: there is something to make turns for. */
void caller_start(struct caller *l);

/** Whether the calling thread is the one that makes turns. False if the reactor has its own. Any thread. */
bool caller_is_mine(const struct baton *b);

/** Makes one turn in the calling thread, which makes turns from now on. Nothing, while another thread makes one. */
void caller_turn(struct baton *b);

#endif
