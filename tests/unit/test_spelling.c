/* SPDX-License-Identifier: BSD-3-Clause */
/* spelling: how many slips of the keyboard two names are apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/spelling.h"

static void slips_are_counted(void **state)
{
    static const struct {
        const char *a, *b;
        unsigned far;
    } cases[] = {
        {"--decode", "--decode", 0},
        {"--decod", "--decode", 1},
        {"--decoder", "--decode", 1},
        {"--dekode", "--decode", 1},
        {"--deocde", "--decode", 1},
        {"--dcoed", "--decode", 2},
        {"", "abc", 3},
        {"abc", "", 3},
        {"", "", 0},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(spelling_distance(cases[i].a, strlen(cases[i].a), cases[i].b), cases[i].far);
        assert_int_equal(spelling_distance(cases[i].b, strlen(cases[i].b), cases[i].a), cases[i].far);
    }
    assert_int_equal(spelling_distance("--decode=1x1", 8, "--decode"), 0);
}

/* Of longer names, the first 64 bytes count. */
static void long_names_are_cut(void **state)
{
    char a[300], b[300];
    (void)state;
    memset(a, 'a', sizeof a);
    memset(b, 'a', sizeof b);
    a[sizeof a - 1] = b[sizeof b - 1] = '\0';
    a[64] = 'x';
    assert_int_equal(spelling_distance(a, strlen(a), b), 0);
    a[63] = 'x';
    assert_int_equal(spelling_distance(a, strlen(a), b), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slips_are_counted),
        cmocka_unit_test(long_names_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
