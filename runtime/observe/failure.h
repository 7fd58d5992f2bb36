/* SPDX-License-Identifier: BSD-3-Clause */
/* failure: writes each failure as one line of the log, in a fixed form that tools can read. Any thread. */
#ifndef BATON_OBSERVE_FAILURE_H
#define BATON_OBSERVE_FAILURE_H

#include <stdint.h>

#include "observe/log.h"

/** What failed, and in which state. Texts are NULL where there is nothing to say. */
struct failure {
    const char *what;   /* "want", "offer" */
    const char *reason; /* an error's name: baton_errname */
    const char *key, *state, *leg, *detail;
    const char *peer_engine; /* of whom it failed with or at; NULL or empty: nobody */
    uint32_t peer_rank;      /* its index there */
    uint64_t age_ns;
};

/**
 * Writes
 *   failure what=want reason=BATON_EPEER key="…" peer=prefill0:3 leg=moving state=active age_ms=12.3 detail="…"
 * as a warning. At most one line a second is written of each reason, and the next says how many more there were. Quotes
 * and backslashes in texts become '. Of a text of 160 bytes and more, dots stand for the middle.
 */
void failure_log(const struct logger *l, const struct failure *what);

#endif
