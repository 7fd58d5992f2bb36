/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outcome: what the engine hears of its calls. An outcome is a call's own record, in a queue that core_take empties. Each
 * end is counted, and each failure logged, here and nowhere else. Verdicts are made of these ends: core_step hands each
 * on, once, when the call is given up or, if it was not, when it ends.
 */
#ifndef BATON_CORE_OUTCOME_H
#define BATON_CORE_OUTCOME_H

#include "core/core.h"

/** Zeroed before. */
struct outcomes {
    struct core_submit *first, *last;
    struct core_submit *told; /* news: those of them that verdicts are made of */
    uint32_t num_quarantined; /* calls that were given up and have not ended */
};

/** Takes one end that is to be handed on. NULL: none. */
struct core_submit *outcome_take_news(struct core *core);

/** Ends a call: its event is filled by the caller but for type, id, key, user, blocks and total_ns. */
void outcome_end(struct core *core, struct core_submit *submit, baton_status_t status, int error);

/** Tells that a call has failed, and that its blocks are not known to be quiet. Once; outcome_end follows. */
void outcome_give_up(struct core *core, struct core_submit *submit, baton_status_t status, int error, int32_t peer,
                     const char *detail);

/** When a call that failed now is given up, unless it is quiet before: THE PROMISE of baton.h. */
uint64_t outcome_patience_ns(const struct core *core, const struct core_submit *submit, int error);

/** Fills what every event has, and queues the record. */
void outcome_emit(struct core *core, struct core_submit *submit, baton_event_type_t type, baton_status_t status,
                  int error);

#endif
