/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op: whatever a tag names. The port's events about a read, a move or a hash carry the tag that the call on the port
 * had.
 */
#ifndef BATON_CORE_OP_H
#define BATON_CORE_OP_H

#include <stdint.h>

#include "base/hash.h"

enum op_kind { OP_CONTACT, OP_LEG, OP_PUSH, OP_CHECK, OP_TAIL };

/** The first field of what it is about, which it is cast back to. */
struct op {
    uint64_t tag;
    UT_hash_handle hh;
    enum op_kind kind;
};

/** All of one core; zeroed before. */
struct ops {
    struct op *by_tag;
    uint64_t last;
    uint32_t num[OP_TAIL + 1]; /* by kind */
};

/** Gives it a tag that none had before. 0 or BATON_ENOMEM. */
int op_add(struct ops *ops, struct op *op, enum op_kind kind);
/** Its tag names nothing any more. One that was never added, or removed before, stays as it is. */
void op_remove(struct ops *ops, struct op *op);
/** NULL: that tag names nothing (any more). */
struct op *op_find(const struct ops *ops, uint64_t tag);

#endif
