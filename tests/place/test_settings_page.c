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

#include "launch/settings_page.h"

/* Nodes as they would answer: two that are alike, one without pml/ucx, one with an adapter that is up. */
static const char *const facts[] = {"11301.110.", "11301.110.", "11301.100.eth0", "11801.111."};

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

/* The page for four hosts; free it. */
static char *page(const struct settings_given *given)
{
    struct placement p;
    struct placement_options options = placement_defaults();
    const struct engine_size sizes[JOB_SIDES] = {{4, 1, 1}, {4, 1, 1}};
    struct why why = {""};
    char *text = NULL;
    size_t bytes;
    options.hosts = "a:2,b:2,c:2,d:2";
    if (placement_find(&p, &options, sizes, answer, NULL, &why) != 0)
        fail_msg("%s", why.text);
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_int_equal(settings_print(out, &p, given), 0);
    assert_int_equal(fclose(out), 0);
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

static void test_survive(void **state)
{
    (void)state;
    char *text = page(&(struct settings_given){.mpi = "MPICH Version: 4.2.1", .plugins = "", .survive = true});
    has(text, "settings on d ", "UCX_TLS=^cma ", "--survive");
    has(text, "settings on a ", "UCX_TLS", NULL);
    assert_null(strstr(text, "OMPI_MCA_osc"));
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
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_survive),
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_rival),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
