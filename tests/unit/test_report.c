/* SPDX-License-Identifier: BSD-3-Clause */
/* report: a shim's reports are found wherever they stand in the stream, and every other byte passes, in its order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batonrun/report.h"

#define TAG "@batonrun:00112233445566aa "
#define RANKS 4

static char passed[65536];
static size_t passed_length;

static void keep(void *to, const char *bytes, size_t count)
{
    (void)to;
    memcpy(passed + passed_length, bytes, count);
    passed_length += count;
    passed[passed_length] = '\0';
}

/* Feeds a text in pieces of so many bytes. Returns the reports found. */
static struct report *feed(const char *text, size_t piece)
{
    static struct report reports[RANKS];
    struct report_stream s = {.tag = TAG, .reports = reports, .ranks = RANKS};
    memset(reports, 0, sizeof reports);
    passed_length = 0;
    passed[0] = '\0';
    for (size_t at = 0, n = strlen(text); at < n; at += piece)
        report_feed(&s, text + at, n - at < piece ? n - at : piece, keep, NULL);
    report_flush(&s, keep, NULL);
    return reports;
}

static void reports_are_taken_out_wherever_they_stand(void **state)
{
    (void)state;
    static const char text[] = TAG "0 1 0 0 17 host-a @\n"
                                   "first line\npart of a" TAG "2 3 137 0 99 host.b @\n line\n" TAG
                                   "0 3 0 0 20 host-a @\n" TAG "1 2 143 1 30 c @\n\n@batonrun\n@";
    for (size_t piece = 1; piece < sizeof text; piece++) {
        const struct report *r = feed(text, piece);
        assert_string_equal(passed, "first line\npart of a line\n\n@batonrun\n@");
        assert_int_equal(r[0].kind, REPORT_ENDED);
        assert_int_equal(r[0].status, 0);
        assert_string_equal(r[0].host, "host-a");
        assert_int_equal(r[1].kind, REPORT_TOLD);
        assert_true(r[1].told);
        assert_int_equal(r[2].kind, REPORT_ENDED);
        assert_int_equal(r[2].status, 137);
        assert_true(r[2].ended_ns == 99);
        assert_int_equal(r[3].kind, REPORT_NONE);
    }
}

static void a_later_word_replaces_an_earlier_one_only(void **state)
{
    (void)state;
    const struct report *r = feed(TAG "1 2 143 1 5 h @\n" TAG "1 3 0 1 6 h @\n" TAG "1 1 0 0 7 h @\n", 100);
    assert_int_equal(r[1].kind, REPORT_ENDED);
    assert_int_equal(r[1].status, 0);
}

static void other_text_passes(void **state)
{
    (void)state;
    static const char *const texts[] = {
        TAG "4 3 0 0 1 h @\n",                        /* no such rank */
        TAG "1 0 0 0 1 h @\n",                        /* no such kind */
        TAG "1 4 0 0 1 h @\n",                        /* the same */
        TAG "1 3 0 0 1 @\n",                          /* no host */
        TAG "1 3 0 0 1 h more @\n",                   /* too much */
        TAG "x @\n",                                  /* nothing */
        TAG "@\n",                                    /* nothing at all */
        TAG,                                          /* cut */
        TAG "1 3 0 0 1 h",                            /* cut */
        "@batonrun:ffffffffffffffff 1 3 0 0 1 h @\n", /* of another run */
        "",
    };
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++)
        for (size_t piece = 1; piece < 64; piece++) {
            const struct report *r = feed(texts[i], piece);
            assert_string_equal(passed, texts[i]);
            for (unsigned k = 0; k < RANKS; k++)
                assert_int_equal(r[k].kind, REPORT_NONE);
        }
}

/* A tag without an end holds back at most the length of a report, and the report after it is found. */
static void a_tag_without_an_end_holds_nothing_up(void **state)
{
    (void)state;
    static char text[4096];
    size_t n = (size_t)sprintf(text, "%s", TAG);
    memset(text + n, 'x', 3000);
    sprintf(text + n + 3000, "%s%s", TAG TAG, "3 3 1 0 1 h @\n");
    for (size_t piece = 1; piece < 400; piece += 7) {
        const struct report *r = feed(text, piece);
        assert_int_equal(r[3].kind, REPORT_ENDED);
        assert_int_equal(passed_length, n + 3000 + strlen(TAG));
    }
}

/* Lines of many bytes between reports, in random pieces. */
static void no_byte_is_lost_or_moved(void **state)
{
    (void)state;
    static char text[60000], rest[60000];
    size_t n = 0, m = 0;
    srand(7);
    while (n < 50000) {
        if (rand() % 8 == 0)
            n += (size_t)sprintf(text + n, "%s%d 1 0 0 %d h @\n", TAG, rand() % RANKS, rand());
        static const char letters[] = "@batonrun:0012\n x";
        for (int i = rand() % 50; i > 0; i--)
            text[n++] = rest[m++] = letters[rand() % (int)(sizeof letters - 1)];
    }
    text[n] = rest[m] = '\0';
    for (int round = 0; round < 50; round++) {
        feed(text, 1 + (size_t)rand() % 700);
        assert_int_equal(passed_length, m);
        assert_memory_equal(passed, rest, m);
    }
}

/* What the sender writes is understood, has this host's name, and is one write. */
static void what_is_sent_is_understood(void **state)
{
    (void)state;
    char tag[REPORT_TAG_BYTES], other[REPORT_TAG_BYTES], text[1024], host[65] = "";
    int ends[2], saved = dup(STDERR_FILENO);
    struct report reports[RANKS] = {{0}};
    report_tag(tag);
    report_tag(other);
    assert_string_not_equal(tag, other);
    assert_int_equal(pipe2(ends, O_DIRECT), 0); /* packets: a read returns one write */
    dup2(ends[1], STDERR_FILENO);
    int rc = report_send(tag, 3, REPORT_ENDED, 42, true);
    dup2(saved, STDERR_FILENO);
    close(saved);
    assert_int_equal(rc, 0);
    ssize_t n = read(ends[0], text, sizeof text);
    assert_true(n > 0 && n < REPORT_MAX);
    struct report_stream s = {.tag = tag, .reports = reports, .ranks = RANKS};
    passed_length = 0;
    report_feed(&s, text, (size_t)n, keep, NULL);
    assert_int_equal(passed_length, 0);
    assert_int_equal(s.length, 0);
    assert_int_equal(reports[3].kind, REPORT_ENDED);
    assert_int_equal(reports[3].status, 42);
    assert_true(reports[3].told);
    gethostname(host, sizeof host - 1);
    assert_string_equal(reports[3].host, host);
    close(ends[0]);
    close(ends[1]);
}

static void the_culprit_is_the_first_that_nobody_told(void **state)
{
    (void)state;
    struct report r[RANKS] = {{.kind = REPORT_ENDED, .status = 143, .told = true, .ended_ns = 1},
                              {.kind = REPORT_ENDED, .status = 5, .ended_ns = 9},
                              {.kind = REPORT_ENDED, .status = 6, .ended_ns = 8},
                              {.kind = REPORT_HERE}};
    assert_int_equal(report_culprit(r, RANKS), 2);
    r[1].status = r[2].status = 0;
    assert_int_equal(report_culprit(r, RANKS), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_are_taken_out_wherever_they_stand),
        cmocka_unit_test(a_later_word_replaces_an_earlier_one_only),
        cmocka_unit_test(other_text_passes),
        cmocka_unit_test(a_tag_without_an_end_holds_nothing_up),
        cmocka_unit_test(no_byte_is_lost_or_moved),
        cmocka_unit_test(what_is_sent_is_understood),
        cmocka_unit_test(the_culprit_is_the_first_that_nobody_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
