/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message: see message.h. The table of fields.h says how each field is written and read. Reading goes through bytes.h,
 * whose reader turns bad once anything is out of bounds, and then yields zeros.
 */
#include "wire/message.h"

#include <string.h>

#include "wire/bytes.h"
#include "wire/fields.h"

#define MESSAGE_MAGIC 0x4d42u /* "BM" */

const char *wire_type_name(enum wire_type type)
{
#define NAME(number, name, body, version) [number] = #name,
    static const char *const names[] = {"?", WIRE_TYPES(NAME)};
    return (unsigned)type < sizeof names / sizeof names[0] ? names[type] : "?";
}

unsigned wire_type_version(enum wire_type type)
{
#define VERSION(number, name, body, version) [number] = (version),
    static const uint8_t versions[] = {WIRE_TYPES(VERSION)};
    return (unsigned)type < sizeof versions / sizeof versions[0] ? versions[type] : 0;
}

const struct wire_name *wire_name_of(const struct wire_message *m)
{
    const struct wire_field *f;
    uint32_t num = wire_fields(m->type, &f);
    for (; num > 0; num--, f++)
        if (f->kind == WIRE_KIND_NAME)
            return (const struct wire_name *)((const uint8_t *)m + f->offset);
    return NULL;
}

/* ---- out --------------------------------------------------------------------------------------------------------- */

static void put_name(struct writer *w, const struct wire_name *name)
{
    uint8_t length = (uint8_t)strnlen(name->key, BATON_KEY_MAX - 1);
    put8(w, length);
    put_bytes(w, name->key, length);
    put32(w, name->attempt);
}

static void put_bits(struct writer *w, const struct wire_bits *bits)
{
    put32(w, bits->num);
    put_bytes(w, bits->bit, (bits->num + 7) / 8);
}

static void put_list(struct writer *w, const struct wire_list *list)
{
    put32(w, list->num);
    for (uint32_t i = 0; i < list->num; i++)
        put64(w, list->out[i]);
}

static void put_counted(struct writer *w, const struct wire_bytes *bytes)
{
    put16(w, (uint16_t)bytes->num);
    put_bytes(w, bytes->data, bytes->num);
}

static void put_field(struct writer *w, const struct wire_field *f, const struct wire_message *m)
{
    const void *at = (const uint8_t *)m + f->offset;
    switch (f->kind) {
    case WIRE_KIND_U8:
        put8(w, *(const uint8_t *)at);
        break;
    case WIRE_KIND_U32:
        put32(w, *(const uint32_t *)at);
        break;
    case WIRE_KIND_U64:
        put64(w, *(const uint64_t *)at);
        break;
    case WIRE_KIND_I32:
        put32(w, (uint32_t) * (const int32_t *)at);
        break;
    case WIRE_KIND_FLAG:
        put8(w, *(const bool *)at);
        break;
    case WIRE_KIND_TEXT:
        put_text(w, at, f->most + 1);
        break;
    case WIRE_KIND_NAME:
        put_name(w, at);
        break;
    case WIRE_KIND_BITS:
        put_bits(w, at);
        break;
    case WIRE_KIND_LIST:
        put_list(w, at);
        break;
    case WIRE_KIND_BYTES:
        put_counted(w, at);
        break;
    }
}

uint32_t wire_encode(const struct wire_message *m, uint8_t *out)
{
    uint8_t version = m->version > 0 && m->version < WIRE_VERSION ? m->version : WIRE_VERSION;
    const struct wire_field *f;
    struct writer w = {.at = out + 4, .end = out + WIRE_MESSAGE_MAX};
    put32(&w, 0); /* the length, below */
    put64(&w, m->from);
    put64(&w, m->to);
    put32(&w, m->number);
    put64(&w, m->want_id);
    for (uint32_t num = wire_fields(m->type, &f); num > 0; num--, f++)
        if (wire_field_is_sent(f, m, version))
            put_field(&w, f, m);
    uint32_t bytes = (uint32_t)(w.at - out);
    struct writer head = {.at = out, .end = out + 8};
    put16(&head, MESSAGE_MAGIC);
    put8(&head, version);
    put8(&head, (uint8_t)m->type);
    put32(&head, bytes);
    return bytes;
}

enum wire_type wire_type_of(const uint8_t *message, uint32_t bytes)
{
    return bytes > 3 ? (enum wire_type)message[3] : (enum wire_type)0;
}

/* ---- in ---------------------------------------------------------------------------------------------------------- */

static uint64_t get_name(struct reader *r, struct wire_name *name)
{
    uint8_t length = get8(r);
    get_bytes(r, name->key, length);
    name->key[length] = '\0';
    r->bad |= memchr(name->key, '\0', length) != NULL;
    name->attempt = get32(r);
    return length;
}

static uint64_t get_bits(struct reader *r, struct wire_bits *bits)
{
    bits->num = get32(r);
    r->bad |= bits->num > BATON_ENGINE_RANKS_MAX;
    if (r->bad)
        return 0;
    get_bytes(r, bits->bit, (bits->num + 7) / 8);
    r->bad |= bits->num % 8 != 0 && bits->bit[bits->num / 8] >> (bits->num % 8) != 0;
    return bits->num;
}

/* Passes over bytes, which stay where they are. */
static const uint8_t *get_place(struct reader *r, size_t bytes)
{
    const uint8_t *at = r->at;
    r->bad |= (size_t)(r->end - r->at) < bytes;
    r->at += r->bad ? 0 : bytes;
    return at;
}

static uint64_t get_list(struct reader *r, struct wire_list *list)
{
    list->num = get32(r);
    list->in = get_place(r, list->num * sizeof(uint64_t));
    return list->num;
}

static uint64_t get_counted(struct reader *r, struct wire_bytes *bytes)
{
    bytes->num = get16(r);
    bytes->data = get_place(r, bytes->num);
    return bytes->num;
}

/* Returns what the bounds are for: the value, or how long it is. */
static uint64_t get_field(struct reader *r, const struct wire_field *f, struct wire_message *m)
{
    void *at = (uint8_t *)m + f->offset;
    switch (f->kind) {
    case WIRE_KIND_U8:
        return *(uint8_t *)at = get8(r);
    case WIRE_KIND_U32:
        return *(uint32_t *)at = get32(r);
    case WIRE_KIND_U64:
        return *(uint64_t *)at = get64(r);
    case WIRE_KIND_I32:
        return (uint64_t)(*(int32_t *)at = (int32_t)get32(r));
    case WIRE_KIND_FLAG:
        return *(bool *)at = get8(r) != 0;
    case WIRE_KIND_TEXT:
        get_text(r, at, f->most + 1);
        return strlen(at);
    case WIRE_KIND_NAME:
        return get_name(r, at);
    case WIRE_KIND_BITS:
        return get_bits(r, at);
    case WIRE_KIND_LIST:
        return get_list(r, at);
    case WIRE_KIND_BYTES:
        return get_counted(r, at);
    }
    return 0;
}

/* The rules about two fields. */
static bool fits(const struct wire_message *m)
{
    switch (m->type) {
    case WIRE_WANT:
        return m->want.held < m->want.tokens;
    case WIRE_GRANT:
        return m->grant.table_entries > 0 || m->grant.partial;
    case WIRE_READY:
        return m->ready.tokens_done <= m->ready.tokens_next;
    case WIRE_CANCEL:
        return m->end.error != 0;
    case WIRE_REPORT:
    case WIRE_VERDICT:
        return (m->type == WIRE_VERDICT || m->want_id != 0) &&
               (m->verdict.error == 0) == (m->verdict.status == BATON_STATUS_DONE);
    case WIRE_CHECK:
        return m->check.held < m->check.tokens;
    case WIRE_SUMS:
        return (m->sums.error != 0) == (m->sums.hashes.num == 0);
    case WIRE_INQUIRY:
    case WIRE_WITNESS:
    case WIRE_LEAVE:
        return m->subject.member != 0 || m->type == WIRE_LEAVE;
    default:
        return true;
    }
}

static bool get_fields(struct reader *r, struct wire_message *m)
{
    const struct wire_field *f;
    for (uint32_t num = wire_fields(m->type, &f); num > 0; num--, f++) {
        if (!wire_field_is_sent(f, m, m->version))
            continue;
        uint64_t value = get_field(r, f, m);
        if (r->bad || value - f->least > f->most - f->least) /* modulo 2^64: right for signed ones too */
            return false;
    }
    return fits(m);
}

int wire_decode(const uint8_t *in, uint32_t bytes, struct wire_message *m)
{
    struct reader r = {.at = in, .end = in + bytes};
    memset(m, 0, sizeof *m);
    bool head = get16(&r) == MESSAGE_MAGIC;
    unsigned version = get8(&r), type = get8(&r);
    uint32_t length = get32(&r);
    if (r.bad || !head || version < 1 || length != bytes || length < WIRE_MESSAGE_HEADER || length > WIRE_MESSAGE_MAX ||
        type < 1)
        return BATON_EMESSAGE;
    if (type > WIRE_TYPE_LAST)
        return version > WIRE_VERSION ? BATON_ENOSYS : BATON_EMESSAGE;
    if (version < wire_type_version((enum wire_type)type))
        return BATON_EMESSAGE;
    m->type = (enum wire_type)type;
    m->version = (uint8_t)version;
    m->from = get64(&r);
    m->to = get64(&r);
    m->number = get32(&r);
    m->want_id = get64(&r);
    return !r.bad && get_fields(&r, m) ? 0 : BATON_EMESSAGE;
}

uint64_t wire_list_at(const struct wire_list *list, uint32_t i)
{
    struct reader r = {.at = list->in + (size_t)i * 8, .end = list->in + (size_t)list->num * 8};
    return get64(&r);
}
