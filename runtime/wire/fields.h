/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fields: the rows of schema.h as a table. It drives encoding and decoding, and the tests make up messages from it.
 */
#ifndef BATON_WIRE_FIELDS_H
#define BATON_WIRE_FIELDS_H

#include "wire/message.h"

enum wire_kind {
    WIRE_KIND_U8,
    WIRE_KIND_U32,
    WIRE_KIND_U64,
    WIRE_KIND_I32,
    WIRE_KIND_FLAG,
    WIRE_KIND_TEXT,
    WIRE_KIND_NAME,
    WIRE_KIND_BITS,
    WIRE_KIND_LIST,
    WIRE_KIND_BYTES
};

/* The conditions of the column `sent`. Its other bits are types. */
#define WIRE_SENT_PUSH (UINT64_C(1) << 63)
#define WIRE_SENT_SINCE(version) ((uint64_t)(version) << 56)
#define WIRE_SENT_TYPES (WIRE_SENT_SINCE(1) - 1)
#define WIRE_SENT_IN(type) (UINT64_C(1) << (type))

/** The columns of a row: see schema.h. */
struct wire_field {
    const char *name;
    enum wire_kind kind;
    uint32_t offset; /* in struct wire_message */
    uint64_t sent;
    uint64_t least, most; /* I32: sign-extended */
};

/** The fields of a type's body, in the order of their bytes. Returns how many; 0: there is no such type. */
uint32_t wire_fields(enum wire_type type, const struct wire_field **fields);

/** Whether this message has the field when it is written in that version. The fields before it must be set. */
static inline bool wire_field_is_sent(const struct wire_field *f, const struct wire_message *m, unsigned version)
{
    if ((f->sent & WIRE_SENT_TYPES) != 0 && (f->sent & WIRE_SENT_IN(m->type)) == 0)
        return false;
    if (version < (f->sent & WIRE_SENT_SINCE(0x7f)) / WIRE_SENT_SINCE(1))
        return false;
    return (f->sent & WIRE_SENT_PUSH) == 0 || m->want.mode == BATON_MODE_PUSH;
}

#endif
