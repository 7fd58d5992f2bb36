/* SPDX-License-Identifier: BSD-3-Clause */
/* fail: see the header. */
#include "bench/fail.h"

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
    fprintf(stderr, "baton-bench: %s\n", text);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

void fail_on(int rc, const char *call)
{
    if (rc < 0)
        fail("%s: %s: %s", call, baton_errname(rc), baton_errmsg());
}
