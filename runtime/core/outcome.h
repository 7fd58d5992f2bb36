/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outcome: what the engine hears of its calls. An outcome is a call's own record, in a queue that core_take empties. Each
 * end is counted, and each failure logged, here and nowhere else.
 */
#ifndef BATON_CORE_OUTCOME_H
#define BATON_CORE_OUTCOME_H

#include "core/core.h"

/** The queue, and who else hears of a call's end: as soon as it is given up, or at its end, once. Zeroed before. */
struct outcomes {
    struct core_submit *first, *last;
    uint32_t num_quarantined; /* calls that were given up and have not ended */
    void (*ended)(struct core *core, struct core_submit *s);
};

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
