/* SPDX-License-Identifier: BSD-3-Clause */
/* node: what is read of made-up systems, how it is told, and how many ranks the launchers' variables count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "batonrun/node.h"

/* ---- a folder that plays a system -------------------------------------------------------------------------------- */

static char root[64];

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/test-node-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

/* A file with a line, and the folders above it. */
static void put(const char *path, const char *text)
{
    char command[1024];
    snprintf(command, sizeof command, "mkdir -p \"$(dirname %s/%s)\" && printf '%s' >%s/%s", root, path, text, root,
             path);
    assert_int_equal(system(command), 0);
}

static struct profile_facts look(const char *plugins)
{
    struct profile_facts f = {0};
    node_look(root, plugins, &f);
    return f;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void test_components(void **state)
{
    (void)state;
    assert_true(look("").osc_ucx && look("").pml_ucx);
    assert_true(look("/plugins").osc_ucx && look("/plugins").pml_ucx); /* no folder: all are inside the library */
    put("plugins/mca_pml_ob1.so", "");
    assert_false(look("/plugins").osc_ucx || look("/plugins").pml_ucx);
    put("plugins/mca_osc_ucx.so", "");
    assert_true(look("/plugins").osc_ucx);
    assert_false(look("/plugins").pml_ucx);
    put("plugins/mca_pml_ucx.so", "");
    assert_true(look("/plugins").pml_ucx);
}

static void test_ports(void **state)
{
    (void)state;
    char port[64];
    assert_false(node_port(root, "mlx5_0", port));
    assert_false(look("").port_is_active);
    put("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN");
    put("sys/class/infiniband/mlx5_0/ports/2/state", "2: INIT");
    assert_false(node_port(root, "mlx5_0", port));
    assert_false(look("").port_is_active);
    put("sys/class/infiniband/mlx5_0/ports/3/state", "4: ACTIVE");
    put("sys/class/infiniband/mlx5_0/ports/2/state", "4: ACTIVE\\n");
    assert_true(node_port(root, "mlx5_0", port));
    assert_string_equal(port, "mlx5_0:2");
    assert_true(look("").port_is_active);
    assert_false(node_port(root, "", port));
    assert_false(node_port(root, "mlx5_1", port));
    put("sys/class/infiniband/mlx5_1/ports/1/state", "5: ACTIVE_DEFER");
    assert_true(node_port(root, "mlx5_1", port));
}

/* A library below the root that says that it is UCX 1.MINOR. */
static void put_ucx(const char *path, unsigned minor)
{
    char command[512];
    snprintf(command, sizeof command,
             "mkdir -p \"$(dirname %s/%s)\" && echo 'void ucp_get_version(unsigned *a, unsigned *b, unsigned *c)"
             "{ *a = 1; *b = %u; *c = 0; }' | " TEST_CC " -shared -fPIC -o %s/%s -xc -",
             root, path, minor, root, path);
    assert_int_equal(system(command), 0);
}

/* The UCX that Open MPI is linked to counts, not another one that the system has. */
static void test_ucx(void **state)
{
    (void)state;
    if (system(TEST_CC " --version >/dev/null 2>&1") != 0)
        skip(); /* the test runs on another machine than the one that built it */
    uint32_t any = look("").ucx_version;
    put("lib/plugins/mca_pml_ob1.so", "");
    put("lib/plugins/mca_pml_ucx.so", ""); /* it cannot be loaded */
    assert_int_equal(look("/lib/plugins").ucx_version, any);
    put_ucx("lib/libmpi.so.40", 97);
    assert_int_equal(look("/lib/plugins").ucx_version, PROFILE_VERSION(1, 97, 0));
    put_ucx("lib/plugins/mca_osc_ucx.so", 98);
    assert_int_equal(look("/lib/plugins").ucx_version, PROFILE_VERSION(1, 98, 0));
    put_ucx("lib/plugins/mca_pml_ucx.so", 99);
    assert_int_equal(look("/lib/plugins").ucx_version, PROFILE_VERSION(1, 99, 0));
    assert_int_equal(look("").ucx_version, any);
}

static void put_port(const char *adapter, const char *layer, const char *gid, const char *manager)
{
    char path[128];
    const char *const files[][2] = {
        {"state", "4: ACTIVE\\n"}, {"link_layer", layer}, {"gids/0", gid}, {"sm_lid", manager}};
    for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "sys/class/infiniband/%s/ports/1/%s", adapter, files[i][0]);
        put(path, files[i][1]);
    }
}

#define GID(prefix) prefix ":0000:0000:0000:0002:c903:00a1:b2c3\\n"

/* Which networks the active ports are in: of one, or of several. */
static void test_fabric(void **state)
{
    (void)state;
    assert_string_equal(look("").fabric, "");
    put("sys/class/infiniband/mlx5_9/ports/1/state", "1: DOWN\\n"); /* it does not count */
    assert_string_equal(look("").fabric, "");
    put_port("mlx5_0", "InfiniBand\\n", GID("fe80"), "0x1\\n");
    assert_string_equal(look("").fabric, "fe80000000000000-1");
    put_port("mlx5_1", "InfiniBand\\n", GID("fe80"), "0x1\\n");
    assert_string_equal(look("").fabric, "fe80000000000000-1");
    put_port("mlx5_1", "InfiniBand\\n", GID("fe80"), "0x2\\n"); /* another fabric with the usual prefix */
    assert_string_equal(look("").fabric, "");
    put_port("mlx5_1", "InfiniBand\\n", GID("fec0"), "0x1\\n");
    assert_string_equal(look("").fabric, "");
    assert_true(look("").port_is_active);
    put_port("mlx5_1", "Ethernet\\n", GID("fe80"), "0x1\\n"); /* an adapter for storage */
    assert_string_equal(look("").fabric, "");
    put("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\\n");
    assert_string_equal(look("").fabric, "fe80000000000000-1");
    put("sys/class/infiniband/mlx5_0/ports/1/gids/0", "");
    assert_string_equal(look("").fabric, "");
    assert_true(look("").port_is_active);
}

#define ROUTES "Iface\\tDestination\\tGateway\\tFlags\\tRefCnt\\tUse\\tMetric\\tMask\\n"

/* RoCE: by the IP networks of the ports' interfaces. */
static void test_roce(void **state)
{
    (void)state;
    put_port("mlx5_0", "Ethernet\\n", GID("fe80"), "0x0\\n");
    put("sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "eth2\\n");
    assert_string_equal(look("").fabric, ""); /* without an address */
    put("proc/net/route", ROUTES "eth2\\t00000000\\t0100A8C0\\t3\\t0\\t0\\t0\\t00000000\\n"
                                 "eth2\\t0000A8C0\\t00000000\\t1\\t0\\t0\\t0\\t00FFFFFF\\n"
                                 "eth3\\t0000A8C0\\t00000000\\t1\\t0\\t0\\t0\\t00FFFFFF\\n"
                                 "eth4\\t0001A8C0\\t00000000\\t1\\t0\\t0\\t0\\t00FFFFFF\\n");
    assert_string_equal(look("").fabric, "0000a8c0-00ffffff");
    put_port("mlx5_1", "Ethernet\\n", GID("fe80"), "0x0\\n");
    put("sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0", "eth3\\n");
    assert_string_equal(look("").fabric, "0000a8c0-00ffffff");
    put("sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0", "eth4\\n");
    assert_string_equal(look("").fabric, "");
}

#define HEADING "Iface\\tDestination\\n"

static void test_interface(void **state)
{
    (void)state;
    assert_string_equal(look("").interface, ""); /* no table of routes */
    put("sys/class/net/eth0/device/vendor", "");
    put("sys/class/net/eth1/device/vendor", "");
    put("sys/class/net/docker0/bridge/id", "");
    put("sys/class/net/docker0/lower_veth1/address", "");
    put("sys/class/net/veth1/address", "");
    put("proc/net/route", HEADING "eth0\\t0\\neth0\\t1\\n");
    assert_string_equal(look("").interface, ""); /* there is no other */
    put("proc/net/route", HEADING "docker0\\t0\\neth0\\t1\\neth0\\t2\\n");
    assert_string_equal(look("").interface, "eth0");
    put("proc/net/route", HEADING "docker0\\t0\\neth0\\t1\\neth1\\t2\\n");
    assert_string_equal(look("").interface, ""); /* two with hardware */
    put("proc/net/route", HEADING "docker0\\t0\\nlo\\t1\\n");
    assert_string_equal(look("").interface, "");
    put("sys/class/net/bond0/lower_eth0/address", "");
    put("proc/net/route", HEADING "docker0\\t0\\nbond0\\t1\\n");
    assert_string_equal(look("").interface, "bond0");
    put("sys/class/net/round/lower_round/address", ""); /* never so, and it ends all the same */
    put("proc/net/route", HEADING "docker0\\t0\\nround\\t1\\n");
    assert_string_equal(look("").interface, "");
    put("proc/net/route", "");
    assert_string_equal(look("").interface, "");
}

static void test_this_machine(void **state)
{
    (void)state;
    struct profile_facts f = {0};
    node_look("", "", &f);
    assert_true(f.ucx_version == 0 || f.ucx_version >= PROFILE_VERSION(1, 0, 0));
}

static void test_text(void **state)
{
    (void)state;
    char text[NODE_TEXT_BYTES];
    const struct profile_facts f = {.ucx_version = PROFILE_VERSION(1, 13, 1),
                                    .osc_ucx = true,
                                    .port_is_active = true,
                                    .fabric = "fe80000000000000-1",
                                    .interface = "enp0s31f6"};
    struct profile_facts g = {.sharers = 7};
    node_write(&f, text);
    assert_string_equal(text, "11301.101.fe80000000000000-1.enp0s31f6");
    assert_true(node_parse(text, &g));
    assert_int_equal(g.ucx_version, f.ucx_version);
    assert_true(g.osc_ucx && !g.pml_ucx && g.port_is_active);
    assert_string_equal(g.fabric, f.fabric);
    assert_string_equal(g.interface, f.interface);
    assert_int_equal(g.sharers, 7);
    assert_true(node_parse("0.000..", &g));
    assert_string_equal(g.fabric, "");
    static const char *const bad[] = {"",
                                      "1",
                                      "1.",
                                      "1.1",
                                      "1.112..",
                                      "1.11..",
                                      "1.111",
                                      "1.111.",
                                      "x.111..",
                                      "1.111..a23456789012345b",
                                      "1.111.a23456789012345678901234."};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(node_parse(bad[i], &g));
}

static const char *const *given;

static char *variable(const char *name)
{
    for (const char *const *v = given; *v != NULL; v += 2)
        if (strcmp(v[0], name) == 0)
            return (char *)(uintptr_t)v[1];
    return NULL;
}

static void test_ranks(void **state)
{
    (void)state;
    static const struct {
        const char *variables[6];
        uint32_t ranks;
    } cases[] = {
        {{NULL}, 0},
        {{"OMPI_COMM_WORLD_LOCAL_SIZE", "8"}, 8},
        {{"MPI_LOCALNRANKS", "3"}, 3},
        {{"OMPI_COMM_WORLD_LOCAL_SIZE", "x"}, 0},
        {{"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"}, 0},
        {{"SLURM_STEP_TASKS_PER_NODE", "4(x2),3", "SLURM_NODEID", "0"}, 4},
        {{"SLURM_STEP_TASKS_PER_NODE", "4(x2),3", "SLURM_NODEID", "1"}, 4},
        {{"SLURM_STEP_TASKS_PER_NODE", "4(x2),3", "SLURM_NODEID", "2"}, 3},
        {{"SLURM_STEP_TASKS_PER_NODE", "4(x2),3", "SLURM_NODEID", "3"}, 0},
        {{"SLURM_STEP_TASKS_PER_NODE", "4(x2", "SLURM_NODEID", "0"}, 0},
        {{"SLURM_STEP_TASKS_PER_NODE", "", "SLURM_NODEID", "0"}, 0},
        {{"SLURM_STEP_TASKS_PER_NODE", "2", "SLURM_NODEID", "0", "OMPI_COMM_WORLD_LOCAL_SIZE", "5"}, 5},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *variables[7] = {NULL};
        memcpy(variables, cases[i].variables, sizeof cases[i].variables);
        given = variables;
        assert_int_equal(node_ranks(variable), cases[i].ranks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_components, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_ports, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_ucx, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_fabric, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_roce, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_interface, make_root, remove_root),
        cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
