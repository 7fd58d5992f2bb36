/* SPDX-License-Identifier: BSD-3-Clause */
/* stderr_line: whatever the standard error is, a line is written at once or left out, and no signal comes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stderr_line.h"

#define LINE "a line\n"

enum { HANG_S = 20 }; /* a child that is still there then is ended, and its test fails */

/*
 * Writes a line in a process of its own, whose standard error is `to`. Its status: 1 written, 0 left out; -1: a signal.
 */
static int write_to(int to)
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        alarm(HANG_S);
        signal(SIGPIPE, SIG_DFL);
        dup2(to, STDERR_FILENO);
        const bool is_written = stderr_line(LINE, strlen(LINE));
        _exit(is_written);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* With whole lines, so that some room is left that a line does not fit, or to the last byte. */
static void fill(int fd, size_t length)
{
    char line[1024];
    const int flags = fcntl(fd, F_GETFL);
    memset(line, 'x', sizeof line);
    line[length - 1] = '\n';
    assert_int_equal(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
    while (write(fd, line, length) > 0)
        continue;
    assert_int_equal(fcntl(fd, F_SETFL, flags), 0);
}

/* Lines until one is left out, in a process of its own. How it ended. */
static int write_many_to(int to)
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        alarm(HANG_S);
        dup2(to, STDERR_FILENO);
        for (int i = 0; i < 100000; i++)
            if (!stderr_line(LINE LINE LINE LINE, 4 * strlen(LINE)))
                _exit(0);
        _exit(1);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void expect_line(int from)
{
    char text[64] = "";
    assert_int_equal(read(from, text, sizeof text - 1), strlen(LINE));
    assert_string_equal(text, LINE);
}

static int make_pipe(int end[2])
{
    return pipe(end);
}

static int make_sockets(int end[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM, 0, end);
}

/* A pipe that has a name. */
static int make_fifo(int end[2])
{
    char path[] = "/tmp/baton-test-stderr.XXXXXX", name[64];
    if (mkdtemp(path) == NULL)
        return -1;
    snprintf(name, sizeof name, "%s/fifo", path);
    const int rc = mkfifo(name, 0600);
    end[0] = rc == 0 ? open(name, O_RDONLY | O_NONBLOCK) : -1;
    end[1] = rc == 0 ? open(name, O_WRONLY) : -1;
    unlink(name);
    rmdir(path);
    return end[1] < 0 ? -1 : 0;
}

/* Of a pseudo-terminal, which is stopped by not reading it: end[0] is its master. */
static int make_terminal(int end[2])
{
    end[0] = posix_openpt(O_RDWR | O_NOCTTY);
    if (end[0] < 0 || grantpt(end[0]) != 0 || unlockpt(end[0]) != 0)
        return -1;
    end[1] = open(ptsname(end[0]), O_RDWR | O_NOCTTY);
    return end[1] < 0 ? -1 : 0;
}

static int (*const makers[])(int end[2]) = {make_pipe, make_sockets, make_fifo, make_terminal};

static void test_a_line_is_written(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        int end[2];
        assert_int_equal(makers[i](end), 0);
        assert_int_equal(write_to(end[1]), 1);
        expect_line(end[0]);
        close(end[0]);
        close(end[1]);
    }
}

/* Behind what others have written to the same file, not over it. */
static void test_a_file(void **state)
{
    (void)state;
    char path[] = "/tmp/baton-test-stderr.XXXXXX", text[64] = "";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    assert_int_equal(write(fd, "before ", 7), 7);
    assert_int_equal(write_to(fd), 1);
    assert_int_equal(write_to(fd), 1);
    assert_int_equal(pread(fd, text, sizeof text - 1, 0), 7 + 2 * (ssize_t)strlen(LINE));
    assert_string_equal(text, "before " LINE LINE);
    close(fd);
}

static void test_nobody_reads(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 80, 1000};
    for (unsigned i = 0; i < sizeof makers / sizeof makers[0]; i++)
        for (unsigned k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
            int end[2];
            if (makers[i](end) != 0)
                continue; /* no terminal can be had */
            if (lengths[k] > 0)
                fill(end[1], lengths[k]);
            assert_int_equal(write_many_to(end[1]), 0);
            close(end[0]);
            close(end[1]);
        }
}

/* A terminal that another user opened, as after su(1): it cannot be opened again, and takes lines. */
static void test_the_terminal_of_another_user(void **state)
{
    (void)state;
    int end[2] = {-1, -1}, status;
    if (getuid() != 0 || make_terminal(end) != 0)
        skip();
    fchmod(end[1], 0600);
    const pid_t child = fork();
    if (child == 0) {
        alarm(HANG_S);
        dup2(end[1], STDERR_FILENO);
        _exit(setuid(65534) != 0 ? 2 : !stderr_line(LINE, strlen(LINE)));
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(end[0]);
    close(end[1]);
}

static void test_the_reader_has_gone(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        int end[2];
        assert_int_equal(makers[i](end), 0);
        close(end[0]);
        assert_int_equal(write_to(end[1]), 0);
        close(end[1]);
    }
    assert_int_equal(write_to(-1), 1); /* the test's own */
}

/* A SIGPIPE that had come before, to a thread that holds it back, stays; the thread's mask does too. */
static void test_signals_of_the_caller(void **state)
{
    (void)state;
    int status;
    const pid_t child = fork();
    if (child == 0) {
        int end[2];
        sigset_t set, now;
        alarm(HANG_S);
        sigemptyset(&set);
        sigaddset(&set, SIGPIPE);
        if (pipe(end) != 0 || close(end[0]) != 0 || dup2(end[1], STDERR_FILENO) < 0)
            _exit(1);
        for (int has_come = 0; has_come < 2; has_come++) {
            sigprocmask(SIG_BLOCK, &set, NULL);
            if (has_come)
                raise(SIGPIPE);
            if (stderr_line(LINE, strlen(LINE)))
                _exit(2);
            if (sigpending(&now) != 0 || sigismember(&now, SIGPIPE) != has_come)
                _exit(3 + has_come);
            if (sigprocmask(SIG_BLOCK, NULL, &now) != 0 || sigismember(&now, SIGPIPE) != 1)
                _exit(5);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_is_written),   cmocka_unit_test(test_a_file),
        cmocka_unit_test(test_nobody_reads),        cmocka_unit_test(test_the_terminal_of_another_user),
        cmocka_unit_test(test_the_reader_has_gone), cmocka_unit_test(test_signals_of_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
