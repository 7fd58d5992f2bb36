/* SPDX-License-Identifier: BSD-3-Clause */
/* program: a program of this host: whether there is one, and what it says of its version. */
#ifndef BATON_LAUNCH_PROGRAM_H
#define BATON_LAUNCH_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/** By PATH, or as a path if `name` has a slash. */
bool program_exists(const char *name);

/**
 * What `name --version` prints, cut to the room that there is. The program is ended after five seconds. False: it
 * cannot be run, or prints nothing.
 */
bool program_version(const char *name, char *text, size_t room);

#endif
