/* SPDX-License-Identifier: BSD-3-Clause */
/* fair: who goes next, and that nobody is passed more often than its turn allows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/fair.h"

#define PEERS 4
#define EACH 3

static void test_queues_and_those_in_them_take_turns(void **state)
{
    (void)state;
    struct fair t = {0};
    struct fair_queue queue[2] = {{0}};
    struct fair_member a[2] = {{0}}, b = {0};
    fair_add(&t, &queue[0], &a[0]);
    fair_add(&t, &queue[0], &a[1]);
    fair_add(&t, &queue[1], &b);
    fair_add(&t, &queue[0], &a[0]); /* waits already, and keeps its place */
    struct fair_member *wanted[] = {&a[0], &b, &a[1], &b, &a[0]};
    for (unsigned i = 0; i < 5; i++)
        assert_ptr_equal(fair_take(&t), wanted[i]);
    fair_remove(&t, &b);
    fair_remove(&t, &b);
    assert_ptr_equal(fair_take(&t), &a[1]);
    fair_remove(&t, &a[0]);
    fair_remove(&t, &a[1]);
    assert_null(fair_take(&t));
    assert_false(fair_any(&t));
}

static void test_the_refused_come_first(void **state)
{
    (void)state;
    struct fair t = {0};
    struct fair_queue queue[3] = {{0}};
    struct fair_member a[2] = {{0}}, b = {0}, c = {0};
    fair_add(&t, &queue[0], &a[0]);
    fair_add(&t, &queue[0], &a[1]);
    fair_add(&t, &queue[1], &b);
    assert_ptr_equal(fair_take(&t), &a[0]); /* takes the last free place */
    assert_ptr_equal(fair_take(&t), &b);
    fair_refuse(&t, &b);
    assert_ptr_equal(fair_take(&t), &a[1]);
    fair_refuse(&t, &a[1]);
    assert_null(fair_take(&t)); /* a[0] is in the queue that was refused */
    fair_add(&t, &queue[2], &c);
    assert_true(fair_any(&t));
    fair_again(&t);
    assert_ptr_equal(fair_take(&t), &b);
    assert_ptr_equal(fair_take(&t), &a[1]);
    assert_ptr_equal(fair_take(&t), &c);
    assert_ptr_equal(fair_take(&t), &b);
}

static void test_the_refused_may_leave(void **state)
{
    (void)state;
    struct fair t = {0};
    struct fair_queue queue[2] = {{0}};
    struct fair_member a = {0}, b = {0};
    fair_add(&t, &queue[0], &a);
    fair_add(&t, &queue[1], &b);
    fair_refuse(&t, fair_take(&t));
    fair_remove(&t, &a);
    fair_add(&t, &queue[0], &a); /* waits anew: it was not refused */
    assert_ptr_equal(fair_take(&t), &b);
    assert_ptr_equal(fair_take(&t), &a);
    fair_refuse(&t, &a);
    fair_add(&t, &queue[1], &a); /* to another queue of the round */
    assert_ptr_equal(fair_take(&t), &b);
    assert_ptr_equal(fair_take(&t), &a);
    fair_again(&t);
    fair_remove(&t, &a);
    fair_remove(&t, &b);
    assert_false(fair_any(&t));
}

/* However many turns are taken before the rest is refused, nobody waits for more turns than all queues have places. */
static void test_nobody_is_passed_more_often_than_its_turn_allows(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 200; seed++) {
        struct fair t = {0};
        struct fair_queue queue[PEERS] = {{0}};
        struct fair_member turn[PEERS][EACH] = {{{0}}};
        uint32_t waited[PEERS][EACH] = {{0}};
        srand(seed);
        for (unsigned p = 0; p < PEERS; p++)
            for (unsigned i = 0; i < EACH; i++)
                fair_add(&t, &queue[p], &turn[p][i]);
        for (unsigned step = 0; step < 100; step++) {
            unsigned room = (unsigned)rand() % 4;
            struct fair_member *one;
            while ((one = fair_take(&t)) != NULL) {
                if (room == 0) {
                    fair_refuse(&t, one);
                    continue;
                }
                room--;
                for (unsigned p = 0; p < PEERS; p++)
                    for (unsigned i = 0; i < EACH; i++) {
                        waited[p][i] = &turn[p][i] == one ? 0 : waited[p][i] + 1;
                        assert_true(waited[p][i] < PEERS * EACH);
                    }
            }
            fair_again(&t);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queues_and_those_in_them_take_turns),
        cmocka_unit_test(test_the_refused_come_first),
        cmocka_unit_test(test_the_refused_may_leave),
        cmocka_unit_test(test_nobody_is_passed_more_often_than_its_turn_allows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
