/* SPDX-License-Identifier: BSD-3-Clause */
/* busy: threads that compute without pause, as an engine does while its blocks move. */
#ifndef REPLAY_BUSY_H
#define REPLAY_BUSY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "option/why.h"

struct busy_thread {
    pthread_t thread;
    double result; /* the result; stored so that the compiler cannot leave out the computation */
    atomic_bool *stop;
};

struct busy {
    atomic_bool stop; /* orders nothing: the threads share no data with anyone */
    uint32_t count;
    struct busy_thread *threads;
};

/** How many threads a rank starts so that every CPU of the node computes: its CPUs are shared out among `sharers`
   ranks. */
uint32_t busy_threads(int sharers);

/** 0, or -1 with *why, and no thread runs. */
int busy_start(struct busy *b, uint32_t count, struct why *why);
void busy_stop(struct busy *b);

#endif
