/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports of baton-info: they arrive as they were, among other lines, and hosts are compared by them. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "info/compare.h"
#include "info/line.h"

/* What line_write writes, as text. */
static char *written(uint32_t rank, const struct info *i)
{
    char path[] = "/tmp/test_info.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    assert_int_equal(line_write(fd, rank, i), 0);
    off_t size = lseek(fd, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(pread(fd, text, (size_t)size, 0), size);
    close(fd);
    return text;
}

/* Takes all lines of a text but one: `without` counts them from 0, -1: none. Changes the text. */
static void read_all(struct line_reader *r, char *text, int without, uint32_t rank)
{
    int number = 0;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        assert_true(strlen(line) < LINE_BYTES);
        if (line_rank(line) < 0)
            continue;
        assert_int_equal(line_rank(line), rank);
        if (number++ != without)
            line_take(r, line);
    }
}

static void fill(struct info *i)
{
    info_problem(i, "a\tproblem \\ with\nall", "do\tthis", "one\ntwo\n");
    info_problem(i, "another", "", NULL);
    info_fact(i, INFO_OF_ALL, "mpi", "library", "Open MPI %s", "v4.1.4\\t");
    info_fact(i, INFO_OF_NODE, "baton", "host", "%s", "");
    info_fact(i, INFO_OF_KIND, "limits", "locked memory", "unlimited");
}

static void arrives_as_it_was(void **state)
{
    (void)state;
    struct info i = {0};
    struct line_reader r = {0};
    fill(&i);
    char *text = written(17, &i);
    read_all(&r, text, -1, 17);
    assert_true(r.is_whole);
    assert_int_equal(r.info.num_facts, 3);
    assert_int_equal(r.info.num_problems, 2);
    assert_string_equal(r.info.problems[0].what, i.problems[0].what);
    assert_string_equal(r.info.problems[0].remedy, "do\tthis");
    assert_string_equal(r.info.problems[0].quote, "one\ntwo\n");
    assert_string_equal(info_value(&r.info, "mpi", "library"), "Open MPI v4.1.4\\t");
    assert_string_equal(info_value(&r.info, "baton", "host"), "");
    assert_int_equal(r.info.facts[0].scope, INFO_OF_ALL);
    assert_int_equal(r.info.facts[1].scope, INFO_OF_NODE);
    assert_int_equal(r.info.facts[2].scope, INFO_OF_KIND);
    free(text);
    info_fini(&i);
    info_fini(&r.info);
}

static void missing_line_is_noticed(void **state)
{
    (void)state;
    for (int without = 0; without < 6; without++) {
        struct info i = {0};
        struct line_reader r = {0};
        fill(&i);
        char *text = written(0, &i);
        read_all(&r, text, without, 0);
        assert_false(r.is_whole);
        free(text);
        info_fini(&i);
        info_fini(&r.info);
    }
}

static void long_values_lose_their_end(void **state)
{
    (void)state;
    struct info i = {0};
    struct line_reader r = {0};
    char value[5000];
    memset(value, '\n', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    info_problem(&i, value, value, value);
    info_fact(&i, INFO_OF_ALL, value, value, "%s", value);
    char *text = written(4000000000u, &i);
    read_all(&r, text, -1, 4000000000u);
    assert_true(r.is_whole);
    assert_in_range(strlen(r.info.facts[0].value), 300, 800);
    assert_string_equal(r.info.problems[0].quote, r.info.facts[0].value);
    free(text);
    info_fini(&i);
    info_fini(&r.info);
}

static void strange_lines(void **state)
{
    (void)state;
    static const char *const others[] = {"", "UCX  WARN", "@baton-info", "@baton-info x f", "@baton-machine 0 x"};
    static const char *const malformed[] = {"@baton-info 1 f",    "@baton-info 1 f\ta\tb\tc", "@baton-info 1 p\ta\tb",
                                            "@baton-info 1 e",    "@baton-info 1 z\t1",       "@baton-info 1 e\t7",
                                            "@baton-info 1 f\t\\"};
    struct line_reader r = {0};
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++)
        assert_int_equal(line_rank(others[k]), -1);
    for (size_t k = 0; k < sizeof malformed / sizeof malformed[0]; k++) {
        assert_int_equal(line_rank(malformed[k]), 1);
        line_take(&r, malformed[k]);
    }
    assert_false(r.is_whole);
    assert_int_equal(r.info.num_facts + r.info.num_problems, 0);
    info_fini(&r.info);
}

static void said_once(void **state)
{
    (void)state;
    struct info i = {0};
    info_problem(&i, "one core", "more", NULL);
    info_problem(&i, "one core: more", "", NULL);
    info_problem(&i, "one", "", NULL);
    assert_int_equal(i.num_problems, 2);
    info_fini(&i);
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static uint32_t compared(const struct compare_host *hosts, uint32_t num, char **page)
{
    size_t size;
    FILE *out = open_memstream(page, &size);
    assert_non_null(out);
    uint32_t found = compare_print(out, hosts, num);
    assert_int_equal(fclose(out), 0);
    return found;
}

static void hosts_alike(void **state)
{
    (void)state;
    struct info a = {0}, b = {0};
    char *page;
    info_fact(&a, INFO_OF_ALL, "mpi", "library", "4.1.4");
    info_fact(&b, INFO_OF_ALL, "mpi", "library", "4.1.4");
    info_fact(&a, INFO_OF_NODE, "limits", "free", "1");
    info_fact(&b, INFO_OF_NODE, "limits", "free", "2");
    const struct compare_host hosts[] = {{"n0", &a, NULL}, {"n1", &b, NULL}};
    assert_int_equal(compared(hosts, 2, &page), 0);
    assert_string_equal(page, "");
    free(page);
    info_fini(&a);
    info_fini(&b);
}

static void hosts_that_differ(void **state)
{
    (void)state;
    struct info a = {0}, b = {0}, c = {0};
    char *page;
    info_fact(&a, INFO_OF_ALL, "mpi", "library", "4.1.4");
    info_fact(&b, INFO_OF_ALL, "mpi", "library", "4.1.5");
    info_fact(&c, INFO_OF_ALL, "mpi", "library", "4.1.4");
    info_fact(&b, INFO_OF_ALL, "ucx", "version", "1.13"); /* the others have none */
    info_problem(&b, "no CMA", "permit it", NULL);
    info_problem(&c, "no CMA", "permit it", NULL);
    info_problem(&c, "one core", "more", "a\nb\n");
    const struct compare_host hosts[] = {{"n0", &a, NULL}, {"n1", &b, NULL}, {"n2", &c, NULL}, {"n3", NULL, "gone"}};
    assert_int_equal(compared(hosts, 4, &page), 5);
    assert_string_equal(page,
                        "problem on n3: baton-info did not report from there: gone\n"
                        "  do: see that the launcher reaches the host, and that Baton lies at the same path there\n"
                        "problem on n1, n2: no CMA\n  do: permit it\n"
                        "problem on n2: one core\n  do: more\n  | a\n  | b\n"
                        "differs: mpi, library\n  n0, n2: 4.1.4\n  n1: 4.1.5\n"
                        "differs: ucx, version\n  n0, n2: not found\n  n1: 1.13\n"
                        "  do: make them the same on all hosts; ranks of one world must have the same libraries and "
                        "limits\n");
    free(page);
    info_fini(&a);
    info_fini(&b);
    info_fini(&c);
}

/* A prefill node with GPUs beside decode nodes without, one of which has a little more memory. */
static void fill_machine(struct info *i, const char *hwloc, const char *cpus, const char *shm, const char *locked)
{
    info_fact(i, INFO_OF_ALL, "ucx", "version", "1.13.1");
    info_fact(i, INFO_OF_NODE, "machine", "hwloc", "%s", hwloc);
    info_fact(i, INFO_OF_NODE, "limits", "cpuset", "%s", cpus);
    info_fact(i, INFO_OF_KIND, "limits", "/dev/shm", "%s", shm);
    info_fact(i, INFO_OF_KIND, "limits", "locked memory", "%s", locked);
}

static void machines_of_two_kinds(void **state)
{
    (void)state;
    struct info a = {0}, b = {0}, c = {0};
    char *page;
    fill_machine(&a, "64 cores, 8 GPUs", "0-127", "1031000 MiB", "unlimited");
    fill_machine(&b, "32 cores, 0 GPUs", "0-31", "128902 MiB", "32225 MiB");
    fill_machine(&c, "32 cores, 0 GPUs", "32-63", "128904 MiB", "32226 MiB");
    const struct compare_host hosts[] = {{"n0", &a, NULL}, {"n1", &b, NULL}, {"n2", &c, NULL}};
    assert_int_equal(compared(hosts, 3, &page), 0);
    assert_string_equal(page, "machines of several kinds:\n  n0: 64 cores, 8 GPUs\n  n1, n2: 32 cores, 0 GPUs\n");
    free(page);
    info_fini(&a);
    info_fini(&b);
    info_fini(&c);
}

static void alike_machines_with_other_limits(void **state)
{
    (void)state;
    struct info a = {0}, b = {0}, c = {0}, d = {0};
    char *page;
    fill_machine(&a, "64 cores", "0-127", "1000 MiB", "unlimited");
    fill_machine(&b, "64 cores", "0-127", "64 MiB", "unlimited");
    fill_machine(&c, "64 cores", "0-127", "1099 MiB", "8 MiB");
    fill_machine(&d, "32 cores", "0-63", "500 MiB", "unlimited");
    const struct compare_host hosts[] = {{"n0", &d, NULL}, {"n1", &a, NULL}, {"n2", &b, NULL}, {"n3", &c, NULL}};
    assert_int_equal(compared(hosts, 4, &page), 2);
    assert_string_equal(page, "differs: limits, /dev/shm\n  n1, n3: 1000 MiB\n  n2: 64 MiB\n"
                              "differs: limits, locked memory\n  n1, n2: unlimited\n  n3: 8 MiB\n"
                              "  do: make them the same on all hosts; ranks of one world must have the same libraries "
                              "and limits\n"
                              "machines of several kinds:\n  n0: 32 cores\n  n1, n2, n3: 64 cores\n");
    free(page);
    info_fini(&a);
    info_fini(&b);
    info_fini(&c);
    info_fini(&d);
}

static void a_tenth_is_no_difference(void **state)
{
    static const struct {
        const char *one, *other;
        uint32_t differences;
    } pairs[] = {{"100 MiB", "90 MiB", 0},
                 {"100 MiB", "89 MiB", 1},
                 {"0 MiB", "1 MiB", 1},
                 {"100 MiB", "100 GiB", 1},
                 {"100 MiB", "100 MiB free", 1},
                 {"100", "unlimited", 1},
                 {"madvise, reserved 2000", "madvise, reserved 2048", 0},
                 {"always, reserved 2048", "madvise, reserved 2048", 1}};
    (void)state;
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
        struct info a = {0}, b = {0};
        char *page;
        info_fact(&a, INFO_OF_KIND, "limits", "l", "%s", pairs[k].one);
        info_fact(&b, INFO_OF_KIND, "limits", "l", "%s", pairs[k].other);
        const struct compare_host hosts[] = {{"n0", &a, NULL}, {"n1", &b, NULL}};
        assert_int_equal(compared(hosts, 2, &page), pairs[k].differences);
        free(page);
        info_fini(&a);
        info_fini(&b);
    }
}

static void many_hosts(void **state)
{
    (void)state;
    struct info bad = {0};
    struct compare_host hosts[1000];
    char *page;
    info_problem(&bad, "no CMA", "permit it", NULL);
    for (size_t k = 0; k < 1000; k++)
        hosts[k] = (struct compare_host){"a-host-with-a-long-name", &bad, NULL};
    assert_int_equal(compared(hosts, 1000, &page), 1);
    assert_non_null(strstr(page, " and 995 more: no CMA\n"));
    free(page);
    info_fini(&bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrives_as_it_was),
        cmocka_unit_test(missing_line_is_noticed),
        cmocka_unit_test(long_values_lose_their_end),
        cmocka_unit_test(strange_lines),
        cmocka_unit_test(said_once),
        cmocka_unit_test(hosts_alike),
        cmocka_unit_test(hosts_that_differ),
        cmocka_unit_test(machines_of_two_kinds),
        cmocka_unit_test(alike_machines_with_other_limits),
        cmocka_unit_test(a_tenth_is_no_difference),
        cmocka_unit_test(many_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
