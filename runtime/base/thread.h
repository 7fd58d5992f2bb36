/* SPDX-License-Identifier: BSD-3-Clause */
/* thread: the library's own threads. Signal handlers of the host program never run on them. */
#ifndef BATON_BASE_THREAD_H
#define BATON_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/**
 * pthread_create with all signals blocked but those of its own faults, and a name (at most 15 bytes). `cpus`: the
 * hardware threads that it runs on (base/cpus.h), if the system permits these; NULL: those of the caller. 0 or an errno
 * number.
 */
int thread_start(pthread_t *thread, const char *name, const char *cpus, void *(*run)(void *arg), void *arg);

/**
 * Asks the scheduler for a slice of so many us (0: none), and for a priority raised by so many nice steps, for the
 * thread that calls. A short slice brings it back to a CPU sooner among computing threads (Linux 6.12 and later;
 * ignored before), and needs no privilege. A raised priority does more, where it is permitted. Keeps errno.
 */
void thread_ask(uint64_t slice_us, uint64_t nice);

/** The hardware threads that a thread runs on, as a list; empty: unknown. */
void thread_cpus(pthread_t thread, char *list, size_t size);

#endif
