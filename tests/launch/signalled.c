/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * signalled: a library that is loaded before programs (LD_PRELOAD), as profilers are. In each process of the program
 * that SIGNALLED names it handles a signal 5,000 times a second, without SA_RESTART.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define EVERY_US 200

static void handle(int number)
{
    (void)number;
}

__attribute__((constructor)) static void begin(void)
{
    const struct sigaction action = {.sa_handler = handle};
    const struct itimerval often = {{0, EVERY_US}, {0, EVERY_US}};
    const char *name = getenv("SIGNALLED");
    if (name == NULL || strcmp(program_invocation_short_name, name) != 0)
        return;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}
