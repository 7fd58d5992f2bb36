/* SPDX-License-Identifier: BSD-3-Clause */
/* failure: one line of the log a failure, of a fixed form that tools can read, and not more lines than a log can bear. */
#ifndef BATON_OBSERVE_FAILURE_H
#define BATON_OBSERVE_FAILURE_H

#include <stdint.h>

#include "observe/log.h"

#define FAILURE_LINES_A_SECOND 20

/** What failed and where it stood. Texts are NULL where there is nothing to say. */
struct failure {
    const char *what;   /* "want", "offer" */
    const char *reason; /* an error's name */
    const char *key, *state, *leg, *detail;
    int peer; /* world rank; -1: none */
    uint64_t age_ns;
};

/** Zero it. One thread's. */
struct failure_log {
    uint64_t since_ns; /* the second that is being counted */
    uint32_t lines;    /* logged in it */
    uint64_t unlogged; /* since the last line */
};

/**
 * Writes
 *   failure what=want reason=BATON_EPEER key="…" peer=3 leg=moving state=active age_ms=12.3 detail="…"
 * as a warning. Beyond FAILURE_LINES_A_SECOND none is written; the next line then ends in unlogged=N. Quotes and
 * backslashes in texts become '.
 */
void failure_log(struct failure_log *f, const struct logger *l, uint64_t now_ns, const struct failure *what);

#endif
