/* SPDX-License-Identifier: BSD-3-Clause */
/* envelope: see envelope.h. */
#include "wire/envelope.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "wire/bytes.h"

#define MAGIC UINT32_C(0x4c544342) /* "BCTL" */
#define HASHED_BYTES 20u           /* what stands before the flags */
#define FLAG_ALONE UINT32_C(1)     /* no message follows, and no credit is taken */

/* The last number: whether the envelope stands alone, and 31 bits of a hash of all. */
static uint32_t flags_of(const uint8_t *packet, uint32_t bytes, bool alone)
{
    uint64_t of_envelope = XXH3_64bits_withSeed(packet, HASHED_BYTES, alone);
    uint64_t hash = XXH3_64bits_withSeed(packet + ENVELOPE_BYTES, bytes, of_envelope);
    return ((uint32_t)hash & ~FLAG_ALONE) | (alone ? FLAG_ALONE : 0);
}

void envelope_seal(const struct envelope_counts *c, struct envelope_route route, uint8_t *packet, uint32_t bytes)
{
    struct writer w = {packet, packet + ENVELOPE_BYTES, false};
    put32(&w, MAGIC);
    put32(&w, route.from);
    put32(&w, route.to);
    put32(&w, c->sent);
    put32(&w, c->consumed);
    put32(&w, flags_of(packet, bytes, bytes == 0));
}

void envelope_sent(struct envelope_counts *c, bool alone)
{
    c->returned = c->consumed;
    c->sent += !alone;
}

bool envelope_read_route(const uint8_t *in, uint32_t bytes, struct envelope_route *out)
{
    struct reader r = {in, in + bytes, false};
    const bool is_one = bytes >= ENVELOPE_BYTES && get32(&r) == MAGIC;
    if (is_one) {
        out->from = get32(&r);
        out->to = get32(&r);
    }
    return is_one;
}

enum envelope_kind envelope_open(struct envelope_counts *c, const uint8_t *in, uint32_t bytes, const char **why)
{
    struct reader r = {in, in + bytes, false};
    uint32_t magic = get32(&r);
    get32(&r), get32(&r); /* the route, by which its reader has found *c */
    uint32_t sequence = get32(&r), confirmed = get32(&r), flags = get32(&r);
    bool alone = flags & FLAG_ALONE;
    *why = NULL;
    if (r.bad || magic != MAGIC || alone != (bytes == ENVELOPE_BYTES)) {
        *why = "its envelope is malformed";
        return ENVELOPE_REFUSED;
    }
    if (flags != flags_of(in, bytes - ENVELOPE_BYTES, alone)) {
        *why = "its hash is not that of its bytes";
        return ENVELOPE_REFUSED;
    }
    if (confirmed - c->confirmed > c->sent - c->confirmed)
        *why = "it confirms more messages than were sent";
    else
        c->confirmed = confirmed;
    if (alone)
        return ENVELOPE_ALONE;
    uint32_t ahead = sequence - c->consumed;
    c->from.last = c->consumed;
    if (!sequence_accept(&c->from, sequence + 1, ENVELOPE_CREDITS)) {
        *why = "its number is not the next";
        return ENVELOPE_REFUSED;
    }
    if (ahead > 0)
        *why = "messages before it were damaged";
    c->consumed = c->from.last;
    return ENVELOPE_MESSAGE;
}
