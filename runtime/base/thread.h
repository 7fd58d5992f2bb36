/* SPDX-License-Identifier: BSD-3-Clause */
/* thread: the library's own threads. Signal handlers of the host program never run on them. */
#ifndef BATON_BASE_THREAD_H
#define BATON_BASE_THREAD_H

#include <pthread.h>

/** pthread_create with all signals blocked and a name (at most 15 bytes). 0 or an errno number. */
int thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg);

#endif
