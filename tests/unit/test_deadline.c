/* SPDX-License-Identifier: BSD-3-Clause */
/* deadline: it holds for a loop that looks often, and not for the time in which its process was paused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/deadline.h"

#define MS CLOCK_NS_PER_MS

static void test_looks_that_come_often(void **state)
{
    (void)state;
    struct deadline p = deadline_in(7, 2000);
    for (uint64_t now = 7; now <= 7 + 2000 * MS; now += 1000 * MS)
        assert_false(deadline_is_past(&p, now));
    assert_true(deadline_is_past(&p, 8 + 2000 * MS));
    assert_true(deadline_is_past(&p, 9 + 2000 * MS)); /* and stays so */
}

static void test_pauses(void **state)
{
    (void)state;
    struct deadline p = deadline_in(0, 2000);
    uint64_t now = 500 * MS;
    assert_false(deadline_is_past(&p, now));
    for (int i = 0; i < 3; i++)
        assert_false(deadline_is_past(&p, now += 60000 * MS));
    assert_false(deadline_is_past(&p, now += 1000 * MS));
    assert_false(deadline_is_past(&p, now += 500 * MS));
    assert_true(deadline_is_past(&p, now + 1));
}

static void test_no_time_at_all(void **state)
{
    (void)state;
    struct deadline p = deadline_in(5, 0);
    assert_false(deadline_is_past(&p, 5));
    assert_true(deadline_is_past(&p, 6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_looks_that_come_often),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_no_time_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
