/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verdict: tells the ranks of an engine how a request has ended on all of them, if the engine asked for it.
 *
 *   every rank   tells the engine's first rank how its call ended (REPORT). It repeats that, with growing pauses, until
 *                it hears the VERDICT, for twice BATON_VERDICT_MS at most
 *   first rank   keeps a round for each key, attempt, verb and engine, which remembers who has reported. The round
 *                closes when all ranks that hold a part of the cache have reported, when one of them is lost, or
 *                BATON_VERDICT_MS after its first report. Then every rank is told the same. Half-way through that time
 *                the first rank asks the missing ones where they stand, so that the verdict can tell that too.
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

#endif
