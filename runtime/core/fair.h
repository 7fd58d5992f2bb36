/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fair: round-robin over peers, first in first out within one. Each peer has a queue of members that wait, and the
 * queues stand in a round. A member that was served goes behind the others of its queue, and its queue goes behind the
 * other queues. A member that was refused stays first in its queue, and its queue goes before all that were served:
 * what becomes free next is for it. So from one service of a member to its next one, each other queue is served at most
 * once for every place in the member's own queue.
 *
 * The members of one queue compete for the same thing, such as room for bytes. So when one is refused, its whole queue
 * is refused until fair_again.
 *
 * Every call takes constant time, except fair_again, which looks at each queue that was refused.
 */
#ifndef BATON_CORE_FAIR_H
#define BATON_CORE_FAIR_H

#include <stdbool.h>
#include <stddef.h>

/** Zeroed before. Embedded in what is served. */
struct fair_member {
    struct fair_queue *queue; /* NULL: it does not wait */
    struct fair_member *prev, *next;
};

/** The members of one peer that wait; zeroed before. */
struct fair_queue {
    struct fair_member *first;
    bool refused; /* it stands in fair->refused, else, unless it is empty, in fair->ready */
    struct fair_queue *prev, *next;
};

/** One round; zeroed before. */
struct fair {
    struct fair_queue *ready, *refused; /* the next comes first */
};

/** Waits, behind all others of the queue. No-op if it waits there already. */
void fair_add(struct fair *f, struct fair_queue *queue, struct fair_member *member);
/** Stops waiting. No-op if it does not wait. */
void fair_remove(struct fair *f, struct fair_member *member);

/** The next to be served, which stands behind all others now. NULL: nobody waits, or all were refused. */
struct fair_member *fair_take(struct fair *f);
/** The member that fair_take gave last was refused: it is first again, and its queue waits for fair_again. */
void fair_refuse(struct fair *f, struct fair_member *member);
/** Something may have become free: the refused queues come first. */
void fair_again(struct fair *f);

static inline bool fair_any(const struct fair *f)
{
    return f->ready != NULL || f->refused != NULL;
}

#endif
