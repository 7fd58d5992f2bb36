/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log: builds the whole line aside and hands it to the system in one write, so that lines of many threads and ranks
 * that share a terminal or a pipe do not mix. Any thread; no lock, no allocation, errno stays as it was.
 *
 * Texts may carry names that came from a peer: what could break or forge a line is blanked out.
 */
#include "observe/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1024 /* newline included; below PIPE_BUF, up to which a write to a pipe is atomic */

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

/* Once, but for a signal that came before the first byte. What fails is dropped: a log has nowhere to complain. */
static void write_line(const char *line, size_t length)
{
    ssize_t written;
    do {
        written = write(STDERR_FILENO, line, length);
    } while (written < 0 && errno == EINTR);
}

void log_line(const struct logger *l, enum log_level level, const char *format, ...)
{
    if (level == LOG_NONE || level > l->level)
        return;
    const int saved = errno;
    char line[LINE_MAX_BYTES]; /* the newline takes the place of the last NUL */
    const size_t head = (size_t)print_head(line, sizeof line, l, level);
    va_list args;
    va_start(args, format);
    const int text = vsnprintf(line + head, sizeof line - head, format, args);
    va_end(args);
    if (text < 0)
        line[head] = '\0';
    size_t length = strlen(line);
    blank_control(line, length);
    if (text > 0 && head + (size_t)text > length)
        memcpy(line + length - 3, "...", 3);
    line[length++] = '\n';
    write_line(line, length);
    errno = saved;
}
