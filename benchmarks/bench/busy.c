/* SPDX-License-Identifier: BSD-3-Clause */
/* busy: see busy.h. A step takes some ten microseconds. */
#include "bench/busy.h"

#include <stdlib.h>
#include <unistd.h>

#include "bench/fail.h"

#define ITERATIONS 4096
#define MEMORY_WORDS ((size_t)8 << 20) /* 64 MiB */
#define STEP_WORDS ((size_t)16 << 10)

void pin_init(struct pin *p)
{
    *p = (struct pin){.caller = -1, .reactor = -1};
    CPU_ZERO(&p->allowed);
    if (sched_getaffinity(0, sizeof p->allowed, &p->allowed) != 0)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &p->allowed))
            continue;
        if (p->caller < 0)
            p->caller = cpu;
        p->reactor = cpu;
    }
    p->apart = p->caller != p->reactor;
}

void pin_to(const struct pin *p, int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (p->apart && sched_setaffinity(0, sizeof set, &set) != 0)
        fail("cannot move to CPU %d", cpu);
}

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
    sched_setaffinity(0, sizeof b->pin->allowed, &b->pin->allowed);
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

void busy_start(struct busy *b, const struct pin *pin)
{
    b->pin = pin;
    b->memory = b->work == BUSY_MEMORY ? room(MEMORY_WORDS, sizeof *b->memory) : NULL;
    for (size_t i = 0; b->memory && i < MEMORY_WORDS; i++)
        b->memory[i] = (double)i;
    atomic_store(&b->stop, false);
    atomic_store(&b->id, 0);
    b->running = pthread_create(&b->thread, NULL, compute, b) == 0;
    if (!b->running)
        fail("cannot start the computing thread");
    while (atomic_load(&b->id) == 0)
        sched_yield();
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
