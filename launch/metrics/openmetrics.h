/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmetrics: the metrics of a job as text, in two forms. Prometheus asks a port for OpenMetrics 1.0. The collector of
 * its node exporter reads files in the older form 0.0.4 alone, and refuses all of a file that has types of the new one.
 * Pure, but for the file.
 */
#ifndef BATON_LAUNCH_METRICS_OPENMETRICS_H
#define BATON_LAUNCH_METRICS_OPENMETRICS_H

#include <stdio.h>

#include "metrics/pages.h"

#define OPENMETRICS_NS_OCTAVE_LAST 36 /* whose first bucket's top is the last bound of times: */
#define OPENMETRICS_NS_MOST histogram_top(UINT64_C(1) << OPENMETRICS_NS_OCTAVE_LAST) /* 73 s */

enum openmetrics_form { OPENMETRICS_ANSWER /* OpenMetrics 1.0 */, OPENMETRICS_FILE /* 0.0.4 */ };

/** Families in a fixed order, each with the samples of all ranks that have one. Whether it was written, ferror says. */
void openmetrics_print(struct pages_rank *const *ranks, uint32_t num, enum openmetrics_form form, FILE *out);

/**
 * Reads such a text, as far as it tells of ranks: who they are, their statistics, what they moved with whom. What it
 * does not know it skips. False, with p->why: it is no such text, or is cut off. Entries of ranks of which it does not
 * tell are dropped.
 */
bool openmetrics_read(FILE *in, struct pages *p);

/** The path's name in labels: "shm". */
const char *openmetrics_path(unsigned path);

#endif
