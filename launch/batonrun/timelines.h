/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timelines: one timeline of a job, made of those that its ranks wrote (BATON_TRACE), for --trace FILE. The ranks write
 * FILE.0, FILE.1 and so on, in a folder that all hosts share.
 *
 * What the files hold is not trusted: a line that is no trace event of its rank is left out and counted. Ranks that ran
 * since one boot of one machine share a clock. The clocks of other machines are compared by messages (clocks.h) or,
 * where none went both ways, by the calendar clocks of the machines, which may be off by any amount.
 */
#ifndef BATON_LAUNCH_TIMELINES_H
#define BATON_LAUNCH_TIMELINES_H

#include <stdbool.h>
#include <stdint.h>

#include "option/why.h"

#define TIMELINES_VARIABLE "BATON_TRACE"
#define TIMELINES_PATH_BYTES 4096

/** The value of TIMELINES_VARIABLE by which ranks write the files that become `file`. 0; or an errno. */
int timelines_pattern(const char *file, char pattern[TIMELINES_PATH_BYTES]);

/**
 * Makes `file`, empty and for this user alone, and removes those that ranks of an earlier job have left for it. 0; or
 * -1 with *why: a name is a link, another user's file or otherwise none to take (base/lockfile.h), or the folder takes
 * no files.
 */
int timelines_begin(const char *file, uint32_t ranks, struct why *why);

/** What became of it. */
struct timelines_result {
    uint64_t events;
    uint32_t missing, first_missing;       /* ranks whose file is not here */
    uint32_t unfinished, first_unfinished; /* ranks that did not end theirs: they were killed */
    uint64_t bad_lines;                    /* left out */
    uint32_t machines;                     /* that have clocks of their own */
    uint32_t unsure;                       /* of these: whose clock was compared by the calendar alone */
    uint64_t within_ns;                    /* the others' are right to so many nanoseconds */
    int error; /* an errno: `file` could not be written, and the ranks' files are still there */
};

/** Writes `file`, and removes the ranks' files. Those with bad lines stay. */
struct timelines_result timelines_end(const char *file, uint32_t ranks);

#endif
