/* SPDX-License-Identifier: BSD-3-Clause */
/* obstacle: what is named, and what is left alone. The conditions themselves are made by tests/info. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "topo/obstacle.h"

static void cores(void **state)
{
    (void)state;
    struct obstacle o;
    assert_false(obstacle_cores(2, UINT64_MAX, &o));
    assert_false(obstacle_cores(64, 2000, &o));
    assert_false(obstacle_cores(0, UINT64_MAX, &o)); /* not known */
    assert_true(obstacle_cores(1, UINT64_MAX, &o));
    assert_non_null(strstr(o.what, "may use 1 CPU, on which"));
    assert_non_null(strstr(o.remedy, "--cores-per-rank 2"));
    assert_true(obstacle_cores(64, 1500, &o));
    assert_non_null(strstr(o.what, "may use 1.5 CPUs (the control group's quota), on which"));
    assert_true(obstacle_cores(1, 5000, &o));
    assert_null(strstr(o.what, "quota"));
}

static void memory(void **state)
{
    (void)state;
    struct obstacle o;
    assert_false(obstacle_memory(0, &o));
    assert_true(obstacle_memory(ENOSYS, &o));
    assert_non_null(strstr(o.what, strerror(ENOSYS)));
    assert_non_null(strstr(o.remedy, "UCX_TLS=^cma"));
}

static void make(const char *root, const char *path)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    assert_int_equal(mkdir(full, 0700), 0);
}

static void devices(void **state)
{
    (void)state;
    struct obstacle o;
    char root[] = "/tmp/test_obstacle.XXXXXX", command[64];
    assert_non_null(mkdtemp(root));
    assert_false(obstacle_devices(root, "nonsense0", &o)); /* no /sys: nothing is known */
    make(root, "/sys/class/net/eth0");
    make(root, "/sys/class/infiniband/mlx5_0/ports/1");
    assert_false(obstacle_devices(root, NULL, &o));
    assert_false(obstacle_devices(root, "", &o));
    assert_false(obstacle_devices(root, "all", &o));
    assert_false(obstacle_devices(root, "^nonsense0", &o));
    assert_false(obstacle_devices(root, "mlx5_*", &o));
    assert_false(obstacle_devices(root, "mlx5_0:1,eth0", &o));
    assert_true(obstacle_devices(root, "eth0,mlx5_0:2", &o));
    assert_non_null(strstr(o.what, "names \"mlx5_0:2\", which is no device of this host (it has mlx5_0:1, eth0)"));
    assert_true(obstacle_devices(root, "mlx5_1:1", &o));
    assert_true(obstacle_devices(root, "nonsense0", &o));
    snprintf(command, sizeof command, "rm -rf %s", root);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores),
        cmocka_unit_test(memory),
        cmocka_unit_test(devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
