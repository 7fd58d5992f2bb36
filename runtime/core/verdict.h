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
 * Three files make it, each calling the next: verdict.c what happens, verdict_round.c the first rank's rounds,
 * verdict_report.c this rank's reports. core.c calls it; it asks offers and wants how they stand.
 */
#ifndef BATON_CORE_VERDICT_H
#define BATON_CORE_VERDICT_H

#include "core/outcome.h"
#include "wire/message.h"

/** 0 or BATON_ENOMEM. */
int verdicts_create(struct core *core);
void verdicts_destroy(struct core *core);

/** A call ended, or was given up. */
void verdict_report(struct core *core, struct outcome *told);
/** REPORT, VERDICT, ASK, STANDING. */
void verdict_on_message(struct core *core, uint32_t rank, const struct wire_message *m);
/** A rank was lost. */
void verdicts_lose(struct core *core, uint32_t rank);
/** No verdict is told any more. */
void verdicts_shut(struct core *core);

/** How many calls of this rank await their verdict, and how many rounds are open. */
uint32_t verdicts_awaited(const struct core *core);
uint32_t verdicts_open(const struct core *core);

#endif
