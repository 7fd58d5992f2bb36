/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watchdog: a thread beside a blocking collective. MPI cannot be interrupted: where such a call hangs past the
 * deadline, since a rank is missing, all that remains is to say which step it was and to leave the process.
 *
 * The thread lives from watchdog_start to watchdog_stop, blocks all signals, and makes no MPI call.
 */
#ifndef BATON_MPI_WATCHDOG_H
#define BATON_MPI_WATCHDOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/latch.h"
#include "observe/log.h"

#define WATCHDOG_EXIT_STATUS 70 /* EX_SOFTWARE: the status of a rank that its watchdog ended */

struct watchdog {
    pthread_t thread;
    bool is_started;
    struct latch over; /* the call is */
    const char *step;
    uint64_t limit_ms;
    int rank;
};

/** Watches from now on. Where no thread can be made, this is logged, and the call goes on unwatched. */
void watchdog_start(struct watchdog *d, const char *step, uint64_t limit_ms, int rank, const struct logger *log);

/** The call has returned: joins the thread. */
void watchdog_stop(struct watchdog *d);

#endif
