/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * turns: who goes next. Each peer has a queue of those that wait, and the queues stand in a round. After its turn, a
 * member goes behind the others of its queue, and its queue goes behind the other queues. After a refusal, a member
 * stays first of its queue, and its queue goes before all that were served: what becomes free next is for it. So
 * between two turns of a member, each other queue gets at most one turn for every place in the member's own queue.
 *
 * The members of one queue compete for the same thing, such as room for bytes. So when one is refused, its whole queue
 * is refused until turns_again.
 *
 * Every call takes constant time, except turns_again, which looks at each queue that was refused.
 */
#ifndef BATON_CORE_TURNS_H
#define BATON_CORE_TURNS_H

#include <stdbool.h>
#include <stddef.h>

/** A member, which may wait; zeroed before. Embedded in what takes the turn. */
struct turn {
    struct turns_queue *queue; /* NULL: it does not wait */
    struct turn *prev, *next;
};

/** Those of one peer; zeroed before. */
struct turns_queue {
    struct turn *first;
    bool refused; /* in turns->refused, else, unless it is empty, in turns->ready */
    struct turns_queue *prev, *next;
};

/** One round; zeroed before. */
struct turns {
    struct turns_queue *ready, *refused; /* the next comes first */
};

/** Waits, behind all others of the queue. No-op if it waits there already. */
void turns_add(struct turns *t, struct turns_queue *queue, struct turn *turn);
/** Stops waiting. No-op if it does not wait. */
void turns_remove(struct turns *t, struct turn *turn);

/** Takes the next turn: its member stands behind all others now. NULL: nobody waits, or all were refused. */
struct turn *turns_take(struct turns *t);
/** The member that turns_take gave last was refused: it is first again, and its queue waits for turns_again. */
void turns_refuse(struct turns *t, struct turn *turn);
/** Something may have become free: the refused queues come first. */
void turns_again(struct turns *t);

static inline bool turns_any(const struct turns *t)
{
    return t->ready != NULL || t->refused != NULL;
}

#endif
