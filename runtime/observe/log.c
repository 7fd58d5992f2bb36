/* SPDX-License-Identifier: BSD-3-Clause */
/* log: see log.h. */
#include "observe/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void log_line(const struct logger *l, enum log_level level, const char *format, ...)
{
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    char line[1024];
    if (level == LOG_NONE || level > l->level)
        return;
    char rank[16] = "-";
    if (l->rank >= 0)
        snprintf(rank, sizeof rank, "%d", l->rank);
    int n = snprintf(line, sizeof line, "baton[%s] %s: ", rank, names[level]);
    va_list args;
    va_start(args, format);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    va_end(args);
    if (m < 0)
        return;
    size_t room = sizeof line - (size_t)n - 2, text = (size_t)m < room ? (size_t)m : room;
    line[(size_t)n + text] = '\n';
    /* One write a line, so that lines of ranks and threads do not mix. Standard error may be closed: nothing to do. */
    ssize_t written = write(STDERR_FILENO, line, (size_t)n + text + 1);
    (void)written;
}
