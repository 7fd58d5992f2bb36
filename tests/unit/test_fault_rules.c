/* SPDX-License-Identifier: BSD-3-Clause */
/* The texts of BATON_FAULT: what they mean, and that the rule that is wrong is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "fault/fault.h"

static const char *const actions[] = {"drop", "double", "delay", "corrupt", "stall", "stop", "kill"};
enum { DOUBLE = 1, DELAY, CORRUPT, STALL, ACTIONS = 7 };

static const struct port under = {0};

static const char *const types[] = {"WANT",   "GRANT",   "NACK",    "DONE", "CANCEL",
                                    "CLOSED", "RELEASE", "WRITTEN", "BEAT", "*"};

static void expect(const char *text, const char *named)
{
    struct faults *f = NULL;
    int rc = faults_create(text, 0, &under, 4, NULL, false, &f);
    if (named == NULL) {
        if (rc != 0)
            fail_msg("\"%s\": %s", text, baton_errmsg());
        assert_non_null(f);
        assert_false(faults_pending(f));
    } else {
        if (rc != BATON_ESETTING || f != NULL || strstr(baton_errmsg(), "BATON_FAULT") == NULL ||
            strstr(baton_errmsg(), named) == NULL)
            fail_msg("\"%s\": %d, %s", text, rc, baton_errmsg());
    }
    faults_destroy(f);
}

static void test_no_rules_no_faults(void **state)
{
    (void)state;
    static int any;
    struct faults *f = (struct faults *)&any;
    assert_int_equal(faults_create(NULL, 0, &under, 4, NULL, false, &f), 0);
    assert_null(f);
    assert_int_equal(faults_create("", 0, &under, 4, NULL, false, &f), 0);
    assert_null(f);
    faults_destroy(NULL);
}

static void test_which_actions_fit_which_events(void **state)
{
    (void)state;
    static const char *const others[] = {"card",  "table", "board", "move",    "settle",
                                         "enter", "leave", "lease", "giveback"};
    for (unsigned a = 0; a < ACTIONS; a++) {
        char text[64];
        for (unsigned t = 0; t < 10; t++) {
            snprintf(text, sizeof text, "%s@send.%s", actions[a], types[t]);
            expect(text, NULL);
            snprintf(text, sizeof text, "%s@take.%s", actions[a], types[t]);
            expect(text, a == DOUBLE || a == DELAY ? text : NULL); /* what has arrived cannot be doubled or delayed */
        }
        for (unsigned e = 0; e < 9; e++) {
            snprintf(text, sizeof text, "%s@%s", actions[a], others[e]);
            expect(text, a >= STALL || (a == CORRUPT && (e < 2 || e == 3)) ? NULL : text);
        }
    }
}

static void test_texts(void **state)
{
    (void)state;
    static const char *const good[] = {
        "kill@send.GRANT#2/0", "drop@send.*~20,delay@send.WANT+5:7", "stop@move#3~1000+50/3",  "stall@board/1+5~0#1",
        "drop@take.*:0",       "kill@card#18446744073709551615",     "stall@card,stall@table",
    };
    char bad[] = "drop|@send.*|drop@|drop@send|drop@send.|drop@send.WANTED|drop@send.want|drop@send.?|"
                 "Drop@send.*|dro@send.*|drop@sen.*|drop@move.*|kill@move.WANT|kill@moves|drop@send.*#0|"
                 "drop@send.*#|drop@send.*#-1|drop@send.*~1001|drop@send.*~|drop@send.*~+5|drop@send.*+x|"
                 "drop@send.*/|drop@send.*/1.5|drop@send.*!1|drop@send.* | drop@send.*|drop@send.*#1#|"
                 "drop @ send.*|stall@move+4294967296";
    char text[128];
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++)
        expect(good[i], NULL);
    for (char *one = strtok(bad, "|"); one != NULL; one = strtok(NULL, "|")) {
        expect(one, one);
        snprintf(text, sizeof text, "kill@board/1,%s", one); /* the second rule is named, not the first */
        expect(text, one);
        assert_null(strstr(baton_errmsg(), "board/1"));
    }
    expect(",", "\",\"");
    expect(":5", "\":5\"");
    expect("drop@send.*,", "\"\"");
    expect("drop@send.*,,kill@move", "\",kill@move\"");
    expect("drop@send.*:", "\"\"");
    expect("drop@send.*:x", "\"x\"");
    expect("drop@send.*:7,kill@move", "\",kill@move\"");
    expect("drop@send.*:7:8", "\":8\"");
}

static void test_how_many_rules(void **state)
{
    (void)state;
    char text[512] = "drop@send.BEAT", more[544];
    for (unsigned i = 1; i < 16; i++)
        strcat(text, ",drop@send.WANT");
    expect(text, NULL);
    snprintf(more, sizeof more, "%s,kill@send.*", text);
    expect(more, "kill@send.*");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_rules_no_faults),
        cmocka_unit_test(test_which_actions_fit_which_events),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_how_many_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
