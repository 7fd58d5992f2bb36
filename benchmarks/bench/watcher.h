/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watcher: a child that continues its stopped parent. Made before MPI starts (a fork of an MPI process is asking for
 * trouble), it sleeps until told, and ends with its parent.
 */
#ifndef BENCH_WATCHER_H
#define BENCH_WATCHER_H

struct watcher {
    int pipe; /* the writing end; -1: there is no child */
};

/** 0, or -1. */
int watcher_create(struct watcher *w);
/** Stops this process; the child continues it after `seconds`. Returns then. 0, or -1 (was not stopped). */
int watcher_stop_me(struct watcher *w, double seconds);
/** Lets an unused child end. */
void watcher_destroy(struct watcher *w);

#endif
