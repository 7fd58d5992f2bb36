/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * budget: how many bytes may be in flight with a peer, so that no peer takes from another. Each path has its own.
 *
 *   A peer may hold as many bytes as are free. (This is the dynamic threshold of Choudhury and Hahne's shared buffers.)
 *   If n peers take all they may, each holds 1 / (n + 1) of the limit, and the next peer finds as much at once.
 *
 *   A peer is silent if it holds bytes and none of them came for longer than the patience with it (patience.h). It gets
 *   nothing more until some come. Up to a quarter of the limit, what silent peers hold does not count against the
 *   others. So at most five quarters of the limit are in flight.
 *
 *   How long bytes usually take is learnt from one sample at a time, as in TCP. A sample is all that is held at one
 *   moment, and ends when as much has come.
 *
 *   A peer that already holds bytes waits until it may take 1/32 of the limit. Otherwise each landing would free half
 *   as much as the one before, and operations would shrink to a few bytes each.
 *
 * A unit that is taken whole may exceed its budget.
 */
#ifndef BATON_CORE_BUDGET_H
#define BATON_CORE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/patience.h"
#include "base/settings.h"

/** What one peer holds; zeroed before. */
struct share {
    uint64_t held;
    bool silent;
    uint64_t sign_ns; /* when it last showed that it moves, or began to hold */
    struct patience patience;
    uint64_t sample_ns,
        sample; /* when the sample was taken, and bytes that are still to come of it (0: there is none) */
    struct share *prev, *next; /* in budget->talking */
};

/** All of one path; zeroed before. */
struct budget {
    uint64_t held;         /* by those that talk */
    uint64_t silent;       /* by those that do not */
    struct share *talking; /* that hold bytes */
};

static inline uint64_t budget_held(const struct budget *b)
{
    return b->held + b->silent;
}

/** Bytes that this peer may take now, of a limit on all that is held. */
uint64_t budget_left(const struct budget *b, uint64_t limit, const struct share *share);

void budget_take(struct budget *b, struct share *share, uint64_t bytes, uint64_t now);
/** They came: the peer moves. */
void budget_land(struct budget *b, struct share *share, uint64_t bytes, uint64_t now);
/** They were given up, which says nothing of the peer. */
void budget_drop(struct budget *b, struct share *share, uint64_t bytes);

/** Finds who is silent by now. When to look again; UINT64_MAX: when bytes are taken. */
uint64_t budget_look(struct budget *b, const struct settings *set, uint64_t now);

#endif
