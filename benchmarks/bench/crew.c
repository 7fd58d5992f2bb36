/* SPDX-License-Identifier: BSD-3-Clause */
/* crew: see the header. */
#include "bench/crew.h"

#include <stdlib.h>

#include "base/clock.h"

/* False: there is no more work. */
static bool await_round(struct crew *t, uint64_t *seen)
{
    pthread_mutex_lock(&t->lock);
    while (t->round == *seen && !t->ends)
        pthread_cond_wait(&t->changed, &t->lock);
    *seen = t->round;
    bool goes_on = !t->ends;
    pthread_mutex_unlock(&t->lock);
    return goes_on;
}

static void *helper_main(void *arg)
{
    struct crew *t = arg;
    unsigned thread = 1 + atomic_fetch_add(&t->next, 1);
    uint64_t seen = 0;
    while (await_round(t, &seen)) {
        atomic_fetch_add(&t->awake, 1);
        while (!atomic_load(&t->go))
            ;
        t->part(t->arg, thread, t->num);
        atomic_fetch_add(&t->done, 1);
    }
    return NULL;
}

int crew_start(struct crew *t, unsigned num)
{
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    t->threads = calloc(num, sizeof *t->threads);
    if (t->threads == NULL)
        return -1;
    for (t->num = 1; t->num < num; t->num++)
        if (pthread_create(&t->threads[t->num], NULL, helper_main, t) != 0)
            return -1;
    return 0;
}

void crew_stop(struct crew *t)
{
    if (t->threads == NULL)
        return;
    pthread_mutex_lock(&t->lock);
    t->ends = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    for (unsigned i = 1; i < t->num; i++)
        pthread_join(t->threads[i], NULL);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t->threads);
    t->threads = NULL;
}

static void wake_helpers(struct crew *t)
{
    atomic_store(&t->go, false);
    atomic_store(&t->awake, 0);
    atomic_store(&t->done, 0);
    pthread_mutex_lock(&t->lock);
    t->round++;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    while (atomic_load(&t->awake) + 1 < t->num)
        ;
}

uint64_t crew_run(struct crew *t, void (*part)(void *arg, unsigned part, unsigned parts), void *arg)
{
    t->part = part;
    t->arg = arg;
    wake_helpers(t);
    uint64_t begin = clock_now_ns();
    atomic_store(&t->go, true);
    part(arg, 0, t->num);
    while (atomic_load(&t->done) + 1 < t->num)
        ;
    return clock_now_ns() - begin;
}
