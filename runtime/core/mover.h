/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mover: the bytes between one peer's cache and mine, in either direction. Owns one transfer, and among all movers
 * whose turn it is and how many bytes are in flight with whom.
 *
 *   WAITING  all that is in place has moved, and more is to come
 *   TABLE    the peer's block table is read from its arena, under the lease that its message named. One that came in
 *            the message itself is checked alike, and not read
 *   MOVING   runs move, a slice a turn; other movers have their turns between. Tokens move as they come into place,
 *            chunk by chunk, and of the newest chunk those layers that are. One proof in the end covers all chunks,
 *            because a generation never comes back
 *   PROOF    every byte landed. Of a read: the peer's generation is read again, unless the path has done that by
 *            itself; of a write: it is settled
 *   DRAINING a write was stopped: what was written is settled, so that nothing of it can land later
 *   ENDED    its owner was told, or has stopped it
 *
 * A mover belongs to a leg (leg.c) or to a push (push.c), and nobody else may touch it. What it has to tell is news,
 * which core.c takes and hands on to the owner.
 */
#ifndef BATON_CORE_MOVER_H
#define BATON_CORE_MOVER_H

#include "core/core.h"
#include "core/link.h"
#include "core/op.h"
#include "core/tally.h"
#include "wire/message.h"

/**
 * What of an offer is in place: all layers of tokens [0, done), and the layers below layer_end of tokens [done, next).
 * In the last chunk `next` is UINT32_MAX. Once the whole offer is in place, `done` is UINT32_MAX.
 */
struct reach {
    uint32_t done, next, layer_end;
};

#define REACH_WHOLE ((struct reach){UINT32_MAX, UINT32_MAX, UINT32_MAX})

/** Tokens [held, num_tokens) of a request are to move, as far as `reach` goes. */
struct mover_job {
    struct peer_table table; /* the peer's */
    struct wire_bytes sent;  /* its bytes, if they came with its name; none: they are read */
    struct reach reach;
    uint32_t held, num_tokens;
    const struct plan_tables *mine;
    uint64_t want; /* the consumer's id of it, for the timeline */
};

/**
 * What the owner hears. MOVED: the bytes have moved, or an error says why not. QUIET: after mover_stop returned false,
 * nothing of it is under way any more.
 */
enum mover_news { MOVER_NOTHING, MOVER_MOVED, MOVER_QUIET };

struct mover_word {
    enum mover_news what;
    int error; /* MOVER_MOVED: 0, or why it cannot go on, and in words */
    const char *detail;
};

/** 0 or BATON_ENOMEM. */
int movers_create(struct core *core);
void movers_destroy(struct core *core);
/** Another member may have that rank. There is no mover with this one. */
void movers_forget(struct core *core, uint32_t rank);

/** One by that contact; `write`: to its rank. `kind`: OP_LEG or OP_PUSH, which is what `owner` is. NULL: no memory. */
struct mover *mover_create(struct core *core, enum op_kind kind, void *owner, struct contact *contact, bool write);
/** NULL is ignored. */
void mover_destroy(struct core *core, struct mover *m);
enum op_kind mover_kind(const struct mover *m);
void *mover_owner(const struct mover *m);

/**
 * Begins; there will be news once, unless it is stopped. 0, BATON_ENOMEM, or BATON_EMESSAGE: the table lies outside the
 * card, or what was sent is not that table.
 */
int mover_start(struct core *core, struct mover *m, const struct mover_job *job);
/**
 * More is in place; of a read, these are the peer's tables by now, in the same slot (NULL: as before). As mover_start.
 */
int mover_ready(struct core *core, struct mover *m, const struct reach *reach, const struct peer_table *table);
/** Not all is in place, as far as it was told. */
bool mover_awaits_more(const struct mover *m);
/** Bytes that have landed. */
const struct tally *mover_tally(const struct mover *m);

/**
 * Gives up, and asks the port what is under way. True: it is quiet; false: there will be news of that. NULL is quiet.
 */
bool mover_stop(struct core *core, struct mover *m);
/** Stopped, and what it began may land at any time, until its peer's end or close. */
bool mover_is_stray(const struct mover *m);
/** Its peer is dead, or ended: what was stopped may be quiet by that. True: it is. */
bool mover_lose(struct core *core, struct mover *m);

void mover_on_event(struct core *core, struct op *op, const struct port_event *e);
/** Gives each its turns. False: there is news, which goes first. */
bool movers_run(struct core *core);
/** Takes one mover of which there is news. NULL: none. */
struct mover *mover_take_news(struct core *core, struct mover_word *word);

/** One would go on if it could. */
bool movers_wait(const struct core *core);
/** Bytes, tables or generations are under way. */
bool movers_are_busy(const struct core *core);

#endif
