/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hush: holds Baton's reactor still while something else is measured in the same process.
 *
 * All threads of a process share MPI's progress and its locks: an idle reactor that looks for messages now and then,
 * at a raised priority, made raw MPI up to a hundred times slower where cores are few, and a comparison with that
 * would flatter Baton. The program is therefore linked with --wrap=fabric_progress: each turn of the reactor passes
 * here, between two MPI calls, and waits when asked to. Nothing of Baton may be under way then, unless the whole process
 * is to be stopped.
 */
#ifndef BENCH_HUSH_H
#define BENCH_HUSH_H

/** Asks the reactor to wait; returns when it does. */
void hush_begin(void);
/** Lets it go on. */
void hush_end(void);

#endif
