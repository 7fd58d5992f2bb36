/* SPDX-License-Identifier: BSD-3-Clause */
/* program: a program of this host: whether it can be run, and what it says of its version. */
#ifndef BATON_LAUNCH_PROGRAM_H
#define BATON_LAUNCH_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/**
 * Why a program cannot be run, which is looked for in PATH, or is a path if `name` has a slash: ENOENT: there is none,
 * EISDIR: it is a directory, EACCES: it may not be executed, or what else stat says. 0: it can be run.
 */
int program_obstacle(const char *name);
bool program_exists(const char *name);

/**
 * What `name --version` prints, cut to the room that there is. The program is ended after five seconds. False: it
 * cannot be run, or prints nothing.
 */
bool program_version(const char *name, char *text, size_t room);

#endif
