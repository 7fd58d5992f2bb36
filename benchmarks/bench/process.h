/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process: a rank's: where its threads run; a thread that computes without pause, as an engine does while its blocks
 * move, and counts its steps; what the process has cost so far; and its stop for a while. A thread inherits the CPUs of
 * the thread that creates it. So the caller starts the context on the reactor's CPU, and then moves to its own.
 */
#ifndef BENCH_PROCESS_H
#define BENCH_PROCESS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

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

/* ---- effort ------------------------------------------------------------------------------------------------------ */

/*
 * What this process has cost so far, as the kernel counts it: processor time and wake-ups of Baton's threads, MPI's and
 * the caller, without the computing thread of --busy. Reading it takes a system call a thread, so that it can stand
 * right before and after a transfer. The clock of the whole process would not do: it lags behind threads that run at
 * that moment.
 */
#define EFFORT_THREADS_MAX 64

/** The clocks of the threads. */
struct effort_meter {
    unsigned count;
    clockid_t clock[EFFORT_THREADS_MAX];
};

struct effort {
    uint64_t cpu_ns;
    uint64_t wakeups; /* how often a thread gave up its processor of its own: it slept, and was woken */
};

/** For the threads that this process has now. None of them may end before the last reading. */
void effort_meter_init(struct effort_meter *m, const struct busy *busy);

struct effort effort_read(const struct effort_meter *m);

/** What was spent from `before` until now. */
struct effort effort_since(const struct effort_meter *m, struct effort before);

void effort_add(struct effort *sum, struct effort more);

/** What the transfers of a row have cost both sides. */
struct cost {
    uint64_t transfers, bytes;
    struct effort consumer, producer;
};

/** So many more transfers, which moved so many bytes together. */
void cost_add(struct cost *c, uint64_t transfers, uint64_t bytes, struct effort consumer, struct effort producer);

/* The last cells of a row of transfers (report_row), where the median time of one of so many blocks is `ns`: µs a
   block (a descriptor of its table); CPU seconds a GiB; times that a thread was woken, a transfer. */
#define COST_COLUMNS                                                                                                   \
    "|us_block=%.3f|consumer_cpu_s_GiB=%.4f|producer_cpu_s_GiB=%.4f|consumer_wakeups=%.2f|producer_wakeups=%.2f"
#define COST_CELLS(c, ns, blocks)                                                                                      \
    (ns) / (double)(blocks) / 1e3, cost_cpu_s_gib(c, &(c)->consumer), cost_cpu_s_gib(c, &(c)->producer),               \
        (double)(c)->consumer.wakeups / (double)(c)->transfers, (double)(c)->producer.wakeups / (double)(c)->transfers
double cost_cpu_s_gib(const struct cost *c, const struct effort *side);

/* ---- the whole process ------------------------------------------------------------------------------------------- */

/**
 * A child that continues its stopped parent. It is made before MPI starts, since a process that uses MPI should not
 * fork. It sleeps until it is told to work, and ends with its parent.
 */
struct watcher {
    int pipe; /* the writing end; -1: there is no child */
};

/** 0, or -1. */
int watcher_create(struct watcher *w);
/** Stops this process, which the child continues after `seconds`. 0 then, or -1: it could not be stopped. */
int watcher_stop_me(struct watcher *w, double seconds);
/** Lets an unused child end. */
void watcher_destroy(struct watcher *w);

#endif
