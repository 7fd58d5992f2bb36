/* SPDX-License-Identifier: BSD-3-Clause */
/* vicinity: each neighbour has a spot of its own, ranks of other nodes have none, and spots are given again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "with_vicinity.h"

enum { RANKS = 1000, MOST = 3 };

static void test_spots(void **state)
{
    (void)state;
    static const uint32_t of_node[] = {999, 5};
    struct vicinity *v = with_vicinity(5, RANKS, of_node, 2);
    assert_int_equal(v->self, 5);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(v->spot_of[rank], rank == 999 ? 1 : rank == 5 ? 2 : 0);
    assert_true(v->rank_at[1] == 999 && v->rank_at[2] == 5);
    vicinity_add(v, 7); /* there is no room */
    assert_int_equal(v->spot_of[7], 0);
    vicinity_destroy(v);
    vicinity_destroy(NULL);
}

static void test_they_come_and_go(void **state)
{
    (void)state;
    static const uint32_t of_node[MOST] = {1, 2, 3};
    struct vicinity *v = with_vicinity(1, RANKS, of_node, MOST);
    vicinity_remove(v, 2);
    vicinity_remove(v, 2);
    vicinity_remove(v, 9); /* which is none */
    assert_true(v->spot_of[2] == 0 && v->rank_at[2] == VICINITY_NONE);
    vicinity_add(v, 3); /* which is one already */
    assert_true(v->spot_of[3] == 3 && v->rank_at[2] == VICINITY_NONE);
    vicinity_add(v, 9);
    assert_true(v->spot_of[9] == 2 && v->rank_at[2] == 9);
    assert_true(v->spot_of[1] == 1 && v->spot_of[3] == 3);
    vicinity_destroy(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spots),
        cmocka_unit_test(test_they_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
