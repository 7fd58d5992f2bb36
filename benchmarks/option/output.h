/* SPDX-License-Identifier: BSD-3-Clause */
/* output: what a program has printed has arrived, or its user learns that it has not. */
#ifndef OPTION_OUTPUT_H
#define OPTION_OUTPUT_H

#include <stdbool.h>

#include "option/why.h"

/**
 * Flushes standard output when all is printed. `status`; or `failed`, where not all could be written. Standard error
 * has that then, unless status was not 0 anyway.
 */
int output_finish(const char *program, int status, int failed);

/** The answer to --help, or with no `help` to --version. Returns 0, or `failed` as output_finish does. */
int output_asked(const char *program, void (*help)(void), const char *version, int failed);

/** Before all the work: -1 with *why where the file of --json cannot be written. What stands there stays. */
int output_check_json(const char *path, struct why *why);

/** Whether a terminal shows standard error, even behind mpirun's pipe: batonrun says so (BATON_TERMINAL). */
bool output_has_terminal(void);

#endif
