/* SPDX-License-Identifier: BSD-3-Clause */
/* fail: see the header. */
#include "bench/fail.h"

#include <errno.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "baton.h"

void fail(const char *format, ...)
{
    va_list args;
    char text[512];
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, text);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

void fail_on(int rc, const char *call)
{
    if (rc < 0)
        fail("%s: %s: %s", call, baton_errname(rc), baton_errmsg());
}

void *room(size_t count, size_t size)
{
    void *made = calloc(count > 0 ? count : 1, size);
    if (made == NULL)
        fail("out of memory for %zu pieces of %zu bytes", count, size);
    return made;
}
