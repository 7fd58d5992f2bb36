/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * baton-top: a live view of a job, by the pages of this host's ranks in shared memory or by the file of batonrun
 * --metrics. It reads, and asks nothing of the ranks. One thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "baton.h"
#include "metrics/frame.h"
#include "metrics/openmetrics.h"
#include "option/option.h"
#include "option/output.h"

#define STATUS_NO_JOB 1
#define STATUS_USAGE 2
#define FILE_OLD_S 3

struct top {
    bool once, version, help;
    const char *file, *job;
    double interval_s;
};

static const struct option_row rows[] = {
    {"file", "FILE", "read the file of batonrun --metrics, not this host's shared memory",
     OPTION_FILE(struct top, file)},
    {"interval", "SECONDS", "pause between two looks (1)", OPTION_REAL(struct top, interval_s, 0.1, 3600)},
    {"once", NULL, "print what the ranks have done since they started, and stop", OPTION_SWITCH(struct top, once)},
    {"version", NULL, "print the version of Baton", OPTION_SWITCH(struct top, version)},
    {"help", NULL, "print this", OPTION_SWITCH(struct top, help)},
    {0},
};

static volatile sig_atomic_t asked; /* to end, by this signal */

static void on_signal(int number)
{
    asked = number;
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

static uint64_t ns_of(struct timespec ts)
{
    return (uint64_t)ts.tv_sec * CLOCK_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static uint64_t real_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return ns_of(ts);
}

/* *at_ns: of when that is; of a file, when it was written. It stays where there is nothing new. */
static void look(const struct top *t, struct pages *p, uint64_t *at_ns)
{
    struct stat status;
    if (t->file == NULL) {
        pages_look(p);
        *at_ns = clock_now_ns();
        return;
    }
    FILE *in = fopen(t->file, "re");
    if (in == NULL || fstat(fileno(in), &status) != 0)
        snprintf(p->why, sizeof p->why, "%s", strerror(errno));
    else if (openmetrics_read(in, p))
        *at_ns = ns_of(status.st_mtim);
    if (in != NULL)
        fclose(in);
    if (*at_ns == 0) /* there was no whole text yet */
        pages_forget(p);
}

/* ---- showing ----------------------------------------------------------------------------------------------------- */

#define SCREEN_BEGIN "\033[?1049h\033[?25l" /* a screen of its own, without a cursor */
#define SCREEN_END "\033[?25h\033[?1049l"
#define SCREEN_TOP "\033[H"
#define LINE_REST "\033[K"
#define SCREEN_REST "\033[J"

struct screen {
    bool is_terminal;
    unsigned rows, columns, used;
    bool said_none;
};

static void none_text(const struct top *t, const struct pages *p, char *text, size_t size)
{
    if (p->why[0] != '\0')
        snprintf(text, size, "%.256s%s%.200s", t->file != NULL ? t->file : "", t->file != NULL ? ": " : "", p->why);
    else if (t->job != NULL)
        snprintf(text, size, "no rank of a job \"%.64s\" shows metrics on this host", t->job);
    else
        snprintf(text, size, "no rank shows metrics on this host");
}

/* What others wrote, and names of files, may hold what a terminal obeys. */
static void put(void *arg, const char *line)
{
    struct screen *s = arg;
    char text[512];
    snprintf(text, sizeof text, "%s", line);
    metrics_text_clean(text);
    if (!s->is_terminal)
        puts(text);
    else if (s->used++ + 1 < s->rows) /* the last one stays empty, so that nothing scrolls */
        printf("%.*s" LINE_REST "\n", (int)s->columns, text);
}

static void begin_frame(struct screen *s)
{
    struct winsize size;
    s->used = 0;
    s->rows = 24;
    s->columns = 80;
    if (s->is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1 && size.ws_col > 0) {
        s->rows = size.ws_row;
        s->columns = size.ws_col;
    }
    if (s->is_terminal)
        fputs(SCREEN_TOP, stdout);
}

/* What to say where there is nothing to show; where nothing is redrawn, once. */
static void show_none(const struct top *t, const struct pages *p, struct screen *s)
{
    char text[512];
    none_text(t, p, text, sizeof text);
    if (!s->is_terminal && s->said_none)
        return;
    s->said_none = true;
    put(s, text);
    put(s, "waiting for one; stop by Ctrl-C");
}

/* batonrun writes the file once a second while the job runs. */
static void show_age(const struct frame *f, struct screen *s)
{
    char text[64];
    const uint64_t now = real_now_ns(), age_s = now > f->at_ns ? (now - f->at_ns) / CLOCK_NS_PER_S : 0;
    snprintf(text, sizeof text, "the file was written %" PRIu64 " s ago", age_s);
    if (age_s >= FILE_OLD_S)
        put(s, text);
}

static void show(const struct top *t, const struct pages *p, const struct frame *f, const struct frame *before,
                 const struct pages_job *j, struct screen *s)
{
    const char *name = t->file != NULL ? t->file : j->name;
    begin_frame(s);
    if (j->num == 0)
        show_none(t, p, s);
    else
        frame_print(f, before, name, j->ranks, j->num, real_now_ns(), put, s);
    if (j->num > 0 && p->why[0] != '\0')
        put(s, p->why);
    if (j->num > 0 && t->file != NULL)
        show_age(f, s);
    if (s->is_terminal)
        fputs(SCREEN_REST, stdout);
    fflush(stdout);
}

static int complain(int status, const char *what)
{
    fprintf(stderr, "baton-top: %s\n", what);
    return status;
}

static int refuse_several(const struct pages *p)
{
    struct pages_job j;
    complain(0, "there are several jobs: name one of these");
    for (uint32_t i = 0; i < p->num; i += j.num) {
        j = pages_job_at(p, i);
        fprintf(stderr, "  %s: %" PRIu32 " rank%s, the first of %s\n", j.name, j.num, j.num == 1 ? "" : "s",
                j.ranks[0]->view.body.engine);
    }
    return STATUS_USAGE;
}

static int once(const struct top *t, struct pages *p, struct frame *f)
{
    bool several = false;
    struct screen s = {0};
    uint64_t at_ns = 0;
    look(t, p, &at_ns);
    struct pages_job j = pages_choose(p, "", &several);
    if (several)
        return refuse_several(p);
    if (j.num == 0) {
        char text[512];
        none_text(t, p, text, sizeof text);
        return complain(STATUS_NO_JOB, text);
    }
    frame_sum(f, j.ranks, j.num, at_ns);
    show(t, p, f, NULL, &j, &s);
    return 0;
}

/* What is shown, from look to look. */
struct view {
    char job[METRICS_NAME_BYTES];
    struct frame *now, *before;
    unsigned frames; /* of this job: 0, 1, or 2 for more */
};

/* A file that was not written anew makes no frame, so rates are over the time between two of its states. */
static void renew(struct view *v, const struct pages_job *j, uint64_t at_ns)
{
    if (strcmp(v->job, j->name) != 0)
        v->frames = 0;
    snprintf(v->job, sizeof v->job, "%s", j->name);
    if (j->num == 0 || (v->frames > 0 && v->now->at_ns == at_ns))
        return;
    struct frame *oldest = v->before;
    v->before = v->now;
    v->now = oldest;
    v->frames += v->frames < 2;
    frame_sum(v->now, j->ranks, j->num, at_ns);
}

/* Until that moment, or until a signal asks to end. */
static void pause_until(uint64_t at_ns)
{
    const struct timespec until = {(time_t)(at_ns / CLOCK_NS_PER_S), (long)(at_ns % CLOCK_NS_PER_S)};
    while (asked == 0 && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

/* Until a signal. */
static int live(const struct top *t, struct pages *p, struct frame frames[2])
{
    struct screen s = {.is_terminal = isatty(STDOUT_FILENO)};
    struct view v = {.now = &frames[0], .before = &frames[1]};
    bool several = false, has_begun = false;
    const uint64_t pause_ns = (uint64_t)(t->interval_s * (double)CLOCK_NS_PER_S);
    uint64_t at_ns = 0;
    while (asked == 0 && !ferror(stdout)) {
        look(t, p, &at_ns);
        pages_drop_gone(p, v.job);
        struct pages_job j = pages_choose(p, v.job, &several);
        if (several) {
            if (has_begun && s.is_terminal)
                fputs(SCREEN_END, stdout);
            fflush(stdout);
            return refuse_several(p);
        }
        if (!has_begun && s.is_terminal)
            fputs(SCREEN_BEGIN, stdout);
        has_begun = true;
        renew(&v, &j, at_ns);
        show(t, p, v.now, v.frames > 1 ? v.before : NULL, &j, &s);
        pause_until(clock_now_ns() + pause_ns);
    }
    if (s.is_terminal)
        fputs(SCREEN_END, stdout);
    return 0;
}

static int run(const struct top *t)
{
    struct pages pages = {.root = METRICS_ROOT, .job = t->job, .of_anybody = geteuid() == 0};
    struct frame *frames = calloc(2, sizeof *frames);
    struct sigaction action = {.sa_handler = on_signal};
    if (frames == NULL)
        return complain(STATUS_NO_JOB, "out of memory");
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (unsigned i = 0; i < sizeof signals / sizeof signals[0] && !t->once; i++)
        sigaction(signals[i], &action, NULL);
    int status = t->once ? once(t, &pages, &frames[0]) : live(t, &pages, frames);
    pages_fini(&pages);
    free(frames);
    return status;
}

static void help(void)
{
    puts("usage: baton-top [options] [JOB]\n\n"
         "Shows a job while it runs: its engines, what they move, and who is slow or stuck. JOB is its "
         "BATON_METRICS;\n"
         "it is needed where ranks of several jobs run on this host.\n");
    option_help(rows);
}

int main(int argc, char **argv)
{
    struct top t = {.interval_s = 1};
    struct why why;
    if (option_read(rows, argc, argv, &t, &t.job, NULL, &why) != 0)
        return complain(STATUS_USAGE, why.text);
    if (t.help || t.version)
        return output_asked("baton-top", t.help ? help : NULL, baton_version(), STATUS_NO_JOB);
    if (t.file != NULL && t.job != NULL)
        return complain(STATUS_USAGE, "--file FILE has one job: name no other");
    return output_finish("baton-top", run(&t), STATUS_NO_JOB);
}
