/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * turns: who goes next. Those that wait stand in a queue for each peer; the queues stand in a round. Whoever was served
 * goes behind the others of its peer, and its queue behind the other queues. Whoever was refused stays first of its
 * queue, and its queue goes ahead of all that were served: what becomes free next is its. So between two turns of one
 * there is at most one of each other queue for every place in its own.
 *
 * All of one queue compete for one thing, such as room for bytes: a refusal is one of the whole queue until
 * turns_again.
 *
 * Every call takes constant time, but turns_again, which looks at each queue that was refused.
 */
#ifndef BATON_CORE_TURNS_H
#define BATON_CORE_TURNS_H

#include <stdbool.h>
#include <stddef.h>

/** One that waits, or may; zeroed before. Embedded in what takes the turn. */
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

/** It waits, behind all of its queue. No-op where it waits in that queue already. */
void turns_add(struct turns *t, struct turns_queue *queue, struct turn *turn);
/** It waits no more. No-op where it does not. */
void turns_remove(struct turns *t, struct turn *turn);

/** Whose turn it is, by this call: it stands behind all others now. NULL: none waits that was not refused. */
struct turn *turns_take(struct turns *t);
/** What turns_take gave last could do nothing: it is first again, and its queue waits for turns_again. */
void turns_refuse(struct turns *t, struct turn *turn);
/** Something may have become free: those that were refused come first. */
void turns_again(struct turns *t);

static inline bool turns_any(const struct turns *t)
{
    return t->ready != NULL || t->refused != NULL;
}

#endif
