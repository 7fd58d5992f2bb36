/* SPDX-License-Identifier: BSD-3-Clause */
/* launcher_run: see launcher_run.h. */
#include "batonrun/launcher_run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "batonrun/child.h"
#include "batonrun/collector.h"
#include "batonrun/complain.h"
#include "batonrun/rank.h"
#include "batonrun/relay.h"
#include "batonrun/report.h"

#define STATUS_TIMEOUT 124
#define SECOND_NS 1000000000u
#define GRACE_NS (10 * (uint64_t)SECOND_NS) /* from TERM to KILL, for the launcher to end its ranks */
#define LINGER_NS (3 * (uint64_t)SECOND_NS) /* from the end of the last rank to TERM, and from there to KILL */
#define ORPHAN_NS (2 * (uint64_t)SECOND_NS) /* for shims to see that the launcher is gone: they look once a second */
/* From a signal that the terminal sent the launcher too to TERM. mpirun takes a second signal within five seconds for
   a wish to end at once, whatever becomes of the ranks. */
#define TYPED_NS (6 * (uint64_t)SECOND_NS)

/* What batonrun does to the launcher next: first a TERM, then a KILL. */
struct watch {
    uint64_t due_ns;   /* when */
    uint64_t grace_ns; /* from TERM to KILL */
    bool told;         /* it got the TERM */
    bool done;         /* it should end by itself, since a rank has failed or all have ended */
    bool timed_out;
};

static void hasten(struct watch *w, uint64_t due_ns)
{
    if (w->due_ns > due_ns)
        w->due_ns = due_ns;
}

/*
 * Once every rank has ended the launcher has nothing left to do, and gets a TERM and a KILL after LINGER_NS each. So it
 * does once a rank has failed, unless the others are to survive that: some launchers end them by themselves, others do
 * not.
 */
static void look_at_ranks(struct watch *w, struct relay *relay, bool survive)
{
    /* acquire: the reports that make up `least` come before it. */
    int least = atomic_load_explicit(&relay->least, memory_order_acquire);
    bool failed = !survive && atomic_load_explicit(&relay->failed, memory_order_acquire);
    /* Ranks that the launcher told to end will be killed soon. Those that batonrun told have GRACE_NS. */
    bool ends = least == REPORT_ENDED || (least == REPORT_TOLD && !w->told);
    if (w->done || (!ends && !failed))
        return;
    w->done = true;
    w->grace_ns = ends ? LINGER_NS : GRACE_NS;
    hasten(w, clock_now_ns() + LINGER_NS);
}

/*
 * Waits until the launcher has ended, or is due for a KILL. At the time limit, or where batonrun is asked to end, it
 * gets a TERM, by which it ends its ranks.
 */
static void watch(struct child *launcher, const struct arguments *a, struct relay *relay, struct watch *w)
{
    while (!child_ended(launcher)) {
        uint64_t now = clock_now_ns(), turn = now + 60 * (uint64_t)SECOND_NS;
        int number = child_wait(launcher, w->due_ns < turn ? w->due_ns : turn);
        now = clock_now_ns();
        bool is_due = now >= w->due_ns;
        if (is_due && w->told)
            return;
        if (is_due)
            w->timed_out = !w->done && launcher->asked == 0;
        else
            look_at_ranks(w, relay, a->survive);
        if (!w->told && child_is_ending(number))
            hasten(w, launcher->child_has_it ? now + TYPED_NS : now);
        else if (number != 0 && number != SIGCHLD && !child_is_ending(number))
            kill(launcher->pid, number);
        if (!w->told && now >= w->due_ns) {
            w->told = true;
            w->due_ns = now + w->grace_ns;
            kill(launcher->pid, SIGTERM);
        }
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

/* The exit status: by the reports, else by what ended the run from outside, else the launcher's. */
static int judge(const struct arguments *a, const struct report *reports, uint32_t ranks, const struct child *launcher,
                 bool timed_out)
{
    bool good = true;
    for (uint32_t i = 0; i < ranks; i++)
        good = good && reports[i].kind >= REPORT_TOLD && reports[i].status == 0;
    if (!good)
        print_failures(a, reports, ranks);
    if (timed_out)
        return complain(STATUS_TIMEOUT, "the time limit of %u s passed", a->timeout_s);
    if (good)
        return 0;
    int64_t culprit = report_culprit(reports, ranks);
    if (culprit >= 0)
        return reports[culprit].status;
    if (launcher->asked != 0)
        return 128 + launcher->asked;
    return launcher->status != 0 ? launcher->status : 1;
}

/*
 * A launcher that hands the terminal's input to rank 0 is in the foreground with batonrun, or in the background with
 * it, as if it were started alone. A batonrun in the background is not stopped by a launcher that reads: that one finds
 * nothing to read. 0 or an errno.
 */
static int start(struct child *launcher, char **argv, int errors)
{
    struct child_way way = {.errors = errors, .last_signal = SIGTERM};
    pid_t foreground = tcgetpgrp(STDIN_FILENO); /* -1: it is not our terminal */
    way.is_in_our_group = foreground == getpgrp();
    if (foreground >= 0 && !way.is_in_our_group && (way.input = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
        return errno;
    int error = child_start(launcher, argv, &way);
    if (way.input > 0)
        close(way.input);
    return error;
}

static void clear(struct child *launcher)
{
    if (!launcher->has_ended)
        kill(launcher->pid, SIGKILL);
    if (!child_clear(launcher, 0, ORPHAN_NS)) /* shims end by themselves once the launcher is gone */
        complain(0, "some processes of this run are still there 5 s after a KILL signal: find them "
                    "(ps -eo pid,stat,wchan:32,args)");
}

static int run(const struct arguments *a, char **argv, const char *tag, uint32_t ranks, struct child *launcher,
               struct collector *collector)
{
    struct relay relay;
    struct watch w = {.due_ns = UINT64_MAX, .grace_ns = GRACE_NS};
    struct report *reports = calloc(ranks, sizeof *reports);
    int status, error = reports == NULL ? ENOMEM : relay_open(&relay, tag, reports, ranks);
    if (error != 0) {
        status = complain(1, "cannot listen to the ranks: %s", strerror(error));
    } else if ((error = start(launcher, argv, relay.ends[1])) != 0) {
        status = complain(LAUNCHER_STATUS_MISSING, "cannot run %s: %s", argv[0], strerror(error));
    } else if ((error = relay_start(&relay)) != 0) {
        clear(launcher);
        status = complain(1, "cannot listen to the ranks: %s", strerror(error));
    } else {
        if (a->timeout_s > 0)
            w.due_ns = clock_now_ns() + a->timeout_s * (uint64_t)SECOND_NS;
        const uint64_t limit_ns = w.due_ns;
        collector_start(collector);
        watch(launcher, a, &relay, &w);
        clear(launcher);
        relay_finish(&relay, launcher, limit_ns);
        status = judge(a, reports, ranks, launcher, w.timed_out);
    }
    free(reports);
    return status;
}

int launcher_run(const struct arguments *a, char **argv, const char *tag, uint32_t ranks, struct child *launcher)
{
    static struct collector collector; /* a thread that is stuck in a file system may use it until the end */
    const char *job = getenv(RANK_METRICS);
    if (a->metrics != NULL && !metrics_name_is_good(job))
        return complain(1, "ranks show no metrics: " RANK_METRICS "=\"%.80s\" is no name for them", job);
    int error = collector_open(&collector, a->metrics, job);
    if (error != 0)
        return complain(1, "metrics cannot be %s %s: %s", collector.answers ? "told at" : "written to", a->metrics,
                        strerror(error));
    int status = run(a, argv, tag, ranks, launcher, &collector);
    collector_close(&collector);
    return status;
}
