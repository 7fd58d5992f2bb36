/* SPDX-License-Identifier: BSD-3-Clause */
/* output: see output.h. */
#include "option/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int output_finish(const char *program, int status, int failed)
{
    const bool had_failed = ferror(stdout) != 0;
    if ((fflush(stdout) == 0 && !had_failed) || status != 0)
        return status;
    fprintf(stderr, "%s: the output could not be written\n", program);
    return failed;
}

bool output_has_terminal(void)
{
    return isatty(STDERR_FILENO) || getenv("BATON_TERMINAL") != NULL;
}
