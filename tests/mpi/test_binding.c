/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_binding: the hardware threads of the reactor and the copy workers, the signals that Baton's threads block, the
 * reactor's priority, and where the cache's memory lies.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cpus.h"
#include "baton.h"
#include "harness.h"
#include "with_tune.h"

#define VARIABLE "BATON_REACTOR_CPUS"
#define CPUS_KEY "Cpus_allowed_list:\t"
#define BLOCKED_KEY "SigBlk:\t"
#define TEXT_BYTES 8192

static char own[256], last[16]; /* the hardware threads of this thread, and the last of them */
static char logged[1024];

static void keep_warnings(void *user, baton_log_level_t level, const baton_log_source_t *source, const char *line)
{
    (void)user, (void)source;
    if (level == BATON_LOG_WARNING && strstr(line, VARIABLE) != NULL)
        snprintf(logged, sizeof logged, "%s", line);
}

/* What follows `key` in a file; false: no line begins so. */
static bool read_line(const char *path, const char *key, char *text, size_t size)
{
    char line[1024];
    bool found = false;
    FILE *f = fopen(path, "re");
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
        found = strncmp(line, key, strlen(key)) == 0;
        line[strcspn(line, "\n")] = '\0';
        if (found)
            snprintf(text, size, "%s", line + strlen(key));
    }
    if (f != NULL)
        fclose(f);
    return found;
}

/* An engine's signals are for its own threads. `blocked` is the mask as the system prints it. */
static void check_signals(const char *name, const char *blocked)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM};
    const unsigned long long mask = strtoull(blocked, NULL, 16);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!CHECK((mask >> (signals[i] - 1) & 1) != 0))
            fprintf(stderr, "# %s takes signal %d\n", name, signals[i]);
}

#define THREADS_MOST 16

/* The numbers of this process' threads of a name, as the system's folders are called. Returns how many there are. */
static int find_threads(const char *name, char ids[THREADS_MOST][17])
{
    struct dirent *e;
    DIR *dir = opendir("/proc/self/task");
    int n = 0;
    while (dir != NULL && n < THREADS_MOST && (e = readdir(dir)) != NULL) {
        char path[300], comm[64];
        snprintf(path, sizeof path, "/proc/self/task/%.16s/comm", e->d_name);
        if (read_line(path, "", comm, sizeof comm) && strcmp(comm, name) == 0)
            snprintf(ids[n++], sizeof ids[0], "%.16s", e->d_name);
    }
    if (dir != NULL)
        closedir(dir);
    return n;
}

/* Checks the hardware threads and the signals of all threads of a name; returns how many there are. */
static int check_threads(const char *name, const char *cpus)
{
    char ids[THREADS_MOST][17], path[300], list[256];
    const int n = find_threads(name, ids);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "/proc/self/task/%s/status", ids[i]);
        if (CHECK(read_line(path, CPUS_KEY, list, sizeof list)) && !CHECK(strcmp(list, cpus) == 0))
            fprintf(stderr, "# %s runs on %s, not on %s\n", name, list, cpus);
        if (CHECK(read_line(path, BLOCKED_KEY, list, sizeof list)))
            check_signals(name, list);
    }
    return n;
}

/* The thread that opens and starts a context keeps its signals. */
static void has_signals(const sigset_t *before)
{
    sigset_t now;
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
    for (int i = 1; i <= SIGRTMAX; i++)
        CHECK_EQ(sigismember(&now, i), sigismember(before, i));
}

static baton_t *up(baton_progress_mode_t mode)
{
    baton_open_params_t p = {.size = sizeof p,
                             .engine = "e",
                             .role = BATON_ROLE_BOTH,
                             .tp = (uint32_t)harness.size,
                             .pp = 1,
                             .tp_rank = (uint32_t)harness.rank,
                             .progress = mode};
    baton_geometry_t g = {.size = sizeof g,
                          .model = "m",
                          .dtype = "u8",
                          .elem_bytes = 1,
                          .planes = 1,
                          .head_size = 4096,
                          .num_groups = 1,
                          .groups = {{.block_tokens = 16, .num_blocks = 64}},
                          .num_splits = 1,
                          .splits = {{.heads_total = (uint32_t)harness.size, .head_first = p.tp_rank, .head_count = 1}},
                          .layers_total = 1,
                          .layer_count = 1};
    baton_tensor_t tensor;
    baton_cache_t *cache;
    baton_t *b;
    sigset_t signals;
    logged[0] = '\0';
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &signals), 0);
    if (!CHECK_EQ(baton_open(MPI_COMM_WORLD, &p, &b), 0))
        return NULL;
    CHECK_EQ(baton_geometry_layout(&g, &tensor, BATON_LAYOUT_HND), 0);
    CHECK_EQ(baton_cache_create(b, &g, BATON_MEMORY_HOST, &cache), 0);
    CHECK_EQ(baton_start(b), 0);
    has_signals(&signals);
    return b;
}

static void describe(const baton_t *b, char text[TEXT_BYTES])
{
    int n = baton_describe(b, text, TEXT_BYTES);
    CHECK(n > 0 && n < TEXT_BYTES);
    CHECK_EQ(strlen(text), n);
    for (size_t size = 0; size < (size_t)n; size += 97) { /* cut anywhere, it is a beginning of the whole */
        char part[TEXT_BYTES];
        CHECK_EQ(baton_describe(b, part, size), n);
        CHECK(size == 0 || (strlen(part) == size - 1 && memcmp(part, text, size - 1) == 0));
    }
}

static void check_on(baton_t *b, const char *cpus, const char *line)
{
    char text[TEXT_BYTES];
    if (b == NULL)
        return;
    CHECK_EQ(check_threads("baton-reactor", cpus), 1);
    CHECK_EQ(check_threads("baton-copy", cpus), 1);
    CHECK_EQ(check_threads("baton-watchdog", own), 1);
    describe(b, text);
    CHECK_HAS(text, line);
    CHECK_HAS(text, "\nmemory: ");
    CHECK_HAS(text, "\npaths: ");
    CHECK(strstr(text, "\nmemory: no cache") == NULL);
    CHECK(read_line("/proc/thread-self/status", CPUS_KEY, text, sizeof text) && strcmp(text, own) == 0);
    CHECK_EQ(baton_close(b), 0);
}

static void runs_where_it_is_told(void)
{
    char line[256];
    setenv(VARIABLE, last, 1);
    snprintf(line, sizeof line, "\nthreads: reactor on CPUs %s, copy workers on %s\n", last, last);
    check_on(up(BATON_PROGRESS_AUTO), last, line);
    CHECK_EQ(logged[0], '\0');
}

static void runs_with_the_engine_otherwise(void)
{
    char line[1024];
    snprintf(line, sizeof line, "\nthreads: reactor on CPUs %s, copy workers on %s (not bound: " VARIABLE, own, own);
    unsetenv(VARIABLE);
    check_on(up(BATON_PROGRESS_AUTO), own, line);
    setenv(VARIABLE, "", 1);
    check_on(up(BATON_PROGRESS_AUTO), own, line);
}

/* Hardware threads that there are not: a warning, and everything works. They count all the same. */
static void warns_of_what_cannot_be(void)
{
    char counted[32] = "";
    struct cpus cpus;
    if (CHECK(cpus_init(&cpus) && cpus_read(&cpus, own) && cpus_read(&cpus, "65535")))
        snprintf(counted, sizeof counted, ", %d CPUs\nthreads: ", CPU_COUNT_S(cpus.bytes, cpus.set));
    cpus_fini(&cpus);
    setenv(VARIABLE, "65535", 1);
    check_on(up(BATON_PROGRESS_AUTO), own, counted);
    CHECK_HAS(logged, "not bound as " VARIABLE "=65535 says");
}

static void refuses_what_is_malformed(void)
{
    baton_open_params_t p = {.size = sizeof p,
                             .engine = "e",
                             .role = BATON_ROLE_BOTH,
                             .tp = (uint32_t)harness.size,
                             .pp = 1,
                             .tp_rank = (uint32_t)harness.rank};
    baton_t *b;
    setenv(VARIABLE, "0-3;4", 1);
    CHECK_EQ(baton_open(MPI_COMM_WORLD, &p, &b), BATON_ESETTING);
    CHECK_HAS(baton_errmsg(), VARIABLE "=\"0-3;4\"");
}

/* The caller makes the turns: only the copy workers are Baton's own threads. */
static void binds_workers_without_a_reactor(void)
{
    char text[TEXT_BYTES];
    setenv(VARIABLE, last, 1);
    baton_t *b = up(BATON_PROGRESS_CALLER);
    if (b == NULL)
        return;
    CHECK_EQ(check_threads("baton-reactor", last), 0);
    CHECK_EQ(check_threads("baton-copy", last), 1);
    describe(b, text);
    CHECK_HAS(text, "\nthreads: reactor on CPUs the caller's, copy workers on ");
    CHECK_EQ(logged[0], '\0');
    CHECK_EQ(baton_close(b), 0);
}

/* ---- priority ---------------------------------------------------------------------------------------------------- */

/* A thread's nice value; -1 with errno if there is none. */
static int nice_of(const char *name)
{
    char ids[THREADS_MOST][17];
    return CHECK_EQ(find_threads(name, ids), 1) ? getpriority(PRIO_PROCESS, (id_t)atoi(ids[0])) : -1;
}

/* Whether this process may be so nice: a thread of its own tries. */
static void *try_nice(void *nice)
{
    return setpriority(PRIO_PROCESS, 0, *(const int *)nice) == 0 ? nice : NULL;
}

/* The reactor has made turns once an event is there. It has said by then how nice it is. */
static void await_turns(baton_t *b)
{
    const uint32_t block = 0;
    baton_offer_params_t o = {.size = sizeof o,
                              .key = "k",
                              .num_tables = 1,
                              .tables = {{.blocks = &block, .num_blocks = 1}},
                              .num_tokens = 16};
    baton_event_t e;
    baton_id_t id;
    CHECK_EQ(baton_offer(b, &o, &id), 0);
    CHECK_EQ(baton_cancel(b, id), 0);
    for (double until = MPI_Wtime() + 20; baton_poll(b, &e, 1) == 0;) {
        if (!CHECK(MPI_Wtime() < until))
            return;
        usleep(1000);
    }
}

/* Raised by the tunable nice where that is permitted, else as it was. No other thread's priority changes. */
static void the_reactor_is_raised_as_it_is_told(void)
{
    static const struct {
        const char *setting; /* NULL: not set */
        int steps;
    } raised[] = {{NULL, 10}, {"3", 3}, {"0", 0}};
    const int mine = getpriority(PRIO_PROCESS, 0);
    for (size_t i = 0; i < sizeof raised / sizeof *raised; i++) {
        int wanted = mine - raised[i].steps < -20 ? -20 : mine - raised[i].steps;
        void *may = NULL;
        pthread_t thread;
        if (CHECK_EQ(pthread_create(&thread, NULL, try_nice, &wanted), 0))
            pthread_join(thread, &may);
        tune("nice", NULL);
        if (raised[i].setting != NULL)
            tune("nice", raised[i].setting);
        baton_t *b = up(BATON_PROGRESS_AUTO);
        tune("nice", NULL);
        if (b == NULL)
            return;
        await_turns(b);
        CHECK_EQ(nice_of("baton-reactor"), may != NULL ? wanted : mine);
        CHECK_EQ(nice_of("baton-copy"), mine);
        CHECK_EQ(nice_of("baton-watchdog"), mine);
        CHECK_EQ(getpriority(PRIO_PROCESS, 0), mine);
        CHECK_EQ(baton_close(b), 0);
    }
}

int main(int argc, char **argv)
{
    sigset_t signals;
    harness_begin(&argc, &argv);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR2); /* this thread takes all but one */
    pthread_sigmask(SIG_SETMASK, &signals, NULL);
    if (!read_line("/proc/thread-self/status", CPUS_KEY, own, sizeof own))
        return 1;
    const char *at = own + strlen(own);
    while (at > own && at[-1] >= '0' && at[-1] <= '9')
        at--;
    snprintf(last, sizeof last, "%.8s", at);
    baton_log_set(keep_warnings, NULL);
    RUN(runs_where_it_is_told);
    RUN(runs_with_the_engine_otherwise);
    RUN(warns_of_what_cannot_be);
    RUN(refuses_what_is_malformed);
    RUN(binds_workers_without_a_reactor);
    unsetenv(VARIABLE);
    RUN(the_reactor_is_raised_as_it_is_told);
    return harness_end();
}
