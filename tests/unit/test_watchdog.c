/* SPDX-License-Identifier: BSD-3-Clause */
/* watchdog: where a step hangs its process leaves after the limit and says why; where it returns, nothing happens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "mpi/watchdog.h"

#define MS CLOCK_NS_PER_MS
#define RANK 3
#define STEP "a step of mine"
#define HANG_S 30 /* a child that is still there then is ended, and its test fails */

static const struct logger logger = {.level = LOG_WARN};
static int joined; /* threads */

int pthread_join(pthread_t thread, void **result)
{
    int (*real)(pthread_t, void **) = (int (*)(pthread_t, void **))dlsym(RTLD_NEXT, "pthread_join");
    joined++;
    return real(thread, result);
}

/*
 * Where this is set, in memory that a child shares, waits are over at once, and the clock stands still: how long they
 * would have been together.
 */
static _Atomic uint64_t *waited_ns;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    if (waited_ns == NULL)
        return (int)syscall(SYS_clock_gettime, clock, t);
    *t = (struct timespec){.tv_sec = 1000};
    return 0;
}

bool __real_latch_wait(struct latch *over, uint64_t until_ns);
bool __wrap_latch_wait(struct latch *over, uint64_t until_ns);

bool __wrap_latch_wait(struct latch *over, uint64_t until_ns)
{
    if (waited_ns == NULL)
        return __real_latch_wait(over, until_ns);
    *waited_ns += until_ns - 1000 * CLOCK_NS_PER_S;
    return false;
}

/* What came of a child. */
struct ended {
    int status;
    uint64_t took_ns;
    char said[512];
};

static int go_on[2]; /* a pipe to the child */

/* Runs `life` in a process of its own, which is stopped for so long after a while, and told to go on. */
static struct ended run_stopped(void (*life)(uint64_t limit_ms), uint64_t limit_ms, unsigned stopped_ms)
{
    struct ended e = {0};
    int ends[2];
    assert_true(pipe(ends) == 0 && pipe(go_on) == 0);
    const uint64_t before = clock_now_ns();
    const pid_t child = fork();
    if (child == 0) {
        alarm(HANG_S);
        dup2(ends[1], STDERR_FILENO);
        life(limit_ms);
        _exit(0);
    }
    assert_true(child > 0);
    close(ends[1]);
    if (stopped_ms > 0) {
        usleep(100 * 1000);
        kill(child, SIGSTOP);
        usleep(stopped_ms * 1000);
        assert_int_equal(write(go_on[1], "", 1), 1);
        kill(child, SIGCONT);
    }
    assert_int_equal(waitpid(child, &e.status, 0), child);
    e.took_ns = clock_now_ns() - before;
    assert_true(read(ends[0], e.said, sizeof e.said - 1) >= 0);
    close(ends[0]);
    close(go_on[0]);
    close(go_on[1]);
    return e;
}

static struct ended run(void (*life)(uint64_t limit_ms), uint64_t limit_ms)
{
    return run_stopped(life, limit_ms, 0);
}

static void hang(uint64_t limit_ms)
{
    struct watchdog d;
    watchdog_start(&d, STEP, limit_ms, RANK, &logger);
    for (;;)
        pause();
}

static void test_a_step_that_hangs(void **state)
{
    (void)state;
    enum { LATE_MS = 10000 }; /* on processors that others need */
    static const uint64_t limits_ms[] = {950, 1000};
    for (unsigned i = 0; i < 2; i++) {
        char says[128];
        const struct ended e = run(hang, limits_ms[i]);
        assert_true(WIFEXITED(e.status));
        assert_int_equal(WEXITSTATUS(e.status), 70);
        assert_true(e.took_ns >= limits_ms[i] * MS);
        assert_true(e.took_ns < (limits_ms[i] + LATE_MS) * MS);
        snprintf(says, sizeof says, "rank %d: the collective step '%s' has not returned after %" PRIu64 " ms", RANK,
                 STEP, limits_ms[i]);
        if (strstr(e.said, says) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", e.said, says);
    }
}

/* The looks add up to the limit, whatever that is. */
static void test_its_looks(void **state)
{
    (void)state;
    static const uint64_t limits_ms[] = {1, 49, 50, 51, 60950, 3600999};
    waited_ns = mmap(NULL, sizeof *waited_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true((void *)waited_ns != MAP_FAILED);
    for (unsigned i = 0; i < sizeof limits_ms / sizeof *limits_ms; i++) {
        *waited_ns = 0;
        const struct ended e = run(hang, limits_ms[i]);
        assert_true(WIFEXITED(e.status));
        assert_int_equal(WEXITSTATUS(e.status), 70);
        assert_int_equal(*waited_ns, limits_ms[i] * MS);
    }
    munmap((void *)waited_ns, sizeof *waited_ns);
    waited_ns = NULL;
}

/* Returns 200 ms after it was told to. */
static void return_soon(uint64_t limit_ms)
{
    struct watchdog d;
    char told;
    watchdog_start(&d, STEP, limit_ms, RANK, &logger);
    while (read(go_on[0], &told, 1) != 1)
        continue;
    usleep(200 * 1000);
    watchdog_stop(&d);
}

/* The whole process is stopped for longer than the limit: that time is not the step's. */
static void test_a_pause_of_the_process(void **state)
{
    (void)state;
    const struct ended e = run_stopped(return_soon, 2000, 2500);
    assert_int_equal(e.status, 0);
    assert_string_equal(e.said, "");
}

/* The standard error takes nothing: the process leaves all the same. */
static void hang_unread(uint64_t limit_ms)
{
    int ends[2];
    if (pipe(ends) != 0 || fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0)
        _exit(1);
    while (write(ends[1], "full", 4) == 4)
        continue;
    fcntl(ends[1], F_SETFL, 0);
    dup2(ends[1], STDERR_FILENO);
    hang(limit_ms);
}

static void test_nobody_reads(void **state)
{
    (void)state;
    const struct ended e = run(hang_unread, 100);
    assert_true(WIFEXITED(e.status));
    assert_int_equal(WEXITSTATUS(e.status), 70);
}

/* -1: the system does not say. */
static int threads(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/task");
    if (folder == NULL)
        return -1;
    for (const struct dirent *e; (e = readdir(folder)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(folder);
    return n;
}

static void take_time(uint64_t limit_ms)
{
    struct watchdog d;
    const int before = threads();
    joined = 0;
    watchdog_start(&d, STEP, limit_ms, RANK, &logger);
    nanosleep(&(struct timespec){.tv_nsec = 100 * MS}, NULL); /* nobody leaves while the step takes its time */
    watchdog_stop(&d);
    if (joined != 1)
        _exit(1);
    while (threads() > before) /* which might make the process leave later */
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
}

static void test_a_step_that_returns(void **state)
{
    (void)state;
    static const uint64_t limits_ms[] = {1000950, 1000000};
    for (unsigned i = 0; i < 2; i++) {
        const struct ended e = run(take_time, limits_ms[i]);
        assert_int_equal(e.status, 0);
        assert_string_equal(e.said, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_its_looks),           cmocka_unit_test(test_a_pause_of_the_process),
        cmocka_unit_test(test_nobody_reads),        cmocka_unit_test(test_a_step_that_hangs),
        cmocka_unit_test(test_a_step_that_returns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
