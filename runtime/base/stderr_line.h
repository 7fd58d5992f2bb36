/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stderr_line: lines on the standard error, for threads that must not wait. A terminal that was stopped, a pager or a
 * reader that sleeps would hold them up for as long; a reader that has gone would end the process by SIGPIPE.
 */
#ifndef BATON_BASE_STDERR_LINE_H
#define BATON_BASE_STDERR_LINE_H

#include <stdbool.h>
#include <stddef.h>

/**
 * Writes it, if the standard error takes it at once. Never waits, except one thread at a time for the disk, where that
 * is a file; and raises no SIGPIPE. At most PIPE_BUF bytes. False: it was left out. Any thread; errno is not kept.
 */
bool stderr_line(const char *line, size_t length);

#endif
