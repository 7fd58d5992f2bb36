/* SPDX-License-Identifier: BSD-3-Clause */
/* compare: what the reports of several hosts have in common, and what differs between them. Any thread. */
#ifndef BATON_INFO_COMPARE_H
#define BATON_INFO_COMPARE_H

#include <stdint.h>
#include <stdio.h>

#include "info/info.h"

/** The report of one host. */
struct compare_host {
    const char *name;
    const struct info *info; /* NULL: it did not report, or not all */
    const char *why;         /* where there is none: may be empty */
};

/**
 * Prints hosts that did not report; the problems, each once with the hosts that have it; facts that should be the same
 * on several hosts and are not; and the kinds of machines, if there are several. Returns how many of the first three
 * there are, together: 0 means that all is well.
 */
uint32_t compare_print(FILE *out, const struct compare_host *hosts, uint32_t num);

#endif
