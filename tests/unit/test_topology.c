/* SPDX-License-Identifier: BSD-3-Clause */
/* The picture of a machine in baton-info: what is where, in few lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "info/topology.h"

static void assert_drawn(enum machine_form form, const char *text, const char *expected)
{
    struct machine m;
    struct why why;
    assert_int_equal(machine_read(&m, form, text, &why), 0);
    char *lines = topology_draw(&m, form, text);
    assert_non_null(lines);
    assert_string_equal(lines, expected);
    free(lines);
    machine_fini(&m);
}

static char *read_file(const char *path)
{
    char *text = calloc(1, 1 << 20);
    FILE *file = fopen(path, "re");
    assert_non_null(text);
    assert_non_null(file);
    assert_in_range(fread(text, 1, (1 << 20) - 1, file), 100, (1 << 20) - 2);
    fclose(file);
    return text;
}

static void packages_with_nodes(void **state)
{
    (void)state;
    assert_drawn(MACHINE_SYNTHETIC,
                 "pack:2 numa:2(memory=68719476736) l3:2(size=33554432) core:4 l2:1(size=1048576) pu:2",
                 "package 0: 16 cores, 32 hardware threads\n"
                 "  NUMA node 0: 64.0 GiB, 8 cores, 16 hardware threads; L3 2 x 32 MiB; L2 8 x 1 MiB\n"
                 "  NUMA node 1: 64.0 GiB, 8 cores, 16 hardware threads; L3 2 x 32 MiB; L2 8 x 1 MiB\n"
                 "package 1: 16 cores, 32 hardware threads\n"
                 "  NUMA node 2: 64.0 GiB, 8 cores, 16 hardware threads; L3 2 x 32 MiB; L2 8 x 1 MiB\n"
                 "  NUMA node 3: 64.0 GiB, 8 cores, 16 hardware threads; L3 2 x 32 MiB; L2 8 x 1 MiB\n");
}

static void cache_of_several_nodes(void **state)
{
    (void)state;
    assert_drawn(MACHINE_SYNTHETIC, "pack:1 l3:1(size=33554432) numa:2(memory=536870912) core:1 pu:1",
                 "package 0: 2 cores, 2 hardware threads\n"
                 "  NUMA node 0: 512 MiB, 1 core, 1 hardware thread; L3 32 MiB, shared\n"
                 "  NUMA node 1: 512 MiB, 1 core, 1 hardware thread; L3 32 MiB, shared\n");
}

static void devices_by_node(void **state)
{
    (void)state;
    char *xml = read_file(TEST_DATA "/topo-2numa-devices.xml");
    assert_drawn(
        MACHINE_XML, xml,
        "package 0: 2 cores, 2 hardware threads\n"
        "  NUMA node 0: 64.0 GiB, 2 cores, 2 hardware threads; L3 32 MiB; L2 2 x 1 MiB; NIC mlx5_0\n"
        "package 1: 2 cores, 2 hardware threads\n"
        "  NUMA node 1: 64.0 GiB, 2 cores, 2 hardware threads; L3 32 MiB; L2 2 x 1 MiB; GPU nvml0; NIC mlx5_1\n");
    free(xml);
}

static void large_machine_is_cut(void **state)
{
    (void)state;
    struct machine m;
    struct why why;
    static const char text[] = "pack:4 numa:8 core:2 pu:1";
    assert_int_equal(machine_read(&m, MACHINE_SYNTHETIC, text, &why), 0);
    char *lines = topology_draw(&m, MACHINE_SYNTHETIC, text), *at = lines;
    unsigned num = 0;
    assert_non_null(lines);
    for (; (at = strchr(at, '\n')) != NULL; at++)
        num++;
    assert_int_equal(num, TOPOLOGY_LINES_MAX);
    assert_non_null(strstr(lines, "\n25 lines more: see lstopo\n"));
    assert_null(strstr(lines, "NUMA node 10:"));
    free(lines);
    machine_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packages_with_nodes),
        cmocka_unit_test(cache_of_several_nodes),
        cmocka_unit_test(devices_by_node),
        cmocka_unit_test(large_machine_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
