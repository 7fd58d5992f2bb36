/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * batonrun: starts a world of prefill and decode engines under mpirun. It makes no MPI call.
 *
 * mpirun starts each rank through a shim, which is this program again (see rank.h). batonrun's exit status comes from
 * the shims' reports. Nothing that it started on this host outlives it.
 */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/arguments.h"
#include "launch/child.h"
#include "launch/hosts.h"
#include "launch/placement.h"
#include "launch/probe.h"
#include "launch/rank.h"
#include "launch/relay.h"
#include "launch/report.h"
#include "launch/settings_page.h"

#define STATUS_TIMEOUT 124
#define STATUS_NOT_FOUND 127
#define SECOND_NS 1000000000u
#define GRACE_NS (10 * (uint64_t)SECOND_NS) /* from TERM to KILL, for mpirun to end its ranks */
#define LINGER_NS (3 * (uint64_t)SECOND_NS) /* from the end of the last rank to TERM, and from there to KILL */
#define ORPHAN_NS (2 * (uint64_t)SECOND_NS) /* for shims to see that mpirun is gone: they look once a second */

extern char **environ;

/* ---- the environment of the ranks -------------------------------------------------------------------------------- */

static uint32_t cpus_allowed(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

/* Quoted so that a shell reads it back. */
static void print_word(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (; *word != '\0'; word++)
        if (*word == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*word);
    putchar('\'');
}

static void set_variable(const struct arguments *a, const char *variable, const char *value)
{
    setenv(variable, value, 1);
    if (a->dry_run) {
        printf("%s=", variable);
        print_word(value);
        putchar(' ');
    }
}

static void set_unless_set(const struct arguments *a, const char *variable, const char *value)
{
    if (getenv(variable) == NULL)
        set_variable(a, variable, value);
}

/*
 * What batonrun tells mpirun and the shims. The shims set what MPI and UCX need on each node (profile.h). 0; -1: no
 * memory. `p`: NULL where nothing is placed.
 */
static int set_environment(const struct arguments *a, const struct placement *p)
{
    char layout[128];
    if (geteuid() == 0) {
        set_unless_set(a, "OMPI_ALLOW_RUN_AS_ROOT", "1");
        set_unless_set(a, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    if (a->survive)
        set_variable(a, RANK_SURVIVE, "1");
    if (isatty(STDERR_FILENO)) /* the ranks themselves see a pipe */
        set_unless_set(a, "BATON_TERMINAL", "1");
    snprintf(layout, sizeof layout, "%ux%ux%u %ux%ux%u", a->layout.prefill.engines, a->layout.prefill.tp,
             a->layout.prefill.pp, a->layout.decode.engines, a->layout.decode.tp, a->layout.decode.pp);
    set_variable(a, RANK_LAYOUT, layout);
    if (p == NULL || !placement_can_bind(p))
        return 0;
    char *places = placement_bindings(p);
    if (places == NULL)
        return -1;
    set_variable(a, RANK_PLACES, places);
    free(places);
    return 0;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

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

/* Both sides' programs, as rank.h has it; one that both have stands there once. The words last as long as batonrun. */
static void add_programs(struct command *c, const struct arguments *a)
{
    static char number[24];
    unsigned num = 0;
    while (a->program[JOB_PREFILL][num] != NULL)
        num++;
    snprintf(number, sizeof number, "%u", num);
    add(c, number);
    for (unsigned side = 0; side < (a->program[0] == a->program[1] ? 1 : JOB_SIDES); side++)
        for (char **word = a->program[side]; *word != NULL; word++) {
            char *marked;
            if (asprintf(&marked, "%c%s", RANK_MARK, *word) < 0)
                exit(complain(1, "out of memory"));
            add(c, marked);
        }
}

/* `hosts`: the file with the host of each rank, or empty. */
static struct command command_for(const struct arguments *a, const struct placement *p, const char *self,
                                  const char *hosts)
{
    struct command c = {0};
    static char number[16];
    uint32_t ranks = arguments_ranks(a);
    snprintf(number, sizeof number, "%u", ranks);
    add(&c, "mpirun");
    add(&c, "-np");
    add(&c, number);
    if (a->survive) /* the loss of a rank does not end the others */
        add(&c, "--enable-recovery");
    add(&c, "--bind-to"); /* the shim binds its rank */
    add(&c, "none");
    if (hosts[0] != '\0') {
        add(&c, "--map-by");
        add(&c, "seq");
        add(&c, "--hostfile");
        add(&c, hosts);
    }
    /* Of a sequence of hosts batonrun has counted the slots itself. */
    if (hosts[0] != '\0' || (p != NULL ? p->crowded : ranks > cpus_allowed()))
        add(&c, "--oversubscribe");
    add_exports(&c, a);
    add(&c, self);
    add(&c, RANK_OPTION);
    add_programs(&c, a);
    return c;
}

static int print_command(const struct command *c)
{
    for (size_t i = 0; i < c->n; i++) {
        if (i > 0)
            putchar(' ');
        print_word(c->argv[i]);
    }
    putchar('\n');
    return 0;
}

/* Asked before mpirun is started: it would complain once for each rank, at length. */
static bool program_exists(const char *program)
{
    char path[PATH_MAX];
    const char *at = getenv("PATH");
    if (strchr(program, '/') != NULL)
        return access(program, X_OK) == 0;
    while (at != NULL && *at != '\0') {
        int length = (int)strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/%s", length, at, program);
        if (access(path, X_OK) == 0)
            return true;
        at += length + (at[length] == ':');
    }
    return false;
}

/* ---- while it runs ----------------------------------------------------------------------------------------------- */

/* How mpirun ended, and why, where batonrun ended it. */
struct run {
    int status;
    bool timed_out;
    int signal; /* that asked batonrun to end; 0: none did */
};

/*
 * Waits until mpirun has ended. At the deadline, or where batonrun is asked to end, mpirun gets a TERM, by which it
 * ends its ranks, and a KILL if it has not ended after GRACE_NS. Once every rank has ended it has nothing left to do,
 * and gets both after LINGER_NS.
 */
static void watch(const struct child *mpirun, uint32_t timeout_s, struct relay *relay, struct run *r)
{
    uint64_t deadline = timeout_s > 0 ? child_now_ns() + timeout_s * (uint64_t)SECOND_NS : UINT64_MAX;
    uint64_t grace = GRACE_NS;
    bool told = false, done = false;
    while (!child_ended(mpirun, &r->status)) {
        uint64_t now = child_now_ns(), turn = now + 60 * (uint64_t)SECOND_NS;
        int number = child_wait(mpirun, deadline < turn ? deadline : turn);
        now = child_now_ns();
        bool late = now >= deadline;
        /* acquire: the reports that make up `least` come before it. */
        int least = atomic_load_explicit(&relay->least, memory_order_acquire);
        /* Ranks that mpirun told to end will be killed soon. Those that batonrun told have GRACE_NS. */
        if (!done && !late && (least == REPORT_ENDED || (least == REPORT_TOLD && !told))) {
            done = true;
            grace = LINGER_NS;
            if (deadline > now + LINGER_NS)
                deadline = now + LINGER_NS;
        }
        if (number != 0 && number != SIGCHLD && !child_is_ending(number))
            kill(mpirun->pid, number);
        if (told && late) {
            kill(mpirun->pid, SIGKILL);
        } else if (!told && (late || child_is_ending(number))) {
            told = true;
            r->timed_out = late && !done;
            r->signal = late ? 0 : number;
            kill(mpirun->pid, SIGTERM);
            deadline = now + grace;
        }
    }
}

/* Waits until no child is left. Shims end by themselves once mpirun is gone; whatever else is left gets killed. */
static void clear_orphans(const struct child *mpirun)
{
    uint64_t start = child_now_ns();
    for (;;) {
        if (child_none_left())
            return;
        uint64_t now = child_now_ns();
        if (now > start + ORPHAN_NS && (now > start + GRACE_NS || !child_signal_all(SIGKILL))) {
            complain(0, "some processes of this run could not be ended");
            return;
        }
        child_wait(mpirun, now + SECOND_NS / 10);
    }
}

/* "rank 3 (decode0 on host7)", without the host where it is not known. */
static void name_rank(const struct arguments *a, const struct report *r, uint32_t rank, char name[160])
{
    baton_open_params_t role;
    layout_find(&a->layout, rank, &role);
    if (r->kind == REPORT_NONE)
        snprintf(name, 160, "rank %u (%s)", rank, role.engine);
    else
        snprintf(name, 160, "rank %u (%s on %s)", rank, role.engine, r->host);
}

static void print_rank(const struct arguments *a, const struct report *r, uint32_t rank)
{
    char name[160];
    name_rank(a, r, rank, name);
    if (r->kind == REPORT_NONE)
        complain(0, "%s never started", name);
    else if (r->kind == REPORT_HERE)
        complain(0, "%s is lost: it did not say how it ended", name);
    else if (r->status > 128 && r->status <= 128 + SIGSYS)
        complain(0, "%s ended with status %d: %s", name, r->status, strsignal(r->status - 128));
    else
        complain(0, "%s ended with status %d", name, r->status);
}

/* A line for each rank that failed by itself or is lost, up to 8, and one line for those that were told to end. */
static void print_failures(const struct arguments *a, const struct report *reports, uint32_t ranks)
{
    uint32_t failed = 0, told = 0;
    for (uint32_t i = 0; i < ranks; i++) {
        const struct report *r = &reports[i];
        if (r->kind >= REPORT_TOLD && r->status == 0)
            continue;
        if (r->kind >= REPORT_TOLD && r->told)
            told++;
        else if (failed++ < 8)
            print_rank(a, r, i);
    }
    if (failed > 8)
        complain(0, "and %u more ranks failed", failed - 8);
    if (told > 0)
        complain(0, "%u of %u ranks ended because they were told to", told, ranks);
}

/* The exit status: by the reports, else by what ended the run from outside, else mpirun's. */
static int judge(const struct arguments *a, const struct report *reports, uint32_t ranks, const struct run *r)
{
    bool good = true;
    for (uint32_t i = 0; i < ranks; i++)
        good = good && reports[i].kind >= REPORT_TOLD && reports[i].status == 0;
    if (!good)
        print_failures(a, reports, ranks);
    if (r->timed_out)
        return complain(STATUS_TIMEOUT, "the time limit of %u s passed", a->timeout_s);
    if (good)
        return 0;
    int64_t culprit = report_culprit(reports, ranks);
    if (culprit >= 0)
        return reports[culprit].status;
    if (r->signal != 0)
        return 128 + r->signal;
    return r->status != 0 ? r->status : 1;
}

static int run(const struct arguments *a, char **argv, const char *tag, uint32_t ranks)
{
    struct child mpirun;
    struct relay relay;
    struct run r = {0};
    struct report *reports = calloc(ranks, sizeof *reports);
    int error = reports == NULL ? ENOMEM : relay_open(&relay, tag, reports, ranks);
    if (error != 0) {
        free(reports);
        return complain(1, "cannot listen to the ranks: %s", strerror(error));
    }
    child_adopt(); /* processes that mpirun leaves become children of this one */
    error = child_start(&mpirun, argv, SIGTERM, relay.ends[1]);
    if (error != 0) {
        free(reports);
        return complain(STATUS_NOT_FOUND, "cannot run mpirun: %s", strerror(error));
    }
    error = relay_start(&relay);
    if (error != 0) {
        kill(mpirun.pid, SIGTERM);
        clear_orphans(&mpirun);
        free(reports);
        return complain(1, "cannot listen to the ranks: %s", strerror(error));
    }
    watch(&mpirun, a->timeout_s, &relay, &r);
    clear_orphans(&mpirun);
    relay_finish(&relay);
    int status = judge(a, reports, ranks, &r);
    free(reports);
    return status;
}

/* ---- where ranks go ---------------------------------------------------------------------------------------------- */

/* The user has told mpirun itself where its hosts are: then it chooses them, and ranks are not bound. */
static bool mpirun_has_hosts(const struct arguments *a)
{
    static const char *const variables[] = {"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"};
    for (unsigned i = 0; i < sizeof variables / sizeof variables[0]; i++)
        if (getenv(variables[i]) != NULL)
            return a->placement.hosts == NULL && a->placement.hostfile == NULL;
    return false;
}

/* The file of the ranks' hosts. 0, or -1 with errno. */
static int make_host_file(const struct placement *p, char path[HOSTS_PATH_BYTES])
{
    const char **names = calloc((size_t)p->job.num_ranks + 1, sizeof *names);
    if (names == NULL)
        return -1;
    for (uint32_t r = 0; r < p->job.num_ranks; r++)
        names[r] = placement_host(p, r);
    int rc = hosts_make_file(names, p->job.num_ranks, path);
    free(names);
    return rc;
}

static int run_placed(const struct arguments *a, const struct placement *p, const char *self)
{
    char tag[REPORT_TAG_BYTES], hosts[HOSTS_PATH_BYTES] = "";
    uint32_t ranks = arguments_ranks(a);
    report_tag(tag);
    setenv(RANK_REPORTS, tag, 1);
    if (p != NULL && placement_has_hosts(p) && make_host_file(p, hosts) != 0)
        return complain(1, "the file of the ranks' hosts cannot be written: %s", strerror(errno));
    struct command c = command_for(a, p, self, hosts);
    int status = run(a, c.argv, tag, ranks);
    if (hosts[0] != '\0')
        unlink(hosts);
    return status;
}

static int explain(const struct arguments *a, const struct placement *p)
{
    const struct settings_given given = {a->survive, a->exports, a->num_exports};
    if (placement_explain(p, stdout) != 0 || settings_print(stdout, p, &given) != 0)
        return complain(1, "out of memory");
    return 0;
}

static int launch_placed(const struct arguments *a, const struct placement *p, const char *self)
{
    if (p != NULL && a->placement.explain)
        return explain(a, p);
    if (set_environment(a, p) != 0)
        return complain(1, "out of memory");
    if (a->dry_run) {
        struct command c = command_for(a, p, self, p != NULL && placement_has_hosts(p) ? "HOSTS" : "");
        print_command(&c);
        puts("# On each node the ranks' shims also set what MPI and UCX need there: --explain lists it.");
        if (p == NULL || !placement_has_hosts(p))
            return 0;
        puts("\nHOSTS, with a line for each rank:");
        for (uint32_t r = 0; r < p->job.num_ranks; r++)
            puts(placement_host(p, r));
        return 0;
    }
    if (BATON_MPI[0] == '\0')
        return complain(STATUS_NOT_FOUND,
                        "this build has no MPI (BATON_WITH_MPI=OFF): it plans (--explain, --dry-run), "
                        "and starts no ranks");
    if (!program_exists("mpirun"))
        return complain(STATUS_NOT_FOUND, "there is no mpirun: install Open MPI (Debian: openmpi-bin)");
    for (unsigned side = 0; side < JOB_SIDES; side++)
        if (!program_exists(a->program[side][0]))
            return complain(STATUS_NOT_FOUND, "there is no program %s", a->program[side][0]);
    return run_placed(a, p, self);
}

static int ask(const struct allocation *a, struct machine *machines, void *self, struct why *why)
{
    return probe_hosts(a, self, machines, why);
}

static int launch(const struct arguments *a)
{
    struct placement p;
    struct why why;
    const struct layout *l = &a->layout;
    const struct engine_size sizes[JOB_SIDES] = {{l->prefill.engines, l->prefill.tp, l->prefill.pp},
                                                 {l->decode.engines, l->decode.tp, l->decode.pp}};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return complain(1, "batonrun cannot find its own file: %s", strerror(errno));
    self[n] = '\0';
    if (mpirun_has_hosts(a)) {
        if (placement_is_wished(&a->placement))
            return complain(1, "mpirun has its hosts by a variable of its own, and places the ranks: name hosts by "
                               "--host");
        return launch_placed(a, NULL, self);
    }
    int status = 1, rc = placement_find(&p, &a->placement, sizes, ask, self, &why);
    if (rc == 0 && a->placement.pairs != NULL)
        rc = placement_write_pairs(&p, &why);
    if (rc >= 0)
        status = launch_placed(a, rc == 0 ? &p : NULL, self);
    else
        complain(1, "%s", why.text);
    placement_fini(&p);
    return status;
}

int main(int argc, char **argv)
{
    struct arguments a;
    if (argc > 2 && strcmp(argv[1], RANK_OPTION) == 0)
        return rank_main(&argv[2]);
    if (argc == 2 && strcmp(argv[1], PROBE_OPTION) == 0)
        return probe_main();
    if (arguments_parse(argc, argv, &a) != 0) {
        complain(0, "%s", a.error);
        fputs("try batonrun --help\n", stderr);
        return 2;
    }
    if (a.help) {
        arguments_help();
        return 0;
    }
    return launch(&a);
}
