/* SPDX-License-Identifier: BSD-3-Clause */
/* settings_page: what --explain says of variables on nodes that differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "batonrun/settings_page.h"

/* Nodes as they would answer: two that are alike, one without pml/ucx, one with an adapter that is up. */
static const char *const facts[] = {"11301.110..", "11301.110..", "11301.100..eth0", "11801.111.fe80-1."};

static int answer(const struct allocation *a, struct machine *machines, void *arg, struct why *why)
{
    (void)arg;
    for (uint32_t i = 0; i < a->num_hosts; i++) {
        if (machine_read(&machines[i], MACHINE_SYNTHETIC, "core:4 pu:2", why) != 0)
            return -1;
        snprintf(machines[i].facts, sizeof machines[i].facts, "%s", facts[i]);
    }
    return 0;
}

static void find_place(struct placement *p, const char *hosts, placement_ask_fn ask, const void *arg)
{
    struct placement_options options = placement_defaults();
    const struct engine_size sizes[JOB_SIDES] = {{4, 1, 1}, {4, 1, 1}};
    struct why why = {""};
    options.hosts = hosts;
    if (placement_find(p, &options, sizes, ask, (void *)(uintptr_t)arg, &why) != 0)
        fail_msg("%s", why.text);
}

static char *print(const struct placement *p, const struct settings_given *given)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_int_equal(settings_print(out, p, given), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* The page for four hosts; free it. */
static char *page(const struct settings_given *given)
{
    struct placement p;
    find_place(&p, "a:2,b:2,c:2,d:2", answer, NULL);
    char *text = print(&p, given);
    placement_fini(&p);
    return text;
}

/* Between the heading that begins so and the next one there is such a line; NULL: there is no line with `line`. */
static void has(const char *text, const char *heading, const char *line, const char *reason)
{
    const char *section = strstr(text, heading);
    if (section == NULL)
        fail_msg("no \"%s\" in:\n%s", heading, text);
    const char *end = strstr(section + 1, "\nsettings on");
    const char *found = strstr(section, line);
    if (found != NULL && end != NULL && found > end)
        found = NULL;
    if (reason == NULL) {
        assert_null(found);
        return;
    }
    if (found == NULL)
        fail_msg("no \"%s\" in:\n%s", line, section);
    const char *why = strstr(found, reason);
    if (why == NULL || why > strchr(found, '\n'))
        fail_msg("no \"%s\" in:\n%s", reason, found);
}

static void test_kinds(void **state)
{
    (void)state;
    char *text = page(&(struct settings_given){.mpi = "Open MPI v4.1.4", .plugins = ""});
    has(text, "threads: ", "reactor and copy workers have the last", "");
    has(text, "settings on a and 1 more node (TCP)", "OMPI_MCA_pml=ucx ", "  node  ");
    has(text, "settings on a ", "UCX_NET_DEVICES", NULL);
    has(text, "settings on c (TCP)", "OMPI_MCA_pml=ob1 ", "pml/ucx is missing");
    has(text, "settings on c ", "UCX_NET_DEVICES=eth0 ", "  node  ");
    has(text, "settings on d (InfiniBand or RoCE)", "OMPI_MCA_pml=ucx ", "  node  ");
    has(text, "settings on d ", "UCX_TLS", NULL);
    assert_null(strstr(text, "settings on b"));
    free(text);
}

static void test_open_mpi_5(void **state)
{
    (void)state;
    char *text = page(&(struct settings_given){.mpi = "Open MPI v5.0.7", .plugins = ""});
    has(text, "settings on d (TCP)", "OMPI_MCA_osc=rdma,sm ", "bytes between nodes go over TCP");
    assert_null(strstr(text, "UCX_NET_DEVICES"));
    assert_null(strstr(text, "(InfiniBand or RoCE)"));
    free(text);
}

static void test_survive(void **state)
{
    (void)state;
    char *text = page(&(struct settings_given){.mpi = "MPICH Version: 4.2.1", .plugins = "", .survive = true});
    has(text, "settings on d ", "UCX_TLS=^cma ", "--survive");
    has(text, "settings on a ", "UCX_TLS", NULL);
    assert_null(strstr(text, "OMPI_MCA_osc"));
    free(text);
}

static void test_no_mpi(void **state)
{
    (void)state;
    static const char left_out[] = "settings of MPI are left out, since this build has no MPI";
    char *text = page(&(struct settings_given){.mpi = "", .plugins = ""});
    assert_non_null(strstr(text, left_out));
    has(text, "settings on c ", "UCX_NET_DEVICES=eth0 ", "  node  ");
    assert_null(strstr(text, "OMPI_MCA_"));
    free(text);
    text = page(&(struct settings_given){.mpi = "Open MPI v4.1.4", .plugins = ""});
    assert_null(strstr(text, left_out));
    free(text);
}

static void test_own(void **state)
{
    (void)state;
    static const char *const exports[] = {"OMPI_MCA_coll", "OMPI_MCA_pml=cm", "OMPI_MCA_pmlx=1"};
    setenv("UCX_NET_DEVICES", "mlx5_7:1", 1);
    setenv("UCX_RNDV_THRESH", "8k", 1);
    char *text =
        page(&(struct settings_given){.mpi = "Open MPI v4.1.4", .plugins = "", .exports = exports, .num_exports = 3});
    has(text, "settings on c ", "OMPI_MCA_pml=cm ", "  yours  set before");
    has(text, "settings on c ", "UCX_NET_DEVICES=mlx5_7:1 ", "  yours  set before");
    has(text, "settings on c ", "OMPI_MCA_coll=^hcoll ", "  node  ");
    has(text, "settings on d ", "UCX_RNDV_THRESH=8k ", "  yours  passed on");
    unsetenv("UCX_NET_DEVICES");
    unsetenv("UCX_RNDV_THRESH");
    free(text);
}

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

/* A variable that cannot be set beside another one gives way to it, by whatever way the user has set that one. */
static void test_rival(void **state)
{
    (void)state;
    static const char *const exports[] = {"OMPI_MCA_btl_tcp_if_exclude=docker0"};
    static const char reason[] = "it stays, and OMPI_MCA_btl_tcp_if_include is not set beside it";
    struct settings_given given = {.mpi = "Open MPI v4.1.4", .plugins = "", .exports = exports, .num_exports = 1};
    char *text = page(&given);
    has(text, "settings on c ", "OMPI_MCA_btl_tcp_if_exclude=docker0 ", reason);
    has(text, "settings on c ", "OMPI_MCA_btl_tcp_if_include=", NULL);
    has(text, "settings on c ", "UCX_NET_DEVICES=eth0 ", "  node  ");
    free(text);
    setenv("OMPI_MCA_btl_tcp_if_exclude", "docker1", 1);
    given.num_exports = 0;
    text = page(&given);
    has(text, "settings on c ", "OMPI_MCA_btl_tcp_if_exclude=docker1 ", reason);
    assert_int_equal(count(text, "OMPI_MCA_btl_tcp_if_exclude="), 1);
    free(text);
    unsetenv("OMPI_MCA_btl_tcp_if_exclude");
}

/* Two hosts with two adapters each, whose facts are given. */
static int answer_adapters(const struct allocation *a, struct machine *machines, void *arg, struct why *why)
{
    const char *const *words = arg;
    char text[256];
    for (uint32_t i = 0; i < a->num_hosts; i++) {
        snprintf(text, sizeof text,
                 "C4:0.4.1.0:0.4.1.0:0.4.1.0:2.4.1.0:0.1.4.2:1.1.4.2 E0.4.0.mlx5_0 E0.4.0.mlx5_1 F%s", words[i]);
        if (machine_parse(&machines[i], text, why) != 0)
            return -1;
    }
    return 0;
}

/* Hosts with a hardware thread and a GPU each. */
static int answer_gpus(const struct allocation *a, struct machine *machines, void *arg, struct why *why)
{
    (void)arg;
    for (uint32_t i = 0; i < a->num_hosts; i++)
        if (machine_parse(&machines[i], "C1:0.1.1.0:0.1.1.0:0.1.1.0:1.1.1.0:0.1.1.0 G0.1.3.x", why) != 0)
            return -1;
    return 0;
}

/* A rank is told its GPU although it is not bound. */
static void test_gpus(void **state)
{
    (void)state;
    struct placement p;
    find_place(&p, "a,b,c,d,e,f,g,h", answer_gpus, NULL);
    assert_false(placement_can_bind(&p));
    assert_true(placement_has_bindings(&p));
    char *bindings = placement_bindings(&p);
    assert_string_equal(bindings, "/@3#0x8");
    free(bindings);
    placement_fini(&p);
}

/* A rank has one adapter only where it reaches every host by it. */
static void test_adapters(void **state)
{
    (void)state;
    static const struct {
        const char *facts[2], *reason; /* NULL: each rank has an adapter */
    } cases[] = {{{"11801.111.fe80-1.", "11801.111.fe80-1."}, NULL},
                 {{"11801.111.fe80-1.", "11801.111.fe80-2."}, "the ports of hosts a and b are in different networks"},
                 {{"11801.111.fe80-1.", "11801.111.."}, "host b are not known to be in one network"},
                 {{"11801.111.fe80-1.", "11801.110.."}, "host b has no active port"}};
    const struct settings_given given = {.mpi = "Open MPI v4.1.4", .plugins = ""};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct placement p;
        find_place(&p, "a:4,b:4", answer_adapters, cases[i].facts);
        char *text = print(&p, &given), *bindings = placement_bindings(&p);
        assert_non_null(bindings);
        assert_int_equal(strstr(bindings, "/mlx5_0") != NULL, cases[i].reason == NULL);
        assert_int_equal(strstr(bindings, "/mlx5_1") != NULL, cases[i].reason == NULL);
        if (cases[i].reason == NULL) {
            has(text, "settings on a ", "UCX_NET_DEVICES=NIC:PORT ", "  node  ");
        } else {
            has(text, "settings on a ", "UCX_NET_DEVICES=NIC:PORT ", NULL);
            has(text, "settings on a ", "UCX_NET_DEVICES= ", cases[i].reason);
            setenv("UCX_NET_DEVICES", "mlx5_0:1", 1);
            free(text);
            text = print(&p, &given);
            has(text, "settings on a ", "UCX_NET_DEVICES= ", NULL);
            unsetenv("UCX_NET_DEVICES");
        }
        free(text);
        free(bindings);
        placement_fini(&p);
    }
}

int main(void)
{
    static const char *const variables[] = {"OMPI_MCA_btl_tcp_if_exclude",
                                            "OMPI_MCA_btl_tcp_if_include",
                                            "OMPI_MCA_coll",
                                            "OMPI_MCA_pml",
                                            "UCX_NET_DEVICES",
                                            "UCX_TLS"};
    for (unsigned i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),    cmocka_unit_test(test_open_mpi_5), cmocka_unit_test(test_survive),
        cmocka_unit_test(test_no_mpi),   cmocka_unit_test(test_own),        cmocka_unit_test(test_rival),
        cmocka_unit_test(test_adapters), cmocka_unit_test(test_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
