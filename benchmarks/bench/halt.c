/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halt: see the header. The reactor's state is static, since the linker's wrapper gets no pointer to it: one context
 * at a time. The main thread asks, and the reactor's thread waits. The child takes one command, the time to sleep;
 * at the end of the pipe the parent is gone.
 */
#include "bench/halt.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "core/port.h"

#define ASLEEP_NS 20000000L /* after which a reactor that has made no turn is asleep */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static atomic_bool wanted; /* every turn reads it without the lock: a late read costs one turn */
static bool waiting;       /* under the lock */

struct control;

int __real_control_progress(struct control *c, struct port_event *events, int max);
int __wrap_control_progress(struct control *c, struct port_event *events, int max);

static void wait_if_asked(void)
{
    if (!atomic_load_explicit(&wanted, memory_order_relaxed))
        return;
    pthread_mutex_lock(&lock);
    waiting = true;
    pthread_cond_broadcast(&changed);
    while (atomic_load_explicit(&wanted, memory_order_relaxed))
        pthread_cond_wait(&changed, &lock);
    waiting = false;
    pthread_mutex_unlock(&lock);
}

int __wrap_control_progress(struct control *c, struct port_event *events, int max)
{
    wait_if_asked();
    return __real_control_progress(c, events, max);
}

void halt_begin(void)
{
    pthread_mutex_lock(&lock);
    atomic_store_explicit(&wanted, true, memory_order_relaxed);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ASLEEP_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!waiting && pthread_cond_timedwait(&changed, &lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&lock);
}

void halt_end(void)
{
    pthread_mutex_lock(&lock);
    atomic_store_explicit(&wanted, false, memory_order_relaxed);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* ---- the whole process ------------------------------------------------------------------------------------------- */

static void watch(int from, pid_t parent)
{
    double seconds;
    if (read(from, &seconds, sizeof seconds) != (ssize_t)sizeof seconds)
        _exit(0);
    struct timespec left = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0)
        ;
    if (getppid() == parent)
        kill(parent, SIGCONT);
    _exit(0);
}

int watcher_create(struct watcher *w)
{
    int ends[2];
    pid_t parent = getpid();
    w->pipe = -1;
    if (pipe(ends) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        /* The launcher waits until these streams are closed, so the child must not keep them open. */
        close(STDIN_FILENO);
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        watch(ends[0], parent);
    }
    close(ends[0]);
    if (child < 0) {
        close(ends[1]);
        return -1;
    }
    w->pipe = ends[1];
    return 0;
}

int watcher_stop_me(struct watcher *w, double seconds)
{
    if (w->pipe < 0 || write(w->pipe, &seconds, sizeof seconds) != (ssize_t)sizeof seconds)
        return -1;
    return raise(SIGSTOP) == 0 ? 0 : -1;
}

void watcher_destroy(struct watcher *w)
{
    if (w->pipe >= 0)
        close(w->pipe);
    w->pipe = -1;
}
