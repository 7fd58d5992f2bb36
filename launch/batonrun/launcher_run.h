/* SPDX-License-Identifier: BSD-3-Clause */
/* launcher_run: the launcher while it runs: the time limit, signals, what ranks report, and the status to exit with. */
#ifndef BATON_LAUNCH_LAUNCHER_RUN_H
#define BATON_LAUNCH_LAUNCHER_RUN_H

#include <stdint.h>

#include "batonrun/arguments.h"
#include "batonrun/child.h"

/**
 * Runs the launcher, argv, and returns the status to exit with; what failed is on standard error then. `tag`: of the
 * ranks' reports. Call it after child_hold, while this process has one thread. Nothing that it started on this host is
 * left.
 */
int launcher_run(const struct arguments *a, char **argv, const char *tag, uint32_t ranks, struct child *launcher);

#endif
