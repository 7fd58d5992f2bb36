/* SPDX-License-Identifier: BSD-3-Clause */
/* watcher: the child takes one command, the time to sleep. At the end of the pipe the parent is gone. */
#include "bench/watcher.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

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
