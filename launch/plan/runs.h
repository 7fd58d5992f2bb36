/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * runs: counts what one compiled plan moves for one request. It does not walk all of it: pieces of one program and pair
 * of groups are alike, and so are units (tokens that lie in one block on both sides) of one size.
 */
#ifndef PLAN_TOOL_RUNS_H
#define PLAN_TOOL_RUNS_H

#include "plan/plan.h"

/** Counts for a request whose block ids do not follow each other, so that no run goes on from one block into the
   next. */
struct runs {
    uint64_t bytes, units, runs;
    uint64_t shortest, usual; /* bytes of a run; usual: the length that most runs have, the longest such */
};

/** 0, or a BATON_E... with *why. */
int runs_count(const struct plan *plan, uint32_t held, uint32_t tokens, struct runs *out, struct plan_why *why);

#endif
