/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hush: holds Baton's reactor still while something else is measured in the same process.
 *
 * All threads of a process share MPI's progress and its locks: an idle reactor looks for messages now and then, at a
 * raised priority. Where cores are few, this made raw MPI up to a hundred times slower, and a comparison with that
 * would flatter Baton. So the program is linked with --wrap=fabric_progress: each turn of the reactor passes here,
 * between two MPI calls, and waits if it is asked to. No transfer of Baton's may be under way then, unless the whole
 * process is to be stopped.
 */
#ifndef BENCH_HUSH_H
#define BENCH_HUSH_H

/**
 * Asks the reactor to wait; returns when it does, or when it has made no turn for 20 ms: a reactor that sleeps until it
 * is rung holds still anyway, and its next turn waits.
 */
void hush_begin(void);
/** Lets it go on. */
void hush_end(void);

#endif
