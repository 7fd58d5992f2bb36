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
        {"# little\n\n   \t\r\nfar 20", {1, 1, 1.2, 2, 10, 20}},
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
    static const char *const bad[][2] = {
        {"", "no class (cache, numa, package, node, switch, far) has a cost"},
        {"# nothing\n\n   \t\r\n", "no class (cache, numa, package, node, switch, far) has a cost"},
        {"near 1", "line 1: \"near\" is no class (cache, numa, package, node, switch, far)"},
        {"cache 1\n\ncachet 1", "line 3: \"cachet\" is no class (cache, numa, package, node, switch, far)"},
        {"1 cache", "line 1: \"1\" is no class (cache, numa, package, node, switch, far)"},
        {"cache=1", "line 1: \"cache=1\" is no class (cache, numa, package, node, switch, far)"},
        {"cache", "line 1: cache lacks its cost: \"\" is no number"},
        {"#\ncache x", "line 2: cache lacks its cost: \"x\" is no number"},
        {"cache 1x", "line 1: cache lacks its cost: \"1x\" is no number"},
        {"cache 1 2", "line 1: cache has more than one number: \"1 2\""},
        {"node 2 more", "line 1: node has more than one number: \"2 more\""},
        {"cache 0", "line 1: the cost of cache is out of range, which is 0.001 to 1e+09: \"0\""},
        {"cache -1", "line 1: the cost of cache is out of range, which is 0.001 to 1e+09: \"-1\""},
        {"cache nan", "line 1: the cost of cache is out of range, which is 0.001 to 1e+09: \"nan\""},
        {"cache inf", "line 1: the cost of cache is out of range, which is 0.001 to 1e+09: \"inf\""},
        {"cache 1e10", "line 1: the cost of cache is out of range, which is 0.001 to 1e+09: \"1e10\""},
        {"node 2\nnode 2", "line 2: node is given twice"},
    };
    struct costs c;
    struct why why;
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(costs_read(&c, bad[i][0], &why), -1);
        assert_string_equal(why.text, bad[i][1]);
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
