/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watchdog: see the header. It waits on a condition variable until the watched call is over or the deadline has passed.
 */
#include "mpi/watchdog.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"

static struct timespec deadline_in(uint64_t ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)(ms / 1000);
    t.tv_nsec += (long)(ms % 1000) * 1000000L;
    if (t.tv_nsec >= 1000000000L) {
        t.tv_nsec -= 1000000000L;
        t.tv_sec++;
    }
    return t;
}

static void *watch(void *arg)
{
    struct watchdog *d = arg;
    struct timespec deadline = deadline_in(d->limit_ms);
    int rc = 0;
    pthread_mutex_lock(&d->lock);
    while (!d->is_over && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&d->over, &d->lock, &deadline);
    bool hangs = !d->is_over;
    pthread_mutex_unlock(&d->lock);
    if (!hangs)
        return NULL;
    /* At any log level: a process that leaves says why. */
    dprintf(STDERR_FILENO,
            "baton: rank %d: the collective step '%s' has not returned after %" PRIu64 " ms (BATON_START_MS): a rank "
            "is missing or hangs. MPI cannot be interrupted; leaving with status %d\n",
            d->rank, d->step, d->limit_ms, WATCHDOG_EXIT_STATUS);
    _exit(WATCHDOG_EXIT_STATUS);
}

void watchdog_start(struct watchdog *d, const char *step, uint64_t limit_ms, int rank, const struct logger *log)
{
    pthread_condattr_t monotonic;
    memset(d, 0, sizeof *d);
    d->step = step;
    d->limit_ms = limit_ms;
    d->rank = rank;
    pthread_mutex_init(&d->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&d->over, &monotonic);
    pthread_condattr_destroy(&monotonic);

    int rc = thread_start(&d->thread, "baton-step", NULL, watch, d);
    d->is_started = rc == 0;
    if (rc != 0)
        log_line(log, LOG_WARN, "step '%s' is not watched: no thread could be made: %s", step, strerror(rc));
}

void watchdog_stop(struct watchdog *d)
{
    if (d->is_started) {
        pthread_mutex_lock(&d->lock);
        d->is_over = true;
        pthread_cond_signal(&d->over);
        pthread_mutex_unlock(&d->lock);
        pthread_join(d->thread, NULL);
    }
    pthread_cond_destroy(&d->over);
    pthread_mutex_destroy(&d->lock);
}
