/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * with_messages: messages that the schema makes up, one of each type with every field at its least or at its most, and
 * whether two messages are the same.
 */
#ifndef BATON_TESTS_WITH_MESSAGES_H
#define BATON_TESTS_WITH_MESSAGES_H

#include <string.h>

#include "wire/fields.h"

enum extreme { LEAST, MOST };

/* ---- fields ------------------------------------------------------------------------------------------------------ */

static inline void *field_at(const struct wire_field *f, const struct wire_message *m)
{
    return (uint8_t *)m + f->offset;
}

/** What the bounds of the field are of: its value, or how long it is. */
static inline uint64_t field_measure(const struct wire_field *f, const struct wire_message *m)
{
    const void *at = field_at(f, m);
    switch (f->kind) {
    case WIRE_KIND_U8:
        return *(const uint8_t *)at;
    case WIRE_KIND_U32:
        return *(const uint32_t *)at;
    case WIRE_KIND_U64:
        return *(const uint64_t *)at;
    case WIRE_KIND_I32:
        return (uint64_t)(int64_t) * (const int32_t *)at;
    case WIRE_KIND_FLAG:
        return *(const bool *)at;
    case WIRE_KIND_TEXT:
        return strnlen(at, f->most + 1);
    case WIRE_KIND_NAME:
        return strnlen(at, BATON_KEY_MAX);
    case WIRE_KIND_BITS:
        return ((const struct wire_bits *)at)->num;
    case WIRE_KIND_LIST:
        return ((const struct wire_list *)at)->num;
    case WIRE_KIND_BYTES:
        return ((const struct wire_bytes *)at)->num;
    }
    return 0;
}

/** Whether the field is within its bounds: they are numbers with a sign, or without. */
static inline bool field_is_good(const struct wire_field *f, const struct wire_message *m)
{
    uint64_t value = field_measure(f, m);
    if (f->kind == WIRE_KIND_I32)
        return (int64_t)value >= (int64_t)f->least && (int64_t)value <= (int64_t)f->most;
    return value >= f->least && value <= f->most;
}

/** Gives the field that value, or that length. */
static inline void field_set(const struct wire_field *f, struct wire_message *m, uint64_t value)
{
    static const uint64_t numbers[WIRE_LIST_MAX + 1] = {UINT64_C(0x8182838485868788), UINT64_C(0x9192939495969798), 3};
    static const uint8_t bytes[WIRE_TABLE_SENT_MAX + 1] = {0xa1, [BATON_ATTACH_MAX - 1] = 0xa2};
    void *at = field_at(f, m);
    struct wire_bits *bits = at;
    switch (f->kind) {
    case WIRE_KIND_U8:
        *(uint8_t *)at = (uint8_t)value;
        break;
    case WIRE_KIND_U32:
        *(uint32_t *)at = (uint32_t)value;
        break;
    case WIRE_KIND_U64:
        *(uint64_t *)at = value;
        break;
    case WIRE_KIND_I32:
        *(int32_t *)at = (int32_t)value;
        break;
    case WIRE_KIND_FLAG:
        *(bool *)at = value != 0;
        break;
    case WIRE_KIND_TEXT:
    case WIRE_KIND_NAME:
        memset(at, 't', value);
        ((char *)at)[value] = '\0';
        break;
    case WIRE_KIND_BITS:
        *bits = (struct wire_bits){.num = (uint32_t)value};
        for (uint64_t i = 0; i < value; i++)
            bits->bit[i / 8] |= (uint8_t)(1u << (i % 8));
        break;
    case WIRE_KIND_LIST:
        *(struct wire_list *)at = (struct wire_list){.num = (uint32_t)value, .out = numbers};
        break;
    case WIRE_KIND_BYTES:
        *(struct wire_bytes *)at = (struct wire_bytes){.num = (uint32_t)value, .data = bytes};
        break;
    }
}

static inline uint64_t list_at(const struct wire_list *list, uint32_t i)
{
    return list->in != NULL ? wire_list_at(list, i) : list->out[i];
}

static inline bool field_is_same(const struct wire_field *f, const struct wire_message *a, const struct wire_message *b)
{
    const void *x = field_at(f, a), *y = field_at(f, b);
    uint64_t n = field_measure(f, a);
    bool same = n == field_measure(f, b);
    if (same && f->kind == WIRE_KIND_TEXT)
        return memcmp(x, y, n) == 0;
    if (same && f->kind == WIRE_KIND_NAME)
        return memcmp(x, y, n) == 0 && ((const struct wire_name *)x)->attempt == ((const struct wire_name *)y)->attempt;
    if (same && f->kind == WIRE_KIND_BITS)
        return memcmp(x, y, sizeof(struct wire_bits)) == 0;
    if (same && f->kind == WIRE_KIND_BYTES && n > 0)
        return memcmp(((const struct wire_bytes *)x)->data, ((const struct wire_bytes *)y)->data, n) == 0;
    for (uint32_t i = 0; same && f->kind == WIRE_KIND_LIST && i < n; i++)
        same = list_at(x, i) == list_at(y, i);
    return same;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* What fields must be to each other, which their rows do not say. */
static inline void specimen_fit(struct wire_message *m, enum extreme x)
{
    switch (m->type) {
    case WIRE_WANT:
        m->want.held = x == MOST ? m->want.tokens - 1 : 0;
        break;
    case WIRE_GRANT:
        m->grant.table_entries = x == MOST ? UINT32_MAX : 1;
        break;
    case WIRE_CANCEL:
        m->end.error = x == MOST ? -1 : INT32_MIN;
        break;
    case WIRE_REPORT:
    case WIRE_VERDICT:
        m->verdict.error = x == MOST ? INT32_MIN : 0; /* DONE is the least status */
        break;
    case WIRE_CHECK:
        m->check.held = x == MOST ? m->check.tokens - 1 : 0;
        break;
    case WIRE_INQUIRY:
    case WIRE_WITNESS:
    case WIRE_LEAVE:
        m->subject.member = x == LEAST && m->type != WIRE_LEAVE ? 1 : x == LEAST ? 0 : UINT64_MAX;
        break;
    default:
        break;
    }
}

/** A message of that type, to be written in that version, with every field at its least or at its most. */
static inline struct wire_message specimen_of(enum wire_type type, enum extreme x, unsigned version)
{
    const struct wire_field *f;
    struct wire_message m;
    memset(&m, 0, sizeof m);
    m.type = type;
    m.version = (uint8_t)version;
    m.from = x == MOST ? UINT64_MAX : 1;
    m.to = x == MOST ? UINT64_MAX - 1 : 1;
    m.number = x == MOST ? UINT32_MAX : 0;
    m.want_id = x == MOST ? UINT64_MAX : type == WIRE_REPORT;
    for (uint32_t num = wire_fields(type, &f); num > 0; num--, f++) {
        if (!wire_field_is_sent(f, &m, version))
            continue;
        field_set(f, &m, x == MOST ? f->most : f->least);
        if (f->kind == WIRE_KIND_NAME)
            ((struct wire_name *)field_at(f, &m))->attempt = x == MOST ? UINT32_MAX : 0;
    }
    specimen_fit(&m, x);
    return m;
}

/** The name of a field that is not the same in both; NULL: there is none. */
static inline const char *message_difference(const struct wire_message *a, const struct wire_message *b)
{
    const struct wire_field *f;
    if (a->type != b->type || a->version != b->version || a->from != b->from || a->to != b->to ||
        a->number != b->number || a->want_id != b->want_id)
        return "the header";
    for (uint32_t num = wire_fields(a->type, &f); num > 0; num--, f++)
        if (!field_is_same(f, a, b))
            return f->name;
    return NULL;
}

/** Makes a message that was decoded one that can be encoded; its list is copied to `numbers`. */
static inline void message_keep_list(struct wire_message *m, uint64_t numbers[WIRE_LIST_MAX])
{
    const struct wire_field *f;
    for (uint32_t num = wire_fields(m->type, &f); num > 0; num--, f++) {
        struct wire_list *list = field_at(f, m);
        for (uint32_t i = 0; f->kind == WIRE_KIND_LIST && i < list->num; i++)
            numbers[i] = wire_list_at(list, i);
        if (f->kind == WIRE_KIND_LIST)
            list->out = numbers;
    }
}

#endif
