/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * line: facts and problems as lines of text, by which baton-info's helper programs tell it what they found, and each
 * node tells batonrun. Such lines stand among what other programs print. One thread.
 */
#ifndef BATON_INFO_LINE_H
#define BATON_INFO_LINE_H

#include <stdint.h>

#include "info/info.h"

#define LINE_BYTES 3584 /* of one at most, so that it is one write, which no other line cuts apart */

/**
 * Writes all of *i to a file, as lines of this rank (0 where there is one report only) with a line behind them that
 * counts them. Where the file is a pipe, waits after each line until the reader has taken it, since launchers forward
 * what they read at a time. 0, or -1: they could not be written.
 */
int line_write(int fd, uint32_t rank, const struct info *i);

/** What is known of a report while its lines arrive. Zero it first. */
struct line_reader {
    struct info info;
    size_t lines;
    bool is_whole; /* the last line has come, and none is missing */
};

/** The rank of a line; -1: it is another program's. */
int64_t line_rank(const char *line);

/** Takes a line that has a rank. One that is malformed is left out, so that the report does not become whole. */
void line_take(struct line_reader *r, const char *line);

#endif
