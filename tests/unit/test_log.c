/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log: what a line looks like, and that each is one write. Standard error is replaced by a socket that keeps the
 * bounds between writes, so a line in two writes would arrive as two packets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "observe/log.h"

static int saved_stderr = -1, inbox = -1;

static int capture(void **state)
{
    (void)state;
    int pair[2];
    fflush(stderr);
    saved_stderr = dup(STDERR_FILENO);
    if (saved_stderr < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0)
        return -1;
    inbox = pair[0];
    const int duplicated = dup2(pair[1], STDERR_FILENO);
    close(pair[1]);
    return duplicated < 0 ? -1 : 0;
}

/* What the checks print must not go into the socket: captured packets are read after the real one is back. */
static void restore(void)
{
    if (saved_stderr < 0)
        return;
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    saved_stderr = -1;
}

static int release(void **state)
{
    (void)state;
    restore();
    close(inbox);
    return 0;
}

/* The next packet as a string; false: there is none. */
static bool next_packet(char *text, size_t size)
{
    const ssize_t length = recv(inbox, text, size - 1, MSG_DONTWAIT);
    if (length <= 0)
        return false;
    text[length] = '\0';
    return true;
}

static void expect_only(const char *line)
{
    char text[4096];
    assert_true(next_packet(text, sizeof text));
    assert_string_equal(text, line);
    assert_false(next_packet(text, sizeof text));
}

static void line_has_rank_level_and_text(void **state)
{
    (void)state;
    const struct logger l = {.level = LOG_DEBUG, .rank = 12};
    log_line(&l, LOG_WARN, "peer %d is %s", 3, "late");
    restore();
    expect_only("baton[12] warning: peer 3 is late\n");
}

static void levels_have_names(void **state)
{
    (void)state;
    static const char *const lines[] = {"baton[0] error: x\n", "baton[0] warning: x\n", "baton[0] info: x\n",
                                        "baton[0] debug: x\n"};
    const struct logger l = {.level = LOG_DEBUG, .rank = 0};
    for (int level = LOG_ERROR; level <= LOG_DEBUG; level++)
        log_line(&l, (enum log_level)level, "x");
    restore();
    for (int i = 0; i < 4; i++) {
        char text[256];
        assert_true(next_packet(text, sizeof text));
        assert_string_equal(text, lines[i]);
    }
}

static void rank_may_be_unknown(void **state)
{
    (void)state;
    const struct logger l = {.level = LOG_ERROR, .rank = -1};
    log_line(&l, LOG_ERROR, "early");
    restore();
    expect_only("baton[?] error: early\n");
}

static void level_bounds_what_is_written(void **state)
{
    (void)state;
    int packets[LOG_DEBUG + 1] = {0};
    for (int limit = LOG_NONE; limit <= LOG_DEBUG; limit++) {
        const struct logger l = {.level = (enum log_level)limit, .rank = 0};
        char text[256];
        for (int level = LOG_NONE; level <= LOG_DEBUG; level++)
            log_line(&l, (enum log_level)level, "x");
        while (next_packet(text, sizeof text))
            packets[limit]++;
    }
    restore();
    for (int limit = LOG_NONE; limit <= LOG_DEBUG; limit++)
        assert_int_equal(packets[limit], limit); /* errors up to the limit; a line of level NONE never */
}

static void text_cannot_break_the_line(void **state)
{
    (void)state;
    const struct logger l = {.level = LOG_ERROR, .rank = 1};
    log_line(&l, LOG_ERROR, "key \"%s\"", "a\nbaton[0] error: forged\x1b[2J\t\x7f\xc3\xa9");
    restore();
    expect_only("baton[1] error: key \"a baton[0] error: forged [2J  \xc3\xa9\"\n");
}

static void long_text_is_cut_and_says_so(void **state)
{
    (void)state;
    const struct logger l = {.level = LOG_ERROR, .rank = 1};
    char text[3000], line[4096];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    log_line(&l, LOG_ERROR, "%s", text);
    log_line(&l, LOG_ERROR, "%.*s", 1023 - (int)strlen("baton[1] error: "), text); /* the longest that fits */
    restore();
    assert_true(next_packet(line, sizeof line));
    assert_int_equal(strlen(line), 1024);
    assert_string_equal(line + 1024 - 5, "x...\n");
    assert_true(next_packet(line, sizeof line));
    assert_int_equal(strlen(line), 1024);
    assert_string_equal(line + 1024 - 5, "xxxx\n");
    assert_false(next_packet(line, sizeof line));
}

static void errno_stays_and_failure_is_silent(void **state)
{
    (void)state;
    const struct logger l = {.level = LOG_ERROR, .rank = 1};
    close(STDERR_FILENO);
    errno = EDOM;
    log_line(&l, LOG_ERROR, "nobody reads this");
    const int after = errno;
    restore();
    assert_int_equal(after, EDOM);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

#define THREADS 4
#define LINES_EACH 500

struct writer {
    struct logger log;
    pthread_t thread;
};

static void *write_lines(void *arg)
{
    const struct writer *w = arg;
    for (int i = 0; i < LINES_EACH; i++)
        log_line(&w->log, LOG_INFO, "line %d of %d", i, LINES_EACH);
    return NULL;
}

/* Blocks until a packet comes: a full socket holds the writers up, so it is emptied while they run. */
static void count_lines(int next[THREADS], int *bad)
{
    for (int i = 0; i < THREADS * LINES_EACH; i++) {
        char text[256], expected[256];
        int rank;
        const ssize_t length = recv(inbox, text, sizeof text - 1, 0);
        text[length > 0 ? length : 0] = '\0';
        if (sscanf(text, "baton[%d]", &rank) != 1 || rank < 0 || rank >= THREADS) {
            ++*bad;
            continue;
        }
        snprintf(expected, sizeof expected, "baton[%d] info: line %d of %d\n", rank, next[rank]++, LINES_EACH);
        *bad += strcmp(text, expected) != 0;
    }
}

static void lines_of_threads_do_not_mix(void **state)
{
    (void)state;
    struct writer writers[THREADS];
    int next[THREADS] = {0}, bad = 0, failed = 0;
    for (int i = 0; i < THREADS; i++) {
        writers[i].log = (struct logger){.level = LOG_INFO, .rank = i};
        failed += pthread_create(&writers[i].thread, NULL, write_lines, &writers[i]) != 0;
    }
    if (failed == 0)
        count_lines(next, &bad);
    for (int i = 0; i < THREADS && failed == 0; i++)
        pthread_join(writers[i].thread, NULL);
    restore();
    assert_int_equal(failed, 0);
    assert_int_equal(bad, 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(next[i], LINES_EACH);
}

#define LOG_TEST(test) cmocka_unit_test_setup_teardown(test, capture, release)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOG_TEST(line_has_rank_level_and_text),
        LOG_TEST(levels_have_names),
        LOG_TEST(rank_may_be_unknown),
        LOG_TEST(level_bounds_what_is_written),
        LOG_TEST(text_cannot_break_the_line),
        LOG_TEST(long_text_is_cut_and_says_so),
        LOG_TEST(errno_stays_and_failure_is_silent),
        LOG_TEST(lines_of_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
