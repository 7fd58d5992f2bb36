/* SPDX-License-Identifier: BSD-3-Clause */
/* program: a program of this host: whether it can be run, what it prints, and what it says of its version. */
#ifndef BATON_LAUNCH_PROGRAM_H
#define BATON_LAUNCH_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "batonrun/child.h"
#include "batonrun/lines.h"

/**
 * Why a program cannot be run, which is looked for in PATH as execvp does, or is a path if `name` has a slash: ENOENT:
 * there is none, EISDIR: it is a directory, EACCES: it may not be executed, or what else stat says. 0: it can be run.
 */
int program_obstacle(const char *name);

/** A program to hear, and how long that may take. */
struct program_way {
    char *const *argv, *const *envp;  /* envp: NULL: this process's own */
    bool hears_output;                /* standard output too, and not standard error alone */
    int last_signal;                  /* it gets this when this process dies */
    uint64_t patience_ns;             /* from the start to TERM */
    uint64_t grace_ns;                /* from TERM to KILL */
    lines_take_fn take;               /* gets each line with `arg` */
    bool (*is_done)(const void *arg); /* it has said all that is wanted, and gets TERM a second later; NULL: never */
    void *arg;
};

/** How it ended. */
struct program_end {
    int error;    /* an errno: it could not be started */
    int status;   /* as a shell gives it */
    bool is_late; /* it had to be ended */
    bool is_left; /* not even a KILL has ended all of it */
};

/**
 * Runs a program and hears what it prints; its standard input is empty. Returns when the program and all that it
 * started have closed their ends, when it has said all that is wanted, when the time is up, or when a signal asks this
 * process to end, as USR1 and USR2 do here. All of the program has ended then, unless is_left. Call child_hold before
 * it and child_release behind it, in the main thread.
 */
struct program_end program_hear(const struct program_way *way, struct child *program);

/**
 * What `name --version` prints, cut to the room that there is. The program is ended after five seconds. False: it
 * cannot be run, or prints nothing. A signal that asks this process to end ends it, after the program.
 */
bool program_version(const char *name, char *text, size_t room);

#endif
