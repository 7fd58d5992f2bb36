/* SPDX-License-Identifier: BSD-3-Clause */
/* effort: see effort.h. */
#include "bench/effort.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "bench/fail.h"

/* The clock of a thread of this process, as pthread_getcpuclockid would make it if the thread were ours to name. */
static clockid_t clock_of(int thread)
{
    const unsigned of_a_thread = 4, exact = 2; /* CPUCLOCK_PERTHREAD_MASK and CPUCLOCK_SCHED of the kernel */
    return (clockid_t)((~(unsigned)thread << 3) | of_a_thread | exact);
}

void effort_meter_init(struct effort_meter *m, const struct busy *busy)
{
    DIR *threads = opendir("/proc/self/task");
    const struct dirent *entry;
    if (threads == NULL)
        fail("cannot read /proc/self/task");
    m->count = 0;
    while ((entry = readdir(threads)) != NULL) {
        const int thread = atoi(entry->d_name); /* 0: "." and ".." */
        if (thread == 0 || (busy->running && thread == busy->id))
            continue;
        if (m->count == EFFORT_THREADS_MAX)
            fail("this process has more than %d threads: their CPU time cannot be read", EFFORT_THREADS_MAX);
        m->clock[m->count++] = clock_of(thread);
    }
    closedir(threads);
}

struct effort effort_read(const struct effort_meter *m)
{
    struct effort sum = {0};
    struct timespec t;
    struct rusage usage;
    for (unsigned i = 0; i < m->count; i++) {
        if (clock_gettime(m->clock[i], &t) != 0)
            fail("the system does not say how long a thread has run");
        sum.cpu_ns += (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    }
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        fail("the system does not say how often this process has slept");
    sum.wakeups = (uint64_t)usage.ru_nvcsw;
    return sum;
}

struct effort effort_since(const struct effort_meter *m, struct effort before)
{
    const struct effort now = effort_read(m);
    return (struct effort){now.cpu_ns - before.cpu_ns, now.wakeups - before.wakeups};
}

void effort_add(struct effort *sum, struct effort more)
{
    sum->cpu_ns += more.cpu_ns;
    sum->wakeups += more.wakeups;
}

void cost_add(struct cost *c, uint64_t transfers, uint64_t bytes, struct effort consumer, struct effort producer)
{
    c->transfers += transfers;
    c->bytes += bytes;
    effort_add(&c->consumer, consumer);
    effort_add(&c->producer, producer);
}

double cost_cpu_s_gib(const struct cost *c, const struct effort *side)
{
    return (double)side->cpu_ns / 1e9 / ((double)c->bytes / (1 << 30));
}

struct footprint footprint_read(const void *pool, uint64_t pool_bytes)
{
    const uint64_t address = (uint64_t)(uintptr_t)pool;
    struct footprint sum = {0};
    uint64_t from, to, kib;
    char line[4096], marks[8];
    bool is_private = false, pool_is_private = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    if (file == NULL)
        fail("cannot read /proc/self/smaps");
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &from, &to, marks) == 3) {
            is_private = marks[3] == 'p';
            pool_is_private |= is_private && from <= address && address < to;
        } else if (sscanf(line, "Private_Clean: %" SCNu64 " kB", &kib) == 1 ||
                   sscanf(line, "Private_Dirty: %" SCNu64 " kB", &kib) == 1) {
            sum.all_kib += kib;
            sum.private_kib += is_private ? kib : 0;
        }
    }
    fclose(file);
    if (pool_is_private)
        sum.private_kib -= pool_bytes / 1024;
    return sum;
}
