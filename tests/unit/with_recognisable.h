/* SPDX-License-Identifier: BSD-3-Clause */
/* with_recognisable: messages of the released version of the wire, for tests of its bytes and bounds. */
#ifndef BATON_TESTS_WITH_RECOGNISABLE_H
#define BATON_TESTS_WITH_RECOGNISABLE_H

#include "wire/message.h"

/** A message of version 1 whose fields can be told apart in its bytes. */
static inline struct wire_message recognisable(enum wire_type type)
{
    static const uint64_t numbers[] = {UINT64_C(0x8182838485868788), UINT64_C(0x9192939495969798)};
    static const uint8_t bytes[] = {0xc1, 0xc2, 0xc3};
    const struct wire_bytes attach = {.num = sizeof bytes, .data = bytes}, table = {.num = 2, .data = bytes + 1};
    const struct wire_name name = {.key = "req-7", .attempt = 0xd1d2d3d4};
    struct wire_message m = {.type = type,
                             .version = 1,
                             .from = UINT64_C(0x0102030405060708),
                             .to = UINT64_C(0x1112131415161718),
                             .number = 0x91929394,
                             .want_id = type == WIRE_RELEASE ? 0 : UINT64_C(0x2122232425262728)};
    switch (type) {
    case WIRE_WANT:
        m.want = (struct wire_want){.name = name,
                                    .mode = BATON_MODE_PUSH,
                                    .asks = 0xa1a2a3a4,
                                    .time_left_ms = 0x31323334,
                                    .tokens = 0x41424344,
                                    .readers = {.num = 11, .bit = {0x81, 0x05}},
                                    .slot = 0x71727374,
                                    .table_entries = 0x81828384,
                                    .generation = UINT64_C(0x9192939495969798),
                                    .table_offset = UINT64_C(0xb1b2b3b4b5b6b7b8),
                                    .held = 0x11121314};
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
        m.end = (struct wire_end){.name = name, .error = BATON_EGONE, .time_left_ms = 0x31323334};
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
        m.beat = (struct wire_beat){.ask = 1};
        break;
    case WIRE_REPORT:
    case WIRE_VERDICT:
    case WIRE_ASK:
    case WIRE_STANDING:
        m.verdict = (struct wire_verdict){.name = name,
                                          .verb = 2,
                                          .producer = UINT64_C(0x6162636465666768),
                                          .status = BATON_STATUS_FAILED,
                                          .error = BATON_EGONE,
                                          .member = UINT64_C(0x7172737475767778),
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
        m.subject = (struct wire_subject){.member = UINT64_C(0x5152535455565758), .alive = WIRE_DEAD};
        break;
    case WIRE_ENDED:
        m.ended.wants = (struct wire_list){.num = 2, .out = numbers};
        break;
    default: /* of a later version */
        break;
    }
    return m;
}

#endif
