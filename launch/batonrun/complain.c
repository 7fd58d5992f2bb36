/* SPDX-License-Identifier: BSD-3-Clause */
/* complain: see complain.h. */
#include "batonrun/complain.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "batonrun/child.h"
#include "batonrun/descriptor.h"

#define ROOM_MS 2000 /* how long to wait for the reader of a full pipe */

int complain(int status, const char *format, ...)
{
    va_list args;
    sigset_t before;
    static bool gave_up; /* waiting once is enough for all that is to be told */
    gave_up = !descriptor_await(STDERR_FILENO, POLLOUT, gave_up ? 0 : ROOM_MS);
    if (gave_up)
        return status;
    child_hold_pipe(&before); /* what is told is of use to a reader, and needed by none */
    fputs("batonrun: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    child_release_pipe(&before);
    return status;
}
