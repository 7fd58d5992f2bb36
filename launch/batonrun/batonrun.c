/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * batonrun: starts a world of prefill and decode engines under MPI's launcher (launcher.h). It makes no MPI call.
 *
 * The launcher starts each rank through a shim, which is this program again (see rank.h). batonrun's exit status comes
 * from the shims' reports. What it started on this host ends with it.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "baton.h"
#include "batonrun/arguments.h"
#include "batonrun/bind.h"
#include "batonrun/check.h"
#include "batonrun/child.h"
#include "batonrun/collector.h"
#include "batonrun/command.h"
#include "batonrun/complain.h"
#include "batonrun/crowd.h"
#include "batonrun/hosts.h"
#include "batonrun/launcher.h"
#include "batonrun/launcher_run.h"
#include "batonrun/placement.h"
#include "batonrun/probe.h"
#include "batonrun/program.h"
#include "batonrun/rank.h"
#include "batonrun/report.h"
#include "batonrun/settings_page.h"
#include "batonrun/survive.h"
#include "batonrun/timelines.h"
#include "option/output.h"

#define STATUS_NO_PROGRAM 126
#define STATUS_NOT_FOUND 127

extern char **environ;

/* ---- the environment of the ranks -------------------------------------------------------------------------------- */

/*
 * What batonrun tells the shims, as variables of *c. The shims set what MPI and UCX need on each node (profile.h).
 * 0; -1: no memory. `p`: NULL where nothing is placed.
 */
static int set_environment(const struct arguments *a, const struct placement *p, struct command *c)
{
    char layout[128];
    if (a->survive)
        command_set(c, RANK_SURVIVE, "1");
    if (isatty(STDERR_FILENO)) /* the ranks themselves see a pipe */
        command_preset(c, "BATON_TERMINAL", "1");
    snprintf(layout, sizeof layout, "%ux%ux%u %ux%ux%u", a->layout.prefill.engines, a->layout.prefill.tp,
             a->layout.prefill.pp, a->layout.decode.engines, a->layout.decode.tp, a->layout.decode.pp);
    command_set(c, RANK_LAYOUT, layout);
    if (p == NULL || !placement_has_bindings(p))
        return 0;
    char *places = placement_bindings(p);
    if (places == NULL)
        return -1;
    command_set(c, RANK_PLACES, places);
    free(places);
    return 0;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/*
 * What a run is made of. The launcher is looked for when it is first needed: a placement on described hosts can be
 * explained without one.
 */
struct session {
    const struct arguments *arguments;
    char self[PATH_MAX]; /* this program's file */
    bool has_launcher;
    struct launcher launcher;
    struct command command;     /* the launcher's: its variables, then its words */
    int status;                 /* to exit with, where there is no launcher */
    char tag[REPORT_TAG_BYTES]; /* of the ranks' reports */
};

/* The hosts are those of a heterogeneous Slurm job. */
static bool is_in_components(const struct arguments *a)
{
    return a->placement.hosts == NULL && a->placement.hostfile == NULL && getenv("SLURM_JOB_ID") != NULL &&
           getenv("SLURM_HET_SIZE") != NULL;
}

/* 0, or the status to exit with and *why. */
static int find_launcher(struct session *s, struct why *why)
{
    const struct arguments *a = s->arguments;
    struct launcher_wish wish = {.kind = a->launcher,
                                 .program = a->mpirun,
                                 .library = BATON_MPI,
                                 .in_slurm_job = getenv("SLURM_JOB_ID") != NULL,
                                 .spans_components = a->mpirun == NULL && is_in_components(a),
                                 .dry = a->dry_run};
    int status = s->has_launcher ? 0 : launcher_find(&s->launcher, &wish, why);
    if (s->has_launcher || status != 0)
        return status;
    if (why->text[0] != '\0')
        complain(0, "%s", why->text);
    s->has_launcher = true;
    launcher_presets(&s->launcher, &s->command);
    command_use_variables(&s->command);
    return 0;
}

/* The names of Baton's and UCX's variables that are set here, and the user's -x, in a list that ends with NULL. */
static const char **list_exports(const struct arguments *a, unsigned *num)
{
    struct command names = {0};
    for (char **e = environ; *e != NULL; e++)
        if (strncmp(*e, "BATON_", 6) == 0 || strncmp(*e, "UCX_", 4) == 0)
            command_add(&names, "%.*s", (int)strcspn(*e, "="), *e);
    for (unsigned i = 0; i < a->num_exports; i++)
        command_add(&names, "%s", a->exports[i]);
    *num = (unsigned)names.num_words;
    return (const char **)names.argv;
}

/* Both sides' programs, as rank.h has it; one that both have stands there once. */
static void add_programs(struct command *c, const struct arguments *a)
{
    unsigned num = 0;
    while (a->program[JOB_PREFILL][num] != NULL)
        num++;
    command_add(c, "%u", num);
    for (unsigned side = 0; side < (a->program[0] == a->program[1] ? 1 : JOB_SIDES); side++)
        for (char **word = a->program[side]; *word != NULL; word++)
            command_add(c, "%c%s", RANK_MARK, *word);
}

/* `hosts`: of each rank; NULL: the launcher chooses them. */
static struct launch describe_launch(const struct session *s, const struct placement *p,
                                     const struct launch_host *hosts, struct command *shim)
{
    const struct arguments *a = s->arguments;
    uint32_t ranks = arguments_ranks(a);
    struct launch l = {.ranks = ranks,
                       .hosts = hosts,
                       .survive = a->survive,
                       .crowded = p != NULL ? p->crowded : ranks > bind_count(NULL),
                       .words = a->launcher_words};
    l.exports = list_exports(a, &l.num_exports);
    command_add(shim, "%s", s->self);
    command_add(shim, "%s", RANK_OPTION);
    add_programs(shim, a);
    l.shim = shim->argv;
    return l;
}

/* ---- --trace ----------------------------------------------------------------------------------------------------- */

#ifdef LAUNCH_JSON

/* 0, or the status to exit with. */
static int set_timelines(const struct arguments *a, struct command *c)
{
    char pattern[TIMELINES_PATH_BYTES];
    struct why why;
    if (a->trace == NULL)
        return 0;
    int error = timelines_pattern(a->trace, pattern);
    if (error != 0)
        return complain(1, "the timeline %s cannot be made: %s", a->trace, strerror(error));
    if (!a->dry_run && timelines_begin(a->trace, arguments_ranks(a), &why) != 0)
        return complain(1, "%s", why.text);
    command_set(c, TIMELINES_VARIABLE, pattern);
    return 0;
}

static const char *ranks_name(uint32_t num)
{
    return num == 1 ? "rank" : "ranks";
}

/* Makes one file of the ranks', and tells what it lacks. Returns the status to exit with, which was `status` before. */
static int end_timelines(const struct arguments *a, int status)
{
    if (a->trace == NULL)
        return status;
    const struct timelines_result r = timelines_end(a->trace, arguments_ranks(a));
    if (r.error != 0)
        return complain(status != 0 ? status : 1,
                        "the timeline %s cannot be written: %s; %s.0 and so on are still there, where ranks wrote them",
                        a->trace, strerror(r.error), a->trace);
    if (r.missing > 0)
        complain(0,
                 "%u %s have no timeline in the folder of %s, rank %u first: they never opened a context, or do not "
                 "share that folder with this host",
                 r.missing, ranks_name(r.missing), a->trace, r.first_missing);
    if (r.unfinished > 0)
        complain(0, "the timeline of %u %s ends early, rank %u first: the context was not closed", r.unfinished,
                 ranks_name(r.unfinished), r.first_unfinished);
    if (r.bad_lines > 0)
        complain(0,
                 "%" PRIu64 " lines are not in %s, since they are no trace events: the ranks' files that have them "
                 "are still there",
                 r.bad_lines, a->trace);
    if (r.unsure > 0)
        complain(0,
                 "in %s, the times of %u of %u hosts stand beside the others' as their calendar clocks do, since no "
                 "messages compare them",
                 a->trace, r.unsure, r.machines);
    if (r.machines > r.unsure + 1)
        complain(0, "in %s, the times of different hosts stand beside each other within %.1f us", a->trace,
                 (double)r.within_ns / 1000);
    return status;
}

#else

static int set_timelines(const struct arguments *a, struct command *c)
{
    (void)a, (void)c;
    return 0;
}

static int end_timelines(const struct arguments *a, int status)
{
    (void)a;
    return status;
}

#endif

/* ---- where ranks go ---------------------------------------------------------------------------------------------- */

/* The user has told mpirun itself where its hosts are: then it chooses them, and ranks are not bound. */
static bool launcher_has_hosts(const struct arguments *a)
{
    static const char *const variables[] = {"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"};
    for (unsigned i = 0; i < sizeof variables / sizeof variables[0]; i++)
        if (getenv(variables[i]) != NULL)
            return a->placement.hosts == NULL && a->placement.hostfile == NULL;
    return false;
}

/* The hosts of all ranks; free the list. NULL, and *ok, where none are named. */
static struct launch_host *list_hosts(const struct placement *p, bool *ok)
{
    *ok = true;
    if (p == NULL || !placement_has_hosts(p))
        return NULL;
    struct launch_host *hosts = calloc((size_t)p->job.num_ranks + 1, sizeof *hosts);
    *ok = hosts != NULL;
    for (uint32_t r = 0; hosts != NULL && r < p->job.num_ranks; r++)
        hosts[r] = (struct launch_host){placement_host(p, r), placement_component(p, r)};
    return hosts;
}

/* The file of the ranks' hosts has this text, or there is none. */
static int run_launch(struct session *s, const struct launch *what, const char *host_text)
{
    struct child launcher;
    char path[HOSTS_PATH_BYTES];
    child_hold(&launcher); /* from here on no signal ends this process before the file is gone */
    if (host_text != NULL && hosts_make_file(host_text, path) != 0)
        return complain(1, "the file of the ranks' hosts cannot be written: %s", strerror(errno));
    launcher_command(&s->launcher, what, host_text != NULL ? path : NULL, &s->command);
    command_use_variables(&s->command);
    int status = launcher_run(s->arguments, s->command.argv, s->tag, what->ranks, &launcher);
    if (host_text != NULL)
        unlink(path);
    return end_timelines(s->arguments, status);
}

static int explain(const struct arguments *a, const struct placement *p)
{
    const struct settings_given given = {a->survive, a->exports, a->num_exports, BATON_MPI, BATON_MPI_PLUGINS};
    if (placement_explain(p, stdout) != 0 || settings_print(stdout, p, &given) != 0)
        return complain(1, "out of memory");
    return 0;
}

static int print_launch(struct session *s, const struct launch *what, const char *host_text)
{
    launcher_command(&s->launcher, what, host_text != NULL ? "HOSTS" : NULL, &s->command);
    command_print(&s->command, stdout);
    puts("# On each node the ranks' shims also set what MPI and UCX need there: --explain lists it.");
    if (host_text != NULL)
        printf("\nHOSTS, the file that the launcher reads:\n%s", host_text);
    return 0;
}

/* Asked before the launcher is started: it would complain once for each rank, at length. */
static int check_programs(const struct arguments *a)
{
    for (unsigned side = 0; side < JOB_SIDES; side++) {
        const char *name = a->program[side][0];
        const int obstacle = program_obstacle(name);
        if (obstacle == ENOENT)
            return complain(STATUS_NOT_FOUND, "there is no program %s", name);
        if (obstacle == EISDIR)
            return complain(STATUS_NO_PROGRAM, "%s is a directory, and no program", name);
        if (obstacle != 0)
            return complain(STATUS_NO_PROGRAM, "%s cannot be run: %s (chmod +x makes a script a program)", name,
                            strerror(obstacle));
    }
    return 0;
}

/* What places lack, and what the launcher would do to ranks that are to survive. */
static void warn(const struct session *s, const struct placement *p)
{
    char lack[PLACEMENT_LACK_BYTES];
    for (unsigned i = 0; p != NULL && i < PLACEMENT_LACKS; i++)
        if (placement_lacks(p, i, lack))
            complain(0, "%s", lack);
    bool in_slurm_job = p != NULL && p->allocation.source == ALLOCATION_SLURM;
    const char *danger = s->arguments->survive && p != NULL && !in_slurm_job
                             ? survive_danger(&s->launcher, placement_hosts(p), getenv)
                             : NULL;
    if (danger != NULL)
        complain(0, "%s", danger);
}

/* The whole path, since launchers start ranks in folders of their own. */
static void set_file(const char *variable, const char *file)
{
    char here[PATH_MAX], path[2 * PATH_MAX];
    if (file[0] == '/' || getcwd(here, sizeof here) == NULL)
        setenv(variable, file, 1);
    else if (snprintf(path, sizeof path, "%s/%s", here, file) < (int)sizeof path)
        setenv(variable, path, 1);
}

static int launch_placed(struct session *s, const struct placement *p)
{
    const struct arguments *a = s->arguments;
    struct why why;
    struct command shim = {0};
    char name[REPORT_TAG_BYTES];
    bool ok;
    if (p != NULL && a->placement.explain)
        return explain(a, p);
    if (!a->dry_run && BATON_MPI[0] == '\0')
        return complain(STATUS_NOT_FOUND,
                        "this build has no MPI (BATON_WITH_MPI=OFF): it plans (--explain, --dry-run), "
                        "and starts no ranks");
    int status = find_launcher(s, &why);
    if (status != 0)
        return complain(status, "%s", why.text);
    status = a->dry_run ? 0 : check_programs(a);
    if (status != 0)
        return status;
    warn(s, p);
    status = set_timelines(a, &s->command);
    if (status != 0)
        return status;
    struct launch_host *hosts = list_hosts(p, &ok);
    if (!ok || set_environment(a, p, &s->command) != 0)
        return complain(1, "out of memory");
    command_use_variables(&s->command);
    if (!a->dry_run) {
        report_tag(s->tag);
        setenv(RANK_REPORTS, s->tag, 1);
        report_name(s->tag, name);
        setenv(RANK_METRICS, name, 0);
        struct endpoint answers;
        if (a->metrics != NULL && !endpoint_read(a->metrics, &answers))
            set_file(RANK_METRICS_FILE, a->metrics);
    }
    struct launch what = describe_launch(s, p, hosts, &shim);
    char *host_text = launcher_host_file(&s->launcher, &what);
    return a->dry_run ? print_launch(s, &what, host_text) : run_launch(s, &what, host_text);
}

static int ask(const struct allocation *a, struct machine *machines, void *session, struct why *why)
{
    struct session *s = session;
    struct probe_way way = {&s->launcher, s->arguments->launcher_words, s->self};
    if (BATON_MPI[0] == '\0') {
        s->status = STATUS_NOT_FOUND;
        return why_set(why,
                       "this build has no MPI (BATON_WITH_MPI=OFF), so it cannot ask hosts what they are: describe "
                       "them by --topology");
    }
    s->status = find_launcher(s, why);
    if (s->status != 0)
        return -1;
    if (probe_hosts(a, &way, machines, why) == 0)
        return 0;
    const struct why reason = *why;
    if (s->arguments->placement.explain || s->arguments->dry_run)
        why_set(why, "%.340s; --topology plans without asking them", reason.text);
    return -1;
}

static int find_self(struct session *s)
{
    ssize_t n = readlink("/proc/self/exe", s->self, sizeof s->self - 1);
    return n > 0 ? 0 : complain(1, "batonrun cannot find its own file: %s", strerror(errno));
}

static int launch(const struct arguments *a)
{
    struct session s = {.arguments = a};
    struct placement p;
    struct why why;
    const struct layout *l = &a->layout;
    const struct engine_size sizes[JOB_SIDES] = {{l->prefill.engines, l->prefill.tp, l->prefill.pp},
                                                 {l->decode.engines, l->decode.tp, l->decode.pp}};
    if (find_self(&s) != 0)
        return 1;
    if (launcher_has_hosts(a)) {
        if (placement_is_wished(&a->placement))
            return complain(1, "mpirun has its hosts by a variable of its own, and places the ranks: name hosts by "
                               "--host");
        return launch_placed(&s, NULL);
    }
    bool starts = !a->dry_run && !a->placement.explain;
    int status, rc = placement_find(&p, &a->placement, sizes, ask, &s, &why);
    if (rc == 0 && a->placement.pairs != NULL)
        rc = placement_write_pairs(&p, &why);
    if (rc == 0 && dot_is_wanted(&a->placement.picture))
        rc = placement_write_picture(&p, &why);
    if (rc >= 0 && starts && !a->placement.oversubscribe &&
        crowd_check(rc == 0 ? &p : NULL, arguments_ranks(a), &why) != 0)
        rc = -1;
    if (rc >= 0)
        status = launch_placed(&s, rc == 0 ? &p : NULL);
    else
        status = complain(s.status != 0 ? s.status : 1, "%s", why.text);
    placement_fini(&p);
    return status;
}

/* ---- --check ----------------------------------------------------------------------------------------------------- */

/* Starts baton-info as if it were a prefill engine on each host. `hosts`: NULL: this machine alone. */
static int run_check(struct session *s, const struct launch_host *hosts, struct check *c)
{
    const struct listener listener = check_listener(c);
    struct command shim = {0};
    struct why why;
    if (set_environment(s->arguments, NULL, &s->command) != 0)
        return complain(1, "out of memory");
    command_use_variables(&s->command);
    struct launch what = describe_launch(s, NULL, hosts, &shim);
    what.survive = true; /* a host that fails does not silence the others */
    if (s->arguments->dry_run)
        return print_launch(s, &what, launcher_host_file(&s->launcher, &what));
    return listen_run(&listener, &s->launcher, &what, CHECK_PATIENCE_S, &why) == 0 ? check_print(c, stdout)
                                                                                   : complain(1, "%s", why.text);
}

static int check_hosts(struct session *s, const struct allocation *allocation)
{
    static char info[PATH_MAX + sizeof "/baton-info"], report[] = CHECK_REPORT_OPTION, mpirun[] = "--mpirun",
                                                       here[HOSTLIST_NAME_BYTES];
    struct arguments own = *s->arguments;
    char *program[5] = {info, report};
    struct why why;
    uint32_t num = allocation->num_hosts > 0 ? allocation->num_hosts : 1;
    own.layout = (struct layout){{num, 1, 1}, {0, 1, 1}};
    own.program[0] = own.program[1] = program;
    s->arguments = &own;
    snprintf(info, sizeof info, "%.*s/baton-info", (int)(strrchr(s->self, '/') - s->self), s->self);
    allocation_here(here);
    int status = find_launcher(s, &why);
    if (status != 0)
        return complain(status, "%s", why.text);
    if (own.mpirun != NULL && s->launcher.kind != LAUNCHER_SRUN) { /* srun starts nothing on a node by itself */
        program[2] = mpirun;
        program[3] = (char *)(uintptr_t)own.mpirun;
    }
    struct launch_host *hosts = calloc(num, sizeof *hosts);
    struct check c;
    if (hosts == NULL || check_init(&c, hosts, num) != 0)
        return complain(1, "out of memory");
    hosts[0].name = here;
    for (uint32_t i = 0; i < allocation->num_hosts; i++)
        hosts[i] = (struct launch_host){allocation->hosts[i].name, allocation->hosts[i].group};
    status = run_check(s, allocation->num_hosts > 0 ? hosts : NULL, &c);
    check_fini(&c);
    free(hosts);
    return status;
}

static int check(const struct arguments *a)
{
    struct session s = {.arguments = a};
    struct allocation allocation = {0};
    struct why why;
    if (BATON_MPI[0] == '\0')
        return complain(STATUS_NOT_FOUND, "this build has no MPI (BATON_WITH_MPI=OFF), and nothing to check");
    if (find_self(&s) != 0)
        return 1;
    if (launcher_has_hosts(a))
        return complain(1, "mpirun has its hosts by a variable of its own: name hosts by --host");
    if (placement_allocation(&allocation, &a->placement, &why) != 0)
        return complain(1, "%s", why.text);
    int status = check_hosts(&s, &allocation);
    allocation_fini(&allocation);
    return status;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

/* The hosts count only where the user named them: those of a job that runs now are not those of the next one. */
static int print_script(const struct arguments *a, int argc, char **argv)
{
    struct allocation named = {0};
    struct why why;
    bool has_hosts = a->placement.hosts != NULL || a->placement.hostfile != NULL;
    int rc = has_hosts ? placement_allocation(&named, &a->placement, &why) : 0;
    if (rc != 0)
        return complain(1, "%s", why.text);
    struct script_job job = script_job_of(a, has_hosts ? &named : NULL);
    int status = 0;
    const uint64_t room = job.nodes * (uint64_t)job.ranks_per_node;
    if (job.nodes > 0 && room < job.ranks && !a->placement.oversubscribe)
        status =
            complain(1, "the hosts take %" PRIu64 " rank%s at most, and there are %u: --oversubscribe permits more",
                     room, room == 1 ? "" : "s", job.ranks);
    else
        script_print(&job, a, argc, argv, stdout);
    allocation_fini(&named);
    return status;
}

static void warn_of_words(const struct arguments *a)
{
    const char *program, *word = arguments_stray_word(a, &program);
    if (word != NULL)
        complain(0,
                 "%s behind %s is a word of that program: options of batonrun stand before the program, and a second "
                 "program begins by \": --prefill ExT\" or \": --decode ExT\"",
                 word, program);
}

/* Ranks print through the launcher. What batonrun itself prints is whole, or it fails. */
static int answer(const struct arguments *a, int argc, char **argv)
{
    if (a->version)
        printf("batonrun %s\n", baton_version());
    else if (a->help)
        arguments_help();
    else if (a->check)
        return check(a);
    else {
        warn_of_words(a);
        return a->script != SCRIPT_NONE ? print_script(a, argc, argv) : launch(a);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct arguments a;
    child_open_standard();
    if (argc > 2 && strcmp(argv[1], RANK_OPTION) == 0)
        return rank_main(&argv[2]);
    if (argc == 2 && strcmp(argv[1], PROBE_OPTION) == 0)
        return probe_main();
    if (arguments_parse(argc, argv, &a) != 0) {
        complain(0, "%s", a.error);
        fputs("try batonrun --help\n", stderr);
        return 2;
    }
    return output_finish("batonrun", answer(&a, argc, argv), 1);
}
