/* SPDX-License-Identifier: BSD-3-Clause */
/* arguments: see arguments.h. */
#include "batonrun/arguments.h"

#include <stdio.h>
#include <string.h>

#include "metrics/endpoint.h"

#define TIMEOUT_MAX_S 65536u

static const char help_before[] =
    "usage: batonrun --prefill ExT --decode ExT [options] [-- WORDS --] PROGRAM [ARGS...]\n"
    "\n"
    "Starts E engines of tensor-parallel size T on each side (ExTxP: T times P pipeline stages) as one MPI world\n"
    "under MPI's launcher, prefill engines first. Engines are called prefill0, ..., decode0, ... Each rank gets its "
    "role by\n"
    "variables that baton_role_from_env reads. TP groups, and engines that exchange much, are placed near each\n"
    "other. Where OMPI_MCA_orte_default_hostfile (Open MPI 4) names hosts, mpirun places the ranks instead.\n"
    "\n";

static const char help_short[] =
    "  -x VAR[=VALUE]       pass a variable to the ranks; BATON_*, UCX_* and OMPI_MCA_* are passed anyway\n"
    "  -n, --dry-run        print the launcher's command and stop\n"
    "  -h, --help           print this\n";

static const char help_behind[] =
    "\n"
    "WORDS between two -- are handed on to the launcher. The first of them is an option of its own.\n"
    "\n"
    "The exit status is 0 only if every rank ended with 0, else that of the rank that failed first (128 + N: killed\n"
    "by signal N). Ranks report through mpirun's standard error: the hosts need no shared folder for that.\n";

static int read_side(const struct option_row *row, const char *text, void *field, struct why *why)
{
    (void)row;
    return layout_read_side(text, field)
               ? 0
               : why_set(why, "a side is ExT or ExTxP (engines x TP x PP, at most 1024 ranks an engine), not %.64s",
                         text);
}

/* What looks like an endpoint and is none would be a file's name, and nobody would answer. */
static bool ends_as_endpoint(const char *text)
{
    const char *colon = strrchr(text, ':'), *port = colon != NULL ? colon + 1 : text;
    return *port != '\0' && port[strspn(port, "0123456789")] == '\0' && strchr(text, '/') == NULL;
}

static int read_metrics(const struct option_row *row, const char *text, void *field, struct why *why)
{
    struct endpoint where;
    const bool answers = endpoint_read(text, &where);
    if (!answers && ends_as_endpoint(text))
        return why_set(
            why,
            "--metrics takes a port from 1 to 65535, an IPv4 address of this host and a port (0.0.0.0:9464), or a "
            "file (./%.48s): not %.48s",
            text, text);
#ifndef LAUNCH_HTTP
    if (answers)
        return why_set(why, "--metrics takes no port, since libmicrohttpd was not found when Baton was built (Debian: "
                            "libmicrohttpd-dev): give a file");
#endif
    return option_read_file(row, text, field, why);
}

static const struct option_row world_rows[] = {
    {"prefill", "ExT", "prefill engines (0x0: none)", .read = read_side,
     .field = offsetof(struct arguments, layout.prefill)},
    {"decode", "ExT", "decode engines (0x0: none)", .read = read_side,
     .field = offsetof(struct arguments, layout.decode)},
    {"timeout", "SECONDS", "end all ranks after this time (status 124)",
     OPTION_WHOLE(struct arguments, timeout_s, 1, TIMEOUT_MAX_S)},
    {"survive", NULL, "let the other ranks run on when a rank is lost", OPTION_SWITCH(struct arguments, survive)},
    {"metrics", "FILE",
     "write the ranks' metrics to this file each second, or answer at this [ADDRESS:]PORT, for Prometheus",
     .read = read_metrics, .field = offsetof(struct arguments, metrics)},
#ifdef LAUNCH_JSON
    {"trace", "FILE", "what all transfers did when, for ui.perfetto.dev", OPTION_FILE(struct arguments, trace)},
#endif
    {"check", NULL, "run baton-info on each host, tell what is wrong and what differs, and stop",
     OPTION_SWITCH(struct arguments, check)},
    {"version", NULL, "print the version of Baton", OPTION_SWITCH(struct arguments, version)},
    {0},
};

static const struct option_choice script_choices[] = {{"slurm", SCRIPT_SLURM}, {"pbs", SCRIPT_PBS}, {0}};

static const struct option_row launch_rows[] = {
    {.help = "what starts the ranks"},
    {"launcher", "NAME", "openmpi, prrte (Open MPI 5), hydra (MPICH) or srun; without this the MPI library's own",
     OPTION_CHOICE(struct arguments, launcher, launcher_choices)},
    {"mpirun", "PATH", "the launcher's program; without this the one in PATH", OPTION_FILE(struct arguments, mpirun)},
    {"script", "SYSTEM", "print a job's file for slurm or pbs that starts the same world, and stop",
     OPTION_CHOICE(struct arguments, script, script_choices)},
    {0},
};

/* Beside the tables: these have one letter too. */
static const struct option_row lettered_rows[] = {{.name = "dry-run"}, {.name = "help"}, {0}};

void arguments_help(void)
{
    fputs(help_before, stdout);
    option_help(world_rows);
    fputs(help_short, stdout);
    option_help(launch_rows);
    option_help(placement_rows);
    fputs(help_behind, stdout);
}

uint32_t arguments_ranks(const struct arguments *a)
{
    return layout_ranks(&a->layout.prefill) + layout_ranks(&a->layout.decode);
}

const char *arguments_stray_word(const struct arguments *a, const char **program)
{
    for (unsigned side = 0; side < 2; side++)
        for (char **word = a->program[side]; word != NULL && word[0] != NULL && word[1] != NULL; word++)
            if (strcmp(word[1], "--prefill") == 0 || strcmp(word[1], "--decode") == 0 || strcmp(word[1], ":") == 0) {
                *program = a->program[side][0];
                return word[1];
            }
    return NULL;
}

static int fail(struct arguments *a, const char *what, const char *text)
{
    snprintf(a->error, sizeof a->error, "%s%.384s", what, text != NULL ? text : "");
    return -1;
}

static int take_export(struct arguments *a, const char *variable)
{
    if (variable == NULL)
        return fail(a, "a value is missing after -x", NULL);
    if (variable[0] == '\0' || variable[0] == '=')
        return fail(a, "-x takes VAR or VAR=VALUE, not ", variable);
    if (a->num_exports == ARGUMENTS_EXPORTS_MAX)
        return fail(a, "too many -x", NULL);
    a->exports[a->num_exports++] = variable;
    return 2;
}

/* One option, words[0], with its value behind it. Returns how many words it took, 0: it is no option; -1: refused. */
static int take_option(struct arguments *a, char **words)
{
    struct why why;
    if (strcmp(words[0], "--dry-run") == 0 || strcmp(words[0], "-n") == 0)
        return a->dry_run = true;
    if (strcmp(words[0], "-x") == 0)
        return take_export(a, words[1]);
    int taken = option_take(world_rows, words, a, &why);
    if (taken == 0)
        taken = option_take(launch_rows, words, a, &why);
    if (taken == 0)
        taken = option_take(placement_rows, words, &a->placement, &why);
    if (taken != 0)
        return taken > 0 ? taken : fail(a, "", why.text);
    const struct option_row *const tables[] = {world_rows, launch_rows, placement_rows, lettered_rows, NULL};
    why_set(&why, "unknown option %.80s%s", words[0], option_hint(tables, words[0]).text);
    return fail(a, "", why.text);
}

static const struct option_row side_rows[] = {{.name = "prefill"}, {.name = "decode"}, {0}};

/* "--prefill", perhaps with its value behind an equals sign, or "--decode". */
static bool is_side(const char *word)
{
    const size_t length = strcspn(word, "=");
    for (const struct option_row *row = side_rows; row->name != NULL; row++)
        if (strncmp(word, "--", 2) == 0 && strlen(row->name) == length - 2 &&
            strncmp(word + 2, row->name, length - 2) == 0)
            return true;
    return false;
}

/*
 * The ":" behind which a second program begins: only with --prefill or --decode after it. *colon is NULL where there is
 * none. -1: the option after a ":" is one of these, misspelt.
 */
static int find_colon(struct arguments *a, char **words, char ***colon)
{
    static const struct option_row *const tables[] = {side_rows, NULL};
    *colon = NULL;
    for (; words[0] != NULL && words[1] != NULL; words++) {
        if (strcmp(words[0], ":") != 0)
            continue;
        if (is_side(words[1])) {
            *colon = words;
            return 0;
        }
        const char *meant = option_nearest(tables, words[1]);
        if (meant != NULL) {
            snprintf(a->error, sizeof a->error, "\": %.80s\" begins no second program: --%s does", words[1], meant);
            return -1;
        }
    }
    return 0;
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

/* Hosts that a job will have by itself, what they are, and what is not meant for a job. */
static bool is_for_this_run(const char *option)
{
    static const char *const options[] = {"--host",    "--hostfile", "--topology", "--script",
                                          "--explain", "--dry-run",  "-n"};
    size_t length = strcspn(option, "=");
    for (unsigned i = 0; i < sizeof options / sizeof options[0]; i++)
        if (strlen(options[i]) == length && strncmp(option, options[i], length) == 0)
            return true;
    return false;
}

/* What is asked instead of a run. */
static bool is_answered(const struct arguments *a)
{
    return a->help || a->version;
}

/* Words up to the program, which is the first that is no option. Returns it, or NULL, also at --help and --version. */
static char **take_options(struct arguments *a, char **words)
{
    while (words[0] != NULL && words[0][0] == '-') {
        if (strcmp(words[0], "--") == 0)
            return take_end(a, words);
        a->help = strcmp(words[0], "--help") == 0 || strcmp(words[0], "-h") == 0;
        int taken = a->help ? 0 : take_option(a, words);
        if (taken <= 0 || a->version)
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
        return is_answered(a) ? 0 : -1;
    a->program[0] = a->program[1] = program;
    if (a->check)
        return finish_check(a);
    char **colon;
    if (find_colon(a, program, &colon) != 0)
        return -1;
    if (colon != NULL && take_second(a, colon) != 0)
        return is_answered(a) ? 0 : -1;
    if (arguments_ranks(a) == 0)
        return fail(a, "name the engines: --prefill ExT --decode ExT", NULL);
    if (placement_check(&a->placement, &why) != 0)
        return fail(a, "", why.text);
    if ((*a->program[0] == NULL || *a->program[1] == NULL) && !a->placement.explain)
        return fail(a, "a program is missing", NULL);
    return 0;
}
