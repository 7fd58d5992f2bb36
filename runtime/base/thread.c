/* SPDX-License-Identifier: BSD-3-Clause */
/* thread: see thread.h. */
#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpus.h"

/* EINVAL: the list is malformed, or the system permits none of these. */
static int create_on(pthread_t *thread, const char *list, void *(*run)(void *arg), void *arg)
{
    struct cpus cpus;
    pthread_attr_t attributes;
    int rc = !cpus_init(&cpus) ? ENOMEM : cpus_read(&cpus, list) ? pthread_attr_init(&attributes) : EINVAL;
    if (rc == 0) {
        rc = pthread_attr_setaffinity_np(&attributes, cpus.bytes, cpus.set);
        if (rc == 0)
            rc = pthread_create(thread, &attributes, run, arg);
        pthread_attr_destroy(&attributes);
    }
    cpus_fini(&cpus);
    return rc;
}

int thread_start(pthread_t *thread, const char *name, const char *cpus, void *(*run)(void *arg), void *arg)
{
    /* Faults of the thread itself: a handler of the engine's may tell of them, or supply memory. */
    static const int own[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS};
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&all, own[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = cpus != NULL ? create_on(thread, cpus, run, arg) : EINVAL;
    if (rc != 0)
        rc = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        pthread_setname_np(*thread, name);
    return rc;
}

void thread_cpus(pthread_t thread, char *list, size_t size)
{
    struct cpus cpus;
    if (size > 0)
        list[0] = '\0';
    if (cpus_init(&cpus) && pthread_getaffinity_np(thread, cpus.bytes, cpus.set) == 0)
        cpus_write(&cpus, list, size);
    cpus_fini(&cpus);
}

struct sched_attributes { /* sched_setattr(2) has no wrapper in the C library of older systems */
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

void thread_ask(uint64_t slice_us, uint64_t nice)
{
    const int saved = errno;
    struct sched_attributes a = {.size = sizeof a, .policy = SCHED_OTHER, .runtime = slice_us * 1000};
    errno = 0;
    int own = getpriority(PRIO_PROCESS, 0);
    if (errno != 0)
        own = 0;
    a.nice = own - (int)nice < -20 ? -20 : own - (int)nice;
    if (syscall(SYS_sched_setattr, 0, &a, 0) != 0) {
        a.nice = own;
        syscall(SYS_sched_setattr, 0, &a, 0); /* if an older system refuses this too, the slice stays as it is */
    }
    errno = saved;
}
