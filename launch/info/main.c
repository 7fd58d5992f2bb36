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
#include "batonrun/child.h"
#include "option/option.h"
#include "option/output.h"
#include "shm/copy.h"

static const char help[] =
    "usage: baton-info [options]\n"
    "\n"
    "Prints what is wrong with this host for Baton and what to do about it, and then what it found: MPI (by starting\n"
    "two ranks), UCX, the machine, limits, and every setting with its value and source. Settings are variables of the\n"
    "environment.\n"
    "\n";

struct options {
    bool check, json, report, version, help;
    const char *mpirun; /* NULL: not said */
};

static const struct option_row rows[] = {
    {"check", NULL, "print problems only; the exit status is 1 if there are any", OPTION_SWITCH(struct options, check)},
    {"json", NULL, "print all of it as JSON", OPTION_SWITCH(struct options, json)},
    {"mpirun", "PATH", "the launcher of the two ranks; without this the one in PATH",
     OPTION_FILE(struct options, mpirun)},
    {"version", NULL, "print the version of Baton", OPTION_SWITCH(struct options, version)},
    {0},
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

/* Beside the rows: these have one letter too. */
static const struct option_row lettered[] = {{.name = "help"}, {0}};

/* 0, or -1 with *why: the command line is not understood. */
static int take_options(struct options *o, char **words, struct why *why)
{
    static const struct option_row *const tables[] = {rows, lettered, NULL};
    for (int taken; *words != NULL; words += taken) {
        taken = option_take(rows, words, o, why);
        if (taken < 0)
            return -1;
        if (taken > 0)
            continue;
        taken = 1;
        if (strcmp(*words, "--help") == 0 || strcmp(*words, "-h") == 0)
            o->help = true;
        else if (strcmp(*words, CHECK_REPORT_OPTION) == 0)
            o->report = true;
        else
            return why_set(why, "unknown option %.80s%s", *words, option_hint(tables, *words).text);
    }
    return 0;
}

static void print_help(void)
{
    fputs(help, stdout);
    option_help(rows);
    fputs("  -h, --help           print this\n", stdout);
}

static int inform(const struct options *o)
{
    struct info info = {0};
    find_all(&info, o->mpirun);
    const int status = o->report ? report(&info) : print(o, &info);
    info_fini(&info);
    return status;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    struct why why;
    int status = 0;
    child_open_standard();
    if (argc > 0 && take_options(&o, argv + 1, &why) != 0) {
        fprintf(stderr, "baton-info: %s\ntry baton-info --help\n", why.text);
        return 2;
    }
    if (o.help)
        print_help();
    else if (o.version)
        printf("baton-info %s\n", baton_version());
    else
        status = inform(&o);
    return output_finish("baton-info", status, 1);
}
