/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log: builds the whole line apart and hands it over at once, so that the lines of many threads and ranks that share a
 * terminal or a pipe do not mix. errno stays as it was. The lock of the limits is held while the table is read, never
 * while a line is written. No thread waits for the standard error: what it does not take at once is counted. A callback
 * that blocks holds up the thread that has a line for it. That may be the engine's own, inside a call or a poll that
 * makes a turn; the reactor then waits for that turn too.
 *
 * Texts may carry names that came from a peer, so control characters, which could break or forge a line, become blanks.
 */
#include "observe/log.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/stderr_line.h"

#define LINE_MAX_BYTES 1024 /* newline included; below PIPE_BUF, up to which a write to a pipe is atomic */
#define CAUSES 64           /* more than are needed; any beyond share the last one */
#define COUNT_BYTES 48      /* for the words about lines left out */

struct cause {
    const void *name;    /* NULL: free */
    uint64_t written_ns; /* when its last line was written */
    uint32_t more;       /* lines left out since */
    enum log_level level;
    char last[LINE_MAX_BYTES]; /* the last of these */
};

struct log_limits {
    _Atomic uint32_t unwritten; /* lines that the standard error did not take, since the last one that it took */
    pthread_mutex_t lock;
    struct cause causes[CAUSES];
};

struct log_limits *log_limits_create(void)
{
    struct log_limits *limits = calloc(1, sizeof *limits);
    if (limits != NULL)
        pthread_mutex_init(&limits->lock, NULL);
    return limits;
}

void log_limits_destroy(struct log_limits *limits)
{
    if (limits == NULL)
        return;
    pthread_mutex_destroy(&limits->lock);
    free(limits);
}

/* ---- a line ------------------------------------------------------------------------------------------------------ */

static const char *level_name(enum log_level level)
{
    switch (level) {
    case LOG_ERROR:
        return "error";
    case LOG_WARN:
        return "warning";
    case LOG_INFO:
        return "info";
    case LOG_DEBUG:
        return "debug";
    case LOG_NONE:
        break;
    }
    return "log";
}

static int print_head(char *line, size_t size, const struct logger *l, enum log_level level)
{
    if (l->rank < 0)
        return snprintf(line, size, "baton[?] %s: ", level_name(level));
    return snprintf(line, size, "baton[%d] %s: ", l->rank, level_name(level));
}

static void blank_control(char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7f)
            text[i] = ' ';
    }
}

/* What the standard error does not take is counted, and told once it takes lines again. relaxed: a number alone. */
static void write_line(const struct logger *l, const char *line, size_t length)
{
    const bool is_written = stderr_line(line, length);
    char more[128];
    if (l->limits == NULL)
        return;
    if (!is_written) {
        atomic_fetch_add_explicit(&l->limits->unwritten, 1, memory_order_relaxed);
        return;
    }
    const uint32_t unwritten = atomic_exchange_explicit(&l->limits->unwritten, 0, memory_order_relaxed);
    if (unwritten == 0)
        return;
    const int head = print_head(more, sizeof more, l, LOG_WARN);
    const int text = snprintf(more + head, sizeof more - (size_t)head,
                              "%" PRIu32 " lines before this one were lost: the standard error took none\n", unwritten);
    stderr_line(more, (size_t)head + (size_t)text);
}

/* How many lines were left out, and in what time. */
static void print_count(char text[COUNT_BYTES], uint32_t more, uint64_t over_ns)
{
    text[0] = '\0';
    if (more > 0 && over_ns < 2 * CLOCK_NS_PER_S)
        snprintf(text, COUNT_BYTES, " (%" PRIu32 " more in the last second)", more);
    else if (more > 0)
        snprintf(text, COUNT_BYTES, " (%" PRIu32 " more in the last %" PRIu64 " s)", more, over_ns / CLOCK_NS_PER_S);
}

/* Formats into text[size]; a text that is cut ends in dots. */
static void print_text(char *text, size_t size, const char *format, va_list args)
{
    const int length = vsnprintf(text, size, format, args);
    if (length < 0)
        text[0] = '\0';
    else if ((size_t)length >= size)
        memcpy(text + size - 4, "...", 4);
    blank_control(text, strlen(text));
}

/* relaxed: the life is a number that orders nothing. */
static baton_log_source_t source_of(const struct logger *l)
{
    baton_log_source_t source = {.size = sizeof source,
                                 .life = atomic_load_explicit(&l->life, memory_order_relaxed),
                                 .rank = l->index,
                                 .world_rank = l->rank};
    memcpy(source.engine, l->engine, sizeof source.engine);
    return source;
}

/* The head, the text, and `count`, for which there is always room. */
static void hand_over(const struct logger *l, enum log_level level, const char *count, const char *format, va_list args)
{
    char line[LINE_MAX_BYTES]; /* the newline takes the place of the last NUL */
    const size_t head = (size_t)print_head(line, sizeof line, l, level), tail = strlen(count);
    print_text(line + head, sizeof line - head - tail, format, args);
    size_t length = strlen(line);
    memcpy(line + length, count, tail + 1);
    length += tail;
    if (l->sink != NULL) {
        const baton_log_source_t source = source_of(l);
        l->sink(l->sink_user, (baton_log_level_t)level, &source, line + head);
        return;
    }
    line[length++] = '\n';
    write_line(l, line, length);
}

static void hand_over_text(const struct logger *l, enum log_level level, const char *count, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    hand_over(l, level, count, format, args);
    va_end(args);
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static struct cause *cause_of(struct log_limits *limits, const void *name)
{
    unsigned i = 0;
    while (i < CAUSES - 1 && limits->causes[i].name != NULL && limits->causes[i].name != name)
        i++;
    limits->causes[i].name = name;
    return &limits->causes[i];
}

/* True: write the line, and `count` behind it. False: the line was counted instead. */
static bool may_write(const struct logger *l, const void *name, enum log_level level, char count[COUNT_BYTES],
                      const char *format, va_list args)
{
    count[0] = '\0';
    if (l->limits == NULL || name == NULL || level >= LOG_DEBUG)
        return true;
    if (pthread_mutex_trylock(&l->limits->lock) != 0) /* its holder may be without a CPU: nobody waits for it */
        return true;
    const uint64_t now = clock_now_ns();
    struct cause *c = cause_of(l->limits, name);
    bool may = c->written_ns == 0 || now - c->written_ns >= CLOCK_NS_PER_S;
    if (may) {
        print_count(count, c->more, now - c->written_ns);
        c->written_ns = now;
        c->more = 0;
    } else {
        c->more++;
        c->level = level;
        print_text(c->last, sizeof c->last, format, args);
    }
    pthread_mutex_unlock(&l->limits->lock);
    return may;
}

static void write_entry(const struct logger *l, const void *cause, enum log_level level, const char *format,
                        va_list args)
{
    if (level == LOG_NONE || level > l->level)
        return;
    const int saved = errno;
    char count[COUNT_BYTES];
    va_list again;
    va_copy(again, args);
    if (may_write(l, cause, level, count, format, args))
        hand_over(l, level, count, format, again);
    va_end(again);
    errno = saved;
}

void log_line(const struct logger *l, enum log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_entry(l, format, level, format, args);
    va_end(args);
}

void log_line_of(const struct logger *l, const void *cause, enum log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_entry(l, cause, level, format, args);
    va_end(args);
}

void log_each(const struct logger *l, enum log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_entry(l, NULL, level, format, args);
    va_end(args);
}

void log_settle(const struct logger *l, bool all)
{
    for (unsigned i = 0; l->limits != NULL && i < CAUSES; i++) {
        struct cause *c = &l->limits->causes[i], owed = {0};
        char count[COUNT_BYTES] = "";
        if (pthread_mutex_trylock(&l->limits->lock) != 0) /* another thread writes a line: the next look settles */
            return;
        const uint64_t now = clock_now_ns();
        if (c->more > 0 && (all || now - c->written_ns >= CLOCK_NS_PER_S)) {
            owed = *c;
            if (c->more > 1)
                print_count(count, c->more - 1, now - c->written_ns);
            c->written_ns = now;
            c->more = 0;
        }
        pthread_mutex_unlock(&l->limits->lock);
        if (owed.more > 0)
            hand_over_text(l, owed.level, count, "%s", owed.last);
    }
}
