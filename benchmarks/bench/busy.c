/* SPDX-License-Identifier: BSD-3-Clause */
/* busy: see busy.h. A step takes some ten microseconds. */
#include "bench/busy.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#define ITERATIONS 4096
#define MEMORY_WORDS ((size_t)8 << 20) /* 64 MiB */
#define STEP_WORDS ((size_t)16 << 10)

static double add_up(const double *words)
{
    double sums[4] = {0};
    for (size_t i = 0; i < STEP_WORDS; i += 4)
        for (size_t k = 0; k < 4; k++)
            sums[k] += words[i + k];
    return sums[0] + sums[1] + sums[2] + sums[3];
}

static void *compute(void *arg)
{
    struct busy *b = arg;
    double x = 1.0, y = 0.5;
    size_t at = 0;
    atomic_store(&b->id, (int)gettid());
    pin_to_all(b->pin);
    while (!atomic_load_explicit(&b->stop, memory_order_relaxed)) {
        for (int i = 0; b->work == BUSY_REGISTERS && i < ITERATIONS; i++) {
            x = x * 0.999999 + y;
            y = y * 1.000001 - x * 1e-7;
        }
        if (b->work == BUSY_MEMORY) {
            x += add_up(b->memory + at);
            at = (at + STEP_WORDS) % MEMORY_WORDS;
        }
        atomic_fetch_add_explicit(&b->steps, 1, memory_order_relaxed);
    }
    b->result = x + y;
    return NULL;
}

int busy_start(struct busy *b, const struct pin *pin)
{
    b->pin = pin;
    b->memory = b->work == BUSY_MEMORY ? malloc(MEMORY_WORDS * sizeof *b->memory) : NULL;
    if (b->work == BUSY_MEMORY && b->memory == NULL)
        return ENOMEM;
    for (size_t i = 0; b->memory && i < MEMORY_WORDS; i++)
        b->memory[i] = (double)i;
    atomic_store(&b->stop, false);
    atomic_store(&b->id, 0);
    int rc = pthread_create(&b->thread, NULL, compute, b);
    b->running = rc == 0;
    while (b->running && atomic_load(&b->id) == 0)
        sched_yield();
    return rc;
}

void busy_stop(struct busy *b)
{
    if (!b->running)
        return;
    atomic_store(&b->stop, true);
    pthread_join(b->thread, NULL);
    free(b->memory);
    b->memory = NULL;
    b->running = false;
}

const char *busy_work_name(enum busy_work work)
{
    static const char *const names[] = {"registers", "memory"};
    return names[work];
}
