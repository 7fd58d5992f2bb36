/* SPDX-License-Identifier: BSD-3-Clause */
/* busy: see busy.h. Arithmetic in registers: it takes the cores' time, and leaves the memory bandwidth to the
   transfers. */
#include "replay/busy.h"

#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 100000 /* between two looks at the stop word */

static void *compute(void *argument)
{
    struct busy_thread *self = argument;
    volatile double *result = &self->result;
    double x = 1.0;
    while (!atomic_load_explicit(self->stop, memory_order_relaxed)) {
        for (int i = 0; i < STEPS; i++)
            x = x * 1.0000001 + 1e-9;
        *result = x;
        if (x > 1e9)
            x = 1.0;
    }
    return NULL;
}

uint32_t busy_threads(int sharers)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0 || sharers <= 0)
        return 1;
    return (uint32_t)((CPU_COUNT(&cpus) + sharers - 1) / sharers);
}

int busy_start(struct busy *b, uint32_t count, struct why *why)
{
    b->count = 0;
    atomic_init(&b->stop, false);
    b->threads = calloc(count, sizeof *b->threads);
    if (b->threads == NULL)
        return why_set(why, "no memory for %u computing threads", count);
    while (b->count < count) {
        struct busy_thread *t = &b->threads[b->count];
        t->stop = &b->stop;
        const int rc = pthread_create(&t->thread, NULL, compute, t);
        if (rc != 0) {
            busy_stop(b);
            return why_set(why, "cannot start a computing thread: %s", strerror(rc));
        }
        b->count++;
    }
    return 0;
}

void busy_stop(struct busy *b)
{
    atomic_store_explicit(&b->stop, true, memory_order_relaxed);
    for (uint32_t i = 0; i < b->count; i++)
        pthread_join(b->threads[i].thread, NULL);
    free(b->threads);
    b->threads = NULL;
    b->count = 0;
}
