/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * busy: where the threads of a rank run, and a thread that computes without pause, as an engine does while its
 * blocks move, and counts its steps. A thread inherits the CPUs of the thread that creates it. So the caller starts
 * the context on the reactor's CPU, and then moves to its own.
 */
#ifndef BENCH_BUSY_H
#define BENCH_BUSY_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pin {
    cpu_set_t allowed; /* of the process, as it was started */
    int caller, reactor;
    bool apart; /* the two are different CPUs */
};

void pin_init(struct pin *p);
/** Moves the calling thread to that CPU of the two, if they are apart. Fails where it cannot. */
void pin_to(const struct pin *p, int cpu);

enum busy_work {
    BUSY_REGISTERS, /* arithmetic: it takes a core, and no memory bandwidth */
    BUSY_MEMORY,    /* sums over more memory than caches hold */
    BUSY_WORKS
};

struct busy {
    const struct pin *pin;
    enum busy_work work;
    bool wanted; /* contexts that are opened from now on have the thread beside them */
    bool running;
    atomic_bool stop;
    pthread_t thread;
    _Atomic int id; /* the kernel's, of the thread; busy_start waits for it */
    _Atomic uint64_t steps;
    double *memory; /* BUSY_MEMORY */
    double result;  /* the result; stored so that the compiler cannot leave out the computation */
};

/** Starts the thread, free to run on any CPU of the process. Fails where it cannot. */
void busy_start(struct busy *b, const struct pin *pin);
/** Ends the thread. Does nothing where none was started. */
void busy_stop(struct busy *b);

/** "registers", "memory". */
const char *busy_work_name(enum busy_work work);

#endif
