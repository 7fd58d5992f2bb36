/* SPDX-License-Identifier: BSD-3-Clause */
/* bind: the ranks' places as one text, and what comes back out of it. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "batonrun/bind.h"

static struct bind_place *make(uint32_t num)
{
    struct bind_place *places = calloc(num, sizeof *places);
    assert_non_null(places);
    return places;
}

/* `kind` has a letter for each rank; ranks with the same letter have the same place. */
static void check(const char *kinds, const char *wanted)
{
    uint32_t num = (uint32_t)strlen(kinds);
    struct bind_place *places = make(num), found;
    for (uint32_t i = 0; i < num; i++) {
        snprintf(places[i].cpus, sizeof places[i].cpus, "%d-%d,99", kinds[i], kinds[i] + 1);
        snprintf(places[i].helpers, sizeof places[i].helpers, "%s", kinds[i] % 3 == 0 ? "7,107" : "");
        snprintf(places[i].nic, sizeof places[i].nic, "%s", kinds[i] % 2 == 0 ? "mlx5_0" : "");
        snprintf(places[i].gpus, sizeof places[i].gpus, "%s", kinds[i] % 4 < 2 ? "2,3" : "");
    }
    char *text = bind_join(places, num);
    assert_non_null(text);
    assert_string_equal(strchr(text, '#'), wanted);
    for (uint32_t i = 0; i < num; i++) {
        assert_true(bind_find(text, i, &found));
        assert_string_equal(found.cpus, places[i].cpus);
        assert_string_equal(found.helpers, places[i].helpers);
        assert_string_equal(found.nic, places[i].nic);
        assert_string_equal(found.gpus, places[i].gpus);
    }
    assert_false(bind_find(text, num, &found));
    free(text);
    free(places);
}

static void test_round_trip(void **state)
{
    (void)state;
    check("a", "#0");
    check("aaaa", "#0x4");
    check("abcd", "#0;1;2;3");
    check("abababab", "#0,1x4");
    check("aabbaabb", "#0,0,1,1x2");
    check("aaaab", "#0x4;1");
    check("abcabcabcddd", "#0,1,2x3;3x3");
}

static void test_large_worlds_stay_short(void **state)
{
    (void)state;
    struct bind_place *places = make(10000);
    for (uint32_t i = 0; i < 10000; i++)
        snprintf(places[i].cpus, sizeof places[i].cpus, "%u-%u", i % 8 * 8, i % 8 * 8 + 7);
    char *text = bind_join(places, 10000);
    assert_non_null(text);
    assert_true(strlen(text) < 200);
    free(text);
    free(places);
}

/* Places that differ in one thing only are different places. */
static void test_kinds(void **state)
{
    (void)state;
    struct bind_place *places = make(5), found;
    for (uint32_t i = 0; i < 5; i++)
        snprintf(places[i].cpus, sizeof places[i].cpus, "0-6");
    snprintf(places[1].helpers, sizeof places[1].helpers, "7");
    snprintf(places[2].nic, sizeof places[2].nic, "mlx5_0");
    snprintf(places[4].gpus, sizeof places[4].gpus, "1");
    char *text = bind_join(places, 5);
    assert_string_equal(text, "0-6/|0-6+7/|0-6/mlx5_0|0-6/@1#0;1;2;0;3");
    assert_true(bind_find(text, 1, &found));
    assert_string_equal(found.cpus, "0-6");
    assert_string_equal(found.helpers, "7");
    assert_true(bind_find(text, 3, &found));
    assert_string_equal(found.helpers, "");
    assert_string_equal(found.gpus, "");
    assert_true(bind_find(text, 4, &found));
    assert_string_equal(found.nic, "");
    assert_string_equal(found.gpus, "1");
    free(text);
    free(places);
}

static void test_malformed(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "0-1/",
                                      "#",
                                      "0-1/#",
                                      "0-1/#x2",
                                      "0-1/#0x",
                                      "0-1#0",
                                      "0-1/#1",
                                      "0-1/|2#2",
                                      "0-1/#0,",
                                      "0-1/#-1",
                                      "0-1+2#0",
                                      "0-1+#0",
                                      "0/#a",
                                      "0/#0xa",
                                      "0/#0x0",
                                      "0/#99999999999999999999"};
    struct bind_place found;
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(bind_find(bad[i], 0, &found));
}

static void test_binding(void **state)
{
    (void)state;
    cpu_set_t before, after;
    char cpus[32], missing[32], few[12];
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &before))
        last--;
    snprintf(cpus, sizeof cpus, "%d", last);
    assert_int_equal(bind_to(cpus, missing, sizeof missing), 0);
    assert_string_equal(missing, "");
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_int_equal(CPU_COUNT(&after), 1);
    assert_true(CPU_ISSET(last, &after));
    static const char *const bad[] = {"", "a", "1-", "3-2", "1,,2", "0-99999999", "1 2", "-1"};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(bind_to(bad[i], missing, sizeof missing), EINVAL);
    /* Hardware threads that no machine has are left out by the kernel, without an error. */
    snprintf(cpus, sizeof cpus, "%d,60000-60001,60009", last);
    assert_int_equal(bind_to(cpus, missing, sizeof missing), 0);
    assert_string_equal(missing, "60000-60001,60009");
    assert_int_equal(bind_to(cpus, few, sizeof few), 0);
    assert_string_equal(few, "60000-60001"); /* cut to what there is room for */
    assert_int_equal(bind_to("60000", missing, sizeof missing), EINVAL);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_large_worlds_stay_short),
        cmocka_unit_test(test_kinds),      cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_binding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
