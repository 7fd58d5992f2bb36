/* SPDX-License-Identifier: BSD-3-Clause */
/* with_log: what programs that finalise MPI under Baton share: they listen to its log, and leave where a call fails. */
#ifndef BATON_TESTS_WITH_LOG_H
#define BATON_TESTS_WITH_LOG_H

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "baton.h"

static atomic_int unstopped; /* lines that say that a thread could not be stopped */

/* By any thread. */
static inline void hear(void *user, baton_log_level_t level, const baton_log_source_t *source, const char *line)
{
    (void)user, (void)level;
    fprintf(stderr, "baton[%d]: %s\n", source->world_rank, line);
    unstopped += strstr(line, "could not be stopped") != NULL;
}

static inline void need(int rc, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, baton_errname(rc), baton_errmsg());
    _exit(3);
}

#endif
