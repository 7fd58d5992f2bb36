/* SPDX-License-Identifier: BSD-3-Clause */
/* What launchers differ by: the library, their version, where ranks lie. tests/launch/launchers has the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "batonrun/launcher.h"

static void test_libraries(void **state)
{
    (void)state;
    assert_int_equal(launcher_library_of("Open MPI v4.1.4"), LIBRARY_OPENMPI_4);
    assert_int_equal(launcher_library_of("Open MPI v5.0.7"), LIBRARY_OPENMPI_5);
    assert_int_equal(launcher_library_of("Open MPI v10.0.0"), LIBRARY_OPENMPI_5);
    assert_int_equal(launcher_library_of("MPICH Version: 4.2.1"), LIBRARY_MPICH);
    assert_int_equal(launcher_library_of("Intel(R) MPI Library 2021.12"), LIBRARY_ANY);
    assert_int_equal(launcher_library_of(""), LIBRARY_ANY);
}

static char *shim[] = {"shim", NULL};

/* Whether the words of the command follow each other somewhere in what the launcher gets. */
static bool gets(const struct launcher *l, const struct launch *what, const char *words)
{
    struct command c = {0};
    char line[4096] = " ";
    launcher_command(l, what, what->hosts != NULL ? "FILE" : NULL, &c);
    for (size_t i = 0; i < c.num_words; i++) {
        strncat(line, c.argv[i], sizeof line - strlen(line) - 1);
        strncat(line, " ", sizeof line - strlen(line) - 1);
    }
    command_fini(&c);
    return strstr(line, words) != NULL;
}

static void test_srun_speaks_to_each_library(void **state)
{
    const struct launch one = {.ranks = 1, .shim = shim};
    struct launcher l = {.kind = LAUNCHER_SRUN, .library = LIBRARY_MPICH, .program = "srun"};
    (void)state;
    assert_true(gets(&l, &one, " --mpi=pmi2 "));
    l.library = LIBRARY_OPENMPI_4;
    assert_true(gets(&l, &one, " --mpi=pmix "));
}

/* Only rows of one host that do not follow each other need to be named. */
static void test_rows_of_hosts(void **state)
{
    static const struct launch_host apart[] = {{.name = "b"}, {.name = "a"}, {.name = "b"}, {.name = "b"}},
                                    rows[] = {{.name = "b"}, {.name = "b"}, {.name = "a"}, {.name = "a"}};
    struct launch what = {.ranks = 4, .hosts = apart, .shim = shim};
    struct launcher l = {.kind = LAUNCHER_HYDRA, .program = "mpiexec.hydra", .version = 402};
    (void)state;
    assert_true(gets(&l, &what, " -f FILE -rankmap 0,1,0,0 "));
    char *text = launcher_host_file(&l, &what);
    assert_string_equal(text, "b:1\na:1\nb:2\n");
    free(text);
    l.version = 401;
    assert_false(gets(&l, &what, "-rankmap"));
    what.hosts = rows;
    l.version = 402;
    assert_false(gets(&l, &what, "-rankmap"));
    l.kind = LAUNCHER_SRUN;
    assert_true(gets(&l, &what, " --nodes=2 "));
    l.kind = LAUNCHER_OPENMPI;
    text = launcher_host_file(&l, &what);
    assert_string_equal(text, "b\nb\na\na\n");
    free(text);
}

/* The user's words come behind all options, and before the program. */
static void test_words_win(void **state)
{
    static char *words[] = {"--own", "word", NULL};
    static const char *const exports[] = {"A=b", "C"};
    static const struct launch_host hosts[] = {{.name = "a"}, {.name = "a"}};
    static const char *const ends[LAUNCHER_KINDS] = {[LAUNCHER_OPENMPI] = " -x A=b -x C --own word shim ",
                                                     [LAUNCHER_PRRTE] = " -x A=b -x C --own word shim ",
                                                     [LAUNCHER_HYDRA] = " -genv A b --own word shim ",
                                                     [LAUNCHER_SRUN] = " --own word env A=b shim "};
    const struct launch what = {.ranks = 2,
                                .hosts = hosts,
                                .survive = true,
                                .crowded = true,
                                .exports = exports,
                                .num_exports = 2,
                                .words = words,
                                .shim = shim};
    (void)state;
    for (enum launcher_kind k = LAUNCHER_OPENMPI; k < LAUNCHER_KINDS; k++) {
        const struct launcher l = {.kind = k, .program = "launcher"};
        if (!gets(&l, &what, ends[k]))
            fail_msg("kind %d does not end with \"%s\"", (int)k, ends[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libraries),
        cmocka_unit_test(test_srun_speaks_to_each_library),
        cmocka_unit_test(test_rows_of_hosts),
        cmocka_unit_test(test_words_win),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
