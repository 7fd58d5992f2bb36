/* SPDX-License-Identifier: BSD-3-Clause */
/* thread: what a thread of the library begins with, and what the scheduler is asked for. */
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/thread.h"
#include "with_owner.h"

/* ---- signals and names ------------------------------------------------------------------------------------------- */

struct begun {
    sigset_t blocked;
    sem_t go;
};

static void *live(void *arg)
{
    struct begun *b = arg;
    pthread_sigmask(SIG_BLOCK, NULL, &b->blocked);
    while (sem_wait(&b->go) != 0)
        continue;
    return NULL;
}

/*
 * Those of a thread's own faults stay open. Those from 32 to SIGRTMIN are glibc's. An emulator needs some of the others
 * from 32 on itself.
 */
static bool is_to_be_blocked(int signal)
{
    const bool is_fault =
        signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE || signal == SIGSYS;
    return signal != SIGKILL && signal != SIGSTOP && !is_fault &&
           (signal < 32 || (signal >= SIGRTMIN && !TEST_EMULATED));
}

/* No signal reaches it, and its creator gets what it got before. */
static void begins(const char *cpus)
{
    struct begun b;
    pthread_t thread;
    sigset_t before, one, after;
    char name[32] = "";
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    assert_int_equal(sem_init(&b.go, 0, 0), 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &one, &before), 0);
    assert_int_equal(thread_start(&thread, "baton-test", cpus, live, &b), 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
    assert_int_equal(pthread_getname_np(thread, name, sizeof name), 0);
    sem_post(&b.go);
    pthread_join(thread, NULL);
    sem_destroy(&b.go);
    assert_string_equal(name, "baton-test");
    for (int signal = 1; signal <= SIGRTMAX; signal++)
        if (is_to_be_blocked(signal)) {
            assert_int_equal(sigismember(&b.blocked, signal), 1);
            assert_int_equal(sigismember(&after, signal), signal == SIGUSR2);
        }
}

static void test_signals_and_names(void **state)
{
    (void)state;
    char own[256];
    thread_cpus(pthread_self(), own, sizeof own);
    begins(NULL);
    begins(own);
    begins("no list");
}

/* ---- the scheduler ----------------------------------------------------------------------------------------------- */

enum { MOVED = 2, NOBODY = 65534, NOT_TOLD = 77 };

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static struct attributes now(void)
{
    struct attributes a = {.size = 0};
    if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) != 0)
        a.size = 0;
    return a;
}

/* Whether this system keeps a slice that it is asked for, as older ones do not. */
static bool keeps_slices(void)
{
    struct attributes a = now();
    a.runtime = 3000000;
    return syscall(SYS_sched_setattr, 0, &a, 0) == 0 && now().runtime == 3000000;
}

/* The priority that so many steps lead to, if they are permitted. */
static int nice_after(int steps)
{
    const int own = getpriority(PRIO_PROCESS, 0), wanted = own - steps < -20 ? -20 : own - steps;
    const bool may = setpriority(PRIO_PROCESS, 0, wanted) == 0;
    setpriority(PRIO_PROCESS, 0, own);
    return may ? wanted : own;
}

/* In a process of its own, whose priority is not the usual one. 0: it got what it asked for, or kept what it had. */
static int ask(void *arg)
{
    static const int steps[] = {0, 3, 100};
    (void)arg;
    if (now().size == 0 || setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + MOVED) != 0)
        return NOT_TOLD;
    const bool has_slices = keeps_slices();
    for (int i = 0; i < 3; i++) {
        const int nice = nice_after(steps[i]);
        errno = ENOTTY;
        thread_ask(5000 + (uint64_t)i, (uint64_t)steps[i]);
        if (errno != ENOTTY)
            return 1 + i;
        if (now().nice != nice)
            return 11 + i;
        if (has_slices && now().runtime != 5000000 + 1000 * (uint64_t)i)
            return 21 + i;
    }
    return 0;
}

static void test_what_is_asked_for(void **state)
{
    (void)state;
    if (TEST_EMULATED)
        skip();
    int status = owner_elsewhere(ask, NULL, 0);
    if (status == NOT_TOLD)
        skip();
    assert_int_equal(status, 0);
    if (geteuid() == 0) /* without privilege, a slice is to be had all the same */
        assert_int_equal(owner_elsewhere(ask, NULL, NOBODY), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals_and_names),
        cmocka_unit_test(test_what_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
