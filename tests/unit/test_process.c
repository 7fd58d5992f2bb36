/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process: what is known of the life of others, before and after they are asked for, end and are forgotten; and what
 * each answer of the system about their descriptors is taken for.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/process.h"
#include "with_child.h"
#include "with_descriptors.h"

#ifndef SYS_pidfd_open /* headers of before Linux 5.3 */
#define SYS_pidfd_open 434
#endif

/* Whether this system has descriptors of processes: emulators of other processors do not. */
static bool knows_processes(void)
{
    const int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (self >= 0)
        close(self);
    return self >= 0;
}

/* What poll answers instead of the system, and how often it was asked: `signals` times -1 with EINTR, then that. */
static struct {
    bool is_pretended;
    int signals, answer, error;
    short events;
    int asked;
} answers;

int poll(struct pollfd *fds, nfds_t num, int timeout)
{
    if (!answers.is_pretended) {
        const struct timespec t = {timeout / 1000, timeout % 1000 * 1000000L};
        return (int)syscall(SYS_ppoll, fds, num, timeout < 0 ? NULL : &t, NULL, 0);
    }
    assert_int_equal(num, 1);
    assert_int_equal(timeout, 0);
    fds->revents = 0;
    if (answers.asked++ < answers.signals) {
        errno = EINTR;
        return -1;
    }
    fds->revents = answers.events;
    errno = answers.error;
    return answers.answer;
}

static pid_t start(void)
{
    const pid_t child = child_start();
    assert_true(child > 0);
    return child;
}

/* Nothing is known of it before it is asked for, nor once it is forgotten. */
static void test_a_life(void **state)
{
    (void)state;
    if (!knows_processes())
        skip();
    const int open_before = descriptors_open();
    const pid_t child = start();
    struct process p = process_of(child);
    assert_int_equal(process_is(&p), PROCESS_UNKNOWN);
    assert_int_equal(process_alive(&p), PROCESS_ALIVE);
    assert_int_equal(process_is(&p), PROCESS_ALIVE);
    assert_int_equal(process_alive(&p), PROCESS_ALIVE);
    assert_int_equal(descriptors_open(), open_before + 1);
    assert_true(child_end(child));
    assert_int_equal(process_is(&p), PROCESS_DEAD);
    assert_int_equal(process_alive(&p), PROCESS_DEAD);
    process_forget(&p);
    assert_int_equal(descriptors_open(), open_before);
    assert_int_equal(process_is(&p), PROCESS_UNKNOWN);
    assert_int_equal(process_alive(&p), PROCESS_UNKNOWN);
}

static void test_one_that_has_ended_before(void **state)
{
    (void)state;
    if (!knows_processes())
        skip();
    const int open_before = descriptors_open();
    const pid_t child = start();
    struct process p = process_of(child);
    assert_true(child_end(child));
    assert_int_equal(process_alive(&p), PROCESS_DEAD);
    assert_int_equal(process_is(&p), PROCESS_DEAD);
    process_forget(&p);
    assert_int_equal(descriptors_open(), open_before);
}

/* 0 is no process, and the system knows none below it. */
static void test_unknown_ones(void **state)
{
    (void)state;
    const int open_before = descriptors_open();
    for (int id = 0; id >= -1; id--) {
        struct process p = process_of(id);
        assert_int_equal(process_is(&p), PROCESS_UNKNOWN);
        assert_int_equal(process_alive(&p), PROCESS_UNKNOWN);
        assert_int_equal(process_is(&p), PROCESS_UNKNOWN);
        process_forget(&p);
    }
    assert_int_equal(descriptors_open(), open_before);
}

/* Descriptor 0 is as good as others. */
static void test_the_lowest_descriptor(void **state)
{
    (void)state;
    if (!knows_processes())
        skip();
    const int input = descriptor_free_lowest();
    const int open_before = descriptors_open();
    struct process p = process_of(1); /* it always lives */
    assert_int_equal(process_alive(&p), PROCESS_ALIVE);
    assert_int_equal(p.descriptor, STDIN_FILENO);
    assert_int_equal(process_is(&p), PROCESS_ALIVE);
    process_forget(&p);
    assert_int_equal(descriptors_open(), open_before);
    descriptor_back(input);
}

/* ---- answers of the system --------------------------------------------------------------------------------------- */

/* What is known of a process that lives, if poll says that. */
static enum process_life life_by(struct process *p, int signals, int answer, short events, int error)
{
    answers.signals = signals;
    answers.answer = answer;
    answers.events = events;
    answers.error = error;
    answers.asked = 0;
    answers.is_pretended = true;
    const enum process_life life = process_is(p);
    answers.is_pretended = false;
    return life;
}

/* Only a descriptor that is readable is of a process that has ended. A signal says nothing: poll is asked again. */
static void test_each_answer(void **state)
{
    (void)state;
    static const struct {
        int signals, answer;
        short events;
        int error;
        enum process_life life;
    } cases[] = {
        {0, 0, 0, 0, PROCESS_ALIVE},
        {1, 0, 0, 0, PROCESS_ALIVE},
        {5, 0, 0, 0, PROCESS_ALIVE},
        {0, 1, POLLIN, 0, PROCESS_DEAD},
        {0, 1, POLLIN | POLLHUP, 0, PROCESS_DEAD}, /* newer systems, once it was waited for */
        {5, 1, POLLIN, 0, PROCESS_DEAD},
        {0, 1, POLLNVAL, 0, PROCESS_UNKNOWN}, /* somebody closed the descriptor */
        {0, 1, POLLERR, 0, PROCESS_UNKNOWN},
        {0, 1, POLLHUP, 0, PROCESS_UNKNOWN},
        {1, 1, POLLNVAL, 0, PROCESS_UNKNOWN},
        {0, -1, 0, ENOMEM, PROCESS_UNKNOWN},
        {0, -1, 0, EINVAL, PROCESS_UNKNOWN},
        {0, -1, 0, EPERM, PROCESS_UNKNOWN},
        {0, -1, POLLIN, ENOMEM, PROCESS_UNKNOWN}, /* what stands there after an error means nothing */
        {INT_MAX, 0, 0, 0, PROCESS_UNKNOWN},      /* signals without end: nobody is asked for ever */
    };
    if (!knows_processes())
        skip();
    struct process p = process_of(1); /* it always lives */
    assert_int_equal(process_alive(&p), PROCESS_ALIVE);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        print_message("case %zu\n", i);
        assert_int_equal(life_by(&p, cases[i].signals, cases[i].answer, cases[i].events, cases[i].error),
                         cases[i].life);
        assert_int_equal(process_is(&p), PROCESS_ALIVE); /* nothing of it is kept */
    }
    process_forget(&p);
}

static volatile sig_atomic_t heard;

static void hear(int number)
{
    (void)number;
    heard++;
}

/* A timer signals this thread all the time: with SA_RESTART too, poll is never restarted by the system. */
static void test_signals(void **state)
{
    (void)state;
    if (!knows_processes())
        skip();
    struct process p = process_of(1);
    assert_int_equal(process_alive(&p), PROCESS_ALIVE);
    for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
        const struct sigaction handler = {.sa_handler = hear, .sa_flags = flags};
        const struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
        struct sigaction before;
        assert_int_equal(sigaction(SIGALRM, &handler, &before), 0);
        assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
        for (heard = 0; heard < 2000;)
            assert_int_equal(process_is(&p), PROCESS_ALIVE);
        assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
        assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    }
    process_forget(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_life),       cmocka_unit_test(test_one_that_has_ended_before),
        cmocka_unit_test(test_unknown_ones), cmocka_unit_test(test_the_lowest_descriptor),
        cmocka_unit_test(test_each_answer),  cmocka_unit_test(test_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
