/* SPDX-License-Identifier: BSD-3-Clause */
/* with_heard: a sink of the log that counts its lines and keeps the last one, in a program of one file. */
#ifndef BATON_TESTS_WITH_HEARD_H
#define BATON_TESTS_WITH_HEARD_H

#include <stdio.h>

#include "baton.h"

static struct {
    unsigned num_lines;
    char line[512]; /* the last one */
} heard;

static void hear(void *user, baton_log_level_t level, const baton_log_source_t *source, const char *line)
{
    (void)user, (void)level, (void)source;
    heard.num_lines++;
    snprintf(heard.line, sizeof heard.line, "%s", line);
}

#endif
