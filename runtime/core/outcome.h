/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outcome: an event that the engine is owed, and the queue of those that are due, which core_take empties.
 *
 * Memory for each is reserved when a call is accepted, so that every call can end. An offer or a want has up to three:
 * that it is given up, its end, and its verdict. Each end is counted, and each failure logged, here and nowhere else.
 * Verdicts are made of ends: core_step hands each on, once, when the call is given up or, if it was not, when it ends.
 */
#ifndef BATON_CORE_OUTCOME_H
#define BATON_CORE_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "baton.h"
#include "core/queue.h"

struct call;
struct core;

/** Zeroed by whoever allocates it; the caller may set `place`. */
struct outcome {
    baton_event_t event;
    int32_t peer;            /* whom it failed with or at, in the directory; -1: nobody. Its event names the member */
    uint64_t submitted_ns;   /* when its call was made */
    uint32_t place;          /* for the caller's own use; a call's end and its GIVEN_UP have the same */
    const char *state, *leg; /* where the call stood when it failed, for the log; NULL: not known */
    struct call *call;       /* of an end: its call, freed with it. Of a GIVEN_UP: while it is news */
    struct queued due;       /* in outcomes->due */
    struct queued news;      /* in outcomes->news */
};

/** Zeroed before. */
struct outcomes {
    struct queue due;         /* that the engine is to take */
    struct queue news;        /* that verdicts are still to be made of */
    uint32_t num_quarantined; /* calls that were given up and have not ended */
};

/** The outcome that stands in this place of a queue of due ones; or among the news. */
static inline struct outcome *outcome_of_due(const struct queued *due)
{
    return (struct outcome *)((char *)due - offsetof(struct outcome, due));
}

static inline struct outcome *outcome_of_news(const struct queued *news)
{
    return (struct outcome *)((char *)news - offsetof(struct outcome, news));
}

/** An event has attached bytes only if it is that of a want that is done. */
static inline void outcome_drop_attached(struct outcome *outcome)
{
    outcome->event.num_attach = 0;
    memset(outcome->event.attach, 0, sizeof outcome->event.attach);
}

/** Frees one that core_take gave, and with an end its call. NULL is allowed. */
void outcome_free(struct outcome *outcome);

/* ---- the core's own ---------------------------------------------------------------------------------------------- */

/**
 * Ends a call. Its outcome says by then what the call did: bytes, waiting time, the rank that it failed at, a detail.
 */
void outcome_end(struct core *core, struct call *call, baton_status_t status, int error);

/** Ends one that could not begin. */
void outcome_fail(struct core *core, struct call *call, int error, const char *detail);
/** Ends a call whose key is in use: it never was a part of that request, and no verdict is made of it. */
void outcome_refuse(struct core *core, struct call *call, const char *detail);

/** Tells that a call has failed, and that its blocks are not known to be quiet. Once; outcome_end follows. */
void outcome_give_up(struct core *core, struct call *call, baton_status_t status, int error, int32_t peer,
                     const char *detail);

/** When a call that failed now is given up, unless it is quiet before: THE PROMISE of baton.h. */
uint64_t outcome_patience_ns(const struct core *core, const struct call *call, int error);

/** Says of which call the event will be. */
void outcome_name(struct outcome *outcome, const struct call *call);

/** Queues one that has its name. */
void outcome_emit(struct core *core, struct outcome *outcome, baton_event_type_t type, baton_status_t status,
                  int error);

/**
 * What a consumer hears of an offer that ended with `error` before it had what it wants: BATON_ECLOSED if that is the
 * error, else BATON_EGONE. Writes a sentence.
 */
int outcome_of_ended(int error, char *text, size_t size);

/** Takes one end of which a verdict is to be made: a terminal event or a GIVEN_UP. NULL: none. */
struct outcome *outcome_take_news(struct core *core);

#endif
