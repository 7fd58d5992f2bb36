/* SPDX-License-Identifier: BSD-3-Clause */
/* thread: see thread.h. */
#include "base/thread.h"

#include <signal.h>

int thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        pthread_setname_np(*thread, name);
    return rc;
}
