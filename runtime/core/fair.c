/* SPDX-License-Identifier: BSD-3-Clause */
/* fair: see fair.h. Pure. */
#include "core/fair.h"

#include <utlist.h>

static struct fair_queue **round_of(struct fair *f, const struct fair_queue *queue)
{
    return queue->refused ? &f->refused : &f->ready;
}

void fair_add(struct fair *f, struct fair_queue *queue, struct fair_member *member)
{
    if (member->queue == queue)
        return;
    fair_remove(f, member);
    if (queue->first == NULL) {
        queue->refused = false;
        DL_APPEND(f->ready, queue);
    }
    member->queue = queue;
    DL_APPEND(queue->first, member);
}

void fair_remove(struct fair *f, struct fair_member *member)
{
    struct fair_queue *queue = member->queue;
    if (queue == NULL)
        return;
    member->queue = NULL;
    DL_DELETE(queue->first, member);
    if (queue->first != NULL)
        return;
    struct fair_queue **round = round_of(f, queue);
    DL_DELETE(*round, queue);
}

struct fair_member *fair_take(struct fair *f)
{
    struct fair_queue *queue = f->ready;
    if (queue == NULL)
        return NULL;
    struct fair_member *member = queue->first;
    DL_DELETE(f->ready, queue);
    DL_APPEND(f->ready, queue); /* behind the other queues */
    DL_DELETE(queue->first, member);
    DL_APPEND(queue->first, member); /* behind the others of its peer */
    return member;
}

void fair_refuse(struct fair *f, struct fair_member *member)
{
    struct fair_queue *queue = member->queue;
    DL_DELETE(queue->first, member);
    DL_PREPEND(queue->first, member);
    DL_DELETE(f->ready, queue);
    queue->refused = true;
    DL_APPEND(f->refused, queue);
}

void fair_again(struct fair *f)
{
    struct fair_queue *queue;
    DL_FOREACH(f->refused, queue)
    {
        queue->refused = false;
    }
    DL_CONCAT(f->refused, f->ready);
    f->ready = f->refused;
    f->refused = NULL;
}
