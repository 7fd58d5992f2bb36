/* SPDX-License-Identifier: BSD-3-Clause */
/* relay: see relay.h. */
#include "batonrun/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "batonrun/descriptor.h"

#define PAUSE_MS 100           /* after a pause this long, what might be the beginning of a report is passed on */
#define LEFT_NS CLOCK_NS_PER_S /* to hand on what is left in the pipe */

static void pass_on(void *relay, const char *bytes, size_t count)
{
    struct relay *r = relay;
    atomic_store_explicit(&r->writing, true, memory_order_relaxed); /* only how long to wait depends on it */
    descriptor_write(STDERR_FILENO, bytes, count);                  /* or nobody reads it */
    atomic_store_explicit(&r->writing, false, memory_order_relaxed);
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
    if (!descriptor_await(r->ends[0], POLLIN, timeout_ms))
        return false;
    ssize_t n = read(r->ends[0], bytes, sizeof bytes);
    if (n <= 0)
        return n < 0 && errno == EINTR;
    report_feed(&r->stream, bytes, (size_t)n, pass_on, r);
    return true;
}

static void relay_all(struct relay *r)
{
    for (;;) {
        bool came = read_some(r, r->stream.length > 0 ? PAUSE_MS : -1);
        if (!came && r->stream.length > 0)
            report_flush(&r->stream, pass_on, r);
        else if (!came)
            return;
        int least = (int)least_reported(&r->stream);
        bool failed = report_culprit(r->stream.reports, r->stream.ranks) >= 0;
        /* release: orders the reports before these, against the acquire of the thread that the signal wakes. */
        bool was_failed = atomic_exchange_explicit(&r->failed, failed, memory_order_release);
        if (atomic_exchange_explicit(&r->least, least, memory_order_release) != least || failed != was_failed)
            kill(getpid(), SIGCHLD);
    }
}

static void *relay_main(void *arg)
{
    struct relay *r = arg;
    relay_all(r);
    latch_open(&r->ended);
    return NULL;
}

int relay_open(struct relay *r, const char *tag, struct report *reports, uint32_t ranks)
{
    *r = (struct relay){.stream = {.tag = tag, .reports = reports, .ranks = ranks}};
    latch_init(&r->ended);
    return pipe2(r->ends, O_CLOEXEC) == 0 ? 0 : errno;
}

int relay_start(struct relay *r)
{
    close(r->ends[1]);
    r->ends[1] = -1;
    return pthread_create(&r->thread, NULL, relay_main, r);
}

void relay_finish(struct relay *r, struct child *launcher, uint64_t limit_ns)
{
    while (!latch_wait(&r->ended, clock_now_ns() + LEFT_NS)) {
        child_wait(launcher, 0);
        if (launcher->asked == 0 && clock_now_ns() < limit_ns &&
            atomic_load_explicit(&r->writing, memory_order_relaxed)) /* not for the reports: joining orders these */
            continue;
        pthread_cancel(r->thread);
        break;
    }
    pthread_join(r->thread, NULL);
    close(r->ends[0]);
}
