/* SPDX-License-Identifier: BSD-3-Clause */
/* effort: see effort.h. */
#include "bench/effort.h"

#include <dirent.h>
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
