/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log: lines with rank and level, on standard error or to the engine's own logger. Each line is one write. Any thread.
 */
#ifndef BATON_OBSERVE_LOG_H
#define BATON_OBSERVE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
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
struct timeline;

/** Each context has its own, and all its parts see it. Zero it, then set the fields that are needed. */
struct logger {
    enum log_level level;
    int rank;              /* of the world; -1 until known */
    uint32_t index;        /* in the engine */
    _Atomic uint64_t life; /* of the engine; 0 until known, which may be while other threads log */
    char engine[BATON_ENGINE_NAME_MAX];
    baton_log_fn sink;         /* NULL: standard error */
    void *sink_user;           /* handed to the sink */
    struct log_limits *limits; /* NULL: every line is written */
    struct timeline *timeline; /* NULL: transfers leave no timeline (timeline.h) */
};

/** NULL: no memory. */
struct log_limits *log_limits_create(void);
void log_limits_destroy(struct log_limits *limits);

/**
 * With limits, at most one line a second is written of each cause. A cause is a place in the code, known by its format.
 * The next line of that cause says how many were left out: "… (37 more in the last second)". Lines of level LOG_DEBUG
 * have no limit. A line that the standard error does not take at once is lost, and counted in the next one that it
 * takes.
 */
void log_line(const struct logger *l, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** The same; the caller names the cause, by the address of a static text. */
void log_line_of(const struct logger *l, const void *cause, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/** A line that no limit leaves out. For what is bounded anyway, such as one line for each lost rank. */
void log_each(const struct logger *l, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/**
 * Writes the last line that was left out of a cause, and how many were, for causes that may have no later line to tell
 * it: those whose last line was written more than a second ago, or with `all` every cause. Call it now and then, and at
 * the end.
 */
void log_settle(const struct logger *l, bool all);

#endif
