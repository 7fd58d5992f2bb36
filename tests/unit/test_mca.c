/* SPDX-License-Identifier: BSD-3-Clause */
/* Open MPI's files of parameters: which one sets what, and what nobody chose. */
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

#include "batonrun/mca.h"

#define DEBIAN "btl_base_warn_component_unused=0\nmtl = ^ofi\nbtl = ^uct,openib,ofi\npml = ^ucx\nosc = ^ucx,pt2pt\n"

static char root[] = "/tmp/test_mca.XXXXXX";
static char home[64], config[64], users[192], systems[192], other[128];
static const char *set_home, *set_files, *set_old_files; /* the environment */

static char *variable(const char *name)
{
    const char *value = strcmp(name, "HOME") == 0                            ? set_home
                        : strcmp(name, "OMPI_MCA_mca_base_param_files") == 0 ? set_files
                        : strcmp(name, "OMPI_MCA_mca_param_files") == 0      ? set_old_files
                                                                             : NULL;
    return (char *)(uintptr_t)value;
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int prepare(void **state)
{
    (void)state;
    set_home = home;
    set_files = set_old_files = NULL;
    put(users, "");
    put(systems, "");
    put(other, "");
    return 0;
}

static int make_folders(void **state)
{
    (void)state;
    char folder[128];
    if (mkdtemp(root) == NULL)
        return -1;
    snprintf(home, sizeof home, "%s/home", root);
    snprintf(config, sizeof config, "%s/etc", root);
    snprintf(folder, sizeof folder, "%s/.openmpi", home);
    snprintf(users, sizeof users, "%s/mca-params.conf", folder);
    snprintf(systems, sizeof systems, "%s/openmpi-mca-params.conf", config);
    snprintf(other, sizeof other, "%s/other.conf", root);
    return mkdir(home, 0700) | mkdir(config, 0700) | mkdir(folder, 0700);
}

static int remove_folders(void **state)
{
    (void)state;
    char folder[128];
    snprintf(folder, sizeof folder, "%s/.openmpi", home);
    return unlink(users) | unlink(systems) | unlink(other) | rmdir(folder) | rmdir(home) | rmdir(config) | rmdir(root);
}

static void files_as_open_mpi_lists_them(void **state)
{
    (void)state;
    char files[MCA_FILES_BYTES], expected[512];
    mca_files(variable, config, files);
    snprintf(expected, sizeof expected, "%s,%s", users, systems);
    assert_string_equal(files, expected);
    mca_files(variable, "", files);
    assert_string_equal(files, users);
    set_home = NULL;
    mca_files(variable, config, files);
    assert_string_equal(files, systems);
    set_old_files = "/c";
    mca_files(variable, config, files);
    assert_string_equal(files, "/c");
    set_files = "/a,/b";
    mca_files(variable, config, files);
    assert_string_equal(files, "/a,/b");
    set_files = "";
    mca_files(variable, config, files);
    assert_string_equal(files, "");
}

static void lines(void **state)
{
    (void)state;
    struct mca_line line;
    put(users, "# osc = rdma\n\n\tpml=ob1\n btl_base_verbose = 3 \r\ncoll\nmtl = a\nmtl =\tb c\nio =");
    assert_false(mca_sets(variable, config, "OMPI_MCA_osc", &line));
    assert_true(mca_sets(variable, config, "OMPI_MCA_pml", &line));
    assert_string_equal(line.file, users);
    assert_string_equal(line.value, "ob1");
    assert_true(mca_sets(variable, config, "OMPI_MCA_btl_base_verbose", &line));
    assert_string_equal(line.value, "3");
    assert_true(mca_sets(variable, config, "OMPI_MCA_mtl", &line));
    assert_string_equal(line.value, "b c");
    assert_true(mca_sets(variable, config, "OMPI_MCA_io", &line));
    assert_string_equal(line.value, "");
    assert_false(mca_sets(variable, config, "OMPI_MCA_btl", &line));
    assert_false(mca_sets(variable, config, "OMPI_MCA_coll", &line));
    assert_false(mca_sets(variable, config, "UCX_pml", &line));
    set_home = NULL;
    assert_false(mca_sets(variable, config, "OMPI_MCA_pml", &line));
}

static void site_chooses_in_the_systems_file(void **state)
{
    (void)state;
    struct mca_line line;
    put(systems, DEBIAN "btl_tcp_if_include = ib0\ncoll = ^han\n");
    assert_true(mca_sets(variable, config, "OMPI_MCA_btl_tcp_if_include", &line));
    assert_string_equal(line.file, systems);
    assert_string_equal(line.value, "ib0");
    assert_true(mca_sets(variable, config, "OMPI_MCA_coll", &line));
    put(systems, "osc = ^ucx\n");
    assert_true(mca_sets(variable, config, "OMPI_MCA_osc", &line));
    set_files = other; /* then the system's is not read */
    assert_false(mca_sets(variable, config, "OMPI_MCA_osc", &line));
    put(other, "osc = rdma\n");
    assert_true(mca_sets(variable, config, "OMPI_MCA_osc", &line));
    assert_string_equal(line.file, other);
}

static void nobody_chose_debians_lines(void **state)
{
    static const char *const names[] = {"OMPI_MCA_osc", "OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl"};
    (void)state;
    struct mca_line line;
    put(systems, DEBIAN);
    for (unsigned i = 0; i < 4; i++)
        assert_false(mca_sets(variable, config, names[i], &line));
    assert_true(mca_find(systems, "osc", &line));
    assert_string_equal(line.value, "^ucx,pt2pt");
    set_files = systems;
    assert_false(mca_sets(variable, config, "OMPI_MCA_pml", &line));
    set_files = NULL;
    put(users, DEBIAN); /* who copies them means them */
    for (unsigned i = 0; i < 4; i++)
        assert_true(mca_sets(variable, config, names[i], &line));
    put(users, "pml = ob1\n"); /* the first file counts */
    assert_true(mca_sets(variable, config, "OMPI_MCA_pml", &line));
    assert_string_equal(line.value, "ob1");
    assert_false(mca_sets(variable, config, "OMPI_MCA_osc", &line));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(files_as_open_mpi_lists_them, prepare),
        cmocka_unit_test_setup(lines, prepare),
        cmocka_unit_test_setup(site_chooses_in_the_systems_file, prepare),
        cmocka_unit_test_setup(nobody_chose_debians_lines, prepare),
    };
    return cmocka_run_group_tests(tests, make_folders, remove_folders);
}
