/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_frozen: this build writes the bytes of version 1, and reads them again. Built with the next version too, which
 * writes messages so for ranks of this one, and puts its own fields behind those of cards, rows and tables.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "with_bytes.h"
#include "with_messages.h"
#include "with_recognisable.h"
#include "wire/card.h"
#include "wire/envelope.h"
#include "wire/row.h"
#include "wire/table.h"

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static const char *const messages[] = {
    [WIRE_WANT] = "424d0101 5d000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                  "24232221 05726571 2d37d4d3 d2d102a4 a3a2a134 33323144 4342410b 00000081 "
                  "05747372 71848382 81989796 95949392 91b8b7b6 b5b4b3b2 b1141312 11",
    [WIRE_GRANT] = "424d0102 4e000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                   "24232221 a4a3a2a1 34333231 44434241 54535251 68676665 64636261 78777675 "
                   "74737271 010300c1 c2c30200 c2c3",
    [WIRE_NACK] = "424d0103 94000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                  "24232221 a4a3a2a1 f3ffffff 676f6e65 00000000 00000000 00000000 00000000 "
                  "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                  "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                  "00000000 00000000 00000000 b8b7b6b5 b4b3b2b1",
    [WIRE_DONE] = "424d0104 3a000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                  "24232221 05726571 2d37d4d3 d2d1f3ff ffffb8b7 b6b5b4b3 b2b1",
    [WIRE_CANCEL] = "424d0105 3a000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                    "24232221 05726571 2d37d4d3 d2d1f3ff ffffb8b7 b6b5b4b3 b2b1",
    [WIRE_CLOSED] = "424d0106 25000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                    "24232221 02",
    [WIRE_RELEASE] = "424d0107 36000000 08070605 04030201 18171615 14131211 94939291 00000000 "
                     "00000000 05726571 2d37d4d3 d2d1f3ff ffff3433 3231",
    [WIRE_WRITTEN] = "424d0108 a2000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                     "24232221 a4a3a2a1 f3ffffff 88878685 84838281 676f6e65 00000000 00000000 "
                     "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                     "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                     "00000000 00000000 00000000 00000000 00000000 b8b7b6b5 b4b3b2b1 030300c1 "
                     "c2c3",
    [WIRE_BEAT] = "424d0109 25000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                  "24232221 01",
    [WIRE_REPORT] = "424d010a 9d000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                    "24232221 05726571 2d37d4d3 d2d10268 67666564 63626102 f3ffffff 676f6e65 "
                    "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                    "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                    "00000000 00000000 00000000 00000000 00000000 00000000 00000000 01",
    [WIRE_VERDICT] = "424d010b a4000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                     "24232221 05726571 2d37d4d3 d2d10268 67666564 63626102 f3ffffff 78777675 "
                     "74737271 676f6e65 00000000 00000000 00000000 00000000 00000000 00000000 "
                     "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                     "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                     "00000000",
    [WIRE_ASK] = "424d010c 37000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                 "24232221 05726571 2d37d4d3 d2d10268 67666564 636261",
    [WIRE_STANDING] = "424d010d 97000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                      "24232221 05726571 2d37d4d3 d2d10268 67666564 63626167 6f6e6500 00000000 "
                      "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                      "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                      "00000000 00000000 00000000 00000000 00000000 000000",
    [WIRE_CHECK] = "424d010e 36000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                   "24232221 05726571 2d37d4d3 d2d14443 42411413 1211",
    [WIRE_SUMS] = "424d010f 40000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                  "24232221 00000000 54535251 02000000 88878685 84838281 98979695 94939291",
    [WIRE_READY] = "424d0110 44000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                   "24232221 68676665 64636261 74737211 74737221 74737231 74737241 78777675 "
                   "74737251",
    [WIRE_INQUIRY] = "424d0111 2c000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                     "24232221 58575655 54535251",
    [WIRE_WITNESS] = "424d0112 2d000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                     "24232221 58575655 54535251 02",
    [WIRE_LEAVE] = "424d0113 2c000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                   "24232221 58575655 54535251",
    [WIRE_ENDED] = "424d0114 38000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                   "24232221 02000000 88878685 84838281 98979695 94939291",
};

static void messages_stay_as_they_are(void **state)
{
    (void)state;
    for (enum wire_type type = WIRE_WANT; type <= WIRE_TYPE_LAST; type++) {
        if ((type < sizeof messages / sizeof messages[0]) != (wire_type_version(type) == 1))
            fail_msg("%s (%u) is not a type of version %u", wire_type_name(type), type, wire_type_version(type));
        if (wire_type_version(type) > 1)
            continue;
        struct wire_message m = recognisable(type), got;
        uint64_t numbers[WIRE_LIST_MAX];
        uint8_t bytes[WIRE_MESSAGE_MAX], again[WIRE_MESSAGE_MAX];
        uint32_t n = wire_encode(&m, bytes);
        bytes_assert_hex(bytes, n, messages[type]);
        assert_int_equal(wire_decode(bytes, n, &got), 0);
        message_keep_list(&got, numbers);
        assert_int_equal(wire_encode(&got, again), n);
        assert_memory_equal(again, bytes, n);
    }
}

/* ---- cards, rows and tables -------------------------------------------------------------------------------------- */

/* A later version differs in its number, its length and checksums only, and in bytes that follow or were spare. */
static void assert_stays(const uint8_t *found, uint32_t n, const char *hex, uint32_t from, uint32_t to)
{
    uint8_t frozen[1024];
    uint32_t of_version_1 = (uint32_t)bytes_of_hex(hex, frozen);
    if (WIRE_VERSION == 1)
        bytes_assert_hex(found, n, hex);
    assert_true(n >= of_version_1);
    assert_memory_equal(found + from, frozen + from, to - from);
}

static const baton_tensor_t tensor = {.name = "layer.0",
                                      .layer = 0x01020304,
                                      .region = 0x11121314,
                                      .offset = UINT64_C(0x2122232425262728),
                                      .stride = {INT64_MIN, INT64_MAX, -1, 0, 0x3132333435363738},
                                      .group = 1,
                                      .split = 1,
                                      .planes = 2,
                                      .head_size = 0x41424344,
                                      .elem_bytes = 4};
static struct wire_region region = {UINT64_C(0x5152535455565758), 0x61626364, 7, 8, 9, 10,
                                    BATON_MEMORY_DEVICE,          0x71727374};
static const struct wire_card card = {
    .member = UINT64_C(0x0102030405060708),
    .board_offset = UINT64_C(0x1112131415161718),
    .board_slots = 0x21222324,
    .arena_offset = UINT64_C(0x3132333435363738),
    .arena_bytes = UINT64_C(0x4142434445464748),
    .pool_offset = UINT64_C(0x5152535455565758),
    .pool_bytes = UINT64_C(0x6162636465666768),
    .features = 0x71727374,
    .index_offset = UINT64_C(0x8182838485868788),
    .index_slots = 0x91929394,
    .words_offset = UINT64_C(0xa1a2a3a4a5a6a7a8),
    .words_slots = 0xb1b2b3b4,
    .segment = UINT64_C(0xc1c2c3c4c5c6c7c8),
    .num_regions = 1,
    .regions = &region,
    .has_geometry = 1,
    .geometry = {.model = "llama-3",
                 .dtype = "bf16",
                 .elem_bytes = 2,
                 .planes = 3,
                 .head_size = 5,
                 .layers_total = 10,
                 .layer_first = 11,
                 .layer_count = 12,
                 .bytes = UINT64_C(0x7172737475767778),
                 .num_groups = 2,
                 .groups = {{BATON_KIND_FULL, 4, 6, 0}, {BATON_KIND_WINDOW, 16, 32, 64}},
                 .num_splits = 2,
                 .splits = {{7, 8, 9}, {13, 14, 15}},
                 .num_tensors = 1,
                 .tensors = &tensor}};
static const char card_hex[] = "42430100 94010000 876104a6 ae0fa4a4 08070605 04030201 18171615 14131211 "
                               "24232221 38373635 34333231 48474645 44434241 58575655 54535251 68676665 "
                               "64636261 74737271 88878685 84838281 94939291 a8a7a6a5 a4a3a2a1 b4b3b2b1 "
                               "01000000 6c6c616d 612d3300 00000000 00000000 00000000 00000000 00000000 "
                               "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                               "00000000 62663136 00000000 00000000 00000000 02000000 03000000 05000000 "
                               "0a000000 0b000000 0c000000 78777675 74737271 02000400 00000600 00000000 "
                               "00000110 00000020 00000040 00000002 07000000 08000000 09000000 0d000000 "
                               "0e000000 0f000000 01000000 076c6179 65722e30 04030201 14131211 28272625 "
                               "24232221 00000000 00000080 ffffffff ffffff7f ffffffff ffffffff 00000000 "
                               "00000000 38373635 34333231 01010200 00004443 424104c8 c7c6c5c4 c3c2c101 "
                               "00000058 57565554 53525164 63626100 00000007 00000008 00000000 00000009 "
                               "00000000 0000000a 00000000 00000002 74737271";

static void a_card_stays_as_it_is(void **state)
{
    (void)state;
    static uint8_t bytes[WIRE_CARD_MAX], again[WIRE_CARD_MAX];
    struct wire_card got;
    uint32_t n = (uint32_t)wire_card_encode(&card, bytes, sizeof bytes), head = 16;
    uint32_t of_version_1 = (uint32_t)bytes_of_hex(card_hex, again);
    assert_stays(bytes, n, card_hex, head, of_version_1);
    assert_int_equal(wire_card_decode(again, of_version_1, &got), 0);
    assert_int_equal(wire_card_encode(&got, again, sizeof again), n);
    assert_memory_equal(again, bytes, n);
    wire_card_free(&got);
}

static void a_row_stays_as_it_is(void **state)
{
    (void)state;
    struct wire_row row = {.engine = "decode-0",
                           .role = BATON_ROLE_DECODE,
                           .tp = 0x0102,
                           .pp = 0x0304,
                           .tp_rank = 0x0101,
                           .pp_rank = 0x0203,
                           .node = 0x11121314,
                           .package = 0x21222324,
                           .numa = UINT32_MAX,
                           .number = UINT64_C(0x4142434445464748),
                           .life = UINT64_C(0xa1a2a3a4a5a6a7a8),
                           .host = "node-17",
                           .card_offset = UINT64_C(0x5152535455565758),
                           .card_bytes = 0x6162,
                           .verdicts = BATON_VERDICTS_LEADER,
                           .rules = 7,
                           .features = 0x71727374,
                           .num_boxes = 2,
                           .model = 0x81828384,
                           .block_tokens = 0x91929394,
                           .box = {{0x31, 0x32, 0x33, 0x34, 0}, {0x31, 0x32, 0x35, 0x36, 1}}};
    static const char hex[] = "42520102 6465636f 64652d30 00000000 00000000 00000000 00000000 00000000 "
                              "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                              "00000000 6e6f6465 2d313700 00000000 00000000 00000000 00000000 00000000 "
                              "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                              "00000000 48474645 44434241 a8a7a6a5 a4a3a2a1 02010403 01010302 14131211 "
                              "24232221 ffffffff 31000000 32000000 33000000 34000000 58575655 54535251 "
                              "62610000 02023500 36000000 00000000 00000784 83828194 93929174 73727100 "
                              "00000000 00000000 00000000 00000000 00000000 00000000 4ad52062 adc6b41d";
    uint8_t bytes[WIRE_ROW_BYTES], again[WIRE_ROW_BYTES];
    struct wire_row got;
    wire_row_encode(&row, bytes);
    assert_stays(bytes, WIRE_ROW_BYTES, hex, 3, 223);
    bytes_of_hex(hex, again);
    assert_int_equal(wire_row_decode(again, &got), 0);
    assert_int_equal(got.version, 1);
    got.version = 0;
    wire_row_encode(&got, again);
    assert_memory_equal(again, bytes, WIRE_ROW_BYTES);
}

static void assert_table_stays(const struct plan_tables *tables, const char *hex)
{
    uint8_t bytes[128], again[128];
    uint32_t n = (uint32_t)wire_table_bytes(wire_table_entries(tables)), *entries;
    struct plan_tables got;
    wire_table_encode(0x11121314, UINT64_C(0x2122232425262728), tables, bytes);
    assert_stays(bytes, n, hex, 3, 20);
    assert_stays(bytes, n, hex, 24, n);
    bytes_of_hex(hex, again);
    assert_int_equal(wire_table_decode(again, n, 0x11121314, UINT64_C(0x2122232425262728), &got, &entries), 0);
    wire_table_encode(0x11121314, UINT64_C(0x2122232425262728), &got, again);
    assert_memory_equal(again, bytes, n);
    free(entries);
}

static void tables_stay_as_they_are(void **state)
{
    (void)state;
    static const uint32_t full[] = {0, 0x31323334, UINT32_MAX}, window[] = {5};
    const struct plan_tables one = {.num = 1, .table = {{full, 3, 0}}};
    const struct plan_tables two = {.num = 2, .table = {{full, 3, 0}, {window, 1, 48}}};
    assert_table_stays(&one, "42540100 14131211 28272625 24232221 03000000 00000000 814e67fd 58d35404 "
                             "00000000 34333231 ffffffff");
    assert_table_stays(&two, "42470100 14131211 28272625 24232221 09000000 00000000 da6027a9 b2b8eb1f "
                             "02000000 03000000 00000000 01000000 30000000 00000000 34333231 ffffffff "
                             "05000000");
}

/* Envelopes have no version: no later build may write another one. */
static void envelopes_stay_as_they_are(void **state)
{
    (void)state;
    const struct envelope_counts counts = {.sent = 0x21222324, .consumed = 0x31323334};
    const struct envelope_route route = {0x01020304, 0x11121314};
    uint8_t packet[ENVELOPE_BYTES + 4] = {[ENVELOPE_BYTES] = 1, 2, 3, 4};
    envelope_seal(&counts, route, packet, 4);
    bytes_assert_hex(packet, sizeof packet, "4243544c 04030201 14131211 24232221 34333231 f655abfe 01020304");
    envelope_seal(&counts, route, packet, 0);
    bytes_assert_hex(packet, ENVELOPE_BYTES, "4243544c 04030201 14131211 24232221 34333231 0d8cfb7c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(envelopes_stay_as_they_are), cmocka_unit_test(messages_stay_as_they_are),
        cmocka_unit_test(a_card_stays_as_it_is),      cmocka_unit_test(a_row_stays_as_it_is),
        cmocka_unit_test(tables_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
