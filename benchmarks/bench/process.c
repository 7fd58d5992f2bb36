/* SPDX-License-Identifier: BSD-3-Clause */
/* process: see the header. A step of the computing thread takes some ten microseconds. The child of a watcher takes one
   command, the time to sleep; at the end of the pipe the parent is gone. */
#include "bench/process.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/types.h>
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

/* ---- effort ------------------------------------------------------------------------------------------------------ */

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

/* ---- the whole process ------------------------------------------------------------------------------------------- */

static void watch(int from, pid_t parent)
{
    double seconds;
    if (read(from, &seconds, sizeof seconds) != (ssize_t)sizeof seconds)
        _exit(0);
    struct timespec left = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0)
        ;
    if (getppid() == parent)
        kill(parent, SIGCONT);
    _exit(0);
}

int watcher_create(struct watcher *w)
{
    int ends[2];
    pid_t parent = getpid();
    w->pipe = -1;
    if (pipe(ends) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        /* The launcher waits until these streams are closed, so the child must not keep them open. */
        close(STDIN_FILENO);
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        watch(ends[0], parent);
    }
    close(ends[0]);
    if (child < 0) {
        close(ends[1]);
        return -1;
    }
    w->pipe = ends[1];
    return 0;
}

int watcher_stop_me(struct watcher *w, double seconds)
{
    if (w->pipe < 0 || write(w->pipe, &seconds, sizeof seconds) != (ssize_t)sizeof seconds)
        return -1;
    return raise(SIGSTOP) == 0 ? 0 : -1;
}

void watcher_destroy(struct watcher *w)
{
    if (w->pipe >= 0)
        close(w->pipe);
    w->pipe = -1;
}
