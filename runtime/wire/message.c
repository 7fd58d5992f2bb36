/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message: see message.h. Reading and writing go through bytes.h, whose reader turns bad once anything is out of bounds and
 * then yields zeros, so a decoder checks once, at its end.
 */
#include "wire/message.h"

#include <string.h>

#include "wire/bytes.h"

#define MESSAGE_MAGIC 0x4d42u /* "BM" */
#define MESSAGE_HEADER 28u

const char *wire_type_name(enum wire_type type)
{
    static const char *const names[] = {"?",       "WANT",    "GRANT", "NACK",    "DONE",    "CANCEL", "CLOSED",
                                        "RELEASE", "WRITTEN", "BEAT",  "REPORT",  "VERDICT", "ASK",    "STANDING",
                                        "CHECK",   "SUMS",    "READY", "INQUIRY", "WITNESS", "LEAVE",  "ENDED"};
    return (unsigned)type < sizeof names / sizeof names[0] ? names[type] : "?";
}

const struct wire_name *wire_name_of(const struct wire_message *m)
{
    switch (m->type) {
    case WIRE_WANT:
        return &m->want.name;
    case WIRE_DONE:
    case WIRE_CANCEL:
    case WIRE_RELEASE:
        return &m->end.name;
    case WIRE_REPORT:
    case WIRE_VERDICT:
    case WIRE_ASK:
    case WIRE_STANDING:
        return &m->verdict.name;
    case WIRE_CHECK:
        return &m->check.name;
    default:
        return NULL;
    }
}

static void put_name(struct writer *w, const struct wire_name *name, unsigned version)
{
    if (version == 1) {
        put_text(w, name->key, WIRE_KEY_1);
        return;
    }
    uint8_t length = (uint8_t)strnlen(name->key, BATON_KEY_MAX - 1);
    put8(w, length);
    put_bytes(w, name->key, length);
    put32(w, name->attempt);
}

static void put_list(struct writer *w, const struct wire_list *list)
{
    put32(w, list->num);
    for (uint32_t i = 0; i < list->num; i++)
        put64(w, list->out[i]);
}

static void put_body(struct writer *w, const struct wire_message *m, unsigned version)
{
    put64(w, m->want_id);
    switch (m->type) {
    case WIRE_WANT:
        put_name(w, &m->want.name, version);
        put8(w, m->want.mode);
        put32(w, m->want.asks);
        put32(w, m->want.time_left_ms);
        put32(w, m->want.tokens);
        put64(w, m->want.ticket_incarnation);
        put64(w, m->want.ticket_serial);
        put32(w, m->want.num_readers_bits);
        put_bytes(w, m->want.readers, (m->want.num_readers_bits + 7) / 8);
        if (m->want.mode == BATON_MODE_PUSH) {
            put32(w, m->want.slot);
            put32(w, m->want.numbers);
            put64(w, m->want.generation);
            put64(w, m->want.table_offset);
            put32(w, m->want.held);
        }
        put8(w, m->want.partial);
        break;
    case WIRE_GRANT:
        put32(w, m->grant.asks);
        put32(w, m->grant.slot);
        put32(w, m->grant.numbers);
        put32(w, m->grant.offered_tokens);
        put64(w, m->grant.generation);
        put64(w, m->grant.table_offset);
        put8(w, m->grant.partial);
        if (version > 1) {
            put16(w, (uint16_t)m->grant.num_attach);
            put_bytes(w, m->grant.attach, m->grant.num_attach);
        }
        break;
    case WIRE_READY:
        put64(w, m->ready.generation);
        put32(w, m->ready.tokens_done);
        put32(w, m->ready.tokens_next);
        put32(w, m->ready.layer_end);
        put32(w, m->ready.numbers);
        put64(w, m->ready.table_offset);
        break;
    case WIRE_NACK:
        put32(w, m->nack.asks);
        put32(w, (uint32_t)m->nack.error);
        put_text(w, m->nack.detail, sizeof m->nack.detail);
        if (version > 1)
            put64(w, m->nack.generation);
        break;
    case WIRE_DONE:
    case WIRE_CANCEL:
        put_name(w, &m->end.name, version);
        put32(w, (uint32_t)m->end.error);
        put64(w, m->end.generation);
        break;
    case WIRE_RELEASE:
        put_name(w, &m->end.name, version);
        put32(w, (uint32_t)m->end.error);
        put32(w, m->end.time_left_ms);
        put64(w, m->end.ticket_incarnation);
        put64(w, m->end.ticket_serial);
        break;
    case WIRE_CLOSED:
        put8(w, m->closed.quiet);
        break;
    case WIRE_WRITTEN:
        put32(w, m->written.asks);
        put32(w, (uint32_t)m->written.error);
        put64(w, m->written.bytes);
        put_text(w, m->written.detail, sizeof m->written.detail);
        put64(w, m->written.generation);
        break;
    case WIRE_BEAT:
        put8(w, m->beat.ask);
        put_text(w, m->beat.host, WIRE_HOST_MAX);
        break;
    case WIRE_INQUIRY:
    case WIRE_WITNESS:
    case WIRE_LEAVE:
        put32(w, m->subject.rank);
        put64(w, m->subject.incarnation);
        if (m->type == WIRE_WITNESS)
            put8(w, m->subject.life);
        if (m->type != WIRE_INQUIRY)
            put_text(w, m->subject.host, WIRE_HOST_MAX);
        break;
    case WIRE_REPORT:
    case WIRE_VERDICT:
    case WIRE_ASK:
    case WIRE_STANDING:
        put_name(w, &m->verdict.name, version);
        put8(w, m->verdict.verb);
        put32(w, m->verdict.engine);
        if (m->type == WIRE_REPORT || m->type == WIRE_VERDICT) {
            put8(w, m->verdict.status);
            put8(w, m->verdict.quarantined);
            put32(w, (uint32_t)m->verdict.error);
            put32(w, (uint32_t)m->verdict.peer);
        }
        if (m->type != WIRE_ASK)
            put_text(w, m->verdict.detail, sizeof m->verdict.detail);
        if (m->type == WIRE_REPORT)
            put8(w, m->verdict.again);
        break;
    case WIRE_CHECK:
        put_name(w, &m->check.name, version);
        put32(w, m->check.tokens);
        put32(w, m->check.held);
        break;
    case WIRE_SUMS:
        put32(w, (uint32_t)m->sums.error);
        put32(w, m->sums.first);
        put_list(w, &m->sums.hashes);
        break;
    case WIRE_ENDED:
        put_list(w, &m->ended.wants);
        break;
    }
}

uint32_t wire_encode(const struct wire_message *m, uint8_t *out)
{
    uint8_t version = m->version > 0 && m->version < WIRE_VERSION ? m->version : WIRE_VERSION;
    struct writer w = {.at = out + 4, .end = out + WIRE_MESSAGE_MAX};
    put32(&w, 0); /* the length, below */
    put64(&w, m->from);
    put64(&w, m->to);
    put32(&w, m->number);
    put_body(&w, m, version);
    put_next(&w, version);
    uint32_t bytes = (uint32_t)(w.at - out);
    struct writer head = {.at = out, .end = out + 8};
    put16(&head, MESSAGE_MAGIC);
    put8(&head, version);
    put8(&head, (uint8_t)m->type);
    put32(&head, bytes);
    return bytes;
}

/* A field that came within version 1: 0 where an older build of that version does not send it. */
static uint64_t get_later(struct reader *r, const struct wire_message *m, unsigned n)
{
    return m->version > 1 ? get_number(r, n) : get_if_sent(r, n);
}

static void get_name(struct reader *r, struct wire_name *name, unsigned version)
{
    if (version == 1) {
        get_text(r, name->key, WIRE_KEY_1);
        return;
    }
    uint8_t length = get8(r);
    get_bytes(r, name->key, length);
    name->key[length] = '\0';
    r->bad |= memchr(name->key, '\0', length) != NULL;
    name->attempt = get32(r);
}

static void get_list(struct reader *r, struct wire_list *list)
{
    list->num = get32(r);
    list->in = r->at;
    r->bad |= list->num > WIRE_SUMS_MOST || (size_t)(r->end - r->at) < list->num * sizeof(uint64_t);
}

static void get_attach(struct reader *r, struct wire_grant *grant)
{
    grant->num_attach = get16(r);
    grant->attach = r->at;
    r->bad |= grant->num_attach > BATON_ATTACH_MAX || (size_t)(r->end - r->at) < grant->num_attach;
}

static bool want_is_good(const struct wire_message *m)
{
    return m->want.name.key[0] != '\0' && (m->want.mode == BATON_MODE_PULL || m->want.mode == BATON_MODE_PUSH) &&
           m->want.tokens > 0 && m->want.time_left_ms > 0 && m->want.num_readers_bits > 0 &&
           m->want.num_readers_bits <= BATON_ENGINE_RANKS_MAX;
}

static bool get_verdict(struct reader *r, struct wire_message *m)
{
    bool ends = m->type == WIRE_REPORT || m->type == WIRE_VERDICT;
    get_name(r, &m->verdict.name, m->version);
    m->verdict.verb = get8(r);
    m->verdict.engine = get32(r);
    if (ends) {
        m->verdict.status = get8(r);
        m->verdict.quarantined = get8(r);
        m->verdict.error = (int32_t)get32(r);
        m->verdict.peer = (int32_t)get32(r);
    }
    if (m->type != WIRE_ASK)
        get_text(r, m->verdict.detail, sizeof m->verdict.detail);
    m->verdict.again = m->type == WIRE_REPORT ? get8(r) : 0;
    if (m->verdict.again > 1 || m->verdict.name.key[0] == '\0' || m->verdict.verb < 1 || m->verdict.verb > 2 ||
        (m->type == WIRE_REPORT && m->want_id == 0))
        return false;
    return !ends || (m->verdict.status >= BATON_STATUS_DONE && m->verdict.status <= BATON_STATUS_CANCELLED &&
                     m->verdict.quarantined <= 1 && m->verdict.error <= 0 &&
                     (m->verdict.error == 0) == (m->verdict.status == BATON_STATUS_DONE) && m->verdict.peer >= -1);
}

static bool get_body(struct reader *r, struct wire_message *m)
{
    m->want_id = get64(r);
    switch (m->type) {
    case WIRE_WANT:
        get_name(r, &m->want.name, m->version);
        m->want.mode = get8(r);
        m->want.asks = get32(r);
        m->want.time_left_ms = get32(r);
        m->want.tokens = get32(r);
        m->want.ticket_incarnation = get64(r);
        m->want.ticket_serial = get64(r);
        m->want.num_readers_bits = get32(r);
        if (r->bad || !want_is_good(m))
            return false;
        get_bytes(r, m->want.readers, (m->want.num_readers_bits + 7) / 8);
        if (m->want.num_readers_bits % 8 != 0 &&
            m->want.readers[m->want.num_readers_bits / 8] >> (m->want.num_readers_bits % 8) != 0)
            return false;
        if (m->want.mode == BATON_MODE_PUSH) {
            m->want.slot = get32(r);
            m->want.numbers = get32(r);
            m->want.generation = get64(r);
            m->want.table_offset = get64(r);
            m->want.held = (uint32_t)get_later(r, m, 4);
        }
        m->want.partial = get_later(r, m, 1) != 0;
        return m->want.mode != BATON_MODE_PUSH ||
               (m->want.generation != 0 && m->want.numbers > 0 && m->want.held < m->want.tokens);
    case WIRE_GRANT:
        m->grant.asks = get32(r);
        m->grant.slot = get32(r);
        m->grant.numbers = get32(r);
        m->grant.offered_tokens = get32(r);
        m->grant.generation = get64(r);
        m->grant.table_offset = get64(r);
        m->grant.partial = get_later(r, m, 1) != 0;
        if (m->version > 1)
            get_attach(r, &m->grant);
        return m->grant.generation != 0 && (m->grant.numbers > 0 || m->grant.partial) && m->grant.offered_tokens > 0;
    case WIRE_READY:
        m->ready.generation = get64(r);
        m->ready.tokens_done = get32(r);
        m->ready.tokens_next = get32(r);
        m->ready.layer_end = get32(r);
        m->ready.numbers = get32(r);
        m->ready.table_offset = get64(r);
        return m->ready.generation != 0 && m->ready.tokens_done <= m->ready.tokens_next;
    case WIRE_NACK:
        m->nack.asks = get32(r);
        m->nack.error = (int32_t)get32(r);
        get_text(r, m->nack.detail, sizeof m->nack.detail);
        m->nack.generation = m->version > 1 ? get64(r) : 0;
        return m->nack.error < 0;
    case WIRE_RELEASE:
        get_name(r, &m->end.name, m->version);
        m->end.error = (int32_t)get32(r);
        m->end.time_left_ms = get32(r);
        m->end.ticket_incarnation = get64(r);
        m->end.ticket_serial = get64(r);
        return m->end.name.key[0] != '\0' && m->end.error <= 0;
    case WIRE_DONE:
    case WIRE_CANCEL:
        get_name(r, &m->end.name, m->version);
        m->end.error = (int32_t)get32(r);
        m->end.generation = get_later(r, m, 8);
        return m->end.name.key[0] != '\0' && (m->type == WIRE_DONE ? m->end.error <= 0 : m->end.error < 0);
    case WIRE_BEAT:
        m->beat.ask = get8(r);
        if (m->version > 1 || r->at != r->end) /* builds before 0.2 do not send it */
            get_text(r, m->beat.host, WIRE_HOST_MAX);
        return m->beat.ask <= 1;
    case WIRE_INQUIRY:
    case WIRE_WITNESS:
    case WIRE_LEAVE:
        m->subject.rank = get32(r);
        m->subject.incarnation = get64(r);
        m->subject.life = m->type == WIRE_WITNESS ? get8(r) : 0;
        if (m->type != WIRE_INQUIRY)
            get_text(r, m->subject.host, WIRE_HOST_MAX);
        return (m->subject.incarnation == 0) == (m->type == WIRE_LEAVE && m->subject.rank == WIRE_NOBODY) &&
               (m->type != WIRE_WITNESS || (m->subject.life >= WIRE_ALIVE && m->subject.life <= WIRE_UNKNOWN));
    case WIRE_WRITTEN:
        m->written.asks = get32(r);
        m->written.error = (int32_t)get32(r);
        m->written.bytes = get64(r);
        get_text(r, m->written.detail, sizeof m->written.detail);
        m->written.generation = get_later(r, m, 8);
        return m->written.error <= 0;
    case WIRE_CLOSED:
        m->closed.quiet = get8(r);
        return m->closed.quiet == WIRE_QUIET || m->closed.quiet == WIRE_NOT_KNOWN;
    case WIRE_REPORT:
    case WIRE_VERDICT:
    case WIRE_ASK:
    case WIRE_STANDING:
        return get_verdict(r, m);
    case WIRE_CHECK:
        get_name(r, &m->check.name, m->version);
        m->check.tokens = get32(r);
        m->check.held = (uint32_t)get_later(r, m, 4);
        return m->check.name.key[0] != '\0' && m->check.held < m->check.tokens;
    case WIRE_SUMS:
        m->sums.error = (int32_t)get32(r);
        m->sums.first = get32(r);
        get_list(r, &m->sums.hashes);
        return m->sums.error <= 0 && (m->sums.error != 0) == (m->sums.hashes.num == 0);
    case WIRE_ENDED:
        get_list(r, &m->ended.wants);
        return m->ended.wants.num > 0;
    }
    return false;
}

int wire_decode(const uint8_t *in, uint32_t bytes, struct wire_message *m)
{
    struct reader r = {.at = in, .end = in + bytes};
    memset(m, 0, sizeof *m);
    bool head = get16(&r) == MESSAGE_MAGIC;
    unsigned version = get8(&r), type = get8(&r);
    uint32_t length = get32(&r);
    if (r.bad || !head || version < 1 || length != bytes || length < MESSAGE_HEADER || length > WIRE_MESSAGE_MAX ||
        type < WIRE_WANT || (version == 1 && type > WIRE_TYPE_LAST_1))
        return BATON_EMESSAGE;
    if (type > WIRE_TYPE_LAST)
        return version > WIRE_VERSION ? BATON_ENOSYS : BATON_EMESSAGE;
    m->type = (enum wire_type)type;
    m->version = (uint8_t)version;
    m->from = get64(&r);
    m->to = get64(&r);
    m->number = get32(&r);
    return get_body(&r, m) && !r.bad ? 0 : BATON_EMESSAGE;
}

uint64_t wire_list_at(const struct wire_list *list, uint32_t i)
{
    struct reader r = {.at = list->in + (size_t)i * 8, .end = list->in + (size_t)list->num * 8};
    return get64(&r);
}
