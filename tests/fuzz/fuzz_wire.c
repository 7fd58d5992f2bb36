/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages, rows and envelopes from anybody. What is accepted must be the same after it is written and read again. */
#include "fuzz.h"

#include "wire/envelope.h"
#include "wire/row.h"
#include "with_messages.h"

static void message(const uint8_t *data, uint32_t size)
{
    static struct wire_message a, b;
    uint8_t bytes[WIRE_MESSAGE_MAX];
    uint64_t numbers[WIRE_LIST_MAX];
    const struct wire_field *f;
    if (wire_decode(data, size, &a) != 0)
        return;
    for (uint32_t num = wire_fields(a.type, &f); num > 0; num--, f++)
        MUST(!wire_field_is_sent(f, &a, a.version) || field_is_good(f, &a));
    message_keep_list(&a, numbers);
    uint32_t n = wire_encode(&a, bytes);
    MUST(n <= WIRE_MESSAGE_MAX);
    MUST(wire_decode(bytes, n, &b) == 0);
    b.version = a.version; /* of a version later than ours, it is ours */
    MUST(message_difference(&a, &b) == NULL);
    MUST(strcmp(wire_type_name(a.type), "?") != 0);
}

static void row(const uint8_t *data, size_t size)
{
    uint8_t in[WIRE_ROW_BYTES] = {0}, out[WIRE_ROW_BYTES];
    struct wire_row r, again;
    memcpy(in, data, size < sizeof in ? size : sizeof in);
    fuzz_seal_row(in); /* else the checksum would stop everything */
    if (wire_row_decode(in, &r) != 0)
        return;
    MUST(r.tp > 0 && r.pp > 0 && r.tp_rank < r.tp && r.pp_rank < r.pp && r.number != 0);
    wire_row_encode(&r, out);
    MUST(wire_row_decode(out, &again) == 0 && memcmp(&r.box, &again.box, sizeof r.box) == 0);
    MUST(strcmp(r.engine, again.engine) == 0);
}

static void envelopes(uint8_t *data, uint32_t size)
{
    fuzz_seal_envelope(data, size);
    struct envelope_counts c = {.sent = 3, .confirmed = 1, .consumed = 7, .returned = 7};
    const char *why;
    struct envelope_counts before = c;
    struct envelope_route route = {0};
    const bool has_route = envelope_read_route(data, size, &route);
    enum envelope_kind kind = envelope_open(&c, data, size, &why);
    MUST(has_route || kind == ENVELOPE_REFUSED);
    MUST(c.confirmed - before.confirmed <= before.sent - before.confirmed);
    MUST(c.consumed - before.consumed <= ENVELOPE_CREDITS);
    MUST(kind != ENVELOPE_MESSAGE || (size > ENVELOPE_BYTES && c.consumed != before.consumed));
    MUST(kind != ENVELOPE_REFUSED || why != NULL);
    struct envelope_counts peer = {.sent = c.consumed, .confirmed = 7, .consumed = c.confirmed};
    uint8_t out[ENVELOPE_BYTES];
    bool owed = envelope_is_owed(&c);
    envelope_seal(&c, (struct envelope_route){route.to, route.from}, out, 0);
    envelope_sent(&c, true);
    MUST(envelope_open(&peer, out, sizeof out, &why) == ENVELOPE_ALONE && !envelope_is_owed(&c));
    MUST(envelope_has_credit(&peer) || owed);
    struct envelope_route back;
    MUST(envelope_read_route(out, sizeof out, &back) && back.from == route.to && back.to == route.from);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 4096)
        return 0;
    uint8_t which = data[0];
    uint8_t *exact = fuzz_copy(data + 1, size - 1); /* so that a byte too far is seen */
    if (which % 3 == 0)
        message(exact, (uint32_t)size - 1);
    else if (which % 3 == 1)
        row(exact, size - 1);
    else
        envelopes(exact, (uint32_t)size - 1);
    free(exact);
    return 0;
}
