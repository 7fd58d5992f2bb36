/* SPDX-License-Identifier: BSD-3-Clause */
/* failure: the form of its lines, what quotes become, and how many are written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "observe/failure.h"

static char text[65536];

/* Logs `count` failures at `now` and catches what is written to standard error. */
static const char *caught(struct failure_log *f, enum log_level level, uint64_t now, const struct failure *what,
                          unsigned count)
{
    struct logger l = {.level = level, .rank = 3};
    FILE *file = tmpfile();
    int kept = dup(STDERR_FILENO);
    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    for (unsigned i = 0; i < count; i++)
        failure_log(f, &l, now, what);
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
                                      .peer = 5,
                                      .age_ns = 12345678};

static void test_line(void **state)
{
    (void)state;
    struct failure_log f = {0};
    assert_string_equal(caught(&f, LOG_WARN, 1, &a_want, 1),
                        "baton[3] warning: failure what=want reason=BATON_EPEER key=\"req-7\" peer=5 leg=moving "
                        "state=active age_ms=12.3 detail=\"it is gone\"\n");
    struct failure bare = {.what = "offer", .reason = "BATON_ESTALL", .peer = -1};
    assert_string_equal(caught(&f, LOG_WARN, 1, &bare, 1),
                        "baton[3] warning: failure what=offer reason=BATON_ESTALL key=\"\" peer=-1 leg=- state=- "
                        "age_ms=0.0 detail=\"\"\n");
    assert_string_equal(caught(&f, LOG_ERROR, 1, &bare, 1), "");
}

static void test_texts_cannot_forge_fields(void **state)
{
    (void)state;
    struct failure_log f = {0};
    struct failure forged = a_want;
    forged.key = "a\" peer=9 \\\"";
    forged.detail = "x\nbaton[0] error: y\"";
    const char *line = caught(&f, LOG_WARN, 1, &forged, 1);
    assert_non_null(strstr(line, "key=\"a' peer=9 ''\" peer=5"));
    assert_non_null(strstr(line, "detail=\"x baton[0] error: y'\"\n"));
    assert_int_equal(lines(line), 1);
}

static void test_a_flood_is_counted(void **state)
{
    (void)state;
    struct failure_log f = {0};
    uint64_t second = 1000000000;
    assert_int_equal(lines(caught(&f, LOG_WARN, 5 * second, &a_want, 1000)), FAILURE_LINES_A_SECOND);
    assert_string_equal(caught(&f, LOG_WARN, 6 * second - 1, &a_want, 7), "");
    const char *line = caught(&f, LOG_WARN, 6 * second, &a_want, 1);
    assert_non_null(strstr(line, "detail=\"it is gone\" unlogged=987\n"));
    assert_null(strstr(caught(&f, LOG_WARN, 6 * second, &a_want, 1), "unlogged"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_texts_cannot_forge_fields),
        cmocka_unit_test(test_a_flood_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
