/* SPDX-License-Identifier: BSD-3-Clause */
/* task: how threads are ranked by policy and nice value, and how long they have run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/task.h"

#define MS CLOCK_NS_PER_MS

static void in_a_thread(void *(*run)(void *arg))
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
    pthread_join(thread, NULL);
}

static void take_policy(int policy)
{
    const struct sched_param none = {0};
    assert_int_equal(pthread_setschedparam(pthread_self(), policy, &none), 0);
}

/* Only to lower values: these need no privilege. */
static void *lower(void *arg)
{
    (void)arg;
    const int normal = task_rank(0);
    assert_int_equal(task_id(), syscall(SYS_gettid));
    errno = 0;
    const int nice = getpriority(PRIO_PROCESS, 0);
    assert_int_equal(errno, 0);
    if (nice < 19) {
        assert_int_equal(setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), nice + 1), 0);
        errno = EDOM;
        assert_int_equal(task_rank(0), normal - 1);
        assert_int_equal(errno, EDOM);
    }
    assert_int_equal(setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19), 0);
    const int nicest = task_rank(0);
    take_policy(SCHED_BATCH);
    const int batch = task_rank(0);
    assert_true(batch < nicest);
    take_policy(SCHED_IDLE);
    assert_true(task_rank(0) < batch);
    return NULL;
}

static void test_ranks(void **state)
{
    (void)state;
    in_a_thread(lower);
}

/* The flag stays: only a thread with privileges may take it off. */
static void *reset_on_fork(void *arg)
{
    (void)arg;
    take_policy(SCHED_BATCH);
    const int batch = task_rank(0);
    take_policy(SCHED_BATCH | SCHED_RESET_ON_FORK);
    assert_int_equal(task_rank(0), batch);
    take_policy(SCHED_IDLE | SCHED_RESET_ON_FORK);
    assert_int_equal(task_rank(0), 0);
    return NULL;
}

static void test_what_its_children_get_does_not_count(void **state)
{
    (void)state;
    in_a_thread(reset_on_fork);
}

static void *look_again(void *arg)
{
    (void)arg;
    const uint64_t now = clock_now_ns();
    const int before = task_rank(now);
    take_policy(SCHED_IDLE);
    assert_int_equal(task_rank(now + 100 * MS), before);
    assert_int_equal(task_rank(now + 100 * MS + 1), 0);
    return NULL;
}

static void test_it_is_looked_up_now_and_then(void **state)
{
    (void)state;
    in_a_thread(look_again);
}

static void test_how_long_it_ran(void **state)
{
    (void)state;
    const uint64_t before = task_ran_ns(task_id()), began = clock_now_ns();
    assert_true(before > 0);
    while (task_ran_ns(task_id()) < before + 2 * MS) /* it computes, so that it comes to an end */
        assert_true(clock_now_ns() < began + 60 * CLOCK_NS_PER_S);
    const uint64_t ran = task_ran_ns(task_id());
    clock_sleep_until(clock_now_ns() + 100 * MS);
    assert_true(task_ran_ns(task_id()) < ran + 50 * MS);
    errno = EDOM;
    assert_int_equal(task_ran_ns(0), 0);
    assert_int_equal(task_ran_ns((1u << 22) - 1), 0); /* there is no such thread: ids are below 2^22 */
    assert_int_equal(errno, EDOM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_what_its_children_get_does_not_count),
        cmocka_unit_test(test_it_is_looked_up_now_and_then),
        cmocka_unit_test(test_how_long_it_ran),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
