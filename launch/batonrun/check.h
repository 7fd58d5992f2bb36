/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check: the reports that baton-info makes on the hosts of a run, for batonrun --check: gathers their lines, and tells
 * the problems of all hosts and what differs between them. batonrun starts baton-info as it starts ranks, one a host.
 */
#ifndef BATON_LAUNCH_CHECK_H
#define BATON_LAUNCH_CHECK_H

#include <stdint.h>
#include <stdio.h>

#include "batonrun/listen.h"
#include "info/line.h"

#define CHECK_REPORT_OPTION "--report" /* baton-info's argument, where it reports by lines (info/line.h) */
#define CHECK_PATIENCE_S 150           /* baton-info takes 140 s at most, where all that it starts hangs */

struct check {
    const struct launch_host *hosts;
    uint32_t num, whole; /* hosts, and those whose reports have come */
    struct line_reader *readers;
};

/** For these hosts, which must outlive it, a rank on each. 0; -1: no memory. Call check_fini in both cases. */
int check_init(struct check *c, const struct launch_host *hosts, uint32_t num);
void check_fini(struct check *c);

/** Takes the hosts' lines. */
struct listener check_listener(struct check *c);

/** Prints what the reports say together. Returns the status to exit with: 0, or 1 if there is anything to mend. */
int check_print(const struct check *c, FILE *out);

#endif
