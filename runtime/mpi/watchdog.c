/* SPDX-License-Identifier: BSD-3-Clause */
/* watchdog: see the header. */
#include "mpi/watchdog.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stderr_line.h"
#include "base/thread.h"

static void *watch(void *arg)
{
    struct watchdog *d = arg;
    char line[512];
    if (latch_wait_for(&d->over, d->limit_ms * CLOCK_NS_PER_MS))
        return NULL;
    /* At any log level: a process that leaves says why. */
    const int length = snprintf(line, sizeof line,
                                "baton: rank %d: the collective step '%s' has not returned after %" PRIu64
                                " ms (BATON_START_MS): a rank is missing or hangs. MPI cannot be interrupted; leaving "
                                "with status %d\n",
                                d->rank, d->step, d->limit_ms, WATCHDOG_EXIT_STATUS);
    stderr_line(line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
    _exit(WATCHDOG_EXIT_STATUS);
}

void watchdog_start(struct watchdog *d, const char *step, uint64_t limit_ms, int rank, const struct logger *log)
{
    *d = (struct watchdog){.step = step, .limit_ms = limit_ms, .rank = rank};
    latch_init(&d->over);
    int rc = thread_start(&d->thread, "baton-step", NULL, watch, d);
    d->is_started = rc == 0;
    if (rc != 0)
        log_line(log, LOG_WARN, "step '%s' is not watched: no thread could be made: %s", step, strerror(rc));
}

void watchdog_stop(struct watchdog *d)
{
    if (!d->is_started)
        return;
    latch_open(&d->over);
    pthread_join(d->thread, NULL);
}
