/* SPDX-License-Identifier: BSD-3-Clause */
/* rank: see rank.h. One thread, which sleeps most of the time: it must not take CPU from the rank. */
#include "launch/rank.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "launch/child.h"
#include "launch/report.h"

#define HELPERS_GRACE_NS 500000000u    /* from the first TERM to the first KILL */
#define HELPERS_GIVE_UP_NS 3000000000u /* until they are left alone */
#define LINGER_NS 200000000u

int complain(int status, const char *format, ...)
{
    va_list args;
    fputs("batonrun: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return status;
}

/* ---- who this rank is -------------------------------------------------------------------------------------------- */

static long my_rank(void)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (unsigned i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *text = getenv(variables[i]);
        char *end;
        if (text == NULL)
            continue;
        long rank = strtol(text, &end, 10);
        if (end != text && *end == '\0' && rank >= 0 && rank < ARGUMENTS_RANKS_MAX)
            return rank;
    }
    return -1;
}

static void print_engine(const char *role, const struct side *side, uint32_t rank, char name[32])
{
    snprintf(name, 32, "%s%u", role, rank / (side->tp * side->pp));
}

void rank_engine(const struct side *prefill, const struct side *decode, uint32_t rank, char name[32])
{
    uint32_t first = side_ranks(prefill);
    if (rank < first)
        print_engine("prefill", prefill, rank, name);
    else
        print_engine("decode", decode, rank - first, name);
}

static void set_number(const char *variable, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    setenv(variable, text, 1);
}

static void set_role(const char *role, const struct side *side, uint32_t rank)
{
    char engine[32];
    uint32_t place = rank % (side->tp * side->pp);
    print_engine(role, side, rank, engine);
    setenv("BATON_ENGINE", engine, 1);
    setenv("BATON_ROLE", role, 1);
    set_number("BATON_TP", side->tp);
    set_number("BATON_PP", side->pp);
    set_number("BATON_TP_RANK", place % side->tp);
    set_number("BATON_PP_RANK", place / side->tp);
}

static int find_role(uint32_t rank)
{
    char text[128], *decode;
    struct side p, d;
    snprintf(text, sizeof text, "%s", getenv(RANK_LAYOUT) != NULL ? getenv(RANK_LAYOUT) : "");
    decode = strchr(text, ' ');
    if (decode == NULL)
        return complain(2, "the variable %s is missing: start ranks by batonrun", RANK_LAYOUT);
    *decode++ = '\0';
    if (!side_parse(text, &p) || !side_parse(decode, &d) || rank >= side_ranks(&p) + side_ranks(&d))
        return complain(2, "rank %u has no place in %s %s", rank, text, decode);
    if (rank < side_ranks(&p))
        set_role("prefill", &p, rank);
    else
        set_role("decode", &d, rank - side_ranks(&p));
    return 0;
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

/* What the shim knows of its rank. */
struct rank {
    uint32_t number;
    char tag[REPORT_TAG_BYTES]; /* of reports; empty: none are wanted */
    bool told;                  /* the program was asked to end */
};

static void report(const struct rank *r, enum report_kind kind, int status)
{
    int error = r->tag[0] != '\0' ? report_send(r->tag, r->number, kind, status, r->told) : 0;
    if (error != 0 && error != EPIPE) /* EPIPE: mpirun is gone, and nobody listens */
        complain(0, "rank %u could not send its report: %s", r->number, strerror(error));
}

/*
 * Passes a signal on. The first that asks the program to end is reported at once: mpirun's KILL may follow before the
 * program has gone, and a later report replaces this one.
 */
static void pass(const struct child *program, struct rank *r, int number)
{
    kill(program->pid, number);
    if (child_is_ending(number) && !r->told) {
        r->told = true;
        report(r, REPORT_TOLD, 128 + number);
    }
}

/*
 * Waits until the program ends. Looks once a second whether mpirun is still there: the kernel could tell of its death,
 * but watches the thread of mpirun that started us, and that one ends early.
 */
static int follow(const struct child *program, struct rank *r)
{
    pid_t parent = getppid();
    int status;
    while (!child_ended(program, &status)) {
        int number = child_wait(program, child_now_ns() + 1000000000u);
        if (getppid() != parent) {
            r->told = true;
            kill(-program->pid, SIGKILL);
        } else if (number != 0 && number != SIGCHLD) {
            pass(program, r, number);
        }
    }
    return status;
}

/*
 * Ends the processes that the program left running (helpers, a model's loaders), first by TERM, then by KILL: they hold
 * what the program held, and mpirun may wait for them.
 */
static void end_helpers(const struct child *program)
{
    uint64_t start = child_now_ns();
    while (!child_none_left() && child_now_ns() < start + HELPERS_GIVE_UP_NS) {
        int number = child_now_ns() < start + HELPERS_GRACE_NS ? SIGTERM : SIGKILL;
        if (!child_signal_all(number))
            kill(-program->pid, number);
        child_wait(program, child_now_ns() + 1000000000u / 20);
    }
}

/* Open MPI 5's mpirun may end before it has handed on what its last rank wrote just before it ended. */
static void linger(void)
{
    if (getenv("PRTE_LAUNCHED") != NULL)
        nanosleep(&(struct timespec){.tv_nsec = LINGER_NS}, NULL);
}

static int run(char **program, struct rank *r)
{
    struct child child;
    child_adopt();
    int error = child_start(&child, program, SIGKILL, -1);
    if (error != 0) {
        complain(0, "cannot run %s: %s", program[0], strerror(error));
        report(r, REPORT_ENDED, 127);
        return 127;
    }
    int status = follow(&child, r);
    report(r, REPORT_ENDED, status);
    end_helpers(&child);
    return status;
}

static int begin(char **program)
{
    struct rank r = {0};
    long number = my_rank();
    if (number < 0)
        return complain(
            2, "no launcher told this rank its number (OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, SLURM_PROCID)");
    r.number = (uint32_t)number;
    snprintf(r.tag, sizeof r.tag, "%s", getenv(RANK_REPORTS) != NULL ? getenv(RANK_REPORTS) : "");
    unsetenv(RANK_REPORTS); /* not for a batonrun inside the program */
    report(&r, REPORT_HERE, 0);
    int status = find_role(r.number);
    if (status == 0)
        return run(program, &r);
    report(&r, REPORT_ENDED, status);
    return status;
}

int rank_main(char **program)
{
    int status = begin(program);
    linger();
    return status;
}
