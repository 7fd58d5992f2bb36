/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_wire: messages and directory rows as bytes: round trips, refusals, hostile input. test_frozen has their bytes,
 * and test_schema the bounds of messages.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <xxhash.h>

#include "wire/card.h"
#include "wire/row.h"
#include "with_bytes.h"
#include "with_messages.h"

#define RANDOM_BUFFERS 200000
#define VERSION_AT 2
#define TYPE_AT 3
#define LENGTH_AT 4
#define BODY_AT 36 /* behind header, both members, number and want */
#define ROW_SUM_AT (WIRE_ROW_BYTES - 8)

/* ---- specimens --------------------------------------------------------------------------------------------------- */

static void fill_text(char *text, size_t size, char c)
{
    memset(text, c, size - 1);
    text[size - 1] = '\0';
}

static struct wire_message specimen(enum wire_type type, enum extreme x)
{
    return specimen_of(type, x, WIRE_VERSION);
}

static void assert_same(const struct wire_message *a, const struct wire_message *b)
{
    const char *other = message_difference(a, b);
    if (other != NULL)
        fail_msg("%s: %s came back as another", wire_type_name(a->type), other);
}

/** Requires that all fields are within their bounds, and that fields that were not sent are 0. */
static void assert_in_documented_range(const struct wire_message *m)
{
    const struct wire_field *f;
    assert_in_range(m->type, WIRE_WANT, WIRE_TYPE_LAST);
    for (uint32_t num = wire_fields(m->type, &f); num > 0; num--, f++) {
        bool sent = wire_field_is_sent(f, m, m->version);
        if (sent ? !field_is_good(f, m) : field_measure(f, m) != 0)
            fail_msg("%s: %s is %s", wire_type_name(m->type), f->name, sent ? "out of its bounds" : "not 0");
    }
    const struct wire_name *name = wire_name_of(m);
    assert_true(name == NULL || (name->key[0] != '\0' && memchr(name->key, '\0', sizeof name->key) != NULL));
    if (m->type == WIRE_WANT) {
        assert_in_range(m->want.mode, BATON_MODE_PULL, BATON_MODE_PUSH);
        assert_in_range(m->want.readers.num, 1, BATON_ENGINE_RANKS_MAX);
        for (uint32_t i = m->want.readers.num; i < BATON_ENGINE_RANKS_MAX; i++) {
            assert_int_equal(m->want.readers.bit[i / 8] >> (i % 8) & 1, 0);
        }
        assert_true(m->want.mode != BATON_MODE_PUSH || (m->want.generation != 0 && m->want.table_entries > 0));
    } else if (m->type == WIRE_GRANT) {
        assert_true(m->grant.generation != 0 && (m->grant.table_entries > 0 || m->grant.partial));
    } else if (m->type == WIRE_NACK) {
        assert_true(m->nack.error < 0);
    } else if (m->type == WIRE_DONE || m->type == WIRE_CANCEL || m->type == WIRE_RELEASE) {
        assert_true(m->type == WIRE_CANCEL ? m->end.error < 0 : m->end.error <= 0);
    } else if (m->type == WIRE_WRITTEN) {
        assert_true(m->written.error <= 0);
    } else if (m->type == WIRE_CLOSED) {
        assert_in_range(m->closed.quiet, WIRE_QUIET, WIRE_NOT_KNOWN);
    } else if (m->type >= WIRE_REPORT && m->type <= WIRE_STANDING) {
        assert_true(m->verdict.error <= 0);
    } else if (m->type >= WIRE_INQUIRY && m->type <= WIRE_LEAVE) {
        assert_true(m->subject.member != 0 || m->type == WIRE_LEAVE);
        assert_true(m->type != WIRE_WITNESS || (m->subject.alive >= WIRE_ALIVE && m->subject.alive <= WIRE_UNKNOWN));
    }
}

/** Decodes from a copy of exactly that length. Afterwards the texts in *m are gone with the copy. */
static int decode_exact(const uint8_t *in, uint32_t bytes, struct wire_message *m)
{
    uint8_t *copy = bytes_copy(in, bytes);
    int rc = wire_decode(copy, bytes, m);
    free(copy);
    return rc;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void every_message_comes_back(void **state)
{
    (void)state;
    for (enum wire_type type = WIRE_WANT; type <= WIRE_TYPE_LAST; type++)
        for (enum extreme x = LEAST; x <= MOST; x++) {
            struct wire_message sent = specimen(type, x), got;
            uint8_t bytes[WIRE_MESSAGE_MAX];
            uint32_t n = wire_encode(&sent, bytes);
            assert_int_equal(wire_type_of(bytes, n), sent.type);
            assert_int_equal(wire_type_of(bytes, TYPE_AT), 0);
            assert_in_range(n, 1, WIRE_MESSAGE_MAX);
            memset(&got, 0xa5, sizeof got);
            assert_int_equal(wire_decode(bytes, n, &got), 0);
            assert_same(&sent, &got);
            assert_in_documented_range(&got);
        }
}

static void a_truncated_message_is_refused(void **state)
{
    (void)state;
    for (enum wire_type type = WIRE_WANT; type <= WIRE_TYPE_LAST; type++) {
        struct wire_message m = specimen(type, MOST), got;
        uint8_t bytes[WIRE_MESSAGE_MAX];
        uint32_t n = wire_encode(&m, bytes);
        for (uint32_t cut = 0; cut < n; cut++) {
            assert_int_equal(decode_exact(bytes, cut, &got), BATON_EMESSAGE);
            uint8_t *short_one = bytes_copy(bytes, n); /* and a message whose own length says how short it is */
            bytes_store(short_one + LENGTH_AT, cut, 4);
            assert_int_equal(decode_exact(short_one, cut, &got), BATON_EMESSAGE);
            free(short_one);
        }
    }
}

static void a_corrupted_message_is_refused_or_in_range(void **state)
{
    (void)state;
    uint32_t refused = 0;
    for (enum wire_type type = WIRE_WANT; type <= WIRE_TYPE_LAST; type++) {
        struct wire_message m = specimen(type, MOST), got;
        uint8_t bytes[WIRE_MESSAGE_MAX];
        uint32_t n = wire_encode(&m, bytes);
        uint8_t *copy = bytes_copy(bytes, n);
        for (uint32_t i = 0; i < n; i++) {
            for (unsigned flip = 1; flip < 256; flip++) {
                copy[i] = (uint8_t)(bytes[i] ^ flip);
                int rc = wire_decode(copy, n, &got);
                assert_true(rc == 0 || rc == BATON_EMESSAGE);
                if (rc == 0) {
                    assert_in_documented_range(&got);
                }
                refused += rc != 0;
            }
            copy[i] = bytes[i];
        }
        free(copy);
    }
    assert_true(refused > 0);
}

static void random_bytes_never_crash_the_decoder(void **state)
{
    (void)state;
    uint64_t seed = 20240607;
    uint32_t accepted = 0, plausible = 0;
    struct wire_message m = specimen(WIRE_WANT, LEAST), got;
    uint8_t head[WIRE_MESSAGE_MAX];
    wire_encode(&m, head);
    for (int round = 0; round < RANDOM_BUFFERS; round++) {
        uint32_t n = (uint32_t)(bytes_random(&seed) % 320);
        uint8_t buffer[320];
        bytes_fill(&seed, buffer, n);
        if (round % 4 != 0 && n >= 8) { /* a good header, so that the fields are reached */
            memcpy(buffer, head, 2);
            buffer[TYPE_AT] = (uint8_t)(1 + bytes_random(&seed) % 7);
            bytes_store(buffer + LENGTH_AT, n, 4);
            if (round % 4 == 2) { /* and small fields, as most good ones are */
                for (uint32_t i = 8; i < n; i++) {
                    buffer[i] = buffer[i] % 8 == 0 ? buffer[i] : 0;
                }
            }
            plausible++;
        }
        int rc = decode_exact(buffer, n, &got);
        assert_true(rc == 0 || rc == BATON_EMESSAGE);
        if (rc == 0) {
            assert_in_documented_range(&got);
            accepted++;
        }
    }
    assert_true(accepted > 1000 && accepted < plausible);
}

static void a_longer_message_of_a_newer_version_is_understood(void **state)
{
    (void)state;
    for (enum wire_type type = WIRE_WANT; type <= WIRE_TYPE_LAST; type++) {
        struct wire_message sent = specimen(type, MOST), got;
        uint8_t bytes[WIRE_MESSAGE_MAX + 1];
        uint32_t n = wire_encode(&sent, bytes);
        uint32_t longer[] = {n + 1, n + 40, WIRE_MESSAGE_MAX};
        memset(bytes + n, 0xee, sizeof bytes - n);
        bytes[VERSION_AT] = 255;
        for (size_t i = 0; i < sizeof longer / sizeof longer[0]; i++) {
            bytes_store(bytes + LENGTH_AT, longer[i], 4);
            assert_int_equal(wire_decode(bytes, longer[i], &got), 0);
            sent.version = 255;
            assert_same(&sent, &got);
        }
        bytes_store(bytes + LENGTH_AT, WIRE_MESSAGE_MAX + 1, 4);
        assert_int_equal(decode_exact(bytes, WIRE_MESSAGE_MAX + 1, &got), BATON_EMESSAGE);
    }
}

static void refused(const struct wire_message *m)
{
    struct wire_message got;
    uint8_t bytes[WIRE_MESSAGE_MAX];
    assert_int_equal(decode_exact(bytes, wire_encode(m, bytes), &got), BATON_EMESSAGE);
}

static void a_broken_header_is_refused(void **state)
{
    (void)state;
    struct wire_message m = specimen(WIRE_CLOSED, LEAST), got;
    uint8_t bytes[WIRE_MESSAGE_MAX];
    uint32_t n = wire_encode(&m, bytes);
    const struct {
        uint32_t at;
        uint8_t value;
    } bad[] = {{0, 0},         {1, 0},         {VERSION_AT, 0}, {TYPE_AT, 0},         {TYPE_AT, 8},
               {TYPE_AT, 255}, {LENGTH_AT, 0}, {LENGTH_AT, 23}, {LENGTH_AT + 3, 0xff}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint8_t *copy = bytes_copy(bytes, n);
        copy[bad[i].at] = bad[i].value;
        assert_int_equal(decode_exact(copy, n, &got), BATON_EMESSAGE);
        free(copy);
    }
}

static void a_length_that_is_not_what_came_is_refused(void **state)
{
    (void)state;
    for (enum wire_type type = WIRE_WANT; type <= WIRE_TYPE_LAST; type++) {
        struct wire_message m = specimen(type, MOST), got;
        uint8_t bytes[WIRE_MESSAGE_MAX] = {0};
        uint32_t n = wire_encode(&m, bytes);
        assert_int_equal(decode_exact(bytes, n + 1, &got), BATON_EMESSAGE);
        bytes_store(bytes + LENGTH_AT, n + 1, 4);
        assert_int_equal(decode_exact(bytes, n, &got), BATON_EMESSAGE);
    }
}

/* Whether a bound can be tested: if a value or length beyond it fits into the field of the struct. */
static bool is_bound(const struct wire_field *f, enum extreme x)
{
    if (f->kind == WIRE_KIND_FLAG || ((f->kind == WIRE_KIND_TEXT || f->kind == WIRE_KIND_NAME) && x == MOST))
        return false; /* any byte but 0 is true, and no longer text can be written */
    if (f->kind == WIRE_KIND_BITS && x == MOST)
        return false; /* a test of its own is below */
    if (f->kind == WIRE_KIND_I32)
        return x == MOST ? (int64_t)f->most < INT32_MAX : (int64_t)f->least > INT32_MIN;
    uint64_t most = f->kind == WIRE_KIND_U8 ? UINT8_MAX : f->kind == WIRE_KIND_U64 ? UINT64_MAX : UINT32_MAX;
    return x == MOST ? f->most < most : f->least > 0;
}

static void each_bound_of_the_schema_is_enforced(void **state)
{
    (void)state;
    uint32_t bounds = 0;
    for (enum wire_type type = WIRE_WANT; type <= WIRE_TYPE_LAST; type++)
        for (enum extreme x = LEAST; x <= MOST; x++) {
            const struct wire_field *f;
            for (uint32_t num = wire_fields(type, &f); num > 0; num--, f++) {
                struct wire_message m = specimen(type, x);
                if (!wire_field_is_sent(f, &m, WIRE_VERSION) || !is_bound(f, x))
                    continue;
                field_set(f, &m, x == MOST ? f->most + 1 : f->least - 1);
                refused(&m);
                bounds++;
            }
        }
    assert_true(bounds > 40);
}

static void each_rule_of_a_want_is_enforced(void **state)
{
    (void)state;
    struct wire_message m = specimen(WIRE_WANT, LEAST);
    m.want.name.key[0] = '\0';
    refused(&m);
    m = specimen(WIRE_WANT, LEAST);
    m.want.mode = BATON_MODE_AUTO;
    refused(&m);
    m.want.mode = BATON_MODE_PUSH + 1;
    refused(&m);
    m = specimen(WIRE_WANT, LEAST);
    m.want.tokens = 0;
    refused(&m);
    m = specimen(WIRE_WANT, LEAST);
    m.want.readers.num = 0;
    refused(&m);
    m = specimen(WIRE_WANT, LEAST);
    m.want.readers.num = 9; /* bit 9 would be a tenth rank */
    m.want.readers.bit[1] = 1 << 1;
    refused(&m);
}

static void more_readers_than_an_engine_has_ranks_are_refused(void **state)
{
    (void)state;
    struct wire_message m = specimen(WIRE_WANT, MOST), got;
    uint8_t bytes[WIRE_MESSAGE_MAX] = {0};
    uint32_t n = wire_encode(&m, bytes);
    uint32_t bits_at = n - BATON_ENGINE_RANKS_MAX / 8 - 4 - 28; /* the tables of a push follow */
    assert_int_equal(bytes[bits_at] | bytes[bits_at + 1] << 8, BATON_ENGINE_RANKS_MAX);
    uint32_t bad[] = {BATON_ENGINE_RANKS_MAX + 1, BATON_ENGINE_RANKS_MAX + 8, UINT32_MAX - 6, UINT32_MAX};
    bytes_store(bytes + LENGTH_AT, WIRE_MESSAGE_MAX, 4); /* so that there are bytes for more readers */
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bytes_store(bytes + bits_at, bad[i], 4);
        assert_int_equal(decode_exact(bytes, WIRE_MESSAGE_MAX, &got), BATON_EMESSAGE);
    }
}

static void each_rule_of_the_other_messages_is_enforced(void **state)
{
    (void)state;
    struct wire_message m = specimen(WIRE_GRANT, LEAST);
    m.grant.generation = 0;
    refused(&m);
    m = specimen(WIRE_WANT, MOST);
    m.want.generation = 0;
    refused(&m);
    m = specimen(WIRE_WANT, MOST);
    m.want.table_entries = 0;
    refused(&m);
    m = specimen(WIRE_CANCEL, LEAST);
    m.end.error = 0;
    refused(&m);
    m = specimen(WIRE_WRITTEN, LEAST);
    m.written.error = 1;
    refused(&m);
    m = specimen(WIRE_BEAT, LEAST);
    m.beat.ask = 2;
    refused(&m);
    m = specimen(WIRE_NACK, LEAST);
    m.nack.error = 0;
    refused(&m);
    m.nack.error = 1;
    refused(&m);
    for (int quiet = 0; quiet < 256; quiet++) {
        m = specimen(WIRE_CLOSED, LEAST);
        m.closed.quiet = (uint8_t)quiet;
        if (quiet != WIRE_QUIET && quiet != WIRE_NOT_KNOWN) {
            refused(&m);
        }
    }
    const enum wire_type keyed[] = {WIRE_DONE, WIRE_CANCEL, WIRE_RELEASE};
    for (size_t i = 0; i < sizeof keyed / sizeof keyed[0]; i++) {
        m = specimen(keyed[i], MOST);
        m.end.name.key[0] = '\0';
        refused(&m);
    }
    m = specimen(WIRE_ENDED, LEAST);
    m.ended.wants.num = 0;
    refused(&m);
    m = specimen(WIRE_GRANT, MOST);
    m.grant.attach.num = BATON_ATTACH_MAX + 1;
    refused(&m);
    m = specimen(WIRE_DONE, LEAST);
    m.end.error = 1;
    refused(&m);
    m = specimen(WIRE_RELEASE, LEAST);
    m.end.error = INT32_MAX;
    refused(&m);
}

static void a_text_that_does_not_end_is_refused(void **state)
{
    (void)state;
    struct wire_message m = specimen(WIRE_CANCEL, MOST), got;
    uint8_t bytes[WIRE_MESSAGE_MAX];
    uint32_t n = wire_encode(&m, bytes);
    bytes[BODY_AT + 7] = 0; /* a key that ends before its length says */
    assert_int_equal(decode_exact(bytes, n, &got), BATON_EMESSAGE);
    m = specimen(WIRE_BEAT, MOST);
    n = wire_encode(&m, bytes);
    bytes[n - 1] = 'd';
    assert_int_equal(decode_exact(bytes, n, &got), BATON_EMESSAGE);
}

static void each_type_has_a_name_of_its_own(void **state)
{
    (void)state;
    assert_string_equal(wire_type_name(WIRE_WANT), "WANT");
    assert_string_equal(wire_type_name(WIRE_RELEASE), "RELEASE");
    for (enum wire_type a = WIRE_WANT; a <= WIRE_TYPE_LAST; a++) {
        for (enum wire_type b = WIRE_WANT; b < a; b++) {
            assert_string_not_equal(wire_type_name(a), wire_type_name(b));
        }
    }
    assert_non_null(wire_type_name((enum wire_type)0));
    assert_string_equal(wire_type_name((enum wire_type)0), wire_type_name((enum wire_type)200));
}

static void hashes_come_back(void **state)
{
    (void)state;
    uint8_t bytes[WIRE_MESSAGE_MAX];
    struct wire_message m = specimen(WIRE_SUMS, MOST), back;
    assert_int_equal(wire_decode(bytes, wire_encode(&m, bytes), &back), 0);
    assert_int_equal(back.sums.hashes.num, WIRE_LIST_MAX);
    for (uint32_t i = 0; i < WIRE_LIST_MAX; i++)
        assert_true(wire_list_at(&back.sums.hashes, i) == m.sums.hashes.out[i]);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static struct wire_row row_specimen(enum extreme x)
{
    uint32_t most = x == MOST ? UINT32_MAX : 0;
    struct wire_row row;
    memset(&row, 0, sizeof row);
    fill_text(row.engine, x == MOST ? sizeof row.engine : 2, 'e');
    row.role = x == MOST ? BATON_ROLE_BOTH : BATON_ROLE_PREFILL;
    row.tp = row.pp = x == MOST ? UINT16_MAX : 1;
    row.tp_rank = row.pp_rank = x == MOST ? UINT16_MAX - 1 : 0;
    row.node = row.package = row.numa = most;
    row.num_boxes = x == MOST ? BATON_SPLITS_MAX : 0;
    row.rules = x == MOST ? UINT8_MAX : 0;
    row.model = x == MOST ? UINT32_MAX : 0;
    row.block_tokens = x == MOST ? UINT32_MAX - 1 : 0;
    row.features = most;
    row.box[0] = (struct plan_box){most / 2, most / 2, most - 1 + (x == LEAST), x == MOST, 0};
    for (uint32_t i = 1; i < row.num_boxes; i++)
        row.box[i] = (struct plan_box){most / 2, most / 2, UINT16_MAX, UINT16_MAX, i};
    fill_text(row.host, x == MOST ? sizeof row.host : 1, 'h');
    row.number = x == MOST ? UINT64_MAX : 1;
    row.life = x == MOST ? UINT64_MAX : 0;
    row.card_offset = x == MOST ? UINT64_MAX - WIRE_CARD_MAX : 0;
    row.card_bytes = x == MOST ? WIRE_CARD_MAX : 0;
    return row;
}

static void assert_same_row(const struct wire_row *a, const struct wire_row *b)
{
    assert_string_equal(a->engine, b->engine);
    assert_int_equal(a->role, b->role);
    assert_true(a->tp == b->tp && a->pp == b->pp && a->tp_rank == b->tp_rank && a->pp_rank == b->pp_rank);
    assert_true(a->node == b->node && a->package == b->package && a->numa == b->numa);
    assert_int_equal(a->num_boxes, b->num_boxes);
    assert_int_equal(a->rules, b->rules);
    assert_int_equal(a->model, b->model);
    assert_int_equal(a->block_tokens, b->block_tokens);
    assert_memory_equal(a->box, b->box, sizeof a->box);
    assert_true(a->number == b->number && a->life == b->life && a->card_offset == b->card_offset);
    assert_string_equal(a->host, b->host);
    assert_int_equal(a->card_bytes, b->card_bytes);
}

static void seal_row(uint8_t bytes[WIRE_ROW_BYTES])
{
    bytes_store(bytes + ROW_SUM_AT, XXH3_64bits(bytes, ROW_SUM_AT), 8);
}

static void every_row_comes_back(void **state)
{
    (void)state;
    for (enum extreme x = LEAST; x <= MOST; x++) {
        struct wire_row sent = row_specimen(x), got;
        uint8_t bytes[WIRE_ROW_BYTES];
        memset(bytes, 0xa5, sizeof bytes);
        wire_row_encode(&sent, bytes);
        assert_int_equal(wire_row_decode(bytes, &got), 0);
        assert_same_row(&sent, &got);
    }
}

static void a_row_with_any_wrong_byte_is_refused(void **state)
{
    (void)state;
    struct wire_row row = row_specimen(MOST), got;
    uint8_t bytes[WIRE_ROW_BYTES];
    wire_row_encode(&row, bytes);
    for (uint32_t i = 0; i < WIRE_ROW_BYTES; i++) {
        for (unsigned flip = 1; flip < 256; flip++) {
            bytes[i] ^= (uint8_t)flip;
            assert_int_equal(wire_row_decode(bytes, &got), BATON_EMESSAGE);
            bytes[i] ^= (uint8_t)flip;
        }
    }
    assert_int_equal(wire_row_decode(bytes, &got), 0);
}

static void row_refused(struct wire_row row)
{
    struct wire_row got;
    uint8_t bytes[WIRE_ROW_BYTES];
    wire_row_encode(&row, bytes);
    assert_int_equal(wire_row_decode(bytes, &got), BATON_EMESSAGE);
}

#define ROW_REFUSED(change)                                                                                            \
    do {                                                                                                               \
        struct wire_row row = row_specimen(LEAST);                                                                     \
        change;                                                                                                        \
        row_refused(row);                                                                                              \
    } while (0)

static void each_rule_of_a_row_is_enforced(void **state)
{
    (void)state;
    ROW_REFUSED(row.engine[0] = '\0');
    ROW_REFUSED(row.role = 0);
    ROW_REFUSED(row.role = BATON_ROLE_BOTH + 1);
    ROW_REFUSED(row.tp = 0);
    ROW_REFUSED(row.pp = 0);
    ROW_REFUSED(row.tp_rank = row.tp);
    ROW_REFUSED(row.pp_rank = row.pp);
    ROW_REFUSED(row.number = 0);
    ROW_REFUSED(row.card_bytes = WIRE_CARD_MAX + 1);
    ROW_REFUSED((row.box[0].layer_first = 1, row.box[0].layer_count = UINT32_MAX));
    ROW_REFUSED((row.box[0].head_first = UINT32_MAX, row.box[0].head_count = 1));
    ROW_REFUSED(row.num_boxes = BATON_SPLITS_MAX + 1);
    ROW_REFUSED((row.num_boxes = 2, row.box[1].head_count = 1)); /* with nothing in the first box */
    ROW_REFUSED((row.num_boxes = 2, row.box[0] = (struct plan_box){0, 1, 0, 1, 0}));
    ROW_REFUSED((row.num_boxes = 1, row.box[0] = (struct plan_box){0, 0, 0, 1, 0}));
    ROW_REFUSED((row.num_boxes = 1, row.box[0] = (struct plan_box){0, 1, 0, 0, 0}));
}

static void an_engine_name_has_letters_digits_dot_dash_and_underscore(void **state)
{
    (void)state;
    for (int c = 1; c < 256; c++) {
        struct wire_row row = row_specimen(LEAST), got;
        row.engine[1] = (char)c;
        uint8_t bytes[WIRE_ROW_BYTES];
        wire_row_encode(&row, bytes);
        int good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
                   c == '-';
        assert_int_equal(wire_row_decode(bytes, &got), good ? 0 : BATON_EMESSAGE);
    }
}

static void a_sealed_row_of_another_kind_is_refused(void **state)
{
    (void)state;
    struct wire_row row = row_specimen(LEAST), got;
    uint8_t good[WIRE_ROW_BYTES], bytes[WIRE_ROW_BYTES];
    wire_row_encode(&row, good);
    memcpy(bytes, good, sizeof bytes);
    bytes[0] ^= 1;
    seal_row(bytes);
    assert_int_equal(wire_row_decode(bytes, &got), BATON_EMESSAGE);
    memcpy(bytes, good, sizeof bytes);
    bytes[VERSION_AT] = 0;
    seal_row(bytes);
    assert_int_equal(wire_row_decode(bytes, &got), BATON_EMESSAGE);
    for (uint32_t name = 0; name < 2; name++) { /* the engine's and the host's, without a terminating 0 */
        memcpy(bytes, good, sizeof bytes);
        memset(bytes + 4 + name * BATON_ENGINE_NAME_MAX, 'e', BATON_ENGINE_NAME_MAX);
        seal_row(bytes);
        assert_int_equal(wire_row_decode(bytes, &got), BATON_EMESSAGE);
    }
    memcpy(bytes, good, sizeof bytes);
    bytes[VERSION_AT] = WIRE_VERSION + 1; /* a later version, with something in the spare bytes */
    bytes[ROW_SUM_AT - 1] = 7;
    seal_row(bytes);
    assert_int_equal(wire_row_decode(bytes, &got), 0);
    assert_same_row(&row, &got);
}

static void random_rows_are_refused_or_in_range(void **state)
{
    (void)state;
    uint64_t seed = 7;
    uint32_t accepted = 0;
    struct wire_row good = row_specimen(LEAST), got;
    uint8_t bytes[WIRE_ROW_BYTES], start[WIRE_ROW_BYTES];
    wire_row_encode(&good, start);
    for (int round = 0; round < RANDOM_BUFFERS; round++) {
        if (round % 2 == 0) {
            bytes_fill(&seed, bytes, sizeof bytes);
        } else { /* a few bytes of a good row changed, and its checksum made anew */
            memcpy(bytes, start, sizeof bytes);
            for (int i = 0; i < 3; i++) {
                bytes[bytes_random(&seed) % ROW_SUM_AT] = (uint8_t)bytes_random(&seed);
            }
            seal_row(bytes);
        }
        int rc = wire_row_decode(bytes, &got);
        assert_true(rc == 0 || rc == BATON_EMESSAGE);
        if (rc == 0) {
            assert_true(got.tp_rank < got.tp && got.pp_rank < got.pp && got.number != 0);
            assert_in_range(got.role, BATON_ROLE_PREFILL, BATON_ROLE_BOTH);
            assert_true(got.card_bytes <= WIRE_CARD_MAX);
            assert_in_range(strnlen(got.engine, sizeof got.engine), 1, sizeof got.engine - 1);
            accepted++;
        }
    }
    assert_true(accepted > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_comes_back),
        cmocka_unit_test(a_truncated_message_is_refused),
        cmocka_unit_test(a_corrupted_message_is_refused_or_in_range),
        cmocka_unit_test(random_bytes_never_crash_the_decoder),
        cmocka_unit_test(a_longer_message_of_a_newer_version_is_understood),
        cmocka_unit_test(a_broken_header_is_refused),
        cmocka_unit_test(a_length_that_is_not_what_came_is_refused),
        cmocka_unit_test(each_bound_of_the_schema_is_enforced),
        cmocka_unit_test(each_rule_of_a_want_is_enforced),
        cmocka_unit_test(more_readers_than_an_engine_has_ranks_are_refused),
        cmocka_unit_test(each_rule_of_the_other_messages_is_enforced),
        cmocka_unit_test(a_text_that_does_not_end_is_refused),
        cmocka_unit_test(each_type_has_a_name_of_its_own),
        cmocka_unit_test(hashes_come_back),
        cmocka_unit_test(every_row_comes_back),
        cmocka_unit_test(a_row_with_any_wrong_byte_is_refused),
        cmocka_unit_test(each_rule_of_a_row_is_enforced),
        cmocka_unit_test(an_engine_name_has_letters_digits_dot_dash_and_underscore),
        cmocka_unit_test(a_sealed_row_of_another_kind_is_refused),
        cmocka_unit_test(random_rows_are_refused_or_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
