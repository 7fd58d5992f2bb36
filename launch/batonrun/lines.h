/* SPDX-License-Identifier: BSD-3-Clause */
/* lines: what one program prints and another one reads, a line at a time. One thread. */
#ifndef BATON_LAUNCH_LINES_H
#define BATON_LAUNCH_LINES_H

#include <stdbool.h>
#include <stddef.h>

#define LINES_BYTES 4096 /* a line is cut after so many, its end among them */

/** The line that has begun. Zero it first. */
struct lines {
    char line[LINES_BYTES];
    size_t length;
};

/** Gets a line without its end; it may change it. Empty lines are left out. */
typedef void (*lines_take_fn)(void *arg, char *line);

/** Reads once, and calls `take` for each line that ends. False: the other end is closed. */
bool lines_read(struct lines *l, int fd, lines_take_fn take, void *arg);

/** Takes a line whose end will not come. */
void lines_finish(struct lines *l, lines_take_fn take, void *arg);

/** Where `fd` is a pipe: waits until its reader has taken all that is in it, for so long at most. */
void lines_drain(int fd, unsigned patience_ms);

#endif
