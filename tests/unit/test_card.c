/* SPDX-License-Identifier: BSD-3-Clause */
/* test_card: cards and block tables as bytes: round trips, refusals, hostile input. Their bytes: test_frozen. */
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
#include "wire/table.h"
#include "wire/version.h"
#include "with_bytes.h"

#define RANDOM_BUFFERS 200000
#define VERSION_AT 2
#define SPARE_AT 3
#define LENGTH_AT 4
#define SUM_AT 8
#define REGION_BYTES 49
#define BODY_AT 16
#define FLAG_AT (BODY_AT + 8 + 12 + 32 + 28) /* has_geometry */
#define MODEL_AT (FLAG_AT + 4)
#define GROUPS_AT (MODEL_AT + 64 + 16 + 24 + 8) /* num_groups */
#define SPLITS_AT (GROUPS_AT + 1 + 13)          /* num_splits, behind one group */
#define COUNT_AT (SPLITS_AT + 1 + 12)           /* num_tensors, behind one split */
#define NAME_AT (COUNT_AT + 4)                  /* the first tensor's name, its length in front */

/* ---- specimens --------------------------------------------------------------------------------------------------- */

static struct wire_card bare_card(void)
{
    struct wire_card card;
    memset(&card, 0, sizeof card);
    card.member = UINT64_C(0x0102030405060708);
    card.board_offset = UINT64_C(0x1112131415161718);
    card.board_slots = 0x21222324;
    card.arena_offset = UINT64_C(0x3132333435363738);
    card.arena_bytes = UINT64_C(0x4142434445464748);
    card.pool_offset = UINT64_C(0x5152535455565758);
    card.pool_bytes = UINT64_C(0x6162636465666768);
    card.features = 0x71727374;
    card.index_offset = UINT64_C(0x8182838485868788);
    card.index_slots = 0x91929394;
    card.words_offset = UINT64_C(0xa1a2a3a4a5a6a7a8);
    card.words_slots = 0xb1b2b3b4;
    return card;
}

/** A card with `n` tensors, which lie in `tensors`. `long_names`: their names are as long as possible. */
static struct wire_card card_of(uint32_t n, baton_tensor_t *tensors, int long_names)
{
    struct wire_card card = bare_card();
    baton_geometry_t *g = &card.geometry;
    card.has_geometry = 1;
    strcpy(g->model, "llama-3");
    strcpy(g->dtype, "bf16");
    g->elem_bytes = 2;
    g->planes = 3;
    g->num_groups = 1;
    g->groups[0].block_tokens = 4;
    g->head_size = 5;
    g->groups[0].num_blocks = 6;
    g->num_splits = 1;
    g->splits[0].heads_total = 7;
    g->splits[0].head_first = 8;
    g->splits[0].head_count = 9;
    g->layers_total = 10;
    g->layer_first = 11;
    g->layer_count = 12;
    g->bytes = UINT64_C(0x7172737475767778);
    g->num_tensors = n;
    g->tensors = tensors;
    for (uint32_t i = 0; i < n; i++) {
        memset(&tensors[i], 0, sizeof tensors[i]);
        snprintf(tensors[i].name, sizeof tensors[i].name, long_names ? "%063u" : "layer.%u", i);
        tensors[i].layer = i;
        tensors[i].region = UINT32_MAX - i;
        tensors[i].offset = UINT64_MAX - i;
        tensors[i].stride = (baton_strides_t){INT64_MIN, INT64_MAX, -1, 0, (int64_t)i};
    }
    return card;
}

static void seal_card(uint8_t *bytes, uint32_t n)
{
    bytes_store(bytes + LENGTH_AT, n, 4);
    bytes_store(bytes + SUM_AT, XXH3_64bits(bytes + BODY_AT, n - BODY_AT), 8);
}

/** Decodes from a copy of exactly that length. */
static int decode_exact(const uint8_t *in, uint32_t bytes, struct wire_card *card)
{
    uint8_t *copy = bytes_copy(in, bytes);
    int rc = wire_card_decode(copy, bytes, card);
    free(copy);
    return rc;
}

static void assert_same_card(const struct wire_card *a, const struct wire_card *b)
{
    assert_true(a->member == b->member);
    assert_true(a->board_offset == b->board_offset && a->board_slots == b->board_slots);
    assert_true(a->arena_offset == b->arena_offset && a->arena_bytes == b->arena_bytes);
    assert_true(a->pool_offset == b->pool_offset && a->pool_bytes == b->pool_bytes);
    assert_true(a->features == b->features && a->index_offset == b->index_offset && a->index_slots == b->index_slots);
    assert_true(a->words_offset == b->words_offset && a->words_slots == b->words_slots);
    assert_true(a->segment == b->segment);
    assert_int_equal(a->num_regions, b->num_regions);
    for (uint32_t i = 0; i < a->num_regions; i++) {
        const struct wire_region *x = &a->regions[i], *y = &b->regions[i];
        assert_true(x->address == y->address && x->bytes == y->bytes && x->descriptor == y->descriptor);
        assert_true(x->device == y->device && x->inode == y->inode && x->offset == y->offset);
        assert_true(x->memory == y->memory && x->ordinal == y->ordinal);
    }
    assert_int_equal(a->has_geometry, b->has_geometry);
    const baton_geometry_t *g = &a->geometry, *h = &b->geometry;
    assert_string_equal(g->model, h->model);
    assert_string_equal(g->dtype, h->dtype);
    assert_true(g->elem_bytes == h->elem_bytes && g->planes == h->planes &&
                g->groups[0].block_tokens == h->groups[0].block_tokens);
    assert_true(g->head_size == h->head_size && g->groups[0].num_blocks == h->groups[0].num_blocks &&
                g->bytes == h->bytes);
    assert_true(g->splits[0].heads_total == h->splits[0].heads_total &&
                g->splits[0].head_first == h->splits[0].head_first &&
                g->splits[0].head_count == h->splits[0].head_count);
    assert_true(g->layers_total == h->layers_total && g->layer_first == h->layer_first);
    assert_int_equal(g->layer_count, h->layer_count);
    assert_int_equal(g->num_tensors, h->num_tensors);
    for (uint32_t i = 0; i < g->num_tensors; i++) {
        const baton_tensor_t *t = &g->tensors[i], *u = &h->tensors[i];
        assert_string_equal(t->name, u->name);
        assert_true(t->layer == u->layer && t->region == u->region && t->offset == u->offset);
        assert_memory_equal(&t->stride, &u->stride, sizeof t->stride);
    }
}

/* ---- cards ------------------------------------------------------------------------------------------------------- */

static void assert_comes_back(const struct wire_card *sent)
{
    static uint8_t bytes[WIRE_CARD_MAX];
    struct wire_card got;
    int n = wire_card_encode(sent, bytes, sizeof bytes);
    assert_in_range(n, 1, WIRE_CARD_MAX);
    memset(&got, 0xa5, sizeof got);
    assert_int_equal(decode_exact(bytes, (uint32_t)n, &got), 0);
    assert_same_card(sent, &got);
    wire_card_free(&got);
    assert_null(got.geometry.tensors);
}

static void every_card_comes_back(void **state)
{
    (void)state;
    static baton_tensor_t tensors[BATON_TENSORS_MAX];
    struct wire_card card = bare_card();
    assert_comes_back(&card);
    card.board_slots = UINT32_MAX;
    assert_comes_back(&card);
    card = card_of(1, tensors, 0);
    assert_comes_back(&card);
    card = card_of(BATON_TENSORS_MAX, tensors, 1);
    assert_comes_back(&card);
    static struct wire_region regions[BATON_REGIONS_MAX]; /* the largest card that there is */
    for (uint32_t i = 0; i < BATON_REGIONS_MAX; i++)
        regions[i] = (struct wire_region){
            UINT64_MAX - i, i, WIRE_NO_FILE - i % 2, i + 3, i + 4, UINT64_MAX - i, i % (BATON_MEMORY_SHARED + 1),
            i + 5};
    for (uint32_t i = 0; i < BATON_TENSORS_MAX; i++)
        memset(tensors[i].name, 'n', BATON_NAME_MAX - 1);
    card.regions = regions;
    card.num_regions = BATON_REGIONS_MAX;
    card.segment = UINT64_C(0x9192939495969798);
    assert_comes_back(&card);
}

static void regions_are_checked(void **state)
{
    (void)state;
    baton_tensor_t tensors[2];
    struct wire_region region = {UINT64_C(1) << 40, 1 << 20, 7, 8, 9, 10, BATON_MEMORY_DEVICE, 11};
    struct wire_card card = card_of(2, tensors, 0), got;
    static uint8_t bytes[WIRE_CARD_MAX];
    card.regions = &region;
    card.num_regions = 1;
    uint32_t n = (uint32_t)wire_card_encode(&card, bytes, sizeof bytes), count_at = n - REGION_BYTES - 4;
    const struct {
        uint32_t at;
        uint64_t value;
        unsigned width;
        int rc;
    } cases[] = {{count_at, 1, 4, 0},
                 {count_at, 2, 4, BATON_EMESSAGE}, /* more than the card has */
                 {count_at, BATON_REGIONS_MAX + 1, 4, BATON_EMESSAGE},
                 {count_at, UINT32_MAX, 4, BATON_EMESSAGE},
                 {count_at + 4, UINT64_MAX - 100, 8, BATON_EMESSAGE}, /* past the end of all addresses */
                 {count_at + 12, UINT64_MAX, 8, BATON_EMESSAGE},
                 {count_at + 4 + 44, BATON_MEMORY_SHARED, 1, 0},
                 {count_at + 4 + 44, BATON_MEMORY_SHARED + 1, 1, BATON_EMESSAGE}}; /* no kind of memory */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wire_card_encode(&card, bytes, sizeof bytes);
        bytes_store(bytes + cases[i].at, cases[i].value, cases[i].width);
        seal_card(bytes, n);
        assert_int_equal(decode_exact(bytes, n, &got), cases[i].rc);
        if (cases[i].rc == 0)
            wire_card_free(&got);
    }
    card.has_geometry = 0; /* regions of nothing */
    n = (uint32_t)wire_card_encode(&card, bytes, sizeof bytes);
    assert_int_equal(decode_exact(bytes, n, &got), BATON_EMESSAGE);
}

static void a_card_that_does_not_fit_is_not_written(void **state)
{
    (void)state;
    baton_tensor_t tensors[2];
    struct wire_card card = card_of(2, tensors, 0);
    static uint8_t whole[WIRE_CARD_MAX];
    int n = wire_card_encode(&card, whole, sizeof whole);
    for (int size = 0; size < n; size++) {
        uint8_t *out = malloc(size > 0 ? (size_t)size : 1); /* so that the sanitizer watches its end */
        assert_non_null(out);
        assert_int_equal(wire_card_encode(&card, out, (uint32_t)size), BATON_EINVAL);
        free(out);
    }
    uint8_t *out = malloc((size_t)n);
    assert_non_null(out);
    assert_int_equal(wire_card_encode(&card, out, (uint32_t)n), n);
    assert_memory_equal(out, whole, (size_t)n);
    free(out);
}

static void a_truncated_card_is_refused(void **state)
{
    (void)state;
    baton_tensor_t tensors[2];
    struct wire_card card = card_of(2, tensors, 0), got;
    static uint8_t bytes[WIRE_CARD_MAX];
    uint32_t n = (uint32_t)wire_card_encode(&card, bytes, sizeof bytes);
    for (uint32_t cut = 0; cut < n; cut++) {
        assert_int_equal(decode_exact(bytes, cut, &got), BATON_EMESSAGE);
        if (cut >= BODY_AT) { /* and a card whose own length says how short it is */
            uint8_t *short_one = bytes_copy(bytes, n);
            seal_card(short_one, cut);
            assert_int_equal(decode_exact(short_one, cut, &got), BATON_EMESSAGE);
            free(short_one);
        }
    }
}

/*
 * The version may be another one, and the spare byte anything: neither changes what is read. Every other wrong byte
 * must be found.
 */
static void a_card_with_a_wrong_byte_is_refused(void **state)
{
    (void)state;
    baton_tensor_t tensors[2];
    struct wire_card card = card_of(2, tensors, 0), got;
    static uint8_t bytes[WIRE_CARD_MAX];
    uint32_t n = (uint32_t)wire_card_encode(&card, bytes, sizeof bytes);
    uint8_t *copy = bytes_copy(bytes, n);
    for (uint32_t i = 0; i < n; i++) {
        for (unsigned flip = 1; flip < 256; flip++) {
            copy[i] = (uint8_t)(bytes[i] ^ flip);
            int rc = wire_card_decode(copy, n, &got);
            if (rc == 0) {
                assert_true(i == VERSION_AT || i == SPARE_AT);
                assert_same_card(&card, &got);
                wire_card_free(&got);
            } else {
                assert_int_equal(rc, BATON_EMESSAGE);
            }
        }
        copy[i] = bytes[i];
    }
    free(copy);
}

static void a_longer_card_of_a_newer_version_is_understood(void **state)
{
    (void)state;
    baton_tensor_t tensors[2];
    struct wire_card card = card_of(2, tensors, 0), got;
    static uint8_t bytes[WIRE_CARD_MAX + 1];
    uint32_t n = (uint32_t)wire_card_encode(&card, bytes, WIRE_CARD_MAX);
    memset(bytes + n, 0xee, sizeof bytes - n);
    bytes[VERSION_AT] = WIRE_VERSION + 1;
    const uint32_t longer[] = {n + 1, n + 100, WIRE_CARD_MAX};
    for (size_t i = 0; i < sizeof longer / sizeof longer[0]; i++) {
        seal_card(bytes, longer[i]);
        assert_int_equal(decode_exact(bytes, longer[i], &got), 0);
        assert_same_card(&card, &got);
        wire_card_free(&got);
    }
    seal_card(bytes, WIRE_CARD_MAX + 1);
    assert_int_equal(decode_exact(bytes, WIRE_CARD_MAX + 1, &got), BATON_EMESSAGE);
}

/** Decodes a good card of two tensors in which `width` bytes at `at` are replaced. Its checksum is made anew. */
static int decode_changed(uint32_t at, uint64_t value, unsigned width)
{
    baton_tensor_t tensors[2];
    struct wire_card card = card_of(2, tensors, 0), got;
    static uint8_t bytes[WIRE_CARD_MAX];
    uint32_t n = (uint32_t)wire_card_encode(&card, bytes, sizeof bytes);
    bytes_store(bytes + at, value, width);
    seal_card(bytes, n);
    int rc = decode_exact(bytes, n, &got);
    if (rc == 0) {
        wire_card_free(&got);
    }
    return rc;
}

static void each_rule_of_a_card_is_enforced(void **state)
{
    (void)state;
    assert_int_equal(decode_changed(BODY_AT, UINT64_C(0x0102030405060708), 8), 0); /* unchanged: the method is sound */
    const struct {
        uint32_t at;
        uint64_t value;
        unsigned width;
    } bad[] = {
        {0, 0, 2},
        {VERSION_AT, 0, 1},
        {BODY_AT, 0, 8}, /* magic, version, member */
        {FLAG_AT, 2, 4},
        {FLAG_AT, UINT32_MAX, 4},
        {MODEL_AT + 63, 'x', 1},
        {MODEL_AT + 79, 'x', 1}, /* model, dtype */
        {GROUPS_AT, 0, 1},
        {GROUPS_AT, BATON_GROUPS_MAX + 1, 1},
        {SPLITS_AT, 0, 1},
        {SPLITS_AT, BATON_SPLITS_MAX + 1, 1},
        {COUNT_AT, 3, 4},
        {COUNT_AT, BATON_TENSORS_MAX, 4},
        {COUNT_AT, BATON_TENSORS_MAX + 1, 4},
        {COUNT_AT, UINT32_MAX, 4},
        {NAME_AT, 64, 1},
        {NAME_AT, 255, 1},
        {NAME_AT + 2, 0, 1}, /* name too long; a NUL in it */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (decode_changed(bad[i].at, bad[i].value, bad[i].width) != BATON_EMESSAGE) {
            fail_msg("accepted: %llu at %u", (unsigned long long)bad[i].value, bad[i].at);
        }
    }
}

static void random_cards_never_crash_the_decoder(void **state)
{
    (void)state;
    uint64_t seed = 99;
    uint32_t accepted = 0;
    baton_tensor_t tensors[3];
    struct wire_card card = card_of(3, tensors, 0), got;
    static uint8_t good[WIRE_CARD_MAX];
    uint32_t n = (uint32_t)wire_card_encode(&card, good, sizeof good);
    uint8_t *bytes = bytes_copy(good, n);
    for (int round = 0; round < RANDOM_BUFFERS; round++) {
        memcpy(bytes, good, n);
        if (round % 4 == 0) { /* only noise */
            bytes_fill(&seed, bytes, 64);
        } else { /* some fields changed, with a good checksum: a hostile peer can do that */
            for (int i = 0; i < 4; i++) {
                uint32_t from = round % 2 ? COUNT_AT : BODY_AT;
                bytes[from + bytes_random(&seed) % (n - from)] = (uint8_t)bytes_random(&seed);
            }
            seal_card(bytes, n);
        }
        int rc = wire_card_decode(bytes, n, &got);
        assert_true(rc == 0 || rc == BATON_EMESSAGE);
        if (rc == 0) {
            assert_in_range(got.has_geometry, 0, 1);
            assert_true(got.member != 0 && got.geometry.num_tensors <= BATON_TENSORS_MAX);
            for (uint32_t i = 0; i < got.geometry.num_tensors; i++) {
                assert_non_null(memchr(got.geometry.tensors[i].name, '\0', BATON_NAME_MAX));
            }
            wire_card_free(&got);
            accepted++;
        }
    }
    free(bytes);
    assert_in_range(accepted, 1000, RANDOM_BUFFERS - 1000);
}

/* ---- block tables ------------------------------------------------------------------------------------------------ */

#define SLOT 0x11121314u
#define GENERATION UINT64_C(0x2122232425262728)
#define IDS_MAX 7500u

static uint32_t blocks[IDS_MAX], found[IDS_MAX];
static uint8_t table[WIRE_TABLE_HEADER + IDS_MAX * 4];

static void write_table(uint64_t generation, const uint32_t *ids, uint32_t n)
{
    struct plan_tables tables = {.num = 1, .table = {{.blocks = ids, .num_blocks = n}}};
    assert_int_equal(wire_table_entries(&tables), n);
    wire_table_encode(SLOT, generation, &tables, table);
}

/** Reads one table, and its first `want` block ids into `found`. */
static int read_table(const uint8_t *in, uint64_t bytes, uint32_t slot, uint64_t generation, uint32_t want,
                      uint32_t limit)
{
    const baton_group_t group = {.block_tokens = 1, .num_blocks = limit};
    struct plan_tables tables;
    struct plan_why why;
    uint32_t *ids;
    int rc = wire_table_decode(in, bytes, slot, generation, &tables, &ids);
    if (rc != 0)
        return rc;
    assert_int_equal(tables.num, 1);
    rc = plan_table_check(&group, &tables.table[0], 0, want, &why);
    if (rc == 0)
        memcpy(found, tables.table[0].blocks, want * sizeof *found);
    free(ids);
    return rc;
}

static uint64_t encode_table(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        blocks[i] = i * 31 % IDS_MAX;
    }
    write_table(GENERATION, blocks, n);
    return wire_table_bytes(n);
}

/** Decodes from a copy of exactly that length. */
static int table_exact(const uint8_t *in, uint64_t bytes, uint32_t want, uint32_t limit)
{
    uint8_t *copy = bytes_copy(in, bytes);
    int rc = read_table(copy, bytes, SLOT, GENERATION, want, limit);
    free(copy);
    return rc;
}

static void every_table_comes_back(void **state)
{
    (void)state;
    const uint32_t sizes[] = {1, 2, 63, 1024, 1025, IDS_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t n = sizes[i];
        uint64_t bytes = encode_table(n);
        memset(found, 0xff, sizeof found);
        assert_int_equal(table_exact(table, bytes, n, IDS_MAX), 0);
        assert_memory_equal(found, blocks, n * 4);
        memset(found, 0xff, sizeof found);
        assert_int_equal(table_exact(table, bytes, (n + 1) / 2, IDS_MAX), 0); /* only the first ids */
        assert_memory_equal(found, blocks, (n + 1) / 2 * 4);
        assert_true(n < 2 || found[(n + 1) / 2] == UINT32_MAX);
    }
}

static void a_table_of_another_lease_is_stale(void **state)
{
    (void)state;
    uint64_t bytes = encode_table(8);
    assert_int_equal(read_table(table, bytes, SLOT + 1, GENERATION, 8, IDS_MAX), BATON_ESTALE);
    assert_int_equal(read_table(table, bytes, SLOT, GENERATION + 1, 8, IDS_MAX), BATON_ESTALE);
    assert_int_equal(read_table(table, bytes, SLOT, GENERATION - 1, 8, IDS_MAX), BATON_ESTALE);
    memset(table, 0, sizeof table); /* a slot that was never written */
    assert_int_equal(read_table(table, bytes, 0, 0, 0, IDS_MAX), BATON_ESTALE);
}

static void a_table_half_replaced_is_stale(void **state)
{
    (void)state;
    uint64_t bytes = encode_table(64);
    uint8_t *torn = bytes_copy(table, bytes);
    for (uint32_t i = 0; i < 64; i++) {
        blocks[i] = 63 - i;
    }
    write_table(GENERATION + 1, blocks, 64);
    memcpy(torn + WIRE_TABLE_HEADER + 128, table + WIRE_TABLE_HEADER + 128, 128);
    assert_int_equal(table_exact(torn, bytes, 64, IDS_MAX), BATON_ESTALE);
    free(torn);
}

static void an_id_outside_is_found(void **state)
{
    (void)state;
    uint64_t bytes = encode_table(4); /* 0, 31, 62, 93 */
    assert_int_equal(table_exact(table, bytes, 4, 94), 0);
    assert_int_equal(table_exact(table, bytes, 4, 93), BATON_EBLOCK);
    assert_int_equal(table_exact(table, bytes, 4, 0), BATON_EBLOCK);
}

static void a_table_of_too_few_ids_is_refused(void **state)
{
    (void)state;
    uint64_t bytes = encode_table(4);
    assert_int_equal(table_exact(table, bytes, 5, IDS_MAX), BATON_ETOKENS);
    assert_int_equal(table_exact(table, bytes, UINT32_MAX, IDS_MAX), BATON_ETOKENS);
}

static void a_truncated_table_is_stale(void **state)
{
    (void)state;
    uint64_t bytes = encode_table(16);
    for (uint64_t cut = 1; cut < bytes; cut++) {
        assert_int_equal(table_exact(table, cut, 1, IDS_MAX), BATON_ESTALE);
    }
}

/** As with cards: version and spare bytes (3, 20 to 23) change nothing, and every other wrong byte is found. */
static void a_table_with_a_wrong_byte_is_stale(void **state)
{
    (void)state;
    uint64_t bytes = encode_table(16);
    uint8_t *copy = bytes_copy(table, bytes);
    for (uint32_t i = 0; i < bytes; i++) {
        for (unsigned flip = 1; flip < 256; flip++) {
            copy[i] = (uint8_t)(table[i] ^ flip);
            int rc = read_table(copy, bytes, SLOT, GENERATION, 16, IDS_MAX);
            if (rc == 0) {
                assert_true(i == VERSION_AT || i == SPARE_AT || (i >= 20 && i < 24));
                assert_memory_equal(found, blocks, 16 * 4);
            } else {
                assert_int_equal(rc, BATON_ESTALE);
            }
        }
        copy[i] = table[i];
    }
    free(copy);
}

static void random_tables_are_refused(void **state)
{
    (void)state;
    uint64_t seed = 5, bytes = encode_table(8);
    uint8_t *copy = bytes_copy(table, bytes);
    for (int round = 0; round < RANDOM_BUFFERS; round++) {
        if (round % 2 == 0) {
            bytes_fill(&seed, copy, bytes);
        } else { /* a right header up to the count, then noise */
            memcpy(copy, table, 16);
            bytes_fill(&seed, copy + 16, bytes - 16);
            copy[18] = copy[19] = 0; /* counts that are near the truth */
            copy[17] &= round % 4 == 1 ? 0 : 0xff;
        }
        assert_int_equal(read_table(copy, bytes, SLOT, GENERATION, 4, IDS_MAX), BATON_ESTALE);
    }
    free(copy);
}

/** Of several tables, or one that begins later, sizes and first tokens come back too. Nonsense is refused. */
static void tables_of_groups_come_back(void **state)
{
    (void)state;
    static const uint32_t full[] = {7, 8, 9, 10}, window[] = {3}, state_ids[] = {5};
    const struct plan_tables sent = {.num = 3, .table = {{full, 4, 0}, {window, 1, 48}, {state_ids, 1, 0}}};
    const struct plan_tables late = {.num = 1, .table = {{full, 4, 32}}}, none = {.num = 2};
    const struct plan_tables *all[] = {&sent, &late, &none};
    struct plan_tables got;
    uint32_t *ids;
    for (unsigned i = 0; i < 3; i++) {
        wire_table_encode(SLOT, GENERATION, all[i], table);
        uint64_t bytes = wire_table_bytes(wire_table_entries(all[i]));
        assert_int_equal(wire_table_decode(table, bytes, SLOT, GENERATION, &got, &ids), 0);
        assert_int_equal(got.num, all[i]->num);
        for (uint32_t k = 0; k < got.num; k++) {
            const baton_table_t *a = &all[i]->table[k], *b = &got.table[k];
            assert_int_equal(a->num_blocks, b->num_blocks);
            assert_int_equal(a->first_token, b->first_token);
            for (uint32_t n = 0; n < a->num_blocks; n++)
                assert_int_equal(a->blocks[n], b->blocks[n]);
        }
        free(ids);
        for (uint64_t cut = 0; cut < bytes; cut++)
            assert_int_equal(wire_table_decode(table, cut, SLOT, GENERATION, &got, &ids), BATON_ESTALE);
    }
}

/** A table whose checksum is right, but whose numbers describe no tables. */
static void tables_of_wrong_numbers_are_malformed(void **state)
{
    (void)state;
    static const uint32_t numbers[][4] = {{0, 0, 0, 0}, {9, 0, 0, 0}, {1, 2, 0, 7},
                                          {1, 0, 0, 7}, {2, 0, 0, 0}, {1, UINT32_MAX, 0, 1}};
    struct plan_tables got;
    uint32_t *ids;
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct plan_tables shape = {.num = 1,
                                    .table = {{numbers[i], 1, 1}}}; /* four numbers: replaced by others below */
        wire_table_encode(SLOT, GENERATION, &shape, table);

        for (unsigned k = 0; k < 4; k++)
            bytes_store(table + WIRE_TABLE_HEADER + 4 * k, numbers[i][k], 4);
        uint64_t seed = GENERATION ^ ((uint64_t)SLOT << 32) ^ (4u << 1) ^ 1;
        bytes_store(table + 24, XXH3_64bits_withSeed(table + WIRE_TABLE_HEADER, 16, seed), 8);
        assert_int_equal(wire_table_decode(table, wire_table_bytes(4), SLOT, GENERATION, &got, &ids), BATON_EMESSAGE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_card_comes_back),
        cmocka_unit_test(a_card_that_does_not_fit_is_not_written),
        cmocka_unit_test(a_truncated_card_is_refused),
        cmocka_unit_test(regions_are_checked),
        cmocka_unit_test(a_card_with_a_wrong_byte_is_refused),
        cmocka_unit_test(a_longer_card_of_a_newer_version_is_understood),
        cmocka_unit_test(each_rule_of_a_card_is_enforced),
        cmocka_unit_test(random_cards_never_crash_the_decoder),
        cmocka_unit_test(every_table_comes_back),
        cmocka_unit_test(a_table_of_another_lease_is_stale),
        cmocka_unit_test(a_table_half_replaced_is_stale),
        cmocka_unit_test(an_id_outside_is_found),
        cmocka_unit_test(a_table_of_too_few_ids_is_refused),
        cmocka_unit_test(a_truncated_table_is_stale),
        cmocka_unit_test(a_table_with_a_wrong_byte_is_stale),
        cmocka_unit_test(random_tables_are_refused),
        cmocka_unit_test(tables_of_groups_come_back),
        cmocka_unit_test(tables_of_wrong_numbers_are_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
