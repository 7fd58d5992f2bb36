/* SPDX-License-Identifier: BSD-3-Clause */
/* watchdog: where a step hangs its process leaves after the limit and says why; where it returns, nothing happens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
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

static atomic_bool is_fixed; /* the clock always says this */
static struct timespec fixed;
static uint64_t deadline_ns; /* of the last one that waited */
static atomic_bool waits;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    if (!is_fixed)
        return (int)syscall(SYS_clock_gettime, clock, t);
    *t = fixed;
    return 0;
}

bool __real_latch_wait(struct latch *over, uint64_t until_ns);
bool __wrap_latch_wait(struct latch *over, uint64_t until_ns);

bool __wrap_latch_wait(struct latch *over, uint64_t until_ns)
{
    deadline_ns = until_ns;
    waits = true;
    return __real_latch_wait(over, until_ns);
}

/* What came of a child. */
struct ended {
    int status;
    uint64_t took_ns;
    char said[512];
};

/*
 * Runs `life` in a process of its own, which begins in the second half of a second of the clock: where the limit has a
 * part of a second, and that part is long, it leads into the next one.
 */
static struct ended run(void (*life)(uint64_t limit_ms), uint64_t limit_ms)
{
    struct ended e = {0};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    while (clock_now_ns() / (500 * MS) % 2 == 0)
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
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
    assert_int_equal(waitpid(child, &e.status, 0), child);
    e.took_ns = clock_now_ns() - before;
    assert_true(read(ends[0], e.said, sizeof e.said - 1) >= 0);
    close(ends[0]);
    return e;
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

/* When the step begins, and its limit; how many seconds later it ends, and at which nanosecond. */
static void test_its_deadline(void **state)
{
    (void)state;
    static const struct {
        long begin_ns;
        uint64_t limit_ms;
        uint64_t seconds, end_ns;
    } cases[] = {
        {0, 1, 0, 1000000},
        {7, 60000, 60, 7},
        {49999999, 60950, 60, 999999999},
        {50000000, 60950, 61, 0},
        {999999999, 3600999, 3601, 998999999},
    };
    const time_t far = (time_t)1 << 32; /* seconds: none of these comes */
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        static struct watchdog d; /* a thread that never ends may use it after a failure */
        fixed = (struct timespec){.tv_sec = far, .tv_nsec = cases[i].begin_ns};
        waits = false;
        is_fixed = true;
        watchdog_start(&d, STEP, cases[i].limit_ms, RANK, &logger);
        for (int n = 0; n < HANG_S * 1000 && !waits; n++)
            usleep(1000);
        is_fixed = false;
        assert_true(waits);
        assert_int_equal(deadline_ns, ((uint64_t)far + cases[i].seconds) * CLOCK_NS_PER_S + cases[i].end_ns);
        watchdog_stop(&d);
    }
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

static void go_on(uint64_t limit_ms)
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
        const struct ended e = run(go_on, limits_ms[i]);
        assert_int_equal(e.status, 0);
        assert_string_equal(e.said, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_its_deadline),
        cmocka_unit_test(test_a_step_that_hangs),
        cmocka_unit_test(test_a_step_that_returns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
