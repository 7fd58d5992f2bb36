/* SPDX-License-Identifier: BSD-3-Clause */
/* allocation and network: what batch systems, host files and options say of hosts, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>
#include <cmocka.h>

#include "place/allocation.h"
#include "place/network.h"

/* ---- an environment and a file system of a few entries ----------------------------------------------------------- */

static const char *const (*variables)[2];
static const char *file_text;

static char *variable(const char *name)
{
    for (unsigned i = 0; variables[i][0] != NULL; i++)
        if (strcmp(variables[i][0], name) == 0)
            return (char *)variables[i][1];
    return NULL;
}

static char *file(const char *path)
{
    return strcmp(path, "/hosts") == 0 ? strdup(file_text) : NULL;
}

/* "a:4 b c:1 | d": names and slots; a bar before each further group. */
static const char *said(const struct allocation *a)
{
    static char text[4096];
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < a->num_hosts; i++) {
        const struct allocation_host *h = &a->hosts[i];
        if (i > 0 && h->group != a->hosts[i - 1].group)
            at += (size_t)snprintf(text + at, sizeof text - at, "| ");
        at += (size_t)snprintf(text + at, sizeof text - at, "%s", h->name);
        if (h->slots > 0)
            at += (size_t)snprintf(text + at, sizeof text - at, ":%u", h->slots);
        at += (size_t)snprintf(text + at, sizeof text - at, " ");
    }
    if (at > 0)
        text[at - 1] = '\0';
    return text;
}

static void batch(enum allocation_source source, const char *const (*env)[2], const char *hosts)
{
    struct allocation a;
    struct why why = {""};
    variables = env;
    if (allocation_from_batch(&a, variable, file, &why) != 0)
        fail_msg("%s", why.text);
    assert_int_equal(a.source, source);
    assert_string_equal(said(&a), hosts);
    allocation_fini(&a);
}

static void refused(const char *const (*env)[2], const char *sentence)
{
    struct allocation a;
    struct why why = {""};
    variables = env;
    assert_int_equal(allocation_from_batch(&a, variable, file, &why), -1);
    assert_string_equal(why.text, sentence);
    allocation_fini(&a);
}

#define ENV(...) ((const char *const[][2]){__VA_ARGS__, {NULL, NULL}})

/* ---- batch systems ----------------------------------------------------------------------------------------------- */

static void test_slurm(void **state)
{
    (void)state;
    batch(ALLOCATION_SLURM, ENV({"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[0-2]"}), "n0 n1 n2");
    batch(ALLOCATION_SLURM,
          ENV({"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "gpu[008-010,3],rack[1-2]n[01-02],login"},
              {"SLURM_NTASKS", "18"}, {"SLURM_TASKS_PER_NODE", "4(x2),1,2(x6)"}),
          "gpu008:4 gpu009:4 gpu010:1 gpu3:2 rack1n01:2 rack1n02:2 rack2n01:2 rack2n02:2 login:2");
    /* nobody asked for one task a node */
    batch(ALLOCATION_SLURM,
          ENV({"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "a,b"}, {"SLURM_TASKS_PER_NODE", "1(x2)"}), "a b");
    batch(ALLOCATION_SLURM,
          ENV({"SLURM_JOB_ID", "7"}, {"SLURM_HET_SIZE", "2"}, {"SLURM_JOB_NODELIST", "big0"},
              {"SLURM_JOB_NODELIST_HET_GROUP_0", "big0"}, {"SLURM_NTASKS_HET_GROUP_1", "4"},
              {"SLURM_TASKS_PER_NODE_HET_GROUP_1", "2(x2)"}, {"SLURM_JOB_NODELIST_HET_GROUP_1", "small[0-1]"}),
          "big0 | small0:2 small1:2");
    /* a shell that is a step of one task, in a job of four hosts */
    batch(ALLOCATION_SLURM,
          ENV({"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_NODELIST", "n[0-3]"}, {"SLURM_NTASKS", "1"},
              {"SLURM_TASKS_PER_NODE", "1"}),
          "n0 n1 n2 n3");
}

static void test_slurm_refused(void **state)
{
    (void)state;
    batch(ALLOCATION_HERE, ENV({"SLURM_JOB_ID", "7"}), ""); /* a container, say, which has only the number */
    refused(ENV({"SLURM_JOB_ID", "7"}, {"SLURM_HET_SIZE", "2"}, {"SLURM_JOB_NODELIST_HET_GROUP_0", "a"}),
            "Slurm names no hosts (SLURM_JOB_NODELIST_HET_GROUP_1)");
    refused(ENV({"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[0-"}), "\"n[0-\" has no closing bracket");
    refused(ENV({"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[3-1]"}), "\"3-1]\" is no range of numbers");
    refused(ENV({"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[a]"}), "\"a]\" is no range of numbers");
    refused(ENV({"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[1 2]"}), "\" 2]\" is no range of numbers");
    refused(ENV({"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[0-99999999]"}),
            "\"0-99999999]\" is no range of numbers");
    refused(ENV({"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[0-999]m[0-999]"}),
            "\"n[0-999]m[0-999]\" are more than 65536 names");
    refused(ENV({"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "-x"}), "\"-x\" is no host name");
    refused(ENV({"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "a;b"}), "\"a;b\" is no host name");
    refused(ENV({"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[0-2]"}, {"SLURM_NTASKS", "2"},
                {"SLURM_TASKS_PER_NODE", "2"}),
            "Slurm's variable SLURM_TASKS_PER_NODE=\"2\" does not count the tasks of 3 hosts: name hosts by --host");
    refused(
        ENV({"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[0-2]"}, {"SLURM_NTASKS", "2"},
            {"SLURM_TASKS_PER_NODE", "2(x4)"}),
        "Slurm's variable SLURM_TASKS_PER_NODE=\"2(x4)\" does not count the tasks of 3 hosts: name hosts by --host");
    refused(ENV({"SLURM_JOB_ID", "7"}, {"SLURM_HET_SIZE", "2"}, {"SLURM_JOB_NODELIST_HET_GROUP_0", "a"},
                {"SLURM_JOB_NODELIST_HET_GROUP_1", "b[0-1]"}, {"SLURM_NTASKS_HET_GROUP_1", "2"},
                {"SLURM_TASKS_PER_NODE_HET_GROUP_1", ""}),
            "Slurm's variable SLURM_TASKS_PER_NODE_HET_GROUP_1=\"\" does not count the tasks of 2 hosts: name hosts by "
            "--host");
}

static void test_pbs_and_lsf(void **state)
{
    (void)state;
    file_text = "n1\nn1\nn2\nn1\n";
    batch(ALLOCATION_PBS, ENV({"PBS_NODEFILE", "/hosts"}), "n1:3 n2:1");
    batch(ALLOCATION_LSF, ENV({"LSB_DJOB_HOSTFILE", "/hosts"}, {"LSB_MCPU_HOSTS", "x 1"}), "n1:3 n2:1");
    batch(ALLOCATION_LSF, ENV({"LSB_MCPU_HOSTS", "hostA 2 hostB 16 "}), "hostA:2 hostB:16");
    refused(ENV({"PBS_NODEFILE", "/gone"}), "PBS's file of hosts \"/gone\" cannot be read");
    batch(ALLOCATION_LSF, ENV({"LSB_MCPU_HOSTS", "a 2 b 1 a 2"}), "a:4 b:1");
    refused(ENV({"LSB_MCPU_HOSTS", "a 2 b"}), "LSF's LSB_MCPU_HOSTS \"a 2 b\" cannot be read");
    file_text = "n1 slot=2\nn2\n"; /* a batch system's words are its own */
    batch(ALLOCATION_PBS, ENV({"PBS_NODEFILE", "/hosts"}), "n1:1 n2:1");
    file_text = "\n\n";
    refused(ENV({"PBS_NODEFILE", "/hosts"}), "PBS's file of hosts \"/hosts\": no hosts are named");
    file_text = "n1\nn2[\n";
    refused(ENV({"LSB_DJOB_HOSTFILE", "/hosts"}),
            "LSF's file of hosts \"/hosts\": line 2: \"n2[\" has no closing bracket");
    batch(ALLOCATION_HERE, ENV({"HOME", "/"}), "");
}

/* ---- the user's own ---------------------------------------------------------------------------------------------- */

typedef int (*read_fn)(struct allocation *a, const char *text, struct why *why);

static void check_read(read_fn read, const char *text, const char *hosts)
{
    struct allocation a;
    struct why why = {""};
    if (read(&a, text, &why) != 0)
        fail_msg("%s", why.text);
    assert_string_equal(said(&a), hosts);
    allocation_fini(&a);
}

static void check_refused(read_fn read, const char *text, const char *sentence)
{
    struct allocation a;
    struct why why = {""};
    assert_int_equal(read(&a, text, &why), -1);
    assert_string_equal(why.text, sentence);
    allocation_fini(&a);
}

static void test_hosts(void **state)
{
    (void)state;
    static const char *const good[][2] = {{"a:4,b:4,c", "a:4 b:4 c"},
                                          {"a,a,b", "a:2 b"},
                                          {"a:2,a:3", "a:5"},
                                          {"a,,b,", "a b"},
                                          {"n[0-2]", "n0 n1 n2"},
                                          {"n[0-1,08-09]:4,login,n1:2", "n0:4 n1:6 n08:4 n09:4 login"},
                                          {"r[0-1]n[0-1].x:2", "r0n0.x:2 r0n1.x:2 r1n0.x:2 r1n1.x:2"}};
    static const char *const bad[][2] = {{"", "no hosts are named"},
                                         {"a:0", "\":0\" is no number of slots"},
                                         {"a:x", "\":x\" is no number of slots"},
                                         {"a:4x", "\":4x\" is no number of slots"},
                                         {"a:99999999999", "\":99999999999\" is no number of slots"},
                                         {"a:4:4", "\":4:4\" is no number of slots"},
                                         {"a:1000000,a:1", "a has more than 1000000 slots"},
                                         {"n[0-3", "\"n[0-3\" has no closing bracket"},
                                         {"n[3-0]", "\"3-0]\" is no range of numbers"},
                                         {"n0]", "\"n0]\" is no host name"},
                                         {"a=b", "\"a=b\" is no host name"},
                                         {"a b", "--host \"a b\" has a blank in it: only commas stand between hosts"},
                                         {"a, b", "--host \"a, b\" has a blank in it: only commas stand between hosts"},
                                         {"me@a", "\"me@a\" names a user: let ssh's configuration name it"},
                                         {"-rf", "\"-rf\" is no host name"},
                                         {"a\x01z", "\"a\x01z\" is no host name"},
                                         {"a\xfc", "\"a\xfc\" is no host name"},
                                         {"a\x7f", "\"a\x7f\" is no host name"}};
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++)
        check_read(allocation_from_hosts, good[i][0], good[i][1]);
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        check_refused(allocation_from_hosts, bad[i][0], bad[i][1]);
}

static void test_this_machine_has_its_own_name(void **state)
{
    (void)state;
    char here[128], text[300], expected[300];
    assert_int_equal(gethostname(here, sizeof here), 0);
    snprintf(text, sizeof text, "localhost:2,x,%s:3,127.0.0.1:1", here);
    snprintf(expected, sizeof expected, "%s:6 x", here);
    check_read(allocation_from_hosts, text, expected);
}

static void test_hostfile(void **state)
{
    (void)state;
    static const char text[] = "# the left rack\n"
                               "n0 slots=4 max_slots=8 # a note, slots=9\r\n"
                               "\n"
                               "n1:2\n"
                               "  n2\tslots=3\n"
                               "n3 max_slots=8\n"
                               "n4\nn4\nn4";
    check_read(allocation_from_hostfile, text, "n0:4 n1:2 n2:3 n3 n4:3");
}

/* The words of Open MPI's host files, of all spellings, and what follows a colon in MPICH's. */
static void test_words_of_hostfiles(void **state)
{
    (void)state;
    static const char text[] = "n0 cpu=4 count-max=8\n"
                               "n1 count = 2\n"
                               "n2:3 max-slots=9 # slot=4\n"
                               "n3 max_slots=4 slots=2\n"
                               "n[4-5]\tslots=6\n"
                               "n[6-7]:1";
    static const char *const bad[][2] = {
        {"n0 slots=many", "line 1: \"slots=many\" is no number of slots"},
        {"n0 slots=0", "line 1: \"slots=0\" is no number of slots"},
        {"n0 slots=", "line 1: \"slots=\" is no number of slots"},
        {"n0 max_slots=x", "line 1: \"max_slots=x\" is no number of slots"},
        {"n0:4x", "line 1: \":4x\" is no number of slots"},
        {"n0:2 slots=4", "line 1: \"slots=4\" gives the host's slots once more"},
        {"n0\nme@n1 slots=2", "line 2: \"me@n1\" names a user: let ssh's configuration name it"},
        {"# a\n\nn0 slot=2", "line 3: \"slot=2\" is no word of a host file: slots=N or max_slots=N may follow a host"},
        {"n0 foo=4", "line 1: \"foo=4\" is no word of a host file: slots=N or max_slots=N may follow a host"},
        {"n0 4", "line 1: \"4\" is no word of a host file: slots=N or max_slots=N may follow a host"},
        {"n0 slots 4", "line 1: \"slots\" is no word of a host file: slots=N or max_slots=N may follow a host"},
        {"n[0-", "line 1: \"n[0-\" has no closing bracket"},
        {"n0=4", "line 1: \"n0=4\" is no host name"},
        {"#\n", "no hosts are named"},
    };
    check_read(allocation_from_hostfile, text, "n0:4 n1:2 n2:3 n3:2 n4:6 n5:6 n6:1 n7:1");
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        check_refused(allocation_from_hostfile, bad[i][0], bad[i][1]);
}

/* ---- switches ---------------------------------------------------------------------------------------------------- */

static void test_network(void **state)
{
    (void)state;
    static const char text[] = "# two leaves, and an old switch beside them\n"
                               "SwitchName=leaf0 Nodes=n[0-1] LinkSpeed=400\n"
                               "switchname=leaf1 nodes=n[2-3]\n"
                               "SwitchName=mid Switches=leaf[0-1]\n"
                               "SwitchName=old Nodes=x\n"
                               "SwitchName=top Switches=mid,old\n";
    struct network n;
    struct why why = {""};
    uint32_t path[5][NETWORK_HEIGHT_MAX];
    assert_int_equal(network_read(&n, text, &why), 0);
    assert_int_equal(n.height, 3);
    assert_true(network_path(&n, "n0", path[0]) && network_path(&n, "n1", path[1]) && network_path(&n, "n2", path[2]) &&
                network_path(&n, "x", path[3]));
    assert_int_equal(path[0][0], path[1][0]);
    assert_int_not_equal(path[0][0], path[2][0]);
    assert_int_equal(path[0][1], path[2][1]);
    assert_int_not_equal(path[0][1], path[3][1]);
    assert_int_equal(path[0][2], path[3][2]);
    assert_false(network_path(&n, "leaf0", path[4]));
    assert_false(network_path(&n, "n9", path[4]));
    network_fini(&n);
    static const char continued[] =
        "SwitchName=s \\\n  Nodes=a,\\ \r\nb\nSwitchName = t Switches = s # \\\nNodes=x\n\\\n\\";
    assert_int_equal(network_read(&n, continued, &why), 0);
    assert_int_equal(n.height, 2);
    assert_true(network_path(&n, "a", path[0]) && network_path(&n, "b", path[1]));
    assert_false(network_path(&n, "x", path[2])); /* it is in the note, which the backslash continues */
    network_fini(&n);
}

static void test_network_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"Nodes=a", "line 1 of the network: no SwitchName= in it"},
        {"\nSwitchName=s Nodes=a[", "line 2 of the network: \"a[\" has no closing bracket"},
        {"SwitchName=s Nodes=a,s", "line 1 of the network: \"s\" is both a switch and a node"},
        {"SwitchName=s Nodes=a\nSwitchName=s Nodes=b", "line 2 of the network: the switch \"s\" comes twice"},
        {"SwitchName=s Nodes=a\nSwitchName=t Nodes=a",
         "line 2 of the network: \"a\" is below two switches, \"s\" and \"t\""},
        {"", "no line has SwitchName="},
        {"# SwitchName=s Nodes=a\n\n", "no line has SwitchName="},
        {"SwitchName=s Nodez=a", "line 1 of the network: \"Nodez\" is no key of a tree of switches (SwitchName=, "
                                 "Switches=, Nodes=, LinkSpeed=)"},
        {"SwitchName=s \\\nNodes=a\n\nBlockName=b Nodes=b",
         "line 4 of the network: \"BlockName\" is no key of a tree of switches (SwitchName=, Switches=, Nodes=, "
         "LinkSpeed=)"},
        {"SwitchName=s Nodes=a b", "line 1 of the network: \"b\" is no key of a tree of switches (SwitchName=, "
                                   "Switches=, Nodes=, LinkSpeed=)"},
        {"SwitchName=s Nodes=a Nodes=b", "line 1 of the network: Nodes= comes twice"},
        {"SwitchName=s Nodes=", "line 1 of the network: Nodes= lacks its value"},
        {"SwitchName=s Nodes=a\nSwitchName=t Switches=s,u", "line 2 of the network: no line has SwitchName=u"},
        {"SwitchName=s Switches=t\nSwitchName=t Switches=s",
         "there are more than 6 switches above \"s\", or they form a circle"},
    };
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct network n;
        struct why why = {""};
        assert_int_equal(network_read(&n, bad[i][0], &why), -1);
        assert_string_equal(why.text, bad[i][1]);
        network_fini(&n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slurm),
        cmocka_unit_test(test_slurm_refused),
        cmocka_unit_test(test_pbs_and_lsf),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_this_machine_has_its_own_name),
        cmocka_unit_test(test_hostfile),
        cmocka_unit_test(test_words_of_hostfiles),
        cmocka_unit_test(test_network),
        cmocka_unit_test(test_network_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
