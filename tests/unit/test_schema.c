/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_schema: what the schema makes, against tables that are written by hand: the bytes of each type of message in
 * each version, the least and the most of each field, and the rules about two fields. A change of the schema that other
 * builds would not understand fails here.
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

/** A message whose fields can be told apart in its bytes. In version 1 a WANT is a pull. */
static struct wire_message recognisable(enum wire_type type, unsigned version)
{
    static const uint64_t numbers[] = {UINT64_C(0x8182838485868788), UINT64_C(0x9192939495969798)};
    static const uint8_t bytes[] = {0xc1, 0xc2, 0xc3};
    const struct wire_bytes attach = {.num = sizeof bytes, .data = bytes}, table = {.num = 2, .data = bytes + 1};
    const struct wire_name name = {.key = "req-7", .attempt = 0xd1d2d3d4};
    struct wire_message m = {.type = type,
                             .version = (uint8_t)version,
                             .from = UINT64_C(0x0102030405060708),
                             .to = UINT64_C(0x1112131415161718),
                             .number = 0x91929394,
                             .want_id = type == WIRE_RELEASE ? 0 : UINT64_C(0x2122232425262728)};
    switch (type) {
    case WIRE_WANT:
        m.want = (struct wire_want){.name = name,
                                    .mode = version == 1 ? BATON_MODE_PULL : BATON_MODE_PUSH,
                                    .asks = 0xa1a2a3a4,
                                    .time_left_ms = 0x31323334,
                                    .tokens = 0x41424344,
                                    .ticket_incarnation = UINT64_C(0x5152535455565758),
                                    .ticket_serial = UINT64_C(0x6162636465666768),
                                    .readers = {.num = 11, .bit = {0x81, 0x05}},
                                    .slot = 0x71727374,
                                    .table_entries = 0x81828384,
                                    .generation = UINT64_C(0x9192939495969798),
                                    .table_offset = UINT64_C(0xb1b2b3b4b5b6b7b8),
                                    .held = 0x11121314,
                                    .partial = true};
        break;
    case WIRE_GRANT:
        m.grant = (struct wire_grant){.asks = 0xa1a2a3a4,
                                      .slot = 0x31323334,
                                      .table_entries = 0x41424344,
                                      .offered_tokens = 0x51525354,
                                      .generation = UINT64_C(0x6162636465666768),
                                      .table_offset = UINT64_C(0x7172737475767778),
                                      .partial = true,
                                      .attach = attach,
                                      .table = table};
        break;
    case WIRE_READY:
        m.ready = (struct wire_ready){.generation = UINT64_C(0x6162636465666768),
                                      .tokens_done = 0x11727374,
                                      .tokens_next = 0x21727374,
                                      .layer_end = 0x31727374,
                                      .table_entries = 0x41727374,
                                      .table_offset = UINT64_C(0x5172737475767778)};
        break;
    case WIRE_NACK:
        m.nack = (struct wire_nack){
            .asks = 0xa1a2a3a4, .error = BATON_EGONE, .detail = "gone", .generation = UINT64_C(0xb1b2b3b4b5b6b7b8)};
        break;
    case WIRE_DONE:
    case WIRE_CANCEL:
        m.end = (struct wire_end){.name = name, .error = BATON_EGONE, .generation = UINT64_C(0xb1b2b3b4b5b6b7b8)};
        break;
    case WIRE_RELEASE:
        m.end = (struct wire_end){.name = name,
                                  .error = BATON_EGONE,
                                  .time_left_ms = 0x31323334,
                                  .ticket_incarnation = UINT64_C(0x5152535455565758),
                                  .ticket_serial = UINT64_C(0x6162636465666768)};
        break;
    case WIRE_CLOSED:
        m.closed.quiet = WIRE_NOT_KNOWN;
        break;
    case WIRE_WRITTEN:
        m.written = (struct wire_written){.asks = 0xa1a2a3a4,
                                          .error = BATON_EGONE,
                                          .bytes = UINT64_C(0x8182838485868788),
                                          .detail = "gone",
                                          .generation = UINT64_C(0xb1b2b3b4b5b6b7b8),
                                          .path = BATON_PATH_CMA,
                                          .attach = attach};
        break;
    case WIRE_BEAT:
        m.beat = (struct wire_beat){.ask = 1, .host = "n07"};
        break;
    case WIRE_REPORT:
    case WIRE_VERDICT:
    case WIRE_ASK:
    case WIRE_STANDING:
        m.verdict = (struct wire_verdict){.name = name,
                                          .verb = 2,
                                          .engine = 0x61626364,
                                          .status = BATON_STATUS_FAILED,
                                          .error = BATON_EGONE,
                                          .quarantined = 1,
                                          .peer = 0x71727374,
                                          .detail = "gone",
                                          .again = 1};
        break;
    case WIRE_CHECK:
        m.check = (struct wire_check){.name = name, .tokens = 0x41424344, .held = 0x11121314};
        break;
    case WIRE_SUMS:
        m.sums = (struct wire_sums){.first = 0x51525354, .hashes = {.num = 2, .out = numbers}};
        break;
    case WIRE_INQUIRY:
    case WIRE_WITNESS:
    case WIRE_LEAVE:
        m.subject = (struct wire_subject){
            .rank = 0x71727374, .incarnation = UINT64_C(0x5152535455565758), .life = WIRE_DEAD, .host = "n07"};
        break;
    case WIRE_ENDED:
        m.ended.wants = (struct wire_list){.num = 2, .out = numbers};
        break;
    }
    return m;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/** Requires that the message of that type is written as these bytes, and that reading them loses nothing. */
static void assert_bytes(enum wire_type type, unsigned version, const char *hex)
{
    struct wire_message m = recognisable(type, version), got;
    uint64_t numbers[WIRE_LIST_MAX];
    uint8_t bytes[WIRE_MESSAGE_MAX], again[WIRE_MESSAGE_MAX];
    uint32_t n = wire_encode(&m, bytes);
    bytes_assert_hex(bytes, n, hex);
    assert_int_equal(wire_decode(bytes, n, &got), 0);
    message_keep_list(&got, numbers);
    assert_int_equal(wire_encode(&got, again), n);
    assert_memory_equal(again, bytes, n);
}

static void version_1_messages_stay_as_they_are(void **state)
{
    (void)state;
    static const char *const frozen[] = {
        [WIRE_WANT] = "424d0101 88000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                      "24232221 7265712d 37000000 00000000 00000000 00000000 00000000 00000000 "
                      "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                      "00000000 01a4a3a2 a1343332 31444342 41585756 55545352 51686766 65646362 "
                      "610b0000 00810501",
        [WIRE_GRANT] = "424d0102 45000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                       "24232221 a4a3a2a1 34333231 44434241 54535251 68676665 64636261 78777675 "
                       "74737271 01",
        [WIRE_NACK] = "424d0103 8c000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                      "24232221 a4a3a2a1 f3ffffff 676f6e65 00000000 00000000 00000000 00000000 "
                      "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                      "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                      "00000000 00000000 00000000",
        [WIRE_DONE] = "424d0104 70000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                      "24232221 7265712d 37000000 00000000 00000000 00000000 00000000 00000000 "
                      "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                      "00000000 f3ffffff b8b7b6b5 b4b3b2b1",
        [WIRE_CANCEL] = "424d0105 70000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                        "24232221 7265712d 37000000 00000000 00000000 00000000 00000000 00000000 "
                        "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                        "00000000 f3ffffff b8b7b6b5 b4b3b2b1",
        [WIRE_CLOSED] = "424d0106 25000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                        "24232221 02",
        [WIRE_RELEASE] = "424d0107 7c000000 08070605 04030201 18171615 14131211 94939291 00000000 "
                         "00000000 7265712d 37000000 00000000 00000000 00000000 00000000 00000000 "
                         "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                         "00000000 f3ffffff 34333231 58575655 54535251 68676665 64636261",
        [WIRE_WRITTEN] = "424d0108 9c000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                         "24232221 a4a3a2a1 f3ffffff 88878685 84838281 676f6e65 00000000 00000000 "
                         "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                         "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                         "00000000 00000000 00000000 00000000 00000000 b8b7b6b5 b4b3b2b1",
        [WIRE_BEAT] = "424d0109 65000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                      "24232221 016e3037 00000000 00000000 00000000 00000000 00000000 00000000 "
                      "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                      "00000000 00",
        [WIRE_REPORT] = "424d010a d4000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                        "24232221 7265712d 37000000 00000000 00000000 00000000 00000000 00000000 "
                        "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                        "00000000 02646362 610201f3 ffffff74 73727167 6f6e6500 00000000 00000000 "
                        "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                        "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                        "00000000 00000000 00000000 00000000 00000001",
        [WIRE_VERDICT] = "424d010b d3000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                         "24232221 7265712d 37000000 00000000 00000000 00000000 00000000 00000000 "
                         "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                         "00000000 02646362 610201f3 ffffff74 73727167 6f6e6500 00000000 00000000 "
                         "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                         "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                         "00000000 00000000 00000000 00000000 000000",
        [WIRE_ASK] = "424d010c 69000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                     "24232221 7265712d 37000000 00000000 00000000 00000000 00000000 00000000 "
                     "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                     "00000000 02646362 61",
        [WIRE_STANDING] = "424d010d c9000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                          "24232221 7265712d 37000000 00000000 00000000 00000000 00000000 00000000 "
                          "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                          "00000000 02646362 61676f6e 65000000 00000000 00000000 00000000 00000000 "
                          "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                          "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                          "00000000 00000000 00",
        [WIRE_CHECK] = "424d010e 6c000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                       "24232221 7265712d 37000000 00000000 00000000 00000000 00000000 00000000 "
                       "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                       "00000000 44434241 14131211",
        [WIRE_SUMS] = "424d010f 40000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                      "24232221 00000000 54535251 02000000 88878685 84838281 98979695 94939291",
        [WIRE_READY] = "424d0110 44000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                       "24232221 68676665 64636261 74737211 74737221 74737231 74737241 78777675 "
                       "74737251",
    };
    for (enum wire_type type = WIRE_WANT; type < sizeof frozen / sizeof frozen[0]; type++)
        assert_bytes(type, 1, frozen[type]);
}

static void version_2_messages_stay_as_they_are(void **state)
{
    (void)state;
    static const char *const frozen[WIRE_TYPE_LAST + 1] = {
        [WIRE_WANT] = "424d0201 6e000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                      "24232221 05726571 2d37d4d3 d2d102a4 a3a2a134 33323144 43424158 57565554 "
                      "53525168 67666564 6362610b 00000081 05747372 71848382 81989796 95949392 "
                      "91b8b7b6 b5b4b3b2 b1141312 1101",
        [WIRE_GRANT] = "424d0202 4e000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                       "24232221 a4a3a2a1 34333231 44434241 54535251 68676665 64636261 78777675 "
                       "74737271 010300c1 c2c30200 c2c3",
        [WIRE_NACK] = "424d0203 94000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                      "24232221 a4a3a2a1 f3ffffff 676f6e65 00000000 00000000 00000000 00000000 "
                      "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                      "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                      "00000000 00000000 00000000 b8b7b6b5 b4b3b2b1",
        [WIRE_DONE] = "424d0204 3a000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                      "24232221 05726571 2d37d4d3 d2d1f3ff ffffb8b7 b6b5b4b3 b2b1",
        [WIRE_CANCEL] = "424d0205 3a000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                        "24232221 05726571 2d37d4d3 d2d1f3ff ffffb8b7 b6b5b4b3 b2b1",
        [WIRE_CLOSED] = "424d0206 25000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                        "24232221 02",
        [WIRE_RELEASE] = "424d0207 46000000 08070605 04030201 18171615 14131211 94939291 00000000 "
                         "00000000 05726571 2d37d4d3 d2d1f3ff ffff3433 32315857 56555453 52516867 "
                         "66656463 6261",
        [WIRE_WRITTEN] = "424d0208 a2000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                         "24232221 a4a3a2a1 f3ffffff 88878685 84838281 676f6e65 00000000 00000000 "
                         "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                         "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                         "00000000 00000000 00000000 00000000 00000000 b8b7b6b5 b4b3b2b1 030300c1 "
                         "c2c3",
        [WIRE_BEAT] = "424d0209 65000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                      "24232221 016e3037 00000000 00000000 00000000 00000000 00000000 00000000 "
                      "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                      "00000000 00",
        [WIRE_REPORT] = "424d020a 9e000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                        "24232221 05726571 2d37d4d3 d2d10264 63626102 01f3ffff ff747372 71676f6e "
                        "65000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                        "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                        "00000000 00000000 00000000 00000000 00000000 00000000 00000000 0001",
        [WIRE_VERDICT] = "424d020b 9d000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                         "24232221 05726571 2d37d4d3 d2d10264 63626102 01f3ffff ff747372 71676f6e "
                         "65000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                         "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                         "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00",
        [WIRE_ASK] = "424d020c 33000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                     "24232221 05726571 2d37d4d3 d2d10264 636261",
        [WIRE_STANDING] = "424d020d 93000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                          "24232221 05726571 2d37d4d3 d2d10264 63626167 6f6e6500 00000000 00000000 "
                          "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                          "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                          "00000000 00000000 00000000 00000000 000000",
        [WIRE_CHECK] = "424d020e 36000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                       "24232221 05726571 2d37d4d3 d2d14443 42411413 1211",
        [WIRE_SUMS] = "424d020f 40000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                      "24232221 00000000 54535251 02000000 88878685 84838281 98979695 94939291",
        [WIRE_READY] = "424d0210 44000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                       "24232221 68676665 64636261 74737211 74737221 74737231 74737241 78777675 "
                       "74737251",
        [WIRE_INQUIRY] = "424d0211 30000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                         "24232221 74737271 58575655 54535251",
        [WIRE_WITNESS] = "424d0212 71000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                         "24232221 74737271 58575655 54535251 026e3037 00000000 00000000 00000000 "
                         "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                         "00000000 00000000 00000000 00000000 00",
        [WIRE_LEAVE] = "424d0213 70000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                       "24232221 74737271 58575655 54535251 6e303700 00000000 00000000 00000000 "
                       "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
                       "00000000 00000000 00000000 00000000",
        [WIRE_ENDED] = "424d0214 38000000 08070605 04030201 18171615 14131211 94939291 28272625 "
                       "24232221 02000000 88878685 84838281 98979695 94939291",
    };
    for (enum wire_type type = WIRE_WANT; type <= WIRE_TYPE_LAST; type++) {
        if (wire_type_version(type) > 2)
            continue;
        if (frozen[type] == NULL)
            fail_msg("the bytes of %s are not frozen", wire_type_name(type));
        assert_bytes(type, 2, frozen[type]);
    }
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

#define IN(name) WIRE_SENT_IN(WIRE_##name)

/* Numbers instead of names such as BATON_KEY_MAX: the bounds of other builds do not change with a name. */
static const struct bound {
    uint64_t types; /* all that have the field */
    const char *field;
    uint64_t least, most;
} bounds[] = {
    {IN(WANT), "name", 1, 255},
    {IN(WANT), "mode", 1, 2},
    {IN(WANT), "asks", 0, UINT32_MAX},
    {IN(WANT), "time_left_ms", 1, UINT32_MAX},
    {IN(WANT), "tokens", 1, UINT32_MAX},
    {IN(WANT), "ticket_incarnation", 0, UINT64_MAX},
    {IN(WANT), "ticket_serial", 0, UINT64_MAX},
    {IN(WANT), "readers", 1, 1024},
    {IN(WANT), "slot", 0, UINT32_MAX},
    {IN(WANT), "table_entries", 1, UINT32_MAX},
    {IN(WANT), "generation", 1, UINT64_MAX},
    {IN(WANT), "table_offset", 0, UINT64_MAX},
    {IN(WANT), "held", 0, UINT32_MAX - 1}, /* less than the tokens */
    {IN(WANT), "partial", 0, 1},
    {IN(GRANT), "asks", 0, UINT32_MAX},
    {IN(GRANT), "slot", 0, UINT32_MAX},
    {IN(GRANT), "table_entries", 0, UINT32_MAX},
    {IN(GRANT), "offered_tokens", 1, UINT32_MAX},
    {IN(GRANT), "generation", 1, UINT64_MAX},
    {IN(GRANT), "table_offset", 0, UINT64_MAX},
    {IN(GRANT), "partial", 0, 1},
    {IN(GRANT), "attach", 0, 256},
    {IN(GRANT), "table", 0, 1632},
    {IN(READY), "generation", 1, UINT64_MAX},
    {IN(READY), "tokens_done", 0, UINT32_MAX},
    {IN(READY), "tokens_next", 0, UINT32_MAX},
    {IN(READY), "layer_end", 0, UINT32_MAX},
    {IN(READY), "table_entries", 0, UINT32_MAX},
    {IN(READY), "table_offset", 0, UINT64_MAX},
    {IN(NACK), "asks", 0, UINT32_MAX},
    {IN(NACK), "error", (uint64_t)INT32_MIN, (uint64_t)-1},
    {IN(NACK), "detail", 0, 95},
    {IN(NACK), "generation", 0, UINT64_MAX},
    {IN(DONE) | IN(CANCEL) | IN(RELEASE), "name", 1, 255},
    {IN(DONE) | IN(RELEASE), "error", (uint64_t)INT32_MIN, 0},
    {IN(CANCEL), "error", (uint64_t)INT32_MIN, (uint64_t)-1},
    {IN(DONE) | IN(CANCEL), "generation", 0, UINT64_MAX},
    {IN(RELEASE), "time_left_ms", 0, UINT32_MAX},
    {IN(RELEASE), "ticket_incarnation", 0, UINT64_MAX},
    {IN(RELEASE), "ticket_serial", 0, UINT64_MAX},
    {IN(CLOSED), "quiet", 1, 2},
    {IN(WRITTEN), "asks", 0, UINT32_MAX},
    {IN(WRITTEN), "error", (uint64_t)INT32_MIN, 0},
    {IN(WRITTEN), "bytes", 0, UINT64_MAX},
    {IN(WRITTEN), "detail", 0, 95},
    {IN(WRITTEN), "generation", 0, UINT64_MAX},
    {IN(WRITTEN), "path", 0, 7},
    {IN(WRITTEN), "attach", 0, 256},
    {IN(BEAT), "ask", 0, 1},
    {IN(BEAT), "host", 0, 63},
    {IN(REPORT) | IN(VERDICT) | IN(ASK) | IN(STANDING), "name", 1, 255},
    {IN(REPORT) | IN(VERDICT) | IN(ASK) | IN(STANDING), "verb", 1, 2},
    {IN(REPORT) | IN(VERDICT) | IN(ASK) | IN(STANDING), "engine", 0, UINT32_MAX},
    {IN(REPORT) | IN(VERDICT), "status", 1, 4},
    {IN(REPORT) | IN(VERDICT), "quarantined", 0, 1},
    {IN(REPORT) | IN(VERDICT), "error", (uint64_t)INT32_MIN, 0},
    {IN(REPORT) | IN(VERDICT), "peer", (uint64_t)-1, INT32_MAX},
    {IN(REPORT) | IN(VERDICT) | IN(STANDING), "detail", 0, 95},
    {IN(REPORT), "again", 0, 1},
    {IN(CHECK), "name", 1, 255},
    {IN(CHECK), "tokens", 1, UINT32_MAX},
    {IN(CHECK), "held", 0, UINT32_MAX - 1}, /* less than the tokens */
    {IN(SUMS), "error", (uint64_t)INT32_MIN, 0},
    {IN(SUMS), "first", 0, UINT32_MAX},
    {IN(SUMS), "hashes", 0, 192},
    {IN(ENDED), "wants", 1, 192},
    {IN(INQUIRY) | IN(WITNESS), "rank", 0, UINT32_MAX},
    {IN(INQUIRY) | IN(WITNESS), "incarnation", 1, UINT64_MAX},
    {IN(LEAVE), "rank", 0, UINT32_MAX},
    {IN(LEAVE), "incarnation", 0, UINT64_MAX},
    {IN(WITNESS), "life", 1, 3},
    {IN(WITNESS) | IN(LEAVE), "host", 0, 63},
};

static const struct bound *bound_of(enum wire_type type, const char *field)
{
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        if ((bounds[i].types & WIRE_SENT_IN(type)) != 0 && strcmp(bounds[i].field, field) == 0)
            return &bounds[i];
    return NULL;
}

/* Makes the other fields agree with one that was set, as the rules about two fields want it. */
static void agree(struct wire_message *m, const char *field)
{
    bool no_subject;
    switch (m->type) {
    case WIRE_WANT:
        if (strcmp(field, "held") == 0)
            m->want.tokens = UINT32_MAX;
        else
            m->want.held = 0;
        break;
    case WIRE_CHECK:
        if (strcmp(field, "held") == 0)
            m->check.tokens = UINT32_MAX;
        else
            m->check.held = 0;
        break;
    case WIRE_READY:
        if (strcmp(field, "tokens_done") == 0)
            m->ready.tokens_next = UINT32_MAX;
        else
            m->ready.tokens_done = 0;
        break;
    case WIRE_REPORT:
    case WIRE_VERDICT:
        if (strcmp(field, "error") == 0)
            m->verdict.status = m->verdict.error == 0 ? BATON_STATUS_DONE : BATON_STATUS_FAILED;
        else
            m->verdict.error = m->verdict.status == BATON_STATUS_DONE ? 0 : BATON_EGONE;
        break;
    case WIRE_SUMS:
        if (strcmp(field, "error") == 0)
            m->sums.hashes.num = m->sums.error == 0;
        else
            m->sums.error = m->sums.hashes.num == 0 ? BATON_EGONE : 0;
        break;
    case WIRE_LEAVE:
        no_subject = strcmp(field, "rank") == 0 ? m->subject.rank == WIRE_NOBODY : m->subject.incarnation == 0;
        if (no_subject) {
            m->subject.rank = WIRE_NOBODY;
            m->subject.incarnation = 0;
        }
        break;
    default:
        break;
    }
}

static bool is_accepted(const struct wire_message *m, struct wire_message *got, uint8_t bytes[WIRE_MESSAGE_MAX])
{
    int rc = wire_decode(bytes, wire_encode(m, bytes), got);
    assert_true(rc == 0 || rc == BATON_EMESSAGE);
    return rc == 0;
}

static void try_value(enum wire_type type, const struct wire_field *f, uint64_t value, bool good)
{
    struct wire_message m = recognisable(type, WIRE_VERSION), got;
    uint8_t bytes[WIRE_MESSAGE_MAX];
    field_set(f, &m, value);
    agree(&m, f->name);
    bool accepted = is_accepted(&m, &got, bytes);
    if (accepted != good || (accepted && !field_is_same(f, &m, &got)))
        fail_msg("%s: a %s of %lld is %s", wire_type_name(type), f->name, (long long)value,
                 !accepted ? "refused"
                 : good    ? "another when it is read"
                           : "accepted");
}

/* The values at the ends of what the field may be, and those just outside, where the field's kind has such values. */
static void try_bound(enum wire_type type, const struct wire_field *f, const struct bound *b)
{
    static const uint64_t tops[] = {
        [WIRE_KIND_U8] = UINT8_MAX,    [WIRE_KIND_U32] = UINT32_MAX, [WIRE_KIND_U64] = UINT64_MAX,
        [WIRE_KIND_I32] = INT32_MAX,   [WIRE_KIND_FLAG] = 1,         [WIRE_KIND_LIST] = UINT32_MAX,
        [WIRE_KIND_BYTES] = UINT16_MAX};
    bool fixed = f->kind == WIRE_KIND_TEXT || f->kind == WIRE_KIND_NAME || f->kind == WIRE_KIND_BITS;
    try_value(type, f, b->least, true);
    try_value(type, f, b->most, true);
    if (b->least != (f->kind == WIRE_KIND_I32 ? (uint64_t)INT32_MIN : 0))
        try_value(type, f, b->least - 1, false);
    if (!fixed && b->most != tops[f->kind]) /* the struct has no room for a longer one of a fixed size */
        try_value(type, f, b->most + 1, false);
}

static void each_field_has_the_bounds_of_the_table(void **state)
{
    (void)state;
    int sent = 0, in_table = 0;
    for (enum wire_type type = WIRE_WANT; type <= WIRE_TYPE_LAST; type++) {
        struct wire_message m = recognisable(type, WIRE_VERSION);
        const struct wire_field *f;
        for (uint32_t num = wire_fields(type, &f); num > 0; num--, f++) {
            if (!wire_field_is_sent(f, &m, WIRE_VERSION))
                continue;
            const struct bound *b = bound_of(type, f->name);
            if (b == NULL)
                fail_msg("%s: the table has no row for %s", wire_type_name(type), f->name);
            try_bound(type, f, b);
            sent++;
        }
    }
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        in_table += __builtin_popcountll(bounds[i].types);
    assert_int_equal(sent, in_table);
}

/* ---- rules about two fields -------------------------------------------------------------------------------------- */

#define WITH(type_, change, good)                                                                                      \
    do {                                                                                                               \
        struct wire_message m = recognisable(WIRE_##type_, WIRE_VERSION), got;                                         \
        uint8_t bytes[WIRE_MESSAGE_MAX];                                                                               \
        change;                                                                                                        \
        if (is_accepted(&m, &got, bytes) != (good))                                                                    \
            fail_msg("%s with %s is %s", #type_, #change, (good) ? "refused" : "accepted");                            \
    } while (0)
#define ACCEPTED(type, change) WITH(type, change, true)
#define REFUSED(type, change) WITH(type, change, false)

static void each_rule_about_two_fields_is_enforced(void **state)
{
    (void)state;
    ACCEPTED(WANT, m.want.held = m.want.tokens - 1);
    REFUSED(WANT, m.want.held = m.want.tokens);
    ACCEPTED(GRANT, m.grant.table_entries = 0);
    ACCEPTED(GRANT, m.grant.partial = false);
    REFUSED(GRANT, (m.grant.table_entries = 0, m.grant.partial = false));
    ACCEPTED(READY, m.ready.tokens_done = m.ready.tokens_next);
    REFUSED(READY, m.ready.tokens_done = m.ready.tokens_next + 1);
    ACCEPTED(DONE, m.end.error = 0);
    REFUSED(CANCEL, m.end.error = 0);
    ACCEPTED(CHECK, m.check.held = m.check.tokens - 1);
    REFUSED(CHECK, m.check.held = m.check.tokens);
    ACCEPTED(SUMS, (m.sums.error = BATON_EGONE, m.sums.hashes.num = 0));
    REFUSED(SUMS, m.sums.error = BATON_EGONE);
    REFUSED(SUMS, m.sums.hashes.num = 0);
}

static void each_rule_of_a_verdict_is_enforced(void **state)
{
    (void)state;
    REFUSED(REPORT, m.want_id = 0);
    ACCEPTED(VERDICT, m.want_id = 0);
    ACCEPTED(REPORT, (m.verdict.status = BATON_STATUS_DONE, m.verdict.error = 0));
    REFUSED(REPORT, m.verdict.status = BATON_STATUS_DONE);
    REFUSED(REPORT, m.verdict.error = 0);
    ACCEPTED(VERDICT, (m.verdict.status = BATON_STATUS_DONE, m.verdict.error = 0));
    REFUSED(VERDICT, m.verdict.status = BATON_STATUS_DONE);
    REFUSED(VERDICT, m.verdict.error = 0);
}

static void each_rule_of_a_subject_is_enforced(void **state)
{
    (void)state;
    REFUSED(INQUIRY, m.subject.incarnation = 0);
    REFUSED(INQUIRY, (m.subject.rank = WIRE_NOBODY, m.subject.incarnation = 0));
    REFUSED(WITNESS, m.subject.incarnation = 0);
    REFUSED(WITNESS, (m.subject.rank = WIRE_NOBODY, m.subject.incarnation = 0));
    ACCEPTED(LEAVE, (m.subject.rank = WIRE_NOBODY, m.subject.incarnation = 0));
    REFUSED(LEAVE, m.subject.incarnation = 0);
    REFUSED(LEAVE, m.subject.rank = WIRE_NOBODY);
}

/* Version 1 is released: its builds know these types and no others. */
static void no_type_joins_a_version_that_is_released(void **state)
{
    (void)state;
    for (unsigned type = 1; type <= WIRE_TYPE_LAST; type++)
        if ((type <= WIRE_READY) != (wire_type_version((enum wire_type)type) == 1))
            fail_msg("%s (%u) is not a type of version %u", wire_type_name((enum wire_type)type), type,
                     wire_type_version((enum wire_type)type));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_1_messages_stay_as_they_are),
        cmocka_unit_test(no_type_joins_a_version_that_is_released),
        cmocka_unit_test(version_2_messages_stay_as_they_are),
        cmocka_unit_test(each_field_has_the_bounds_of_the_table),
        cmocka_unit_test(each_rule_about_two_fields_is_enforced),
        cmocka_unit_test(each_rule_of_a_verdict_is_enforced),
        cmocka_unit_test(each_rule_of_a_subject_is_enforced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
