/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats: the counts of baton_stats, put together from all that count. Each number is read where it is counted
 * (base/count.h), so a thread that reads them asks nobody and holds up nobody.
 */
#ifndef BATON_FRONT_STATS_H
#define BATON_FRONT_STATS_H

#include "baton.h"

struct baton;

/** All statistics by now; they have all events that were polled before. Any thread. */
void stats_read(struct baton *b, baton_stats_t *out);

#endif
