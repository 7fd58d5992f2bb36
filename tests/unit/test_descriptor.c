/* SPDX-License-Identifier: BSD-3-Clause */
/* descriptor: pipes that another process fills and empties slowly, while a timer signals this one all the time. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "batonrun/descriptor.h"

enum { BYTES = 1 << 20, PIECE = 4096 };

static volatile sig_atomic_t heard;

static void hear(int number)
{
    (void)number;
    heard++;
}

/* Without SA_RESTART, 10,000 times a second; 0: no more. */
static void signals(long every_us)
{
    const struct sigaction action = {.sa_handler = hear};
    const struct itimerval often = {{0, every_us}, {0, every_us}};
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
}

static uint8_t byte_of(size_t i)
{
    return (uint8_t)(i * 7 + i / 251);
}

/* In a process of its own, slowly: reads all, or writes all. Its status is 0 where all bytes were right. */
static pid_t start_other(int ends[2], bool reads)
{
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid != 0) {
        close(ends[reads ? 0 : 1]);
        return pid;
    }
    close(ends[reads ? 1 : 0]);
    uint8_t piece[PIECE];
    for (size_t done = 0; done < BYTES;) {
        ssize_t n = PIECE;
        for (size_t i = 0; i < PIECE && !reads; i++)
            piece[i] = byte_of(done + i);
        n = reads ? read(ends[0], piece, PIECE) : write(ends[1], piece, PIECE);
        if (n <= 0)
            _exit(1);
        for (ssize_t i = 0; i < n && reads; i++)
            if (piece[i] != byte_of(done + (size_t)i))
                _exit(2);
        done += (size_t)n;
        usleep(200);
    }
    _exit(0);
}

static void assert_good(pid_t pid)
{
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Into a pipe as it is made, and into one that whoever shares it has made nonblocking. */
static void write_all(int flags)
{
    int ends[2];
    uint8_t *bytes = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = byte_of(i);
    pid_t other = start_other(ends, true);
    assert_int_equal(fcntl(ends[1], F_SETFL, flags), 0);
    signals(100);
    assert_int_equal(descriptor_write(ends[1], bytes, BYTES), 0);
    signals(0);
    assert_true(heard > 0);
    close(ends[1]);
    assert_good(other);
    free(bytes);
}

static void test_all_is_written(void **state)
{
    (void)state;
    write_all(0);
    write_all(O_NONBLOCK);
}

static void test_all_is_read(void **state)
{
    (void)state;
    int ends[2];
    uint8_t *bytes = malloc(BYTES + 1);
    pid_t other = start_other(ends, false);
    signals(100);
    assert_true(descriptor_await(ends[0], POLLIN, 10000));
    assert_true(descriptor_read(ends[0], bytes, BYTES));
    assert_false(descriptor_read(ends[0], bytes, 1)); /* it has ended */
    signals(0);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(bytes[i], byte_of(i));
    close(ends[0]);
    assert_good(other);
    free(bytes);
}

/* A wait lasts as long as it is told to, and no longer than until something comes. */
static void test_waits(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    signals(100);
    for (int most_ms = 0; most_ms <= 60; most_ms += 30) {
        const uint64_t began = clock_now_ns();
        assert_false(descriptor_await(ends[0], POLLIN, most_ms));
        assert_true(clock_now_ns() - began >= (uint64_t)(most_ms > 0 ? most_ms - 1 : 0) * CLOCK_NS_PER_MS);
    }
    assert_true(descriptor_await(ends[1], POLLOUT, -1));
    assert_int_equal(descriptor_write(ends[1], "x", 1), 0);
    assert_true(descriptor_await(ends[0], POLLIN, -1));
    signals(0);
    close(ends[0]);
    close(ends[1]);
}

static void test_what_is_closed(void **state)
{
    (void)state;
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    close(ends[1]);
    assert_true(descriptor_await(ends[0], POLLIN, 1000));
    assert_false(descriptor_read(ends[0], &byte, 1));
    close(ends[0]);
    assert_false(descriptor_read(ends[0], &byte, 1));
    assert_int_equal(descriptor_write(ends[0], "x", 1), EBADF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_written),
        cmocka_unit_test(test_all_is_read),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_what_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
