/* SPDX-License-Identifier: BSD-3-Clause */
/* costs: what is read of a file, what is refused, and what becomes of measured times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "place/costs.h"

static void check(const double costs[COST_CLASSES], const double wanted[COST_CLASSES])
{
    for (unsigned i = 0; i < COST_CLASSES; i++)
        assert_float_equal(costs[i], wanted[i], 1e-9);
}

static void test_files(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double of[COST_CLASSES];
    } good[] = {
        {"", {1, 1, 1.2, 2, 10, 20}},
        {"# nothing\n\n   \t\r\n", {1, 1, 1.2, 2, 10, 20}},
        {"cache 1\nnuma 1.5 # measured\r\n  package\t2e0\nnode 3\nswitch 3\nfar 12.25", {1, 1.5, 2, 3, 3, 12.25}},
        {"far 100\nnode 2.5#x\n", {1, 1, 1.2, 2.5, 10, 100}},
    };
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct costs c;
        struct why why = {""};
        if (costs_read(&c, good[i].text, &why) != 0)
            fail_msg("%s", why.text);
        check(c.of, good[i].of);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const char what[] = "is no class (cache, numa, package, node, switch, far) with its cost";
    static const char *const bad[] = {"near 1",      "cache",     "cache x",   "cache 1 2",     "cache 0",
                                      "cache -1",    "cache nan", "cache inf", "cache 1e10",    "cachet 1",
                                      "node 2 more", "1 cache",   "cache=1",   "node 2\nnode 2"};
    struct costs c;
    struct why why;
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(costs_read(&c, bad[i], &why), -1);
        assert_non_null(strstr(why.text, what));
    }
    assert_int_equal(costs_read(&c, "switch 30", &why), -1);
    assert_string_equal(why.text, "far costs 20, which is less than switch, 30: the farther class may not cost less");
    assert_int_equal(costs_read(&c, "node 1", &why), -1);
    assert_string_equal(why.text, "node costs 1, which is less than package, 1.2: the farther class may not cost less");
}

static void test_measured(void **state)
{
    (void)state;
    static const struct {
        double ns[COST_CLASSES], of[COST_CLASSES];
    } runs[] = {
        {{0}, {1, 1, 1.2, 2, 10, 20}},                        /* nothing was seen */
        {{0.5, 0.75, 1, 2, 8, 16}, {1, 1.5, 2, 4, 16, 32}},   /* all were */
        {{0.5, 0, 0, 0, 0, 0}, {1, 1, 1.2, 2, 10, 20}},       /* one: the others as assumed */
        {{0.5, 0, 0, 0, 2, 0}, {1, 1, 1.2, 2, 4, 8}},         /* far in proportion to the switch */
        {{0, 0, 0, 0, 3, 9}, {1, 1, 1.2, 2, 10, 30}},         /* nodes alone, each with one rank */
        {{0.5, 0.4, 0, 0.45, 0, 0}, {1, 1, 1.2, 1.2, 6, 12}}, /* none less than a nearer one */
    };
    for (unsigned i = 0; i < sizeof runs / sizeof runs[0]; i++)
        check(costs_of(runs[i].ns).of, runs[i].of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
