/* SPDX-License-Identifier: BSD-3-Clause */
/* failure: the form of its lines, what becomes of quotes, and that a flood of one reason is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "observe/failure.h"

static char text[65536];

/* Logs `count` failures (0: what was left out before) and catches what is written to standard error. */
static const char *caught(struct log_limits *limits, enum log_level level, const struct failure *what, unsigned count)
{
    struct logger l = {.level = level, .rank = 3, .limits = limits};
    FILE *file = tmpfile();
    int kept = dup(STDERR_FILENO);
    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    for (unsigned i = 0; i < count; i++)
        failure_log(&l, what);
    if (count == 0)
        log_settle(&l, true);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static unsigned lines(const char *s)
{
    unsigned n = 0;
    for (; (s = strchr(s, '\n')) != NULL; s++)
        n++;
    return n;
}

static const struct failure a_want = {.what = "want",
                                      .reason = "BATON_EPEER",
                                      .key = "req-7",
                                      .state = "active",
                                      .leg = "moving",
                                      .detail = "it is gone",
                                      .peer_engine = "prefill0",
                                      .peer_rank = 5,
                                      .age_ns = 12345678};

static void test_line(void **state)
{
    (void)state;
    assert_string_equal(
        caught(NULL, LOG_WARN, &a_want, 1),
        "baton[3] warning: failure what=want reason=BATON_EPEER key=\"req-7\" peer=prefill0:5 leg=moving "
        "state=active age_ms=12.3 detail=\"it is gone\"\n");
    struct failure bare = {.what = "offer", .reason = "BATON_ESTALL"};
    assert_string_equal(caught(NULL, LOG_WARN, &bare, 1),
                        "baton[3] warning: failure what=offer reason=BATON_ESTALL key=\"\" peer=- leg=- state=- "
                        "age_ms=0.0 detail=\"\"\n");
    assert_string_equal(caught(NULL, LOG_ERROR, &bare, 1), "");
}

static void test_texts_cannot_forge_fields(void **state)
{
    (void)state;
    struct failure forged = a_want;
    forged.key = "a\" peer=9 \\\"";
    forged.detail = "x\nbaton[0] error: y\"";
    const char *line = caught(NULL, LOG_WARN, &forged, 1);
    assert_non_null(strstr(line, "key=\"a' peer=9 ''\" peer=prefill0:5"));
    assert_non_null(strstr(line, "detail=\"x baton[0] error: y'\"\n"));
    assert_int_equal(lines(line), 1);
}

/* Keys that differ at their ends are told apart, and what comes behind them is there. */
static void test_long_texts_keep_both_ends(void **state)
{
    (void)state;
    struct log_limits *limits = log_limits_create();
    char key[256], detail[256];
    struct failure longest = a_want;
    memset(key, 'k', sizeof key);
    memcpy(key, "begin", 5);
    memcpy(key + sizeof key - 4, "end", 4);
    memset(detail, 'd', sizeof detail);
    memcpy(detail + sizeof detail - 4, "why", 4);
    longest.key = key;
    longest.detail = detail;
    const char *line = caught(limits, LOG_WARN, &longest, 2);
    assert_non_null(strstr(line, "key=\"begink"));
    assert_non_null(strstr(line, "kkk...kkk"));
    assert_non_null(strstr(line, "kend\" peer=prefill0:5"));
    assert_non_null(strstr(line, "dwhy\"\n"));
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 50000000}, NULL);
    line = caught(limits, LOG_WARN, NULL, 0);
    assert_non_null(strstr(line, "kend\" peer=prefill0:5"));
    assert_non_null(strstr(line, "dwhy\"\n"));
    key[159] = '\0'; /* the longest that is whole */
    line = caught(NULL, LOG_WARN, &longest, 1);
    assert_non_null(strstr(line, key));
    log_limits_destroy(limits);
}

static void test_a_flood_is_counted_by_reason(void **state)
{
    (void)state;
    struct log_limits *limits = log_limits_create();
    struct failure other = a_want;
    other.reason = "BATON_ESTALL";
    assert_int_equal(lines(caught(limits, LOG_WARN, &a_want, 1000)), 1);
    assert_int_equal(lines(caught(limits, LOG_WARN, &other, 1000)), 1);
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 50000000}, NULL);
    assert_non_null(
        strstr(caught(limits, LOG_WARN, &a_want, 1), "detail=\"it is gone\" (999 more in the last second)\n"));
    assert_string_equal(caught(limits, LOG_WARN, &a_want, 1), "");
    log_limits_destroy(limits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_texts_cannot_forge_fields),
        cmocka_unit_test(test_long_texts_keep_both_ends),
        cmocka_unit_test(test_a_flood_is_counted_by_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
