/* SPDX-License-Identifier: BSD-3-Clause */
/* turns: see turns.h. Pure. */
#include "core/turns.h"

#include <utlist.h>

static struct turns_queue **round_of(struct turns *t, const struct turns_queue *queue)
{
    return queue->refused ? &t->refused : &t->ready;
}

void turns_add(struct turns *t, struct turns_queue *queue, struct turn *turn)
{
    if (turn->queue == queue)
        return;
    turns_remove(t, turn);
    if (queue->first == NULL) {
        queue->refused = false;
        DL_APPEND(t->ready, queue);
    }
    turn->queue = queue;
    DL_APPEND(queue->first, turn);
}

void turns_remove(struct turns *t, struct turn *turn)
{
    struct turns_queue *queue = turn->queue;
    if (queue == NULL)
        return;
    turn->queue = NULL;
    DL_DELETE(queue->first, turn);
    if (queue->first != NULL)
        return;
    struct turns_queue **round = round_of(t, queue);
    DL_DELETE(*round, queue);
}

struct turn *turns_take(struct turns *t)
{
    struct turns_queue *queue = t->ready;
    if (queue == NULL)
        return NULL;
    struct turn *turn = queue->first;
    DL_DELETE(t->ready, queue);
    DL_APPEND(t->ready, queue); /* behind the other queues */
    DL_DELETE(queue->first, turn);
    DL_APPEND(queue->first, turn); /* behind the others of its peer */
    return turn;
}

void turns_refuse(struct turns *t, struct turn *turn)
{
    struct turns_queue *queue = turn->queue;
    DL_DELETE(queue->first, turn);
    DL_PREPEND(queue->first, turn);
    DL_DELETE(t->ready, queue);
    queue->refused = true;
    DL_APPEND(t->refused, queue);
}

void turns_again(struct turns *t)
{
    struct turns_queue *queue;
    DL_FOREACH(t->refused, queue)
    {
        queue->refused = false;
    }
    DL_CONCAT(t->refused, t->ready);
    t->ready = t->refused;
    t->refused = NULL;
}
