/* SPDX-License-Identifier: BSD-3-Clause */
/* op: see op.h. */
#include "core/op.h"

#include "baton.h"

int op_add(struct ops *ops, struct op *op, enum op_kind kind)
{
    op->tag = ++ops->last;
    op->kind = kind;
    HASH_ADD(hh, ops->by_tag, tag, sizeof op->tag, op);
    if (op->hh.tbl == NULL)
        return BATON_ENOMEM;
    ops->num[kind]++;
    return 0;
}

void op_remove(struct ops *ops, struct op *op)
{
    if (op->hh.tbl == NULL)
        return;
    HASH_DEL(ops->by_tag, op);
    op->hh.tbl = NULL;
    ops->num[op->kind]--;
}

struct op *op_find(const struct ops *ops, uint64_t tag)
{
    struct op *op;
    HASH_FIND(hh, ops->by_tag, &tag, sizeof tag, op);
    return op;
}
