/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that baton-info and batonrun start: each ends, or is named where SIGKILL cannot end it. */
#include <errno.h>
#include <fcntl.h>
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

#include "base/clock.h"
#include "info/helper.h"
#include "batonrun/child.h"
#include "batonrun/program.h"

/* SIGKILL has no effect, as on a process that waits in the kernel, the last of which is `left`. */
static bool kill_is_lost;
static pid_t left;

/* In the place of libc's. */
int kill(pid_t pid, int number)
{
    if (!kill_is_lost || number != SIGKILL)
        return (int)syscall(SYS_kill, pid, number);
    left = pid;
    return 0;
}

static uint64_t run(struct helper *h, const char *script, unsigned deadline_s)
{
    uint64_t start = clock_now_ns();
    helper_run(h, (char *const[]){"/bin/sh", "-c", (char *)(uintptr_t)script, NULL}, environ, deadline_s);
    return (clock_now_ns() - start) / 1000000;
}

static void end_left(void **state)
{
    (void)state;
    kill_is_lost = false;
    assert_int_equal(kill(left, SIGKILL), 0);
    assert_int_equal(waitpid(left, NULL, 0), left);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
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
    uint64_t start = clock_now_ns();
    assert_true(program_version(path, text, sizeof text));
    assert_in_range((clock_now_ns() - start) / 1000000, 5000, 9000);
    assert_string_equal(text, "a version\n");
    unlink(path);
    end_left(state);
}

/* A child that was there before is not ended, and does not keep anything waiting. */
static void stranger(void **state)
{
    struct helper h;
    int raw;
    (void)state;
    pid_t before = fork();
    if (before == 0)
        for (;;)
            pause();
    assert_in_range(run(&h, "sleep 60 >/dev/null 2>&1 & exit 3", 20), 0, 4000);
    assert_int_equal(h.status, 3);
    assert_int_equal(h.info.num_problems, 0);
    assert_in_range(run(&h, "exec sleep 60", 1), 1000, 5000);
    assert_int_equal(h.status, 128 + SIGTERM);
    assert_int_equal(waitpid(-1, &raw, WNOHANG), 0);
    assert_int_equal(kill(before, SIGKILL), 0);
    assert_int_equal(waitpid(before, &raw, 0), before);
}

/* Beside a stranger a rest counts that is in the group of the program. */
static void rest_beside_a_stranger(void **state)
{
    struct helper h;
    (void)state;
    pid_t before = fork();
    if (before == 0)
        for (;;)
            pause();
    kill_is_lost = true;
    assert_in_range(run(&h, "sleep 60 >/dev/null 2>&1 & exit 3", 20), 5000, 9000);
    assert_int_equal(h.status, 3);
    assert_named(&h);
    kill_is_lost = false;
    assert_true(left < 0);
    assert_int_equal(kill(left, SIGKILL), 0);
    assert_int_equal(kill(before, SIGKILL), 0);
    assert_int_equal(waitpid(before, NULL, 0), before);
}

/* ---- where programs are found ------------------------------------------------------------------------------------ */

static void make_file(const char *name, mode_t mode)
{
    int fd = creat(name, mode);
    assert_true(fd >= 0);
    close(fd);
}

static void assert_obstacle(const char *path, const char *name, int obstacle)
{
    if (path != NULL)
        assert_int_equal(setenv("PATH", path, 1), 0);
    else
        assert_int_equal(unsetenv("PATH"), 0);
    assert_int_equal(program_obstacle(name), obstacle);
}

/* As execvp reads PATH. */
static void parts_of_path(void **state)
{
    char folder[] = "/tmp/test_helper.XXXXXX", *before = strdup(getenv("PATH")), *here = getcwd(NULL, 0);
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(mkdir("a", 0700), 0);
    assert_int_equal(mkdir("a/folder", 0700), 0);
    make_file("a/both", 0600);
    make_file("a/closed", 0600);
    make_file("both", 0700);
    assert_obstacle("/none:", "both", 0);
    assert_obstacle(":/none", "both", 0);
    assert_obstacle("/none::/none", "both", 0);
    assert_obstacle("", "both", 0);
    assert_obstacle("/none", "both", ENOENT);
    assert_obstacle("a", "both", EACCES);
    assert_obstacle("a:/none", "both", EACCES);
    assert_obstacle("a:.", "both", 0);
    assert_obstacle("a:/none", "closed", EACCES);
    assert_obstacle("a:/none", "folder", EISDIR);
    assert_obstacle("a:", "", ENOENT);
    assert_obstacle(NULL, "sh", 0);
    assert_obstacle(NULL, "both", ENOENT);
    assert_int_equal(setenv("PATH", before, 1), 0);
    unlink("a/both");
    unlink("a/closed");
    unlink("both");
    rmdir("a/folder");
    rmdir("a");
    assert_int_equal(chdir(here), 0);
    rmdir(folder);
    free(before);
    free(here);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_what_it_started),           cmocka_unit_test(ends_at_the_deadline),
        cmocka_unit_test(program_that_cannot_be_killed),  cmocka_unit_test(rest_that_cannot_be_killed),
        cmocka_unit_test(launcher_that_cannot_be_killed), cmocka_unit_test(stranger),
        cmocka_unit_test(rest_beside_a_stranger),         cmocka_unit_test(parts_of_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
