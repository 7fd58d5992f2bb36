/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log: one line a fact, on standard error or to the engine's own logger, with rank and level. Any thread; one write a
 * line.
 */
#ifndef BATON_OBSERVE_LOG_H
#define BATON_OBSERVE_LOG_H

#include <stdint.h>

#include "baton.h"

enum log_level {
    LOG_NONE,
    LOG_ERROR = BATON_LOG_ERROR,
    LOG_WARN = BATON_LOG_WARNING,
    LOG_INFO = BATON_LOG_INFO,
    LOG_DEBUG = BATON_LOG_DEBUG
};

struct log_limits;

/** Each context has its own. Zero it, then set what is needed. */
struct logger {
    enum log_level level;
    int rank;                  /* -1 until known */
    baton_log_fn sink;         /* NULL: standard error */
    void *sink_user;           /* handed to it */
    struct log_limits *limits; /* NULL: none */
};

/** NULL: out of memory. */
struct log_limits *log_limits_create(void);
void log_limits_destroy(struct log_limits *limits);

/**
 * With limits, at most one line a second is written of one cause, which is the place in the code that speaks: its
 * format. The next one says how many there were meanwhile: "… (37 more in the last second)". Lines of level LOG_DEBUG
 * are never left out.
 */
void log_line(const struct logger *l, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** The same for a cause of the caller's naming: the address of a static text. */
void log_line_of(const struct logger *l, const void *cause, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/** A line that is never left out: what is bounded by itself, such as one a lost rank. */
void log_each(const struct logger *l, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/**
 * Tells of lines that were left out more than a second ago, or with `all` of any, and that no later line told of: the
 * last one of each cause, with the count. Call it now and then, and at the end.
 */
void log_settle(const struct logger *l, int all);

#endif
