/* SPDX-License-Identifier: BSD-3-Clause */
/* arguments: see arguments.h. */
#include "launch/arguments.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const char arguments_usage[] =
    "usage: batonrun --prefill ExT --decode ExT [options] [--] PROGRAM [ARGS...]\n"
    "\n"
    "Starts E engines of tensor-parallel size T on each side (ExTxP: T times P pipeline stages) as one MPI world\n"
    "under mpirun, prefill engines first. Engines are called prefill0, ..., decode0, ... Each rank gets its role by\n"
    "variables that baton_role_from_env reads. mpirun chooses the hosts: those of the Slurm job, say, or of the file\n"
    "that OMPI_MCA_orte_default_hostfile names (Open MPI 4).\n"
    "\n"
    "  --prefill ExT      prefill engines (0x0: none)\n"
    "  --decode ExT       decode engines (0x0: none)\n"
    "  -x VAR[=VALUE]     pass a variable to the ranks; BATON_*, UCX_* and OMPI_MCA_* are passed anyway\n"
    "  --timeout SECONDS  end all ranks after this time (status 124)\n"
    "  --survive          let the other ranks run on when a rank is lost (mpirun --enable-recovery)\n"
    "  -n, --dry-run      print the mpirun command and stop\n"
    "  -h, --help         print this\n"
    "\n"
    "The exit status is 0 only if every rank ended with 0, else that of the rank that failed first (128 + N: killed\n"
    "by signal N). Ranks report through mpirun's standard error: the hosts need no shared folder for that.\n";

/* Digits up to `stop`; moves *text behind it. */
static bool number(const char **text, char stop, uint32_t *out)
{
    uint64_t value = 0;
    const char *at = *text;
    for (; isdigit((unsigned char)*at) && value <= ARGUMENTS_RANKS_MAX; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    if (at == *text || value > ARGUMENTS_RANKS_MAX || *at != stop)
        return false;
    *out = (uint32_t)value;
    *text = stop != '\0' ? at + 1 : at;
    return true;
}

bool side_parse(const char *text, struct side *out)
{
    struct side s = {.pp = 1};
    const char *at = text;
    if (!number(&at, 'x', &s.engines))
        return false;
    if (strchr(at, 'x') != NULL) {
        if (!number(&at, 'x', &s.tp) || !number(&at, '\0', &s.pp))
            return false;
    } else if (!number(&at, '\0', &s.tp)) {
        return false;
    }
    if (s.engines == 0)
        s.tp = s.pp = 1; /* without engines the others do not matter */
    if (s.tp == 0 || s.pp == 0 || (uint64_t)s.tp * s.pp > 1024 ||
        (uint64_t)s.engines * s.tp * s.pp > ARGUMENTS_RANKS_MAX)
        return false;
    *out = s;
    return true;
}

uint32_t side_ranks(const struct side *s)
{
    return s->engines * s->tp * s->pp;
}

static int fail(struct arguments *a, const char *what, const char *text)
{
    snprintf(a->error, sizeof a->error, "%s%.100s", what, text != NULL ? text : "");
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
        if (!number(&at, '\0', &a->timeout_s) || a->timeout_s == 0)
            return fail(a, "--timeout takes seconds from 1 to 65536, not ", value);
        return 0;
    }
    struct side *side = strcmp(option, "--prefill") == 0 ? &a->prefill : &a->decode;
    if (!side_parse(value, side))
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

int arguments_parse(int argc, char **argv, struct arguments *a)
{
    int i = 1;
    memset(a, 0, sizeof *a);
    a->prefill = a->decode = (struct side){.engines = 0, .tp = 1, .pp = 1};
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            a->help = true;
            return 0;
        }
        if (strcmp(argv[i], "--dry-run") == 0 || strcmp(argv[i], "-n") == 0) {
            a->dry_run = true;
            continue;
        }
        if (strcmp(argv[i], "--survive") == 0) {
            a->survive = true;
            continue;
        }
        if (!takes_value(argv[i]))
            return fail(a, "unknown option ", argv[i]);
        int rc = take(a, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
        if (rc != 0)
            return rc;
        i++;
    }
    if (side_ranks(&a->prefill) + side_ranks(&a->decode) == 0)
        return fail(a, "name the engines: --prefill ExT --decode ExT", NULL);
    if (i >= argc)
        return fail(a, "a program is missing", NULL);
    a->program = &argv[i];
    return 0;
}
