/* SPDX-License-Identifier: BSD-3-Clause */
/* relay: see relay.h. */
#include "batonrun/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#define PAUSE_MS 100 /* after a pause this long, what might be the beginning of a report is passed on */
#define LEFT_MS 1000 /* to read what is left in the pipe, where another process keeps it open */

static void pass_on(void *to, const char *bytes, size_t count)
{
    (void)to;
    while (count > 0) {
        ssize_t n = write(STDERR_FILENO, bytes, count);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* nobody reads it */
        bytes += n;
        count -= (size_t)n;
    }
}

static enum report_kind least_reported(const struct report_stream *s)
{
    enum report_kind least = REPORT_ENDED;
    for (uint32_t i = 0; i < s->ranks; i++)
        if (s->reports[i].kind < least)
            least = s->reports[i].kind;
    return least;
}

/* Reads once, if something comes within the time. False: nothing came, or the stream has ended. */
static bool read_some(struct relay *r, int timeout_ms)
{
    char bytes[16384];
    struct pollfd p = {.fd = r->ends[0], .events = POLLIN};
    if (poll(&p, 1, timeout_ms) != 1)
        return false;
    ssize_t n = read(r->ends[0], bytes, sizeof bytes);
    if (n <= 0)
        return n < 0 && errno == EINTR;
    report_feed(&r->stream, bytes, (size_t)n, pass_on, NULL);
    return true;
}

static void *relay_main(void *arg)
{
    struct relay *r = arg;
    for (;;) {
        bool came = read_some(r, r->stream.length > 0 ? PAUSE_MS : -1);
        if (!came && r->stream.length > 0)
            report_flush(&r->stream, pass_on, NULL);
        else if (!came)
            return NULL;
        int least = (int)least_reported(&r->stream);
        bool failed = report_culprit(r->stream.reports, r->stream.ranks) >= 0;
        /* release: orders the reports before these, against the acquire of the thread that the signal wakes. */
        bool was_failed = atomic_exchange_explicit(&r->failed, failed, memory_order_release);
        if (atomic_exchange_explicit(&r->least, least, memory_order_release) != least || failed != was_failed)
            kill(getpid(), SIGCHLD);
    }
}

int relay_open(struct relay *r, const char *tag, struct report *reports, uint32_t ranks)
{
    *r = (struct relay){.stream = {.tag = tag, .reports = reports, .ranks = ranks}};
    return pipe2(r->ends, O_CLOEXEC) == 0 ? 0 : errno;
}

int relay_start(struct relay *r)
{
    close(r->ends[1]);
    r->ends[1] = -1;
    return pthread_create(&r->thread, NULL, relay_main, r);
}

void relay_finish(struct relay *r)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LEFT_MS / 1000;
    if (pthread_timedjoin_np(r->thread, NULL, &until) != 0) { /* another process keeps the pipe open */
        pthread_cancel(r->thread);
        pthread_join(r->thread, NULL);
    }
    report_flush(&r->stream, pass_on, NULL);
    close(r->ends[0]);
}
