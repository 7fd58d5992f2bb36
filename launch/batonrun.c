/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * batonrun: starts a world of prefill and decode engines under mpirun. It makes no MPI call.
 *
 * Each rank is started through a shim (this program again), which works out the rank's role from its number, runs the
 * program as a child, and writes how it ended into a report file. batonrun's exit status comes from these reports, since
 * mpirun's own says little once ranks may be lost.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/arguments.h"

#define SHIM_OPTION "--rank-shim"
#define LAYOUT_VARIABLE "BATON_LAUNCH"
#define REPORT_VARIABLE "BATON_LAUNCH_REPORTS"
#define STATUS_TIMEOUT 124
#define STATUS_NOT_FOUND 127

extern char **environ;

static pid_t child;                     /* for the signal handlers only */
static volatile sig_atomic_t timed_out; /* set by SIGALRM */

static int complain(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int complain(int status, const char *format, ...)
{
    va_list args;
    fputs("batonrun: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return status;
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

static void forward(int number)
{
    if (child > 0)
        kill(child, number);
}

/* mpirun gets a TERM, which ends its ranks; a second alarm, if it does not go, a KILL. */
static void on_alarm(int number)
{
    (void)number;
    if (child > 0)
        kill(child, timed_out ? SIGKILL : SIGTERM);
    timed_out = 1;
    alarm(10);
}

static void handle(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(number, &action, NULL);
}

static int wait_for_child(void)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return STATUS_NOT_FOUND;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- the shim: one rank ------------------------------------------------------------------------------------------ */

static long my_rank(void)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (unsigned i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *text = getenv(variables[i]);
        char *end;
        if (text == NULL)
            continue;
        long rank = strtol(text, &end, 10);
        if (end != text && *end == '\0' && rank >= 0)
            return rank;
    }
    return -1;
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
    uint32_t size = side->tp * side->pp;
    snprintf(engine, sizeof engine, "%s%u", role, rank / size);
    setenv("BATON_ENGINE", engine, 1);
    setenv("BATON_ROLE", role, 1);
    set_number("BATON_TP", side->tp);
    set_number("BATON_PP", side->pp);
    set_number("BATON_TP_RANK", rank % size % side->tp);
    set_number("BATON_PP_RANK", rank % size / side->tp);
}

/* The layout is "PREFILL DECODE", as given on the command line. */
static int find_role(uint32_t rank)
{
    char text[128], *decode;
    struct side p, d;
    snprintf(text, sizeof text, "%s", getenv(LAYOUT_VARIABLE) ? getenv(LAYOUT_VARIABLE) : "");
    decode = strchr(text, ' ');
    if (decode == NULL)
        return complain(2, "%s is missing: start ranks by batonrun", LAYOUT_VARIABLE);
    *decode++ = '\0';
    if (!side_parse(text, &p) || !side_parse(decode, &d) || rank >= side_ranks(&p) + side_ranks(&d))
        return complain(2, "rank %u has no place in %s %s", rank, text, decode);
    if (rank < side_ranks(&p))
        set_role("prefill", &p, rank);
    else
        set_role("decode", &d, rank - side_ranks(&p));
    return 0;
}

static void report(const char *directory, long rank, int status)
{
    char path[PATH_MAX + 32];
    if (directory == NULL)
        return;
    snprintf(path, sizeof path, "%s/rank.%ld", directory, rank);
    FILE *file = fopen(path, "we");
    if (file == NULL || fprintf(file, "%d\n", status) < 0)
        complain(0, "rank %ld could not write its report: %s", rank, strerror(errno));
    if (file != NULL)
        fclose(file);
}

static int shim(char **program)
{
    static const int forwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT};
    char directory[PATH_MAX];
    long rank = my_rank();
    if (rank < 0)
        return complain(2, "no launcher told this rank its number");
    int rc = find_role((uint32_t)rank);
    snprintf(directory, sizeof directory, "%s", getenv(REPORT_VARIABLE) ? getenv(REPORT_VARIABLE) : "");
    unsetenv(REPORT_VARIABLE);
    pid_t parent = getpid();
    child = rc == 0 ? fork() : -1;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* mpirun kills the shim: the program goes with it */
        if (getppid() != parent)
            _exit(1);
        execvp(program[0], program);
        _exit(complain(STATUS_NOT_FOUND, "cannot run %s: %s", program[0], strerror(errno)));
    }
    if (child > 0) {
        for (unsigned i = 0; i < sizeof forwarded / sizeof forwarded[0]; i++)
            handle(forwarded[i], forward);
        rc = wait_for_child();
    } else if (rc == 0) {
        rc = complain(1, "cannot start a process: %s", strerror(errno));
    }
    report(directory[0] ? directory : NULL, rank, rc);
    return rc;
}

/* ---- the launcher ------------------------------------------------------------------------------------------------ */

/*
 * Settings that the ranks need unless the user chose others. Debian's own MCA file turns off every component with which
 * windows across nodes can be made (osc, pml, btl); the UCX components are only offered on hosts with known adapters
 * unless told that any will do; hcoll breaks window creation.
 */
static const char *const presets[][2] = {
    {"OMPI_MCA_osc", "ucx,sm"},
    {"OMPI_MCA_pml", "ucx"},
    {"OMPI_MCA_btl", "^uct,openib,ofi"},
    {"OMPI_MCA_coll", "^hcoll"},
    {"OMPI_MCA_opal_common_ucx_tls", "any"},
    {"OMPI_MCA_opal_common_ucx_devices", "any"},
    {"UCX_LOG_FILE", "stderr"}, /* not among what a program prints */
};

static uint32_t cpus_allowed(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

static void set_environment(const struct arguments *a, uint32_t ranks)
{
    char layout[128];
    for (unsigned i = 0; i < sizeof presets / sizeof presets[0]; i++)
        setenv(presets[i][0], presets[i][1], 0);
    if (geteuid() == 0) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    }
    if (2 * ranks > cpus_allowed()) /* each rank has a thread of its own and the reactor */
        setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    if (isatty(STDERR_FILENO)) /* the ranks themselves see a pipe */
        setenv("BATON_TERMINAL", "1", 0);
    snprintf(layout, sizeof layout, "%ux%ux%u %ux%ux%u", a->prefill.engines, a->prefill.tp, a->prefill.pp,
             a->decode.engines, a->decode.tp, a->decode.pp);
    setenv(LAYOUT_VARIABLE, layout, 1);
}

struct command {
    char **argv;
    size_t n, room;
};

static void add(struct command *c, const char *word)
{
    if (c->n + 1 >= c->room) {
        c->room = c->room ? 2 * c->room : 64;
        c->argv = realloc(c->argv, c->room * sizeof *c->argv);
        if (c->argv == NULL)
            exit(complain(1, "out of memory"));
    }
    c->argv[c->n++] = (char *)word;
    c->argv[c->n] = NULL;
}

static void add_exports(struct command *c, const struct arguments *a)
{
    for (char **e = environ; *e != NULL; e++) {
        if (strncmp(*e, "BATON_", 6) != 0 && strncmp(*e, "UCX_", 4) != 0)
            continue;
        char *name = strndup(*e, strcspn(*e, "="));
        if (name == NULL)
            exit(complain(1, "out of memory"));
        add(c, "-x");
        add(c, name);
    }
    for (unsigned i = 0; i < a->num_exports; i++) {
        add(c, "-x");
        add(c, a->exports[i]);
    }
}

static struct command command_for(const struct arguments *a, uint32_t ranks, const char *self)
{
    struct command c = {0};
    static char number[16];
    snprintf(number, sizeof number, "%u", ranks);
    add(&c, "mpirun");
    add(&c, "-np");
    add(&c, number);
    /* Not bound to a core: the reactor would share it with the engine's own thread. */
    add(&c, "--bind-to");
    add(&c, "none");
    if (ranks > cpus_allowed())
        add(&c, "--oversubscribe");
    add_exports(&c, a);
    add(&c, self);
    add(&c, SHIM_OPTION);
    for (char **word = a->program; *word != NULL; word++)
        add(&c, *word);
    return c;
}

static int run(const struct arguments *a, char **argv)
{
    child = fork();
    if (child < 0)
        return complain(1, "cannot start a process: %s", strerror(errno));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        execvp(argv[0], argv);
        _exit(complain(STATUS_NOT_FOUND, "cannot run mpirun (%s): install Open MPI (Debian: openmpi-bin)",
                       strerror(errno)));
    }
    handle(SIGTERM, forward);
    handle(SIGINT, forward);
    handle(SIGHUP, forward);
    if (a->timeout_s > 0) {
        handle(SIGALRM, on_alarm);
        alarm(a->timeout_s);
    }
    return wait_for_child();
}

static int read_report(const char *directory, uint32_t rank)
{
    char path[PATH_MAX + 32];
    int status = -1;
    snprintf(path, sizeof path, "%s/rank.%u", directory, rank);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -1;
    if (fscanf(file, "%d", &status) != 1)
        status = -1;
    fclose(file);
    unlink(path);
    return status;
}

/*
 * The first rank that failed by itself decides. When one does, mpirun ends the others by a signal: these statuses (128
 * and the signal's number) count only where there is no other.
 */
static int judge(const char *directory, uint32_t ranks, int mpirun_status)
{
    int verdict = 0;
    uint32_t missing = 0, failed = 0;
    for (uint32_t i = 0; i < ranks; i++) {
        int status = read_report(directory, i);
        missing += status < 0;
        if (status <= 0)
            continue;
        if (failed++ < 8)
            complain(0, "rank %u ended with status %d", i, status);
        if (verdict == 0 || (verdict >= 128 && status < 128))
            verdict = status;
    }
    if (timed_out)
        return complain(STATUS_TIMEOUT, "the time limit passed");
    if (missing == ranks && mpirun_status != 0)
        return mpirun_status;
    if (missing > 0)
        complain(0, "%u of %u ranks left no report", missing, ranks);
    if (verdict != 0)
        return verdict;
    return missing > 0 ? (mpirun_status != 0 ? mpirun_status : 1) : 0;
}

static int launch(const struct arguments *a)
{
    char directory[PATH_MAX], self[PATH_MAX];
    uint32_t ranks = side_ranks(&a->prefill) + side_ranks(&a->decode);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return complain(1, "cannot find itself: %s", strerror(errno));
    self[n] = '\0';
    set_environment(a, ranks);
    if (!a->dry_run) {
        snprintf(directory, sizeof directory, "%s/batonrun.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
        if (mkdtemp(directory) == NULL)
            return complain(1, "cannot make a folder for reports: %s", strerror(errno));
        setenv(REPORT_VARIABLE, directory, 1);
    }
    struct command c = command_for(a, ranks, self);
    if (a->dry_run) {
        for (size_t i = 0; i < c.n; i++)
            printf("%s%s", i ? " " : "", c.argv[i]);
        putchar('\n');
        return 0;
    }
    int status = judge(directory, ranks, run(a, c.argv));
    if (rmdir(directory) != 0)
        complain(0, "cannot remove %s: %s", directory, strerror(errno));
    return status;
}

int main(int argc, char **argv)
{
    struct arguments a;
    if (argc > 2 && strcmp(argv[1], SHIM_OPTION) == 0)
        return shim(&argv[2]);
    if (arguments_parse(argc, argv, &a) != 0) {
        complain(0, "%s", a.error);
        fputs("try batonrun --help\n", stderr);
        return 2;
    }
    if (a.help) {
        fputs(arguments_usage, stdout);
        return 0;
    }
    return launch(&a);
}
