/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue: who came first goes first. The links lie in the members, so joining allocates nothing and cannot fail, and a
 * member can leave from any place. A member stands in one queue at a time.
 *
 * News are such queues: what a file of the core has to tell the files above it stands there until core_step hands it
 * on.
 */
#ifndef BATON_CORE_QUEUE_H
#define BATON_CORE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include <utlist.h>

/** Zeroed before. */
struct queue {
    struct queued *first;
};

/** One member; zeroed before. Embedded in what waits. */
struct queued {
    struct queue *in; /* NULL: in none */
    struct queued *prev, *next;
};

/** It stands behind all others. No-op where it stands in a queue already. */
static inline void queue_join(struct queue *q, struct queued *m)
{
    if (m->in != NULL)
        return;
    m->in = q;
    DL_APPEND(q->first, m);
}

/** No-op where it stands in no queue. */
static inline void queue_leave(struct queued *m)
{
    if (m->in == NULL)
        return;
    DL_DELETE(m->in->first, m);
    m->in = NULL;
}

/** The first, which leaves by this call; NULL: the queue is empty. */
static inline struct queued *queue_take(struct queue *q)
{
    struct queued *m = q->first;
    if (m != NULL)
        queue_leave(m);
    return m;
}

#endif
