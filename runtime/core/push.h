/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * push: what an offer writes to one of its readers.
 *
 *   CARD      the reader's card is not known yet; its contact reads it
 *   WRITING   its block table is read, the bytes move and are settled
 *   WRITTEN   the reader was told that they are in place; its DONE ends it
 *   STOPPING  given up; once nothing reads my blocks or writes into the reader's, the reader is told and it is gone
 *
 * The files of the offer own pushes and call all of this. A push calls none of them: what became of it is a result.
 */
#ifndef BATON_CORE_PUSH_H
#define BATON_CORE_PUSH_H

#include "core/mover.h"
#include "core/seat.h"
#include "core/word.h"

struct offer;

enum push_state { PUSH_CARD, PUSH_WRITING, PUSH_WRITTEN, PUSH_STOPPING };

/** What is to be written, and to whom; all of it outlives the push. */
struct push_order {
    struct offer *offer;
    struct reader *reader;
    uint64_t generation;       /* of the offer's lease */
    const struct call *mine;   /* the offer's */
    const struct reach *reach; /* what is in place by now */
};

/** How a push stands. reader is NULL: it goes on. Else the push is gone: it is quiet, and its consumer was told. */
struct push_end {
    struct reader *reader;
    int32_t error;
    bool of_former; /* its want was about a former offer of this key */
};

/** 0, BATON_EMESSAGE (that rank takes nothing from here) or BATON_ENOMEM. */
int push_create(struct core *core, const struct push_order *order, const struct word *w, struct push **out);
void push_destroy(struct core *core, struct push *push);

enum push_state push_state(const struct push *push);
uint64_t push_want(const struct push *push);
struct offer *push_offer(const struct push *push);
/** The push that waits in this place for its contact. */
struct push *push_waiting(struct queued *card);

struct push_end push_start(struct core *core, struct push *push);
/** More is in place. */
void push_ready(struct core *core, struct push *push);
/** Its reader has asked so often by now; if all is WRITTEN, it is told so again. */
void push_ask(struct core *core, struct push *push, uint32_t asks);
struct push_end push_stop(struct core *core, struct push *push, int32_t error, const char *detail);
/** The same, for a reader that waits for CLOSED. */
struct push_end push_cancel(struct core *core, struct push *push, int32_t error);
/** Its want was about a former offer of this key. */
void push_note_former(struct push *push);
/** Its reader's rank was lost. */
struct push_end push_lose(struct core *core, struct push *push);

/** Its contact is good or refused now. */
struct push_end push_on_contact(struct core *core, struct push *push);
/** News of its mover. */
struct push_end push_on_mover(struct core *core, struct push *push, const struct mover_word *word);

#endif
