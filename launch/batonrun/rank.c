/* SPDX-License-Identifier: BSD-3-Clause */
/* rank: see rank.h. One thread, which sleeps most of the time: it must not take CPU from the rank. */
#include "batonrun/rank.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/layout.h"
#include "batonrun/bind.h"
#include "batonrun/child.h"
#include "batonrun/collector.h"
#include "batonrun/complain.h"
#include "batonrun/mca.h"
#include "batonrun/node.h"
#include "batonrun/report.h"

#define HELPERS_GRACE_NS 500000000u /* from the first TERM to the first KILL */
#define LINGER_NS 200000000u

/* ---- who this rank is -------------------------------------------------------------------------------------------- */

static void set_number(const char *variable, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    setenv(variable, text, 1);
}

/* By what bind_to said. `who`: "rank", "the reactor of rank". */
static void complain_of_place(const char *who, uint32_t rank, const char *cpus, int error, const char *missing)
{
    if (error != 0)
        complain(0, "%s %u cannot be bound to the hardware threads %.80s: %s", who, rank, cpus, strerror(error));
    else if (missing[0] != '\0')
        complain(0, "%s %u may not run on the hardware threads %s of its place %.80s: a cpuset of its host lacks them",
                 who, rank, missing, cpus);
}

/* Names the hardware threads of the reactor and the copy workers to these, if the rank may run on any of them. */
static void give_helpers(uint32_t rank, struct bind_place *place)
{
    char missing[256] = "";
    int error = bind_try(place->helpers, missing, sizeof missing);
    complain_of_place("the reactor of rank", rank, place->helpers, error, missing);
    if (error == 0)
        setenv(RANK_HELPERS, place->helpers, 1);
    else
        place->helpers[0] = '\0';
}

/*
 * Takes the hardware threads that this rank was given; those of the reactor and the copy workers are named to these,
 * unless the user has done so. Its GPUs are named to the program. `place`: empty where the rank was given none.
 */
static int take_place(uint32_t rank, struct bind_place *place)
{
    const char *text = getenv(RANK_PLACES);
    char missing[256] = "";
    *place = (struct bind_place){0};
    if (text == NULL)
        return 0;
    if (!bind_find(text, rank, place))
        return complain(2, "rank %u has no place in %s", rank, RANK_PLACES);
    if (place->helpers[0] != '\0' && getenv(RANK_HELPERS) != NULL) { /* the engine has them too */
        size_t used = strlen(place->cpus);
        snprintf(place->cpus + used, sizeof place->cpus - used, ",%s", place->helpers);
        place->helpers[0] = '\0';
    }
    int error = place->cpus[0] != '\0' ? bind_to(place->cpus, missing, sizeof missing) : 0;
    complain_of_place("rank", rank, place->cpus, error, missing);
    if (error != 0)
        place->cpus[0] = place->helpers[0] = '\0';
    if (place->helpers[0] != '\0')
        give_helpers(rank, place);
    if (place->gpus[0] != '\0')
        setenv(RANK_GPUS, place->gpus, 1);
    unsetenv(RANK_PLACES); /* not for a batonrun inside the program */
    return 0;
}

/* What this node is to the rank, which has taken its place. `ranks`: of the world. */
static struct profile_facts find_facts(uint32_t ranks, const struct bind_place *place)
{
    struct profile_facts f = {.survive = getenv(RANK_SURVIVE) != NULL, .threads = bind_count(NULL)};
    uint32_t here = node_ranks(getenv);
    profile_mpi(BATON_MPI, &f);
    node_look("", BATON_MPI_PLUGINS, &f);
    f.one_node = here == ranks;
    f.threads += place->helpers[0] != '\0' ? bind_count(place->helpers) : 0;
    f.sharers = place->cpus[0] != '\0' ? 1 : here;
    if (!node_port("", place->nic, f.nic))
        f.nic[0] = '\0';
    return f;
}

/* Sets the variables of MPI and UCX that this rank needs here and that nobody else has set. */
static void set_profile(uint32_t rank, const struct profile_facts *f)
{
    struct profile_setting settings[PROFILE_SETTINGS_MAX];
    unsigned num = profile_find(f, settings);
    for (unsigned i = 0; i < num; i++) {
        if (profile_own(&settings[i], mca_is_given, NULL) != NULL)
            continue;
        setenv(settings[i].variable, settings[i].value, 1);
        if (settings[i].is_second_best && rank == 0)
            complain(0, "%s=%s: %s", settings[i].variable, settings[i].value, settings[i].reason);
    }
    unsetenv(RANK_SURVIVE);
}

/* Where the launcher says how many ranks its world has, that is as many as batonrun wanted. */
static int check_size(uint32_t ranks)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    const char *text = getenv(names[0]) != NULL ? getenv(names[0]) : getenv(names[1]);
    if (text == NULL || strtoul(text, NULL, 10) == ranks)
        return 0;
    return complain(
        2,
        "the launcher started a world of size %.16s instead of %u: it is not of the kind that batonrun took it for "
        "(--launcher)",
        text, ranks);
}

/* Also how many ranks the world has. */
static int find_role(uint32_t rank, baton_open_params_t *role, uint32_t *ranks)
{
    const char *text = getenv(RANK_LAYOUT);
    struct layout l;
    if (text == NULL)
        return complain(2, "the variable %s is missing: start ranks by batonrun", RANK_LAYOUT);
    if (!layout_read(text, &l) || !layout_find(&l, rank, role))
        return complain(2, "rank %u has no place in %s=%.64s", rank, RANK_LAYOUT, text);
    *ranks = layout_ranks(&l.prefill) + layout_ranks(&l.decode);
    if (check_size(*ranks) != 0)
        return 2;
    setenv("BATON_ENGINE", role->engine, 1);
    setenv("BATON_ROLE", role->role == BATON_ROLE_PREFILL ? "prefill" : "decode", 1);
    set_number("BATON_TP", role->tp);
    set_number("BATON_PP", role->pp);
    set_number("BATON_TP_RANK", role->tp_rank);
    set_number("BATON_PP_RANK", role->pp_rank);
    return 0;
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

/* What the shim knows of its rank. */
struct rank {
    uint32_t number;
    char tag[REPORT_TAG_BYTES]; /* of reports; empty: none are wanted */
    bool told;                  /* the program was asked to end */
    pid_t launcher;             /* the process that started this one */
    struct collector collector;
    struct child program;
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
static void pass(struct rank *r, int number)
{
    kill(r->program.pid, number);
    if (child_is_ending(number) && !r->told) {
        r->told = true;
        report(r, REPORT_TOLD, 128 + number);
    }
}

/*
 * Waits until the program ends. Looks once a second whether mpirun is still there: the kernel could tell of its death,
 * but watches the thread of mpirun that started us, and that one ends early.
 */
static void follow(struct rank *r)
{
    while (!child_ended(&r->program)) {
        int number = child_wait(&r->program, clock_now_ns() + 1000000000u);
        collector_step(&r->collector);
        if (getppid() != r->launcher) {
            r->told = true;
            kill(-r->program.pid, SIGKILL);
        } else if (number != 0 && number != SIGCHLD) {
            pass(r, number);
        }
    }
}

/* Open MPI 5's mpirun may end before it has handed on what its last rank wrote just before it ended. */
static void linger(void)
{
    if (getenv("PRTE_LAUNCHED") != NULL)
        clock_sleep_until(clock_now_ns() + LINGER_NS);
}

/*
 * Afterwards it ends the processes that the program left running (helpers, a model's loaders): they hold what the
 * program held, and mpirun may wait for them.
 */
static int run(char **program, struct rank *r)
{
    int error = child_start(&r->program, program, &(struct child_way){.last_signal = SIGKILL});
    if (error != 0) {
        complain(0, "cannot run %s: %s", program[0], strerror(error));
        report(r, REPORT_ENDED, 127);
        return 127;
    }
    follow(r);
    report(r, REPORT_ENDED, r->program.status);
    child_clear(&r->program, SIGTERM, HELPERS_GRACE_NS);
    collector_leave(&r->collector);
    return r->program.status;
}

/* The program of the rank's side, without marks. NULL: the words are not batonrun's. */
static char **find_program(char **words, baton_role_t role)
{
    char *end;
    unsigned long num = words[0] != NULL ? strtoul(words[0], &end, 10) : 0, all = 0;
    if (words[0] == NULL || *end != '\0')
        return NULL;
    for (char **w = words + 1; *w != NULL; w++, all++)
        if (**w != RANK_MARK)
            return NULL;
        else
            ++*w;
    if (num == 0 || num > all)
        return NULL;
    if (role != BATON_ROLE_PREFILL && all > num)
        return words + 1 + num;
    words[1 + num] = NULL;
    return words + 1;
}

static int begin(char **words)
{
    static struct rank r; /* a thread that is stuck in a file system may use its collector until the end */
    r = (struct rank){.launcher = getppid()};
    struct bind_place place;
    baton_open_params_t role;
    uint32_t ranks = 0;
    int32_t number = layout_world_rank(getenv);
    child_hold(&r.program); /* a signal that comes before the program runs is passed on once it does */
    if (number < 0)
        return complain(2, "no launcher told this rank its number (OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, "
                           "SLURM_PROCID): name the MPI library's launcher by --mpirun");
    r.number = (uint32_t)number;
    snprintf(r.tag, sizeof r.tag, "%s", getenv(RANK_REPORTS) != NULL ? getenv(RANK_REPORTS) : "");
    collector_join(&r.collector, getenv(RANK_METRICS_FILE), getenv(RANK_METRICS));
    unsetenv(RANK_REPORTS); /* not for a batonrun inside the program */
    unsetenv(RANK_METRICS_FILE);
    report(&r, REPORT_HERE, 0);
    int status = find_role(r.number, &role, &ranks);
    if (status == 0)
        status = take_place(r.number, &place);
    if (status == 0) {
        const struct profile_facts facts = find_facts(ranks, &place);
        set_profile(r.number, &facts);
    }
    char **program = status == 0 ? find_program(words, role.role) : NULL;
    if (status == 0 && program == NULL)
        status = complain(2, "rank %u is not told its program: start ranks by batonrun", r.number);
    if (status == 0)
        status = run(program, &r);
    else
        report(&r, REPORT_ENDED, status);
    return status;
}

/*
 * Whether the launcher must not see a status: prterun counts a rank that ends with another one than 0 twice, and so
 * ends the last of those that are to survive it. batonrun knows the status by the report.
 */
static bool hides_status(void)
{
    return getenv("PRTE_LAUNCHED") != NULL && getenv(RANK_SURVIVE) != NULL && getenv(RANK_REPORTS) != NULL;
}

int rank_main(char **words)
{
    bool hides = hides_status(); /* the variables are gone when the program runs */
    int status = begin(words);
    linger();
    return hides ? 0 : status;
}
