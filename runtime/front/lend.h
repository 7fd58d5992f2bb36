/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lend: progress by the caller's thread (BATON_PROGRESS_CALLER), inside baton_poll and baton_progress. An engine's loop
 * that sleeps on baton_event_fd must be woken for turns too: the descriptor is an epoll set of the events' own and of a
 * timer, which runs out when the reactor thread would have ended its sleep.
 */
#ifndef BATON_FRONT_LEND_H
#define BATON_FRONT_LEND_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct baton;

struct lent {
    int wake_fd, timer_fd;     /* -1: none. What baton_event_fd gives, and the timer in it */
    _Atomic(pthread_t) thread; /* whose calls of baton_poll make turns. Any thread reads it */
    atomic_bool is_busy;       /* a turn is under way. Whoever sets it owns what follows, until it clears it */
    bool is_due;               /* the timer ran out, or will at once */
    uint64_t idle_since;       /* 0: the last turn had something to do */
};

void lend_init(struct lent *l);
/** Makes the descriptors. False: the system gives none. */
bool lend_open(struct lent *l, int event_fd);
void lend_fini(struct lent *l);
/** What the engine sleeps on; -1: threads do not lend themselves here. */
int lend_fd(const struct lent *l);

/** baton_start's last step: the calling thread is the one that lends itself. */
void lend_start(struct lent *l);

/** True in the thread that lends itself; nowhere where the reactor has its own. Any thread, after baton_start. */
bool lend_is_mine(const struct baton *b);

/** One turn in the calling thread, which lends itself from now on; none while another thread is in one. */
void lend_turn(struct baton *b);

#endif
