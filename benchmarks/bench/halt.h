/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halt: holds Baton's reactor still while something else is measured in the same process, or stops the whole process
 * for a while.
 *
 * All threads of a process share MPI's progress and its locks: an idle reactor looks for messages now and then, at a
 * raised priority. Where CPUs are few, this made raw MPI up to a hundred times slower, and a comparison with that
 * would flatter Baton. So the program is linked with --wrap=control_progress: each turn of the reactor passes here,
 * between two MPI calls, and waits if it is asked to. No transfer of Baton's may be under way then, unless the whole
 * process is to be stopped.
 */
#ifndef BENCH_HALT_H
#define BENCH_HALT_H

/**
 * Asks the reactor to wait; returns when it does, or when it has made no turn for 20 ms: a reactor that sleeps until it
 * is rung holds still anyway, and its next turn waits.
 */
void halt_begin(void);
/** Lets it go on. */
void halt_end(void);

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
