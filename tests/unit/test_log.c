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
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
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

/* Brings the real standard error back. The checks print there, so captured packets are checked only after this. */
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
        assert_int_equal(packets[limit], limit); /* the levels from ERROR to the limit, never NONE */
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

/* ---- one line a cause and second --------------------------------------------------------------------------------- */

static void wait_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static void say(const struct logger *l, int number)
{
    log_line(l, LOG_WARN, "CANCEL to rank %d", number);
}

static void a_cause_has_one_line_a_second(void **state)
{
    (void)state;
    struct logger l = {.level = LOG_DEBUG, .rank = 1, .limits = log_limits_create()};
    static const char *const lines[] = {"baton[1] warning: CANCEL to rank 0\n",
                                        "baton[1] warning: another place\n",
                                        "baton[1] warning: each\n",
                                        "baton[1] warning: each\n",
                                        "baton[1] debug: all\n",
                                        "baton[1] debug: all\n",
                                        "baton[1] warning: CANCEL to rank 99 (37 more in the last second)\n"};
    char text[256];
    assert_non_null(l.limits);
    for (int i = 0; i < 38; i++)
        say(&l, i);
    log_line(&l, LOG_WARN, "another place");
    for (int i = 0; i < 2; i++)
        log_each(&l, LOG_WARN, "each");
    for (int i = 0; i < 2; i++)
        log_line(&l, LOG_DEBUG, "all");
    wait_ms(1050);
    say(&l, 99);
    say(&l, 100);
    restore();
    for (unsigned i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_true(next_packet(text, sizeof text));
        assert_string_equal(text, lines[i]);
    }
    assert_false(next_packet(text, sizeof text));
    log_limits_destroy(l.limits);
}

static void causes_may_be_named(void **state)
{
    (void)state;
    static const char one[] = "one", other[] = "other";
    struct logger l = {.level = LOG_WARN, .rank = 1, .limits = log_limits_create()};
    char text[256];
    int lines = 0;
    for (int i = 0; i < 10; i++) {
        log_line_of(&l, one, LOG_WARN, "%s", one);
        log_line_of(&l, other, LOG_WARN, "%s", other);
    }
    while (next_packet(text, sizeof text))
        lines++;
    restore();
    assert_int_equal(lines, 2);
    log_limits_destroy(l.limits);
}

/* More causes than there is room for: each line is written or counted, though some causes share a line. */
static void more_causes_than_places_are_bounded(void **state)
{
    (void)state;
    static const char causes[200];
    struct logger l = {.level = LOG_WARN, .rank = 1, .limits = log_limits_create()};
    char text[256];
    int lines = 0, told = 0;
    for (int i = 0; i < 200; i++)
        log_line_of(&l, &causes[i], LOG_WARN, "cause %d", i);
    while (next_packet(text, sizeof text))
        lines++;
    log_settle(&l, true);
    while (next_packet(text, sizeof text)) {
        int more = 0;
        sscanf(strchr(text, '('), "(%d more", &more);
        told += 1 + more;
    }
    restore();
    assert_in_range(lines, 63, 199);
    assert_int_equal(lines + told, 200);
    log_limits_destroy(l.limits);
}

static void what_was_left_out_is_told_in_the_end(void **state)
{
    (void)state;
    struct logger l = {.level = LOG_WARN, .rank = 1, .limits = log_limits_create()};
    char text[256];
    for (int i = 0; i < 5; i++)
        say(&l, i);
    log_settle(&l, false); /* a second has not passed yet */
    assert_true(next_packet(text, sizeof text));
    const bool early = next_packet(text, sizeof text);
    wait_ms(1050);
    log_settle(&l, false);
    log_settle(&l, true); /* it was told already */
    say(&l, 6);           /* the line that told the count counts as a line of its cause */
    log_settle(&l, true);
    restore();
    assert_false(early);
    assert_true(next_packet(text, sizeof text));
    assert_string_equal(text, "baton[1] warning: CANCEL to rank 4 (3 more in the last second)\n");
    expect_only("baton[1] warning: CANCEL to rank 6\n");
    log_limits_destroy(l.limits);
}

static void a_long_line_keeps_its_count(void **state)
{
    (void)state;
    struct logger l = {.level = LOG_WARN, .rank = 1, .limits = log_limits_create()};
    char text[3000], line[4096];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            wait_ms(1050);
        log_line_of(&l, &l, LOG_WARN, "%s", text);
    }
    restore();
    assert_true(next_packet(line, sizeof line));
    assert_true(next_packet(line, sizeof line));
    assert_int_equal(strlen(line), 1024);
    assert_non_null(strstr(line, "x... (1 more in the last second)\n"));
    log_limits_destroy(l.limits);
}

/* ---- the engine's own logger ------------------------------------------------------------------------------------- */

struct heard {
    int lines;
    baton_log_source_t source;
    baton_log_level_t level;
    char text[2048];
};

static void hear(void *user, baton_log_level_t level, const baton_log_source_t *source, const char *line)
{
    struct heard *h = user;
    h->lines++;
    h->level = level;
    h->source = *source;
    snprintf(h->text, sizeof h->text, "%s", line);
    errno = EDOM;
}

static void a_sink_takes_the_sentence_alone(void **state)
{
    (void)state;
    struct heard h = {0};
    const struct logger l = {.level = LOG_INFO,
                             .rank = 7,
                             .engine = "prefill0",
                             .index = 3,
                             .life = UINT64_MAX,
                             .sink = hear,
                             .sink_user = &h};
    char text[256];
    errno = 0;
    log_line(&l, LOG_INFO, "peer %d\nis late", 3);
    log_line(&l, LOG_DEBUG, "not this");
    const int after = errno;
    const bool written = next_packet(text, sizeof text);
    restore();
    assert_false(written);
    assert_int_equal(after, 0);
    assert_int_equal(h.lines, 1);
    assert_int_equal(h.level, BATON_LOG_INFO);
    assert_int_equal(h.source.size, sizeof h.source);
    assert_int_equal(h.source.world_rank, 7);
    assert_string_equal(h.source.engine, "prefill0");
    assert_int_equal(h.source.rank, 3);
    assert_true(h.source.life == UINT64_MAX);
    assert_string_equal(h.text, "peer 3 is late");
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

/* Takes what has come. Of each thread's lines, those that the socket took come whole, in order and once. */
static int count_lines(int next[THREADS], int *bad)
{
    char text[256], expected[256];
    int n = 0;
    for (; next_packet(text, sizeof text); n++) {
        int rank = 0, line = 0;
        if (sscanf(text, "baton[%d] info: line %d", &rank, &line) != 2 || rank < 0 || rank >= THREADS ||
            line < next[rank]) {
            ++*bad;
            continue;
        }
        snprintf(expected, sizeof expected, "baton[%d] info: line %d of %d\n", rank, line, LINES_EACH);
        *bad += strcmp(text, expected) != 0;
        next[rank] = line + 1;
    }
    return n;
}

static void lines_of_threads_do_not_mix(void **state)
{
    (void)state;
    struct writer writers[THREADS];
    int next[THREADS] = {0}, bad = 0, failed = 0, come = 0;
    for (int i = 0; i < THREADS; i++) {
        writers[i].log = (struct logger){.level = LOG_INFO, .rank = i};
        failed += pthread_create(&writers[i].thread, NULL, write_lines, &writers[i]) != 0;
    }
    for (int i = 0; i < THREADS && failed == 0; i++) {
        while (pthread_tryjoin_np(writers[i].thread, NULL) != 0)
            come += count_lines(next, &bad);
    }
    come += count_lines(next, &bad);
    restore();
    assert_int_equal(failed, 0);
    assert_int_equal(bad, 0);
    assert_true(come >= THREADS); /* as many as the socket takes at once, whoever sleeps */
}

/* ---- nobody reads ------------------------------------------------------------------------------------------------ */

/* No thread waits for a reader. What was lost is told once somebody reads again. */
static void what_nobody_reads_is_counted(void **state)
{
    (void)state;
    const struct logger log = {.level = LOG_INFO, .rank = 1, .limits = log_limits_create()};
    char text[256], first[256] = "", second[256] = "";
    int written = 0;
    for (int i = 0; i < 10000; i++)
        log_each(&log, LOG_INFO, "line %d", i);
    while (next_packet(text, sizeof text))
        written++;
    log_each(&log, LOG_INFO, "again");
    const bool both = next_packet(first, sizeof first) && next_packet(second, sizeof second);
    log_each(&log, LOG_INFO, "and again");
    const bool one = next_packet(text, sizeof text) && !next_packet(text + 128, sizeof text - 128);
    restore();
    log_limits_destroy(log.limits);
    assert_true(written > 0 && written < 10000);
    assert_true(both && one);
    assert_string_equal(first, "baton[1] info: again\n");
    snprintf(text, sizeof text, "baton[1] warning: %d lines before this one were lost: the standard error took none\n",
             10000 - written);
    assert_string_equal(second, text);
}

/* ---- a thread that is held --------------------------------------------------------------------------------------- */

/* A thread whose line names a text that cannot be read yet. It is held in the midst of its line. */
static struct {
    struct logger log;
    char *text;
    size_t bytes;
    int held[2], go_on[2]; /* pipes: that it is held, and that it may go on */
    bool was_let_go;       /* before the time was up */
} slow;

static void wait_for_the_text(int number)
{
    struct pollfd go_on = {.fd = slow.go_on[0], .events = POLLIN};
    (void)number;
    const bool told = write(slow.held[1], "", 1) == 1;
    slow.was_let_go = told && poll(&go_on, 1, 30000) == 1;
    mprotect(slow.text, slow.bytes, PROT_READ); /* it is empty */
}

static void *write_slowly(void *arg)
{
    (void)arg;
    log_line_of(&slow.log, &slow, LOG_WARN, "slow %s", slow.text); /* the second of its cause: it is counted */
    return NULL;
}

/* That thread may hold the lock of the limits. */
static void a_slow_line_holds_up_no_other(void **state)
{
    (void)state;
    const struct sigaction waits = {.sa_handler = wait_for_the_text};
    struct sigaction before;
    pthread_t thread;
    char byte;
    slow.log = (struct logger){.level = LOG_WARN, .rank = 1, .limits = log_limits_create()};
    slow.bytes = (size_t)sysconf(_SC_PAGESIZE);
    slow.text = mmap(NULL, slow.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(slow.text != MAP_FAILED && pipe(slow.held) == 0 && pipe(slow.go_on) == 0);
    log_line_of(&slow.log, &slow, LOG_WARN, "first");
    assert_int_equal(sigaction(SIGSEGV, &waits, &before), 0);
    assert_int_equal(pthread_create(&thread, NULL, write_slowly, NULL), 0);
    const bool held = read(slow.held[0], &byte, 1) == 1;
    log_line(&slow.log, LOG_WARN, "other");
    log_settle(&slow.log, true);
    const bool told = write(slow.go_on[1], "", 1) == 1;
    pthread_join(thread, NULL);
    sigaction(SIGSEGV, &before, NULL);
    restore();
    assert_true(held && told && slow.was_let_go);
    char text[256];
    assert_true(next_packet(text, sizeof text));
    assert_string_equal(text, "baton[1] warning: first\n");
    expect_only("baton[1] warning: other\n");
    for (int i = 0; i < 2; i++) {
        close(slow.held[i]);
        close(slow.go_on[i]);
    }
    munmap(slow.text, slow.bytes);
    log_limits_destroy(slow.log.limits);
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
        LOG_TEST(a_cause_has_one_line_a_second),
        LOG_TEST(causes_may_be_named),
        LOG_TEST(more_causes_than_places_are_bounded),
        LOG_TEST(what_was_left_out_is_told_in_the_end),
        LOG_TEST(a_long_line_keeps_its_count),
        LOG_TEST(a_sink_takes_the_sentence_alone),
        LOG_TEST(lines_of_threads_do_not_mix),
        LOG_TEST(what_nobody_reads_is_counted),
        LOG_TEST(a_slow_line_holds_up_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
