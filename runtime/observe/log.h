/* SPDX-License-Identifier: BSD-3-Clause */
/* log: one line a fact, on standard error, with rank and level. Any thread; one write a line. */
#ifndef BATON_OBSERVE_LOG_H
#define BATON_OBSERVE_LOG_H

enum log_level { LOG_NONE, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/** Each context has its own: no state is global. Zero it, then set both. */
struct logger {
    enum log_level level;
    int rank; /* -1 until known */
};

void log_line(const struct logger *l, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
