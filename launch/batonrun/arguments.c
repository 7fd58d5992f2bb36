/* SPDX-License-Identifier: BSD-3-Clause */
/* arguments: see arguments.h. */
#include "batonrun/arguments.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"

#define TIMEOUT_MAX_S 65536u

static const char help_before[] =
    "usage: batonrun --prefill ExT --decode ExT [options] [-- WORDS --] PROGRAM [ARGS...]\n"
    "\n"
    "Starts E engines of tensor-parallel size T on each side (ExTxP: T times P pipeline stages) as one MPI world\n"
    "under MPI's launcher, prefill engines first. Engines are called prefill0, ..., decode0, ... Each rank gets its "
    "role by\n"
    "variables that baton_role_from_env reads. TP groups, and engines that exchange much, are placed near each\n"
    "other. Where OMPI_MCA_orte_default_hostfile (Open MPI 4) names hosts, mpirun places the ranks instead.\n"
    "\n"
    "  --prefill ExT      prefill engines (0x0: none)\n"
    "  --decode ExT       decode engines (0x0: none)\n"
    "  -x VAR[=VALUE]     pass a variable to the ranks; BATON_*, UCX_* and OMPI_MCA_* are passed anyway\n"
    "  --timeout SECONDS  end all ranks after this time (status 124)\n"
    "  --survive          let the other ranks run on when a rank is lost\n"
    "  --check            run baton-info on each host, tell what is wrong and what differs, and stop\n"
    "  -n, --dry-run      print the launcher's command and stop\n"
    "  -h, --help         print this\n";

static const char help_behind[] =
    "\n"
    "WORDS between two -- are handed on to the launcher. The first of them is an option of its own.\n"
    "\n"
    "The exit status is 0 only if every rank ended with 0, else that of the rank that failed first (128 + N: killed\n"
    "by signal N). Ranks report through mpirun's standard error: the hosts need no shared folder for that.\n";

static const struct option_row launch_rows[] = {
    {.help = "what starts the ranks"},
    {"launcher", "NAME", "openmpi, prrte (Open MPI 5), hydra (MPICH) or srun; without this the MPI library's own",
     OPTION_CHOICE(struct arguments, launcher, launcher_choices)},
    {"mpirun", "PATH", "the launcher's program; without this the one in PATH", OPTION_TEXT(struct arguments, mpirun)},
    {"script", "SYSTEM", "print a job's file for slurm or pbs that starts the same world, and stop",
     OPTION_CHOICE(struct arguments, script, script_choices)},
    {0},
};

void arguments_help(void)
{
    fputs(help_before, stdout);
    option_help(launch_rows);
    option_help(placement_rows);
    fputs(help_behind, stdout);
}

uint32_t arguments_ranks(const struct arguments *a)
{
    return layout_ranks(&a->layout.prefill) + layout_ranks(&a->layout.decode);
}

static int fail(struct arguments *a, const char *what, const char *text)
{
    snprintf(a->error, sizeof a->error, "%s%.384s", what, text != NULL ? text : "");
    return -1;
}

/* One option that takes a value. */
static int take(struct arguments *a, const char *option, const char *value)
{
    if (value == NULL)
        return fail(a, "a value is missing after ", option);
    if (strcmp(option, "-x") == 0) {
        if (value[0] == '\0' || value[0] == '=')
            return fail(a, "-x takes VAR or VAR=VALUE, not ", value);
        if (a->num_exports == ARGUMENTS_EXPORTS_MAX)
            return fail(a, "too many -x", NULL);
        a->exports[a->num_exports++] = value;
        return 0;
    }
    if (strcmp(option, "--timeout") == 0) {
        const char *at = value;
        if (!number_take(&at, TIMEOUT_MAX_S, &a->timeout_s) || *at != '\0' || a->timeout_s == 0)
            return fail(a, "--timeout takes seconds from 1 to 65536, not ", value);
        return 0;
    }
    struct layout *l = &a->layout;
    if (!layout_read_side(value, strcmp(option, "--prefill") == 0 ? &l->prefill : &l->decode))
        return fail(a, "a side is ExT or ExTxP (engines x TP x PP, at most 1024 ranks an engine), not ", value);
    return 0;
}

static bool takes_value(const char *option)
{
    static const char *const options[] = {"--prefill", "--decode", "-x", "--timeout"};
    for (unsigned i = 0; i < sizeof options / sizeof options[0]; i++)
        if (strcmp(option, options[i]) == 0)
            return true;
    return false;
}

/* One option, words[0], with its value behind it. Returns how many words it took, 0: it is no option; -1: refused. */
static int take_option(struct arguments *a, char **words)
{
    struct why why;
    if (strcmp(words[0], "--dry-run") == 0 || strcmp(words[0], "-n") == 0)
        return a->dry_run = true;
    if (strcmp(words[0], "--survive") == 0)
        return a->survive = true;
    if (strcmp(words[0], "--check") == 0)
        return a->check = true;
    int taken = option_take(launch_rows, words, a, &why);
    if (taken == 0)
        taken = option_take(placement_rows, words, &a->placement, &why);
    if (taken != 0)
        return taken > 0 ? taken : fail(a, "", why.text);
    if (!takes_value(words[0]))
        return fail(a, "unknown option ", words[0]);
    return take(a, words[0], words[1]) == 0 ? 2 : -1;
}

/* The ":" behind which a second program begins: only with --prefill or --decode after it. NULL: there is none. */
static char **find_colon(char **words)
{
    for (; words[0] != NULL && words[1] != NULL; words++)
        if (strcmp(words[0], ":") == 0 && (strcmp(words[1], "--prefill") == 0 || strcmp(words[1], "--decode") == 0))
            return words;
    return NULL;
}

/*
 * words[0] is "--", and ends the options. Where an option follows it, and later another "--", what is between the two
 * is the launcher's. Returns the program, or NULL.
 */
static char **take_end(struct arguments *a, char **words)
{
    char **first = words + 1, **end = first;
    while (*end != NULL && strcmp(*end, "--") != 0)
        end++;
    if (*first == NULL || **first != '-' || *end == NULL)
        return first;
    if (a->marks.end != NULL || a->marks.colon != NULL) {
        fail(a, "the launcher's words stand before the first program", NULL);
        return NULL;
    }
    for (char **word = first; word < end; word++)
        if (strcmp(*word, ":") == 0) {
            fail(a, "the launcher's words cannot have a \":\" among them", NULL);
            return NULL;
        }
    a->launcher_words = first;
    a->marks.end = end;
    *end = NULL;
    return end + 1;
}

/* Hosts that a job will have by itself, and what is not meant for a job. */
static bool is_for_this_run(const char *option)
{
    static const char *const options[] = {"--host", "--hostfile", "--script", "--dry-run", "-n"};
    size_t length = strcspn(option, "=");
    for (unsigned i = 0; i < sizeof options / sizeof options[0]; i++)
        if (strlen(options[i]) == length && strncmp(option, options[i], length) == 0)
            return true;
    return false;
}

/* Words up to the program, which is the first that is no option. Returns it, or NULL; --help ends it too. */
static char **take_options(struct arguments *a, char **words)
{
    while (words[0] != NULL && words[0][0] == '-') {
        if (strcmp(words[0], "--") == 0)
            return take_end(a, words);
        a->help = strcmp(words[0], "--help") == 0 || strcmp(words[0], "-h") == 0;
        int taken = a->help ? 0 : take_option(a, words);
        if (taken <= 0)
            return NULL;
        bool repeated = !is_for_this_run(words[0]);
        for (; taken > 0; taken--, words++)
            *words = repeated ? *words : NULL;
    }
    return words;
}

static const struct layout no_engines = {{0, 1, 1}, {0, 1, 1}};

/* The second program is of the side that the first one has not. */
static int take_second(struct arguments *a, char **colon)
{
    struct layout first = a->layout;
    a->marks.colon = colon;
    *colon = NULL;
    a->layout = no_engines;
    char **second = take_options(a, colon + 1);
    if (second == NULL)
        return -1;
    bool prefill_first = first.prefill.engines > 0;
    if ((first.decode.engines > 0) == prefill_first || (a->layout.prefill.engines > 0) == prefill_first ||
        (a->layout.decode.engines > 0) != prefill_first)
        return fail(a, "with two programs one has --prefill and the other one --decode", NULL);
    if (prefill_first)
        a->layout.prefill = first.prefill;
    else
        a->layout.decode = first.decode;
    a->program[prefill_first] = second;
    return 0;
}

/* Hosts are looked at as they are, whatever will run there: engines and a program may be named or not. */
static int finish_check(struct arguments *a)
{
    struct why why;
    if (a->script != SCRIPT_NONE)
        return fail(a, "--check and --script exclude each other", NULL);
    return placement_check(&a->placement, &why) == 0 ? 0 : fail(a, "", why.text);
}

int arguments_parse(int argc, char **argv, struct arguments *a)
{
    struct why why;
    *a = (struct arguments){.placement = placement_defaults()};
    a->layout = no_engines;
    char **program = take_options(a, argc > 0 ? argv + 1 : argv);
    if (program == NULL)
        return a->help ? 0 : -1;
    a->program[0] = a->program[1] = program;
    if (a->check)
        return finish_check(a);
    char **colon = find_colon(program);
    if (colon != NULL && take_second(a, colon) != 0)
        return a->help ? 0 : -1;
    if (arguments_ranks(a) == 0)
        return fail(a, "name the engines: --prefill ExT --decode ExT", NULL);
    if (placement_check(&a->placement, &why) != 0)
        return fail(a, "", why.text);
    if ((*a->program[0] == NULL || *a->program[1] == NULL) && !a->placement.explain)
        return fail(a, "a program is missing", NULL);
    return 0;
}
