/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * descriptor: waiting on descriptors, reading and writing, whatever signals come. poll(2) is never restarted after a
 * handler, and read(2) and write(2) are not after one without SA_RESTART; a write that has begun returns what it wrote.
 * Any thread.
 */
#ifndef BATON_LAUNCH_DESCRIPTOR_H
#define BATON_LAUNCH_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>

/** Waits for POLLIN or POLLOUT, or the other end's end. False: neither came in that time. Negative: for ever. */
bool descriptor_await(int fd, short event, int most_ms);

/** Reads all of it. False: it ended before that, or cannot be read. */
bool descriptor_read(int fd, void *bytes, size_t size);

/** Writes all of it. 0 or an errno. */
int descriptor_write(int fd, const void *bytes, size_t size);

#endif
