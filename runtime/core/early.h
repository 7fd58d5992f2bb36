/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * early: limits how many words of consumers are kept that came too early: their offer has not come (waiter.c), or it is
 * not known yet which ranks of their engine read from here (survey.c). Words of wants that live are kept up to the
 * tunable `waiting`, and words which say that a want has ended up to `tombstones`. One rank may have a quarter of each.
 * The two kinds are counted apart, so that neither takes the places of the other.
 */
#ifndef BATON_CORE_EARLY_H
#define BATON_CORE_EARLY_H

#include <stdbool.h>
#include <stdint.h>

struct core;

/** 0 or BATON_ENOMEM. */
int early_create(struct core *core);
void early_destroy(struct core *core);

/** The kinds of words: that a want lives, or that it has ended. */
enum early_kind { EARLY_LIVE, EARLY_ENDED, EARLY_KINDS };

/** Whether one more word of that rank may be kept. No rank may take the places of all others. */
bool early_may_keep(const struct core *core, uint32_t rank, enum early_kind kind);
/** One is kept, or no longer. */
void early_keep(struct core *core, uint32_t rank, enum early_kind kind);
void early_drop(struct core *core, uint32_t rank, enum early_kind kind);

#endif
