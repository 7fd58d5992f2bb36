/* SPDX-License-Identifier: BSD-3-Clause */
/* look: when a look at a queue ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/look.h"

static void test_it_ends_when_the_queue_is_empty(void **state)
{
    (void)state;
    struct looking l = {0};
    assert_true(look_has_ended(&l));
    look_begin(&l, 100);
    assert_false(look_has_ended(&l));
    look_take(&l, 10, false);
    assert_false(look_has_ended(&l));
    look_take(&l, 0, true);
    assert_true(look_has_ended(&l));
}

/* Whatever comes meanwhile. */
static void test_it_ends_with_as_many_as_there_can_have_been(void **state)
{
    (void)state;
    struct looking l = {0};
    look_begin(&l, 100);
    for (unsigned i = 0; i < 9; i++)
        look_take(&l, 11, false);
    assert_false(look_has_ended(&l));
    look_take(&l, 11, false);
    assert_true(look_has_ended(&l));
    look_take(&l, 11, false);
    assert_true(look_has_ended(&l));
    look_begin(&l, 0); /* nothing was there */
    assert_true(look_has_ended(&l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_it_ends_when_the_queue_is_empty),
                                       cmocka_unit_test(test_it_ends_with_as_many_as_there_can_have_been)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
