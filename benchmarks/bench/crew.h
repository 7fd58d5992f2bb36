/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crew: threads that do parts of one piece of work at the same time. All of them are awake when the clock starts. Part
 * 0 is the caller's.
 */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct crew {
    unsigned num; /* the caller too */
    pthread_t *threads;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t round; /* under the lock; changes when work begins */
    bool ends;      /* under the lock */
    atomic_uint next, awake, done;
    atomic_bool go;
    void (*part)(void *arg, unsigned part, unsigned parts);
    void *arg;
};

/** *t zeroed before. 0, or -1: not so many threads can be had; crew_stop ends those that there are. */
int crew_start(struct crew *t, unsigned num);
/** Of a crew that was not started too. */
void crew_stop(struct crew *t);

/** Runs all parts, and returns the nanoseconds until the last one is done. `arg` is the crew's meanwhile. */
uint64_t crew_run(struct crew *t, void (*part)(void *arg, unsigned part, unsigned parts), void *arg);

#endif
