/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * early: places for words of consumers that came too early to be acted on: their offer has not come (waiter.c), or it
 * is not known yet which ranks of their engine read from here (survey.c). At most BATON_WAITING of all ranks, and a
 * quarter of that of one rank, are kept.
 */
#ifndef BATON_CORE_EARLY_H
#define BATON_CORE_EARLY_H

#include <stdbool.h>
#include <stdint.h>

struct core;

/** 0 or BATON_ENOMEM. */
int early_create(struct core *core);
void early_destroy(struct core *core);

/** Whether one more word of that rank may be kept. No rank may take the places of all others. */
bool early_may_keep(const struct core *core, uint32_t rank);
/** One is kept, or no longer. */
void early_keep(struct core *core, uint32_t rank);
void early_drop(struct core *core, uint32_t rank);

/** How many are kept: of all ranks, and of one. */
uint32_t early_kept(const struct core *core);
uint32_t early_kept_of(const struct core *core, uint32_t rank);

#endif
