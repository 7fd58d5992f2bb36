/* SPDX-License-Identifier: BSD-3-Clause */
/* thread: the library's own threads. Signal handlers of the host program never run on them. */
#ifndef BATON_BASE_THREAD_H
#define BATON_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/**
 * pthread_create with all signals blocked and a name (at most 15 bytes). `cpus`: the hardware threads that it runs on
 * (base/cpus.h), if the system permits these; NULL: those of the caller. 0 or an errno number.
 */
int thread_start(pthread_t *thread, const char *name, const char *cpus, void *(*run)(void *arg), void *arg);

/** The hardware threads that a thread runs on, as a list; empty: unknown. */
void thread_cpus(pthread_t thread, char *list, size_t size);

#endif
