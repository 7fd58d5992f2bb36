/* SPDX-License-Identifier: BSD-3-Clause */
/* op: see op.h. */
#include "core/op.h"

#include "baton.h"

int op_add(struct ops *ops, struct op *op, enum op_kind kind)
{
    op->tag = ++ops->last;
    op->kind = kind;
    HASH_ADD(hh, ops->by_tag, tag, sizeof op->tag, op);
    return op->hh.tbl != NULL ? 0 : BATON_ENOMEM;
}

void op_remove(struct ops *ops, struct op *op)
{
    if (op->hh.tbl == NULL)
        return;
    HASH_DEL(ops->by_tag, op);
    op->hh.tbl = NULL;
}

struct op *op_find(const struct ops *ops, uint64_t tag)
{
    struct op *op;
    HASH_FIND(hh, ops->by_tag, &tag, sizeof tag, op);
    return op;
}
