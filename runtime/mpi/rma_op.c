/* SPDX-License-Identifier: BSD-3-Clause */
/* rma_op: see the header. Intrusive lists over one array, so that nothing but a landing is allocated after start. */
#include "mpi/rma_op.h"

#include <stdlib.h>

bool rma_ops_init(struct rma_ops *o, size_t num)
{
    o->done_tail = &o->done_head;
    o->all = calloc(num, sizeof *o->all);
    for (size_t i = 0; o->all != NULL && i < num; i++)
        rma_op_free(o, &o->all[i]);
    return o->all != NULL;
}

void rma_ops_fini(struct rma_ops *o)
{
    while (o->done_head != NULL)
        rma_op_hand_out(o);
    rma_ops_release(o);
    free(o->all);
    *o = (struct rma_ops){0};
}

struct rma_op *rma_op_take(struct rma_ops *o, enum rma_kind kind, uint32_t peer, uint64_t tag)
{
    struct rma_op *op = o->free;
    if (op == NULL)
        return NULL;
    o->free = op->next;
    *op = (struct rma_op){.kind = kind, .peer = peer, .tag = tag};
    return op;
}

void rma_op_free(struct rma_ops *o, struct rma_op *op)
{
    free(op->landing);
    op->landing = NULL;
    op->next = o->free;
    o->free = op;
}

void rma_op_finish(struct rma_ops *o, struct rma_op *op)
{
    op->next = NULL;
    *o->done_tail = op;
    o->done_tail = &op->next;
}

struct rma_op *rma_op_hand_out(struct rma_ops *o)
{
    struct rma_op *op = o->done_head;
    if (op == NULL)
        return NULL;
    o->done_head = op->next;
    if (o->done_head == NULL)
        o->done_tail = &o->done_head;
    op->next = o->handed;
    o->handed = op;
    return op;
}

void rma_ops_release(struct rma_ops *o)
{
    while (o->handed != NULL) {
        struct rma_op *op = o->handed;
        o->handed = op->next;
        rma_op_free(o, op);
    }
}
