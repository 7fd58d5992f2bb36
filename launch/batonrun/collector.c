/* SPDX-License-Identifier: BSD-3-Clause */
/* collector: see collector.h. */
#include "batonrun/collector.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "batonrun/complain.h"
#include "batonrun/descriptor.h"
#include "metrics/openmetrics.h"

#define END_NS (5 * CLOCK_NS_PER_S) /* how long a thread that writes may take to end: the disk may have gone */

/* The metrics as text; NULL: there is no memory. */
static char *print(const struct collector *c, enum openmetrics_form form, size_t *size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (out == NULL)
        return NULL;
    openmetrics_print(c->pages.ranks, c->pages.num, form, out);
    bool good = ferror(out) == 0;
    if (fclose(out) != 0 || !good) {
        free(text);
        return NULL;
    }
    return text;
}

/* Beside the file, so that renaming it is one step. Not through a link that another user has put there. */
static int write_file(const struct collector *c)
{
    char path[PATH_MAX];
    size_t size = 0;
    if (snprintf(path, sizeof path, "%s.%d", c->file, (int)getpid()) >= (int)sizeof path)
        return ENAMETOOLONG;
    char *text = print(c, OPENMETRICS_FILE, &size);
    if (text == NULL)
        return ENOMEM;
    unlink(path); /* of a process of this number that was killed */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    /* Not by a stream: the end of the process would wait for one that a file system has stuck. */
    int error = fd >= 0 ? descriptor_write(fd, text, size) : errno;
    if (fd >= 0 && close(fd) != 0 && error == 0)
        error = errno;
    free(text);
    if (error == 0 && rename(path, c->file) != 0)
        error = errno;
    if (error != 0 && fd >= 0)
        unlink(path);
    return error;
}

static int collect(struct collector *c)
{
    pages_look(&c->pages);
    return c->file[0] != '\0' ? write_file(c) : 0;
}

static char *make_text(void *collector, size_t *size)
{
    struct collector *c = collector;
    pages_look(&c->pages);
    return print(c, OPENMETRICS_ANSWER, size);
}

/* What fails is told once: a disk that is full stays so for a while. */
static void complain_once(struct collector *c, int error)
{
    if (c->complained || (error == 0 && c->pages.why[0] == '\0'))
        return;
    c->complained = true;
    if (error != 0)
        complain(0, "metrics cannot be told: %s", strerror(error));
    else
        complain(0, "metrics: %s", c->pages.why);
}

static void *collector_main(void *arg)
{
    struct collector *c = arg;
    uint64_t next = clock_now_ns();
    do {
        complain_once(c, collect(c));
        next += CLOCK_NS_PER_S;
        if (next < clock_now_ns()) /* this process was stopped, or the disk is slow */
            next = clock_now_ns();
    } while (!latch_wait(&c->end, next));
    latch_open(&c->ended);
    return NULL;
}

/* The thread that writes once a second. 0 or an errno. */
static int start_writing(struct collector *c)
{
    latch_init(&c->end);
    latch_init(&c->ended);
    int error = pthread_create(&c->thread, NULL, collector_main, c);
    c->is_running = error == 0;
    return error;
}

/* False: it is stuck in a file system, and uses *c still. */
static bool stop_writing(struct collector *c)
{
    if (!c->is_running)
        return true;
    latch_open(&c->end);
    if (!latch_wait(&c->ended, clock_now_ns() + END_NS)) {
        complain(0, "metrics: %s takes nothing, and is left as it is", c->file);
        return false;
    }
    pthread_join(c->thread, NULL);
    c->is_running = false;
    return true;
}

/* The pages that no other batonrun, nor the shim of another rank, reads still. */
static void remove_unclaimed(const char *job)
{
    if (job != NULL && metrics_name_is_good(job) && !pages_are_claimed(METRICS_ROOT, job))
        pages_remove(METRICS_ROOT, job);
}

static struct collector collector_of(const char *job)
{
    return (struct collector){.job = job, .claim = -1, .pages = {.root = METRICS_ROOT, .job = job}};
}

/* ---- batonrun's -------------------------------------------------------------------------------------------------- */

int collector_open(struct collector *c, const char *file, const char *job)
{
    *c = collector_of(job);
    if (file == NULL)
        return 0;
    struct endpoint where;
    c->answers = endpoint_read(file, &where);
    if (c->answers) {
        int error = server_open(&c->server, &where);
        if (error == 0)
            c->claim = pages_claim(METRICS_ROOT, job);
        return error;
    }
    if (snprintf(c->file, sizeof c->file, "%s", file) >= (int)sizeof c->file)
        return ENAMETOOLONG;
    int error = write_file(c);
    if (error != 0)
        return error;
    c->claim = pages_claim(METRICS_ROOT, job);
    return 0;
}

void collector_start(struct collector *c)
{
    int error = 0;
    if (c->answers)
        error = server_start(&c->server, make_text, c);
    else if (c->file[0] != '\0')
        error = start_writing(c);
    if (error != 0)
        complain_once(c, error);
}

static void end(struct collector *c)
{
    complain_once(c, collect(c));
    pages_remove(METRICS_ROOT, c->job);
    pages_unclaim(METRICS_ROOT, c->job, c->claim);
    pages_fini(&c->pages);
    c->claim = -1;
}

void collector_close(struct collector *c)
{
    if (c->file[0] == '\0' && !c->answers) {
        remove_unclaimed(c->job); /* what ranks left whose shims were killed too */
        return;
    }
    if (c->answers)
        server_close(&c->server);
    if (stop_writing(c))
        end(c);
}

/* ---- a shim's ---------------------------------------------------------------------------------------------------- */

/* The host's name goes before the last dot of the file's own name. */
static void name_file(struct collector *c, const char *file)
{
    char host[HOST_NAME_MAX + 1] = "";
    const char *slash = strrchr(file, '/'), *dot = strrchr(file, '.');
    if (gethostname(host, sizeof host - 1) != 0)
        snprintf(host, sizeof host, "host");
    if (dot == NULL || (slash != NULL && dot < slash))
        dot = file + strlen(file);
    if (snprintf(c->file, sizeof c->file, "%.*s.%s%s", (int)(dot - file), file, host, dot) >= (int)sizeof c->file)
        c->file[0] = '\0';
}

void collector_join(struct collector *c, const char *file, const char *job)
{
    *c = collector_of(job);
    if (file != NULL && job != NULL && metrics_name_is_good(job))
        name_file(c, file);
}

void collector_step(struct collector *c)
{
    if (c->file[0] == '\0')
        return;
    if (c->claim < 0)
        c->claim = pages_claim(METRICS_ROOT, c->job);
    int error = c->claim >= 0 && !c->is_running ? start_writing(c) : 0;
    if (error != 0)
        complain_once(c, error);
}

void collector_leave(struct collector *c)
{
    if (!stop_writing(c))
        return;
    if (c->file[0] != '\0' && c->claim < 0)
        c->claim = pages_claim(METRICS_ROOT, c->job);
    if (c->claim >= 0)
        end(c);
    else
        remove_unclaimed(c->job);
}
