/* SPDX-License-Identifier: BSD-3-Clause */
/* layout: which rank is who, which texts are refused, and whose number counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/layout.h"

static void test_who_is_who(void **state)
{
    (void)state;
    static const struct {
        const char *engine;
        baton_role_t role;
        uint32_t tp, pp, tp_rank, pp_rank;
    } ranks[] = {
        {"prefill0", BATON_ROLE_PREFILL, 2, 2, 0, 0}, {"prefill0", BATON_ROLE_PREFILL, 2, 2, 1, 0},
        {"prefill0", BATON_ROLE_PREFILL, 2, 2, 0, 1}, {"prefill0", BATON_ROLE_PREFILL, 2, 2, 1, 1},
        {"prefill1", BATON_ROLE_PREFILL, 2, 2, 0, 0}, {"prefill1", BATON_ROLE_PREFILL, 2, 2, 1, 0},
        {"prefill1", BATON_ROLE_PREFILL, 2, 2, 0, 1}, {"prefill1", BATON_ROLE_PREFILL, 2, 2, 1, 1},
        {"decode0", BATON_ROLE_DECODE, 3, 1, 0, 0},   {"decode0", BATON_ROLE_DECODE, 3, 1, 1, 0},
        {"decode0", BATON_ROLE_DECODE, 3, 1, 2, 0},
    };
    const uint32_t num = sizeof ranks / sizeof ranks[0];
    struct layout l;
    baton_open_params_t p = {.size = sizeof p, .verdicts = BATON_VERDICTS_ALL};
    assert_true(layout_read("2x2x2 1x3", &l));
    assert_int_equal(layout_ranks(&l.prefill) + layout_ranks(&l.decode), num);
    for (uint32_t i = 0; i < num; i++) {
        assert_true(layout_find(&l, i, &p));
        assert_string_equal(p.engine, ranks[i].engine);
        assert_int_equal(p.role, ranks[i].role);
        assert_int_equal(p.tp, ranks[i].tp);
        assert_int_equal(p.pp, ranks[i].pp);
        assert_int_equal(p.tp_rank, ranks[i].tp_rank);
        assert_int_equal(p.pp_rank, ranks[i].pp_rank);
    }
    assert_int_equal(p.verdicts, BATON_VERDICTS_ALL); /* as it was */
    assert_false(layout_find(&l, num, &p));
    assert_false(layout_find(&l, UINT32_MAX, &p));
}

static void test_texts(void **state)
{
    (void)state;
    static const char *const good[] = {"1x1 1x1", "0x0 1x1", "1x1 0x9x9", "64x1024 1x1x1024", "007x1 1x1"};
    static const char *const bad[] = {"",
                                      "1x1",
                                      "1x1  1x1",
                                      " 1x1 1x1",
                                      "1x1 1x1 ",
                                      "0x0 0x0",
                                      "1x 1x1",
                                      "1x1 1x",
                                      "1 1",
                                      "x1 1x1",
                                      "1x0 1x1",
                                      "1x1x0 1x1",
                                      "1x-1 1",
                                      "1x1x1x1 1x1",
                                      "1x1025 1x1",
                                      "65536x2 1x1",
                                      "1x32x33 1x1",
                                      "1x1,1x1",
                                      "99999999999999999999x1 1x1"};
    struct layout l;
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!layout_read(good[i], &l))
            fail_msg("\"%s\" is refused", good[i]);
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (layout_read(bad[i], &l))
            fail_msg("\"%s\" is taken", bad[i]);
    char text[80];
    snprintf(text, sizeof text, "%061dx12 1x1", 1); /* a long side is not cut to another one */
    assert_false(layout_read(text, &l));
    snprintf(text, sizeof text, "%060dx12 1x1", 1);
    assert_true(layout_read(text, &l));
    assert_int_equal(l.prefill.tp, 12);
}

static const char *name, *value;

static char *variable(const char *wanted)
{
    return strcmp(name, wanted) == 0 ? (char *)value : NULL;
}

static void test_numbers(void **state)
{
    (void)state;
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        name = names[i];
        value = "17";
        assert_int_equal(layout_world_rank(variable), 17);
        value = "-1";
        assert_int_equal(layout_world_rank(variable), -1);
        value = "1x";
        assert_int_equal(layout_world_rank(variable), -1);
        value = "";
        assert_int_equal(layout_world_rank(variable), -1);
    }
    name = "RANK";
    value = "3";
    assert_int_equal(layout_world_rank(variable), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_who),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
