/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * baton-info: tells in one page why Baton runs well on this host or does not: problems first, each with what to do;
 * then what MPI, UCX, the machine and the kernel give, and every setting. All that may abort or hang runs in helper
 * programs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/layout.h"
#include "baton.h"
#include "info/line.h"
#include "info/mpi.h"
#include "info/page.h"
#include "info/system.h"
#include "info/ucx.h"
#include "info/variables.h"
#include "batonrun/check.h"
#include "shm/copy.h"

static const char help[] =
    "usage: baton-info [options]\n"
    "\n"
    "Prints what is wrong with this host for Baton and what to do about it, and then what it found: MPI (by starting\n"
    "two ranks), UCX, the machine, limits, and every setting with its value and source. Settings are variables of the\n"
    "environment.\n"
    "\n"
    "  --check        print problems only; the exit status is 1 if there are any\n"
    "  --json         print all of it as JSON\n"
    "  --mpirun PATH  the launcher of the two ranks; without this the one in PATH\n"
    "  -h, --help     print this\n";

struct options {
    bool check, json, report, help;
    const char *mpirun; /* NULL: not said */
};

static void find_all(struct info *i, const char *mpirun)
{
    char host[256] = "unknown";
    if (gethostname(host, sizeof host - 1) != 0)
        snprintf(host, sizeof host, "unknown");
    info_fact(i, INFO_OF_NODE, "baton", "host", "%s", host);
    info_fact(i, INFO_OF_ALL, "baton", "version", "%s", baton_version());
    info_fact(i, INFO_OF_ALL, "baton", "built for", "%s", BATON_MPI[0] != '\0' ? BATON_MPI : "no MPI");
    info_fact(i, INFO_OF_NODE, "baton", "streaming copies", "%s", copy_stream_name());
    variables_find(i);
    system_obstacles(i);
    system_machine(i);
    system_limits(i);
    ucx_find(i);
    mpi_find(i, mpirun);
}

/* For batonrun --check, whose rank this is. */
static int report(const struct info *i)
{
    int32_t rank = layout_world_rank(getenv);
    return line_write(STDERR_FILENO, rank > 0 ? (uint32_t)rank : 0, i) == 0 ? 0 : 1;
}

static int print(const struct options *o, const struct info *i)
{
    int status = o->check && i->num_problems > 0;
    if (o->json)
        return page_json(stdout, i) == 0 ? status : 1;
    page_problems(stdout, i);
    if (!o->check) {
        page_facts(stdout, i);
        variables_print(stdout);
    }
    return status;
}

/* 0, or -1: the command line is not understood, and that is said. */
static int take_options(struct options *o, char **words)
{
    for (; *words != NULL; words++) {
        bool has_value = strcmp(*words, "--mpirun") == 0;
        if (has_value && words[1] == NULL) {
            fputs("baton-info: a value is missing after --mpirun\n", stderr);
            return -1;
        }
        if (has_value)
            o->mpirun = *++words;
        else if (strcmp(*words, "--check") == 0)
            o->check = true;
        else if (strcmp(*words, "--json") == 0)
            o->json = true;
        else if (strcmp(*words, "--help") == 0 || strcmp(*words, "-h") == 0)
            o->help = true;
        else if (strcmp(*words, CHECK_REPORT_OPTION) == 0)
            o->report = true;
        else {
            fprintf(stderr, "baton-info: unknown option %s\n", *words);
            return -1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    struct info info = {0};
    if (argc > 0 && take_options(&o, argv + 1) != 0) {
        fputs("try baton-info --help\n", stderr);
        return 2;
    }
    if (o.help) {
        fputs(help, stdout);
        return 0;
    }
    find_all(&info, o.mpirun);
    int status = o.report ? report(&info) : print(&o, &info);
    info_fini(&info);
    return fflush(stdout) == 0 ? status : 1;
}
