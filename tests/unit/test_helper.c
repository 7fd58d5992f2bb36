/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that baton-info and batonrun start: each ends, or is named where SIGKILL cannot end it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "info/helper.h"
#include "batonrun/child.h"
#include "batonrun/program.h"

/* SIGKILL has no effect, as on a process that waits in the kernel. */
static bool kill_is_lost;

/* In the place of libc's. */
int kill(pid_t pid, int number)
{
    return kill_is_lost && number == SIGKILL ? 0 : (int)syscall(SYS_kill, pid, number);
}

static uint64_t run(struct helper *h, const char *script, unsigned deadline_s)
{
    uint64_t start = child_now_ns();
    helper_run(h, (char *const[]){"/bin/sh", "-c", (char *)(uintptr_t)script, NULL}, environ, deadline_s);
    return (child_now_ns() - start) / 1000000;
}

static void end_left(void **state)
{
    struct child none;
    (void)state;
    kill_is_lost = false;
    child_hold(&none);
    assert_true(child_clear(&none, 0, 0));
    child_release(&none);
}

static void ends_what_it_started(void **state)
{
    struct helper h;
    (void)state;
    assert_in_range(run(&h, "echo said; setsid sleep 60 >/dev/null 2>&1 & exit 3", 20), 0, 4000);
    assert_int_equal(h.status, 3);
    assert_false(h.is_late);
    assert_string_equal(h.said, "said\n");
    assert_int_equal(h.info.num_problems, 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void ends_at_the_deadline(void **state)
{
    struct helper h;
    (void)state;
    assert_in_range(run(&h, "exec sleep 60", 1), 1000, 5000);
    assert_int_equal(h.status, 128 + SIGTERM);
    assert_true(h.is_late);
    assert_int_equal(h.info.num_problems, 0);
}

static void assert_named(struct helper *h)
{
    assert_int_equal(h->info.num_problems, 1);
    assert_string_equal(h->info.problems[0].what, "a process that baton-info started has not ended 5 s after SIGKILL");
    assert_non_null(strstr(h->info.problems[0].remedy, "state D"));
    info_fini(&h->info);
}

static void program_that_cannot_be_killed(void **state)
{
    struct helper h;
    kill_is_lost = true;
    assert_in_range(run(&h, "exec sleep 60 >/dev/null 2>&1", 20), 5000, 9000);
    assert_true(h.is_late);
    assert_named(&h);
    end_left(state);
}

static void rest_that_cannot_be_killed(void **state)
{
    struct helper h;
    kill_is_lost = true;
    assert_in_range(run(&h, "setsid sleep 60 >/dev/null 2>&1 & exit 3", 20), 5000, 9000);
    assert_int_equal(h.status, 3);
    assert_false(h.is_late);
    assert_named(&h);
    end_left(state);
}

/* The same, where batonrun asks a launcher for its version. */
static void launcher_that_cannot_be_killed(void **state)
{
    char path[] = "/tmp/test_helper.XXXXXX", text[64];
    static const char script[] = "#!/bin/sh\necho a version\nexec sleep 60 >/dev/null 2>&1\n";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, script, sizeof script - 1), sizeof script - 1);
    assert_int_equal(fchmod(fd, 0700), 0);
    close(fd);
    kill_is_lost = true;
    uint64_t start = child_now_ns();
    assert_true(program_version(path, text, sizeof text));
    assert_in_range((child_now_ns() - start) / 1000000, 5000, 9000);
    assert_string_equal(text, "a version\n");
    unlink(path);
    end_left(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_what_it_started),           cmocka_unit_test(ends_at_the_deadline),
        cmocka_unit_test(program_that_cannot_be_killed),  cmocka_unit_test(rest_that_cannot_be_killed),
        cmocka_unit_test(launcher_that_cannot_be_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
