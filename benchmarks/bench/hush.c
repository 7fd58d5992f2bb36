/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hush: see the header. The state is static, since the linker's wrapper gets no pointer to it: one context at a time.
 * The main thread asks, and the reactor's thread waits.
 */
#include "bench/hush.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "mpi/fabric.h"

#define ASLEEP_NS 20000000L /* after which a reactor that has made no turn is asleep */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static atomic_bool wanted; /* every turn reads it without the lock: a late read costs one turn */
static bool waiting;       /* under the lock */

int __real_fabric_progress(struct fabric *f, struct port_event *events, int max);
int __wrap_fabric_progress(struct fabric *f, struct port_event *events, int max);

static void wait_if_asked(void)
{
    if (!atomic_load_explicit(&wanted, memory_order_relaxed))
        return;
    pthread_mutex_lock(&lock);
    waiting = true;
    pthread_cond_broadcast(&changed);
    while (atomic_load_explicit(&wanted, memory_order_relaxed))
        pthread_cond_wait(&changed, &lock);
    waiting = false;
    pthread_mutex_unlock(&lock);
}

int __wrap_fabric_progress(struct fabric *f, struct port_event *events, int max)
{
    wait_if_asked();
    return __real_fabric_progress(f, events, max);
}

void hush_begin(void)
{
    pthread_mutex_lock(&lock);
    atomic_store_explicit(&wanted, true, memory_order_relaxed);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ASLEEP_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!waiting && pthread_cond_timedwait(&changed, &lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&lock);
}

void hush_end(void)
{
    pthread_mutex_lock(&lock);
    atomic_store_explicit(&wanted, false, memory_order_relaxed);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
