/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watchdog: a thread beside a blocking collective. MPI cannot be interrupted, so where such a call hangs past the
 * deadline (a rank is missing), the only way on is to say which step it was and to leave the process.
 *
 * The thread makes no MPI call. Between watchdog_start and watchdog_stop exactly one is alive.
 */
#ifndef BATON_MPI_WATCHDOG_H
#define BATON_MPI_WATCHDOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "observe/log.h"

#define WATCHDOG_EXIT_STATUS 70 /* EX_SOFTWARE: what the launcher sees of a rank that left by its watchdog */

struct watchdog {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool is_over, is_started;
    const char *step;
    uint64_t limit_ms;
    int rank;
};

/** Watches from now on. Where no thread can be made, that is logged, and the call goes on unwatched. */
void watchdog_start(struct watchdog *d, const char *step, uint64_t limit_ms, int rank, const struct logger *log);

/** The call returned: joins the thread. */
void watchdog_stop(struct watchdog *d);

#endif
