/* SPDX-License-Identifier: BSD-3-Clause */
/* report: prints the results, and writes them as JSON. Rank 0 only. */
#ifndef REPLAY_REPORT_H
#define REPLAY_REPORT_H

#include "replay/result.h"
#include "option/why.h"

/** The table on standard output, and the line "verified N/N requests, M blocks, 0 mismatches" as its last. */
void report_print(const struct result *r);

/** The same figures as JSON, units in the names, into the file at `path`. 0, or -1 with *why. */
int report_json(const struct result *r, bool good, const char *path, struct why *why);

/** 0 where there is no whole. */
double report_ratio(uint64_t part, uint64_t whole);

/** Payload over wall time, in 10^9 bytes a second. */
double report_gb_per_s(const struct result_phase *p);

#endif
