/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verdict: what the ranks of an engine hear of one request as a whole, where the engine asked for it.
 *
 *   every rank   tells the engine's first rank how its call ended (REPORT), again with growing pauses until it hears
 *                the VERDICT, or until twice BATON_VERDICT_MS
 *   first rank   keeps a round for each key and verb: by identity, who has reported. It closes when all that hold a
 *                part of the cache have, when one of them is lost, or BATON_VERDICT_MS after its first report, and
 *                every rank is told the same. Half-way it asks the missing ones where they stand, to name that too.
 *
 * A closed round is kept for a while: who reports late, or again, gets its verdict once more.
 *
 * Three files make it, each calling the next: verdict.c what happens, round.c the first rank's rounds, report.c this
 * rank's reports. It stands above the core, which calls it by hooks (struct core_hooks); it asks offers and wants how
 * they stand.
 */
#ifndef BATON_VERDICT_VERDICT_H
#define BATON_VERDICT_VERDICT_H

#include "core/core.h"

/** Hooks verdicts to a core, which frees them when it is destroyed. 0 or BATON_ENOMEM. */
int verdicts_create(struct core *core);

/** How many calls of this rank await their verdict, and how many rounds are open. */
uint32_t verdicts_awaited(const struct core *core);
uint32_t verdicts_open(const struct core *core);

#endif
