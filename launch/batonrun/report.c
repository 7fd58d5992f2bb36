/* SPDX-License-Identifier: BSD-3-Clause */
/* report: see report.h. Any program may print the tag: what does not parse as a report is passed on. */
#include "batonrun/report.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "batonrun/descriptor.h"
#include "batonrun/lines.h"

#define END "@\n"
#define DRAIN_MS 500 /* how long to wait until mpirun has read what the rank printed */
#define ROOM_MS 1000 /* how long to wait for room in the pipe */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void report_tag(char tag[REPORT_TAG_BYTES])
{
    uint64_t number;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
        number = now_ns() ^ (uint64_t)getpid() << 40;
    snprintf(tag, REPORT_TAG_BYTES, "@batonrun:%016" PRIx64 " ", number);
}

void report_name(const char *tag, char name[REPORT_TAG_BYTES])
{
    snprintf(name, REPORT_TAG_BYTES, "%.16s", strchr(tag, ':') + 1);
}

/* ---- the shim's side --------------------------------------------------------------------------------------------- */

static void own_host(char host[REPORT_HOST_BYTES])
{
    if (gethostname(host, REPORT_HOST_BYTES - 1) != 0 || host[0] == '\0')
        snprintf(host, REPORT_HOST_BYTES, "?");
    host[REPORT_HOST_BYTES - 1] = '\0';
    for (char *at = host; *at != '\0'; at++)
        if (*at <= ' ' || *at == '@' || *at == 0x7f)
            *at = '?';
}

int report_send(const char *tag, uint32_t rank, enum report_kind kind, int status, bool told)
{
    char text[REPORT_MAX], host[REPORT_HOST_BYTES];
    own_host(host);
    int n = snprintf(text, sizeof text, "%s%" PRIu32 " %d %d %d %" PRIu64 " %s " END, tag, rank, (int)kind, status,
                     told, now_ns(), host);
    lines_drain(STDERR_FILENO, DRAIN_MS);
    if (!descriptor_await(STDERR_FILENO, POLLOUT, ROOM_MS))
        return EAGAIN;
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);               /* mpirun may be gone */
    int error = descriptor_write(STDERR_FILENO, text, (size_t)n); /* in one piece: a pipe takes as much */
    signal(SIGPIPE, before);
    return error;
}

/* ---- batonrun's side --------------------------------------------------------------------------------------------- */

/* Parses what stands between tag and end. */
static bool take(struct report_stream *s, const char *text)
{
    struct report r = {0};
    uint32_t rank;
    int kind, told, length = 0;
    if (sscanf(text, "%" SCNu32 " %d %d %d %" SCNu64 " %64s %n", &rank, &kind, &r.status, &told, &r.ended_ns, r.host,
               &length) != 6 ||
        length == 0 || strcmp(text + length, END) != 0 || rank >= s->ranks || kind < REPORT_HERE || kind > REPORT_ENDED)
        return false;
    r.kind = (enum report_kind)kind;
    r.told = told != 0;
    if (r.kind >= s->reports[rank].kind)
        s->reports[rank] = r;
    return true;
}

/* How many bytes at the end of the text may be the beginning of the tag. */
static size_t beginning(const char *text, size_t length, const char *tag)
{
    size_t most = strlen(tag) - 1;
    for (size_t n = length < most ? length : most; n > 0; n--)
        if (memcmp(text + length - n, tag, n) == 0)
            return n;
    return 0;
}

/* Takes reports out of the held bytes and passes the others on, but for what may be the beginning of a report. */
static void digest(struct report_stream *s, void (*pass)(void *to, const char *bytes, size_t count), void *to)
{
    for (;;) {
        size_t tag_length = strlen(s->tag), before, gone;
        char *tag = memmem(s->held, s->length, s->tag, tag_length);
        before = tag != NULL ? (size_t)(tag - s->held) : s->length - beginning(s->held, s->length, s->tag);
        if (before > 0)
            pass(to, s->held, before);
        s->length -= before;
        memmove(s->held, s->held + before, s->length);
        if (tag == NULL)
            return;
        size_t reach = s->length < REPORT_MAX ? s->length : REPORT_MAX;
        char *end = memmem(s->held, reach, END, strlen(END));
        if (end == NULL && reach < REPORT_MAX)
            return; /* the rest of it has not come yet */
        char text[REPORT_MAX + 1] = "";
        gone = end != NULL ? (size_t)(end - s->held) + strlen(END) : 0;
        if (end != NULL)
            memcpy(text, s->held + tag_length, gone - tag_length);
        if (end == NULL || !take(s, text)) {
            gone = tag_length; /* somebody printed the tag */
            pass(to, s->held, gone);
        }
        s->length -= gone;
        memmove(s->held, s->held + gone, s->length);
    }
}

void report_feed(struct report_stream *s, const char *bytes, size_t count,
                 void (*pass)(void *to, const char *bytes, size_t count), void *to)
{
    while (count > 0) {
        size_t n = sizeof s->held - s->length; /* never 0: less than a report is held */
        if (n > count)
            n = count;
        memcpy(s->held + s->length, bytes, n);
        s->length += n;
        bytes += n;
        count -= n;
        digest(s, pass, to);
    }
}

void report_flush(struct report_stream *s, void (*pass)(void *to, const char *bytes, size_t count), void *to)
{
    if (s->length > 0)
        pass(to, s->held, s->length);
    s->length = 0;
}

int64_t report_culprit(const struct report *reports, uint32_t ranks)
{
    int64_t first = -1;
    for (uint32_t i = 0; i < ranks; i++) {
        const struct report *r = &reports[i];
        if (r->kind == REPORT_ENDED && r->status != 0 && !r->told &&
            (first < 0 || r->ended_ns < reports[first].ended_ns))
            first = i;
    }
    return first;
}
