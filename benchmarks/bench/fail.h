/* SPDX-License-Identifier: BSD-3-Clause */
/* fail: a benchmark that cannot go on says why and ends the whole job, so that no other rank waits for it. */
#ifndef BENCH_FAIL_H
#define BENCH_FAIL_H

#include <stddef.h>

/** Prints one line on standard error and calls MPI_Abort with status 1. Does not return. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/** If rc is an error, fails with Baton's own sentence. */
void fail_on(int rc, const char *call);

/** Zeroed memory for `count` things of a size, for free(3). Fails where there is none. */
void *room(size_t count, size_t size);

#endif
