/* SPDX-License-Identifier: BSD-3-Clause */
/* busy: a thread that computes without pause, as an engine does while its blocks move. */
#ifndef BENCH_BUSY_H
#define BENCH_BUSY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "bench/pin.h"

struct busy {
    const struct pin *pin;
    bool running;
    atomic_bool stop;
    pthread_t thread;
    double result; /* the result; stored so that the compiler cannot leave out the computation */
};

/** Starts the thread, free to run on any CPU of the process. 0 or an errno. */
int busy_start(struct busy *b, const struct pin *pin);
/** Ends the thread. Does nothing where none was started. */
void busy_stop(struct busy *b);

#endif
