/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * listen: runs the launcher with a program that answers on standard error, a line at a time, and hears the answers of
 * all hosts. Nothing that the launcher started on this host outlives it.
 */
#ifndef BATON_LAUNCH_LISTEN_H
#define BATON_LAUNCH_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "batonrun/launcher.h"

struct listener {
    bool (*take)(void *arg, char *line); /* false: the line is none of an answer, and is handed on */
    bool (*is_done)(const void *arg);    /* all have answered */
    void *arg;
};

/**
 * Returns once all have answered, the launcher has ended, or `patience_s` have passed. 0, or -1 with *why: the launcher
 * could not be run. A signal that asks this process to end ends it, after the launcher. The launcher reads nothing: the
 * program that runs later has the standard input.
 */
int listen_run(const struct listener *l, const struct launcher *launcher, const struct launch *what,
               uint32_t patience_s, struct why *why);

#endif
