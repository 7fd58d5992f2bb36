/* SPDX-License-Identifier: BSD-3-Clause */
/* output: see output.h. */
#include "option/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int output_finish(const char *program, int status, int failed)
{
    const bool had_failed = ferror(stdout) != 0;
    if ((fflush(stdout) == 0 && !had_failed) || status != 0)
        return status;
    fprintf(stderr, "%s: the output could not be written\n", program);
    return failed;
}

int output_asked(const char *program, void (*help)(void), const char *version, int failed)
{
    if (help != NULL)
        help();
    else
        printf("%s %s\n", program, version);
    return output_finish(program, 0, failed);
}

int output_check_json(const char *path, struct why *why)
{
    FILE *file = fopen(path, "ae");
    if (file == NULL || fclose(file) != 0)
        return why_set(why, "--json %s: %s", path, strerror(errno));
    return 0;
}

bool output_has_terminal(void)
{
    return isatty(STDERR_FILENO) || getenv("BATON_TERMINAL") != NULL;
}
