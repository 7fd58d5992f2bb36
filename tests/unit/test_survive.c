/* SPDX-License-Identifier: BSD-3-Clause */
/* survive: when mpirun's tree of daemons endangers ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "batonrun/survive.h"

static const char *radix, *flat;

static char *variable(const char *name)
{
    const char *value = strcmp(name, "OMPI_MCA_routed_radix") == 0 ? radix : flat;
    return (char *)(uintptr_t)value;
}

static bool is_in_danger(enum launcher_kind kind, uint32_t hosts)
{
    const struct launcher l = {.kind = kind};
    return survive_danger(&l, hosts, variable) != NULL;
}

static void test_tree(void **state)
{
    (void)state;
    radix = flat = NULL;
    assert_true(is_in_danger(LAUNCHER_OPENMPI, 65));
    assert_false(is_in_danger(LAUNCHER_OPENMPI, 64));
    radix = "2";
    assert_true(is_in_danger(LAUNCHER_OPENMPI, 3));
    assert_false(is_in_danger(LAUNCHER_OPENMPI, 2));
    radix = "x";
    assert_false(is_in_danger(LAUNCHER_OPENMPI, 64));
}

static void test_remedy(void **state)
{
    (void)state;
    radix = "2";
    flat = "0";
    assert_true(is_in_danger(LAUNCHER_OPENMPI, 3));
    flat = "1";
    assert_false(is_in_danger(LAUNCHER_OPENMPI, 3));
}

static void test_other_launchers(void **state)
{
    (void)state;
    radix = flat = NULL;
    assert_false(is_in_danger(LAUNCHER_PRRTE, 100));
    assert_false(is_in_danger(LAUNCHER_HYDRA, 100));
    assert_false(is_in_danger(LAUNCHER_SRUN, 100));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_remedy),
        cmocka_unit_test(test_other_launchers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
