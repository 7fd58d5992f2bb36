/* SPDX-License-Identifier: BSD-3-Clause */
/* profile: which settings follow from which facts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "batonrun/profile.h"

#define OPEN_MPI_4 PROFILE_VERSION(4, 1, 4)

/* Open MPI 4.1 with UCX on one of several nodes with TCP, where there is room. */
static struct profile_facts usual(void)
{
    return (struct profile_facts){.mpi = PROFILE_OPEN_MPI,
                                  .mpi_version = OPEN_MPI_4,
                                  .ucx_version = PROFILE_VERSION(1, 13, 1),
                                  .osc_ucx = true,
                                  .pml_ucx = true,
                                  .sharers = 1,
                                  .threads = 2};
}

/* The value of a variable; NULL: it is not set. Each variable comes once, with a reason. */
static const struct profile_setting *find(const struct profile_facts *f, const char *variable)
{
    static struct profile_setting settings[PROFILE_SETTINGS_MAX];
    const struct profile_setting *found = NULL;
    unsigned num = profile_find(f, settings);
    assert_in_range(num, 1, PROFILE_SETTINGS_MAX);
    for (unsigned i = 0; i < num; i++) {
        assert_true(settings[i].value[0] != '\0' && settings[i].value[0] != '<');
        assert_true(strlen(settings[i].reason) > 20); /* no reason refers to that of another variable */
        if (strcmp(settings[i].variable, variable) == 0) {
            assert_null(found);
            found = &settings[i];
        }
    }
    return found;
}

static void sets(const struct profile_facts *f, const char *variable, const char *value)
{
    const struct profile_setting *s = find(f, variable);
    if (value == NULL) {
        assert_null(s);
        return;
    }
    assert_non_null(s);
    assert_string_equal(s->value, value);
}

static void test_open_mpi_with_ucx(void **state)
{
    (void)state;
    static const uint32_t versions[] = {PROFILE_VERSION(4, 1, 0), OPEN_MPI_4, PROFILE_VERSION(5, 0, 7)};
    for (unsigned i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        struct profile_facts f = usual();
        f.mpi_version = versions[i];
        sets(&f, "OMPI_MCA_btl", "^uct,openib,ofi");
        sets(&f, "OMPI_MCA_coll", "^hcoll");
        sets(&f, "OMPI_MCA_opal_common_ucx_tls", "any");
        sets(&f, "OMPI_MCA_opal_common_ucx_devices", "any");
        sets(&f, "UCX_LOG_FILE", "stderr");
        sets(&f, "UCX_TLS", NULL);
        sets(&f, "UCX_NET_DEVICES", NULL);
    }
    struct profile_facts f = usual();
    sets(&f, "OMPI_MCA_osc", "ucx,sm");
    sets(&f, "OMPI_MCA_pml", "ucx");
    assert_false(find(&f, "OMPI_MCA_osc")->is_second_best);
}

/* Open MPI 5 has an osc/ucx for one thread, whether or not it is there. */
static void test_open_mpi_5(void **state)
{
    (void)state;
    struct profile_facts f = usual();
    f.survive = true;
    sets(&f, "OMPI_MCA_reachable", NULL);
    sets(&f, "OMPI_MCA_mpi_ft_enable", NULL);
    f.survive = false;
    f.mpi_version = PROFILE_VERSION(5, 0, 7);
    for (int i = 0; i < 2; i++) {
        sets(&f, "OMPI_MCA_osc", "rdma,sm");
        sets(&f, "OMPI_MCA_pml", "ob1");
        sets(&f, "OMPI_MCA_reachable", "weighted");
        assert_false(find(&f, "OMPI_MCA_osc")->is_second_best);
        assert_false(find(&f, "OMPI_MCA_pml")->is_second_best);
        sets(&f, "OMPI_MCA_mpi_ft_enable", NULL);
        f.survive = true;
        sets(&f, "OMPI_MCA_mpi_ft_enable", "1");
        f.survive = false;
        f.osc_ucx = f.pml_ucx = false;
    }
}

/* Open MPI 5 leaves InfiniBand and RoCE aside, and that is said where there is more than one node. */
static void test_open_mpi_5_on_fabric(void **state)
{
    (void)state;
    struct profile_facts f = usual();
    f.mpi_version = PROFILE_VERSION(5, 0, 7);
    f.port_is_active = true;
    snprintf(f.nic, sizeof f.nic, "mlx5_0:1");
    snprintf(f.interface, sizeof f.interface, "ib0");
    assert_int_equal(profile_kind(&f), PROFILE_TCP);
    sets(&f, "UCX_NET_DEVICES", NULL);
    sets(&f, "UCX_TCP_TX_SEG_SIZE", NULL); /* nothing goes by UCX */
    sets(&f, "OMPI_MCA_btl_tcp_if_include", "ib0");
    sets(&f, "OMPI_MCA_osc", "rdma,sm");
    assert_true(find(&f, "OMPI_MCA_osc")->is_second_best);
    assert_non_null(strstr(find(&f, "OMPI_MCA_osc")->reason, "over TCP, not InfiniBand or RoCE"));
    assert_null(strstr(find(&f, "OMPI_MCA_btl")->reason, "UCX"));
    f.one_node = true;
    assert_int_equal(profile_kind(&f), PROFILE_ONE_NODE);
    assert_false(find(&f, "OMPI_MCA_osc")->is_second_best);
    f = usual();
    f.port_is_active = true;
    assert_int_equal(profile_kind(&f), PROFILE_FABRIC);
    assert_false(find(&f, "OMPI_MCA_osc")->is_second_best);
    assert_non_null(strstr(find(&f, "OMPI_MCA_btl")->reason, "UCX"));
}

/* What is missing is not named in a list, and that is said. */
static void test_missing_components(void **state)
{
    (void)state;
    struct profile_facts f = usual();
    f.osc_ucx = false;
    sets(&f, "OMPI_MCA_osc", "^ucx");
    assert_true(find(&f, "OMPI_MCA_osc")->is_second_best);
    sets(&f, "OMPI_MCA_pml", "ucx");
    assert_false(find(&f, "OMPI_MCA_pml")->is_second_best);
    sets(&f, "OMPI_MCA_opal_common_ucx_tls", "any");
    f.pml_ucx = false;
    sets(&f, "OMPI_MCA_pml", "ob1");
    assert_true(find(&f, "OMPI_MCA_pml")->is_second_best);
    sets(&f, "OMPI_MCA_opal_common_ucx_tls", NULL);
    sets(&f, "OMPI_MCA_opal_common_ucx_devices", NULL);
}

static void test_yield(void **state)
{
    (void)state;
    static const struct {
        uint32_t sharers, threads;
        const char *value;
    } cases[] = {{4, 2, "1"}, {1, 1, "1"},  {2, 3, "1"},          {2, 4, "0"},
                 {1, 2, "0"}, {0, 8, NULL}, {UINT32_MAX, 8, "1"}, {3, 0, "1"}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct profile_facts f = usual();
        f.sharers = cases[i].sharers;
        f.threads = cases[i].threads;
        sets(&f, "OMPI_MCA_mpi_yield_when_idle", cases[i].value);
    }
}

static void test_devices(void **state)
{
    (void)state;
    struct profile_facts f = usual();
    snprintf(f.interface, sizeof f.interface, "eth0");
    assert_int_equal(profile_kind(&f), PROFILE_TCP);
    sets(&f, "UCX_NET_DEVICES", "eth0");
    sets(&f, "OMPI_MCA_btl_tcp_if_include", "eth0");
    snprintf(f.nic, sizeof f.nic, "mlx5_1:2");
    sets(&f, "UCX_NET_DEVICES", "eth0"); /* no port is up */
    sets(&f, "UCX_TCP_TX_SEG_SIZE", "128k");
    sets(&f, "UCX_TCP_RX_SEG_SIZE", "128k");
    f.port_is_active = true;
    sets(&f, "UCX_TCP_TX_SEG_SIZE", NULL);
    assert_int_equal(profile_kind(&f), PROFILE_FABRIC);
    sets(&f, "UCX_NET_DEVICES", "mlx5_1:2");
    sets(&f, "OMPI_MCA_btl_tcp_if_include", NULL);
    f.nic[0] = '\0';
    sets(&f, "UCX_NET_DEVICES", NULL);
    snprintf(f.nic, sizeof f.nic, "mlx5_1:2");
    f.one_node = true;
    assert_int_equal(profile_kind(&f), PROFILE_ONE_NODE);
    sets(&f, "UCX_NET_DEVICES", NULL);
    sets(&f, "UCX_TCP_RX_SEG_SIZE", "128k"); /* ranks of one node may be told to use TCP */
}

static bool is_given(const void *names, const char *variable)
{
    for (const char *const *name = names; *name != NULL; name++)
        if (strcmp(*name, variable) == 0)
            return true;
    return false;
}

/* Open MPI ends a rank for which both variables are set. */
static void test_own(void **state)
{
    (void)state;
    static const char *const none[] = {NULL}, *const other[] = {"OMPI_MCA_btl_tcp_if_exclude", NULL},
                             *const same[] = {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_btl_tcp_if_exclude", NULL};
    struct profile_facts f = usual();
    snprintf(f.interface, sizeof f.interface, "eth0");
    const struct profile_setting *s = find(&f, "OMPI_MCA_btl_tcp_if_include");
    assert_null(profile_own(s, is_given, none));
    assert_string_equal(profile_own(s, is_given, other), other[0]);
    assert_string_equal(profile_own(s, is_given, same), same[0]);
    s = find(&f, "UCX_NET_DEVICES");
    assert_null(profile_own(s, is_given, other));
}

static void test_old_ucx(void **state)
{
    (void)state;
    struct profile_facts f = usual();
    sets(&f, "UCX_SOCKADDR_TLS_PRIORITY", NULL);
    f.ucx_version = 0;
    sets(&f, "UCX_SOCKADDR_TLS_PRIORITY", NULL);
    f.ucx_version = PROFILE_VERSION(1, 10, 1);
    sets(&f, "UCX_SOCKADDR_TLS_PRIORITY", "tcp");
    f.ucx_version = PROFILE_VERSION(1, 11, 0);
    sets(&f, "UCX_SOCKADDR_TLS_PRIORITY", NULL);
    f.ucx_version = PROFILE_VERSION(1, 8, 0);
    f.port_is_active = true;
    sets(&f, "UCX_SOCKADDR_TLS_PRIORITY", NULL);
}

static void test_survive(void **state)
{
    (void)state;
    static const struct {
        uint32_t ucx;
        bool survive;
        const char *value;
    } cases[] = {{PROFILE_VERSION(1, 18, 0), true, "^cma"}, {PROFILE_VERSION(1, 19, 1), true, "^cma"},
                 {PROFILE_VERSION(1, 18, 0), false, NULL},  {PROFILE_VERSION(1, 17, 99), true, NULL},
                 {PROFILE_VERSION(2, 0, 0), true, "^cma"},  {0, true, NULL}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int mpi = PROFILE_OPEN_MPI; mpi <= PROFILE_OTHER_MPI; mpi++) {
            struct profile_facts f = usual();
            f.mpi = (enum profile_mpi)mpi;
            f.ucx_version = cases[i].ucx;
            f.survive = cases[i].survive;
            sets(&f, "UCX_TLS", cases[i].value);
        }
}

static void test_other_libraries(void **state)
{
    (void)state;
    struct profile_setting settings[PROFILE_SETTINGS_MAX];
    for (int mpi = PROFILE_MPICH; mpi <= PROFILE_OTHER_MPI; mpi++) {
        struct profile_facts f = usual();
        f.mpi = (enum profile_mpi)mpi;
        f.osc_ucx = f.pml_ucx = false;
        snprintf(f.interface, sizeof f.interface, "eth0");
        unsigned num = profile_find(&f, settings);
        for (unsigned i = 0; i < num; i++)
            assert_int_not_equal(strncmp(settings[i].variable, "OMPI_", 5), 0);
        sets(&f, "UCX_NET_DEVICES", "eth0");
        sets(&f, "UCX_LOG_FILE", "stderr");
    }
}

static void test_versions(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum profile_mpi mpi;
        uint32_t version;
    } cases[] = {{"Open MPI v4.1.4", PROFILE_OPEN_MPI, PROFILE_VERSION(4, 1, 4)},
                 {"Open MPI v5.0.7rc1", PROFILE_OPEN_MPI, PROFILE_VERSION(5, 0, 7)},
                 {"MPICH Version:\t4.0.2", PROFILE_MPICH, PROFILE_VERSION(4, 0, 2)},
                 {"MPICH Version:      4.2", PROFILE_MPICH, PROFILE_VERSION(4, 2, 0)},
                 {"Intel(R) MPI Library 2021.9", PROFILE_OTHER_MPI, PROFILE_VERSION(2021, 9, 0)},
                 {"", PROFILE_OTHER_MPI, 0}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct profile_facts f = {0};
        profile_mpi(cases[i].text, &f);
        assert_int_equal(f.mpi, cases[i].mpi);
        assert_int_equal(f.mpi_version, cases[i].version);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_mpi_with_ucx),
        cmocka_unit_test(test_open_mpi_5),
        cmocka_unit_test(test_open_mpi_5_on_fabric),
        cmocka_unit_test(test_missing_components),
        cmocka_unit_test(test_yield),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_old_ucx),
        cmocka_unit_test(test_survive),
        cmocka_unit_test(test_other_libraries),
        cmocka_unit_test(test_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
