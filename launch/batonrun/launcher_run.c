/* SPDX-License-Identifier: BSD-3-Clause */
/* launcher_run: see launcher_run.h. */
#include "batonrun/launcher_run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batonrun/child.h"
#include "batonrun/rank.h"
#include "batonrun/relay.h"
#include "batonrun/report.h"

#define STATUS_TIMEOUT 124
#define SECOND_NS 1000000000u
#define GRACE_NS (10 * (uint64_t)SECOND_NS) /* from TERM to KILL, for the launcher to end its ranks */
#define LINGER_NS (3 * (uint64_t)SECOND_NS) /* from the end of the last rank to TERM, and from there to KILL */
#define ORPHAN_NS (2 * (uint64_t)SECOND_NS) /* for shims to see that the launcher is gone: they look once a second */

/* How the launcher ended, and why, where batonrun ended it. */
struct run {
    int status;
    bool timed_out;
    int signal; /* that asked batonrun to end; 0: none did */
};

/*
 * Waits until the launcher has ended. At the deadline, or where batonrun is asked to end, the launcher gets a TERM, by
 * which it ends its ranks, and a KILL if it has not ended after GRACE_NS. Once every rank has ended it has nothing left
 * to do, and gets both after LINGER_NS. So it does once a rank has failed, unless the others are to survive that: some
 * launchers end them by themselves, others do not.
 */
static void watch(const struct child *launcher, const struct arguments *a, struct relay *relay, struct run *r)
{
    uint64_t deadline = a->timeout_s > 0 ? child_now_ns() + a->timeout_s * (uint64_t)SECOND_NS : UINT64_MAX;
    uint64_t grace = GRACE_NS;
    bool told = false, done = false;
    while (!child_ended(launcher, &r->status)) {
        uint64_t now = child_now_ns(), turn = now + 60 * (uint64_t)SECOND_NS;
        int number = child_wait(launcher, deadline < turn ? deadline : turn);
        now = child_now_ns();
        bool late = now >= deadline;
        /* acquire: the reports that make up `least` come before it. */
        int least = atomic_load_explicit(&relay->least, memory_order_acquire);
        bool failed = !a->survive && atomic_load_explicit(&relay->failed, memory_order_acquire);
        /* Ranks that the launcher told to end will be killed soon. Those that batonrun told have GRACE_NS. */
        bool ends = least == REPORT_ENDED || (least == REPORT_TOLD && !told);
        if (!done && !late && (ends || failed)) {
            done = true;
            grace = ends ? LINGER_NS : GRACE_NS;
            if (deadline > now + LINGER_NS)
                deadline = now + LINGER_NS;
        }
        if (number != 0 && number != SIGCHLD && !child_is_ending(number))
            kill(launcher->pid, number);
        if (told && late) {
            kill(launcher->pid, SIGKILL);
        } else if (!told && (late || child_is_ending(number))) {
            told = true;
            r->timed_out = late && !done;
            r->signal = late ? 0 : number;
            kill(launcher->pid, SIGTERM);
            deadline = now + grace;
        }
    }
}

/* Waits until no child is left. Shims end by themselves once the launcher is gone; what else is left gets killed. */
static void clear_orphans(const struct child *launcher)
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
        child_wait(launcher, now + SECOND_NS / 10);
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

int launcher_run(const struct arguments *a, char **argv, const char *tag, uint32_t ranks)
{
    struct child launcher;
    struct relay relay;
    struct run r = {0};
    struct report *reports = calloc(ranks, sizeof *reports);
    int error = reports == NULL ? ENOMEM : relay_open(&relay, tag, reports, ranks);
    if (error != 0) {
        free(reports);
        return complain(1, "cannot listen to the ranks: %s", strerror(error));
    }
    child_adopt(); /* processes that the launcher leaves become children of this one */
    error = child_start(&launcher, argv, SIGTERM, -1, relay.ends[1]);
    if (error != 0) {
        free(reports);
        return complain(LAUNCHER_STATUS_MISSING, "cannot run %s: %s", argv[0], strerror(error));
    }
    error = relay_start(&relay);
    if (error != 0) {
        kill(launcher.pid, SIGTERM);
        clear_orphans(&launcher);
        free(reports);
        return complain(1, "cannot listen to the ranks: %s", strerror(error));
    }
    watch(&launcher, a, &relay, &r);
    clear_orphans(&launcher);
    relay_finish(&relay);
    int status = judge(a, reports, ranks, &r);
    free(reports);
    return status;
}
