/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watcher: a child that continues its stopped parent. It is made before MPI starts, since a process that uses MPI
 * should not fork. It sleeps until it is told to work, and ends with its parent.
 */
#ifndef BENCH_WATCHER_H
#define BENCH_WATCHER_H

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
