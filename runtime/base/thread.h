/* SPDX-License-Identifier: BSD-3-Clause */
/* thread: threads of the library's own, on which the host program's signal handlers never run. */
#ifndef BATON_BASE_THREAD_H
#define BATON_BASE_THREAD_H

#include <pthread.h>

/** pthread_create with all signals blocked and a name (at most 15 bytes). 0 or an errno number. */
int thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg);

#endif
