/* SPDX-License-Identifier: BSD-3-Clause */
/* fail: a benchmark that cannot go on says why and ends the whole job, rather than leave other ranks waiting. */
#ifndef BENCH_FAIL_H
#define BENCH_FAIL_H

/** One line on standard error, then MPI_Abort with status 1. No return. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/** Fails with Baton's own sentence where rc is an error. */
void fail_on(int rc, const char *call);

#endif
