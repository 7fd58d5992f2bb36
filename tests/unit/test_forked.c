/* SPDX-License-Identifier: BSD-3-Clause */
/* test_forked: who is told to be a copy, however the copy was made. Each test begins in a process of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/forked.h"

static bool knows_no_wiping; /* an older kernel */

int __real_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice);

int __wrap_madvise(void *at, size_t bytes, int advice)
{
    if (!knows_no_wiping)
        return __real_madvise(at, bytes, advice);
    errno = EINVAL;
    return -1;
}

static int status_of(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

static pid_t by_clone(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

/* Whether a copy made in that way says so of itself, and its own copy too. Neither can change that. */
static bool tells(pid_t (*make)(void))
{
    const pid_t child = make();
    if (child == 0) {
        const bool is = forked_is() && forked_watch() == 0 && forked_is();
        const pid_t grandchild = make();
        if (grandchild == 0)
            _exit(!forked_is());
        _exit(!is || status_of(grandchild) != 0);
    }
    return status_of(child) == 0;
}

static void in_a_process(bool (*holds)(void))
{
    const pid_t child = fork();
    if (child == 0)
        _exit(!holds());
    assert_int_equal(status_of(child), 0);
}

static bool watched(void)
{
    return forked_watch() == 0 && !forked_is() && tells(fork) && tells(by_clone) && !forked_is() &&
           forked_watch() == 0 && !forked_is();
}

static void copies_are_told_apart(void **state)
{
    (void)state;
    in_a_process(watched);
}

static bool watched_by_a_handler(void)
{
    knows_no_wiping = true;
    return forked_watch() == 0 && !forked_is() && tells(fork) && !forked_is();
}

static void an_older_kernel(void **state)
{
    (void)state;
    in_a_process(watched_by_a_handler);
}

/* A process that was forked before is the first of its own. */
static bool copied_before(void)
{
    const pid_t child = fork();
    if (child == 0)
        _exit(forked_is() || !watched());
    return status_of(child) == 0 && !forked_is();
}

static void copies_that_were_made_before(void **state)
{
    (void)state;
    in_a_process(copied_before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_told_apart),
        cmocka_unit_test(an_older_kernel),
        cmocka_unit_test(copies_that_were_made_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
