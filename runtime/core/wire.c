/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire: messages and directory rows as bytes, see wire.h; cards and tables are in card.c. Reading and writing go through
 * bytes.h, whose reader turns bad once anything is out of bounds and then yields zeros, so a decoder checks once, at its
 * end.
 */
#include "core/wire.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/bytes.h"

#define MESSAGE_MAGIC 0x4d42u /* "BM" */
#define ROW_MAGIC 0x5242u     /* "BR" */
#define MESSAGE_HEADER 28u

const char *wire_type_name(enum wire_type type)
{
    static const char *const names[] = {"?",       "WANT",    "GRANT", "NACK",    "DONE",    "CANCEL", "CLOSED",
                                        "RELEASE", "WRITTEN", "BEAT",  "REPORT",  "VERDICT", "ASK",    "STANDING",
                                        "CHECK",   "SUMS",    "READY", "INQUIRY", "WITNESS", "LEAVE",  "ENDED"};
    return (unsigned)type < sizeof names / sizeof names[0] ? names[type] : "?";
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

void wire_row_encode(const struct wire_row *row, uint8_t out[WIRE_ROW_BYTES])
{
    memset(out, 0, WIRE_ROW_BYTES);
    struct writer w = {.at = out, .end = out + WIRE_ROW_BYTES};
    put16(&w, ROW_MAGIC);
    put8(&w, row->version > 0 ? row->version : WIRE_VERSION);
    put8(&w, row->role);
    put_text(&w, row->engine, BATON_ENGINE_NAME_MAX);
    put16(&w, row->tp);
    put16(&w, row->pp);
    put16(&w, row->tp_rank);
    put16(&w, row->pp_rank);
    put32(&w, row->node);
    put32(&w, row->package);
    put32(&w, row->numa);
    put32(&w, row->box[0].layer_first);
    put32(&w, row->box[0].layer_count);
    put32(&w, row->box[0].head_first);
    put32(&w, row->box[0].head_count);
    put64(&w, row->incarnation);
    put64(&w, row->card_offset);
    put32(&w, row->card_bytes);
    put8(&w, row->verdicts);
    put8(&w, row->num_boxes > 1 ? (uint8_t)row->num_boxes : 0); /* else the first says all */
    for (uint32_t i = 1; i < BATON_SPLITS_MAX; i++) {
        put16(&w, i < row->num_boxes ? (uint16_t)row->box[i].head_first : 0);
        put16(&w, i < row->num_boxes ? (uint16_t)row->box[i].head_count : 0);
    }
    put8(&w, row->rules);
    put32(&w, row->model);
    put32(&w, row->block_tokens);
    put32(&w, row->features);
    put_next(&w, WIRE_VERSION);
    struct writer tail = {.at = out + WIRE_ROW_BYTES - 8, .end = out + WIRE_ROW_BYTES};
    put64(&tail, XXH3_64bits(out, WIRE_ROW_BYTES - 8));
}

static bool engine_name_is_good(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return name[0] != '\0' && strspn(name, allowed) == strlen(name);
}

static bool range_is_good(uint32_t first, uint32_t count)
{
    return count <= UINT32_MAX - first;
}

int wire_row_decode(const uint8_t in[WIRE_ROW_BYTES], struct wire_row *row)
{
    struct reader r = {.at = in, .end = in + WIRE_ROW_BYTES};
    struct reader tail = {.at = in + WIRE_ROW_BYTES - 8, .end = in + WIRE_ROW_BYTES};
    memset(row, 0, sizeof *row);
    if (get16(&r) != ROW_MAGIC || get64(&tail) != XXH3_64bits(in, WIRE_ROW_BYTES - 8))
        return BATON_EMESSAGE;
    row->version = get8(&r);
    row->role = get8(&r);
    get_text(&r, row->engine, BATON_ENGINE_NAME_MAX);
    row->tp = get16(&r);
    row->pp = get16(&r);
    row->tp_rank = get16(&r);
    row->pp_rank = get16(&r);
    row->node = get32(&r);
    row->package = get32(&r);
    row->numa = get32(&r);
    row->box[0].layer_first = get32(&r);
    row->box[0].layer_count = get32(&r);
    row->box[0].head_first = get32(&r);
    row->box[0].head_count = get32(&r);
    row->incarnation = get64(&r);
    row->card_offset = get64(&r);
    row->card_bytes = get32(&r);
    row->verdicts = get8(&r);
    row->num_boxes = get8(&r);
    if (row->num_boxes > BATON_SPLITS_MAX)
        return BATON_EMESSAGE;
    for (uint32_t i = 1; i < BATON_SPLITS_MAX; i++) {
        uint32_t head_first = get16(&r), head_count = get16(&r);
        if (i < row->num_boxes)
            row->box[i] =
                (struct plan_box){row->box[0].layer_first, row->box[0].layer_count, head_first, head_count, .split = i};
        if (i < row->num_boxes && (head_count == 0 || row->box[0].layer_count == 0 || row->box[0].head_count == 0))
            return BATON_EMESSAGE;
    }
    row->rules = get8(&r);
    row->model = get32(&r);
    row->block_tokens = get32(&r);
    row->features = row->version > 1 ? get32(&r) : 0;
    if (row->num_boxes == 0) /* of a build that knows one split only, or of a rank without a cache */
        row->num_boxes = row->box[0].layer_count > 0 && row->box[0].head_count > 0;
    if (r.bad || row->version < 1 || !engine_name_is_good(row->engine) || row->role < BATON_ROLE_PREFILL ||
        row->role > BATON_ROLE_BOTH || row->tp == 0 || row->pp == 0 || row->tp_rank >= row->tp ||
        row->pp_rank >= row->pp || row->incarnation == 0 || row->card_bytes > WIRE_CARD_MAX ||
        row->verdicts > BATON_VERDICTS_LEADER || !range_is_good(row->box[0].layer_first, row->box[0].layer_count) ||
        !range_is_good(row->box[0].head_first, row->box[0].head_count))
        return BATON_EMESSAGE;
    return 0;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void put_key(struct writer *w, const struct wire_message *m, unsigned version)
{
    if (version == 1) {
        put_text(w, m->key, WIRE_KEY_1);
        return;
    }
    uint8_t length = (uint8_t)strnlen(m->key, BATON_KEY_MAX - 1);
    put8(w, length);
    put_bytes(w, m->key, length);
    put32(w, m->attempt);
}

static void put_sums(struct writer *w, const struct wire_message *m)
{
    put32(w, m->num_sums);
    for (uint32_t i = 0; i < m->num_sums; i++)
        put64(w, m->sums_out[i]);
}

static void put_body(struct writer *w, const struct wire_message *m, unsigned version)
{
    uint32_t bytes = (m->num_readers_bits + 7) / 8;
    put64(w, m->want);
    switch (m->type) {
    case WIRE_WANT:
        put_key(w, m, version);
        put8(w, m->mode);
        put32(w, m->asks);
        put32(w, m->time_left_ms);
        put32(w, m->tokens);
        put64(w, m->ticket_incarnation);
        put64(w, m->ticket_serial);
        put32(w, m->num_readers_bits);
        put_bytes(w, m->readers, bytes);
        if (m->mode == BATON_MODE_PUSH) {
            put32(w, m->slot);
            put32(w, m->numbers);
            put64(w, m->generation);
            put64(w, m->table_offset);
            put32(w, m->held);
        }
        put8(w, m->partial);
        break;
    case WIRE_GRANT:
        put32(w, m->asks);
        put32(w, m->slot);
        put32(w, m->numbers);
        put32(w, m->offered_tokens);
        put64(w, m->generation);
        put64(w, m->table_offset);
        put8(w, m->partial);
        if (version > 1) {
            put16(w, (uint16_t)m->num_attach);
            put_bytes(w, m->attach, m->num_attach);
        }
        break;
    case WIRE_READY:
        put64(w, m->generation);
        put32(w, m->tokens_done);
        put32(w, m->tokens_next);
        put32(w, m->layer_end);
        put32(w, m->numbers);
        put64(w, m->table_offset);
        break;
    case WIRE_NACK:
        put32(w, m->asks);
        put32(w, (uint32_t)m->error);
        put_text(w, m->detail, sizeof m->detail);
        if (version > 1)
            put64(w, m->generation);
        break;
    case WIRE_DONE:
    case WIRE_CANCEL:
        put_key(w, m, version);
        put32(w, (uint32_t)m->error);
        put64(w, m->generation);
        break;
    case WIRE_RELEASE:
        put_key(w, m, version);
        put32(w, (uint32_t)m->error);
        put32(w, m->time_left_ms);
        put64(w, m->ticket_incarnation);
        put64(w, m->ticket_serial);
        break;
    case WIRE_CLOSED:
        put8(w, m->quiet);
        break;
    case WIRE_WRITTEN:
        put32(w, m->asks);
        put32(w, (uint32_t)m->error);
        put64(w, m->bytes);
        put_text(w, m->detail, sizeof m->detail);
        put64(w, m->generation);
        break;
    case WIRE_BEAT:
        put8(w, m->ask);
        put_text(w, m->host, WIRE_HOST_MAX);
        break;
    case WIRE_INQUIRY:
    case WIRE_WITNESS:
    case WIRE_LEAVE:
        put32(w, m->subject);
        put64(w, m->subject_incarnation);
        if (m->type == WIRE_WITNESS)
            put8(w, m->word);
        if (m->type != WIRE_INQUIRY)
            put_text(w, m->host, WIRE_HOST_MAX);
        break;
    case WIRE_REPORT:
    case WIRE_VERDICT:
    case WIRE_ASK:
    case WIRE_STANDING:
        put_key(w, m, version);
        put8(w, m->verb);
        put32(w, m->engine);
        if (m->type == WIRE_REPORT || m->type == WIRE_VERDICT) {
            put8(w, m->status);
            put8(w, m->quarantined);
            put32(w, (uint32_t)m->error);
            put32(w, (uint32_t)m->peer);
        }
        if (m->type != WIRE_ASK)
            put_text(w, m->detail, sizeof m->detail);
        if (m->type == WIRE_REPORT)
            put8(w, m->ask);
        break;
    case WIRE_CHECK:
        put_key(w, m, version);
        put32(w, m->tokens);
        put32(w, m->held);
        break;
    case WIRE_SUMS:
        put32(w, (uint32_t)m->error);
        put32(w, m->first);
        put_sums(w, m);
        break;
    case WIRE_ENDED:
        put_sums(w, m);
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

static void get_key(struct reader *r, struct wire_message *m)
{
    if (m->version == 1) {
        get_text(r, m->key, WIRE_KEY_1);
        return;
    }
    uint8_t length = get8(r);
    get_bytes(r, m->key, length);
    m->key[length] = '\0';
    r->bad |= memchr(m->key, '\0', length) != NULL;
    m->attempt = get32(r);
}

static void get_sums(struct reader *r, struct wire_message *m)
{
    m->num_sums = get32(r);
    m->sums_in = r->at;
    r->bad |= m->num_sums > WIRE_SUMS_MOST || (size_t)(r->end - r->at) < m->num_sums * sizeof(uint64_t);
}

static void get_attach(struct reader *r, struct wire_message *m)
{
    m->num_attach = get16(r);
    m->attach = r->at;
    r->bad |= m->num_attach > BATON_ATTACH_MAX || (size_t)(r->end - r->at) < m->num_attach;
}

static bool want_is_good(const struct wire_message *m)
{
    return m->key[0] != '\0' && (m->mode == BATON_MODE_PULL || m->mode == BATON_MODE_PUSH) && m->tokens > 0 &&
           m->time_left_ms > 0 && m->num_readers_bits > 0 && m->num_readers_bits <= BATON_ENGINE_RANKS_MAX;
}

static bool get_verdict(struct reader *r, struct wire_message *m)
{
    bool ends = m->type == WIRE_REPORT || m->type == WIRE_VERDICT;
    get_key(r, m);
    m->verb = get8(r);
    m->engine = get32(r);
    if (ends) {
        m->status = get8(r);
        m->quarantined = get8(r);
        m->error = (int32_t)get32(r);
        m->peer = (int32_t)get32(r);
    }
    if (m->type != WIRE_ASK)
        get_text(r, m->detail, sizeof m->detail);
    m->ask = m->type == WIRE_REPORT ? get8(r) : 0;
    if (m->ask > 1 || m->key[0] == '\0' || m->verb < 1 || m->verb > 2 || (m->type == WIRE_REPORT && m->want == 0))
        return false;
    return !ends || (m->status >= BATON_STATUS_DONE && m->status <= BATON_STATUS_CANCELLED && m->quarantined <= 1 &&
                     m->error <= 0 && (m->error == 0) == (m->status == BATON_STATUS_DONE) && m->peer >= -1);
}

static bool get_body(struct reader *r, struct wire_message *m)
{
    m->want = get64(r);
    switch (m->type) {
    case WIRE_WANT:
        get_key(r, m);
        m->mode = get8(r);
        m->asks = get32(r);
        m->time_left_ms = get32(r);
        m->tokens = get32(r);
        m->ticket_incarnation = get64(r);
        m->ticket_serial = get64(r);
        m->num_readers_bits = get32(r);
        if (r->bad || !want_is_good(m))
            return false;
        get_bytes(r, m->readers, (m->num_readers_bits + 7) / 8);
        if (m->num_readers_bits % 8 != 0 && m->readers[m->num_readers_bits / 8] >> (m->num_readers_bits % 8) != 0)
            return false;
        if (m->mode == BATON_MODE_PUSH) {
            m->slot = get32(r);
            m->numbers = get32(r);
            m->generation = get64(r);
            m->table_offset = get64(r);
            m->held = (uint32_t)get_later(r, m, 4);
        }
        m->partial = get_later(r, m, 1) != 0;
        return m->mode != BATON_MODE_PUSH || (m->generation != 0 && m->numbers > 0 && m->held < m->tokens);
    case WIRE_GRANT:
        m->asks = get32(r);
        m->slot = get32(r);
        m->numbers = get32(r);
        m->offered_tokens = get32(r);
        m->generation = get64(r);
        m->table_offset = get64(r);
        m->partial = get_later(r, m, 1) != 0;
        if (m->version > 1)
            get_attach(r, m);
        return m->generation != 0 && (m->numbers > 0 || m->partial) && m->offered_tokens > 0;
    case WIRE_READY:
        m->generation = get64(r);
        m->tokens_done = get32(r);
        m->tokens_next = get32(r);
        m->layer_end = get32(r);
        m->numbers = get32(r);
        m->table_offset = get64(r);
        return m->generation != 0 && m->tokens_done <= m->tokens_next;
    case WIRE_NACK:
        m->asks = get32(r);
        m->error = (int32_t)get32(r);
        get_text(r, m->detail, sizeof m->detail);
        m->generation = m->version > 1 ? get64(r) : 0;
        return m->error < 0;
    case WIRE_RELEASE:
        get_key(r, m);
        m->error = (int32_t)get32(r);
        m->time_left_ms = get32(r);
        m->ticket_incarnation = get64(r);
        m->ticket_serial = get64(r);
        return m->key[0] != '\0' && m->error <= 0;
    case WIRE_DONE:
    case WIRE_CANCEL:
        get_key(r, m);
        m->error = (int32_t)get32(r);
        m->generation = get_later(r, m, 8);
        return m->key[0] != '\0' && (m->type == WIRE_DONE ? m->error <= 0 : m->error < 0);
    case WIRE_BEAT:
        m->ask = get8(r);
        if (m->version > 1 || r->at != r->end) /* builds before 0.2 do not send it */
            get_text(r, m->host, WIRE_HOST_MAX);
        return m->ask <= 1;
    case WIRE_INQUIRY:
    case WIRE_WITNESS:
    case WIRE_LEAVE:
        m->subject = get32(r);
        m->subject_incarnation = get64(r);
        m->word = m->type == WIRE_WITNESS ? get8(r) : 0;
        if (m->type != WIRE_INQUIRY)
            get_text(r, m->host, WIRE_HOST_MAX);
        return (m->subject_incarnation == 0) == (m->type == WIRE_LEAVE && m->subject == WIRE_NOBODY) &&
               (m->type != WIRE_WITNESS || (m->word >= WIRE_ALIVE && m->word <= WIRE_UNKNOWN));
    case WIRE_WRITTEN:
        m->asks = get32(r);
        m->error = (int32_t)get32(r);
        m->bytes = get64(r);
        get_text(r, m->detail, sizeof m->detail);
        m->generation = get_later(r, m, 8);
        return m->error <= 0;
    case WIRE_CLOSED:
        m->quiet = get8(r);
        return m->quiet == WIRE_QUIET || m->quiet == WIRE_NOT_KNOWN;
    case WIRE_REPORT:
    case WIRE_VERDICT:
    case WIRE_ASK:
    case WIRE_STANDING:
        return get_verdict(r, m);
    case WIRE_CHECK:
        get_key(r, m);
        m->tokens = get32(r);
        m->held = (uint32_t)get_later(r, m, 4);
        return m->key[0] != '\0' && m->held < m->tokens;
    case WIRE_SUMS:
        m->error = (int32_t)get32(r);
        m->first = get32(r);
        get_sums(r, m);
        return m->error <= 0 && (m->error != 0) == (m->num_sums == 0);
    case WIRE_ENDED:
        get_sums(r, m);
        return m->num_sums > 0;
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

uint64_t wire_sum(const struct wire_message *m, uint32_t i)
{
    struct reader r = {.at = m->sums_in + (size_t)i * 8, .end = m->sums_in + (size_t)m->num_sums * 8};
    return get64(&r);
}
