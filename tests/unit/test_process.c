/* SPDX-License-Identifier: BSD-3-Clause */
/* process: what is known of the life of others, before and after they are asked for, end and are forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_life),
        cmocka_unit_test(test_one_that_has_ended_before),
        cmocka_unit_test(test_unknown_ones),
        cmocka_unit_test(test_the_lowest_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
