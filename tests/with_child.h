/* SPDX-License-Identifier: BSD-3-Clause */
/* with_child: a process that does nothing until it is ended, or until this one has ended. */
#ifndef BATON_TESTS_WITH_CHILD_H
#define BATON_TESTS_WITH_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/** Its process id; -1 if there is none. */
static inline pid_t child_start(void)
{
    const pid_t self = getpid(), child = fork();
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == self) /* else this one ended before that call */
        pause();
    _exit(0);
}

/** Whether it was there, and is gone. */
static inline bool child_end(pid_t child)
{
    return child > 0 && kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child;
}

#endif
