/* SPDX-License-Identifier: BSD-3-Clause */
/* envelope: see envelope.h. */
#include "core/envelope.h"

#include "core/bytes.h"

#define MAGIC UINT32_C(0x4c544342) /* "BCTL" */
#define FLAG_ALONE UINT32_C(1)     /* no message follows, and no credit is taken */

void envelope_seal(const struct envelope_counts *c, bool alone, uint8_t out[ENVELOPE_BYTES])
{
    struct writer w = {out, out + ENVELOPE_BYTES, false};
    put32(&w, MAGIC);
    put32(&w, c->sent);
    put32(&w, c->consumed);
    put32(&w, alone ? FLAG_ALONE : 0);
}

void envelope_sent(struct envelope_counts *c, bool alone)
{
    c->returned = c->consumed;
    c->sent += !alone;
}

enum envelope_kind envelope_open(struct envelope_counts *c, const uint8_t *in, uint32_t bytes, const char **why)
{
    struct reader r = {in, in + bytes, false};
    uint32_t magic = get32(&r), sequence = get32(&r), confirmed = get32(&r), flags = get32(&r);
    bool alone = flags & FLAG_ALONE;
    *why = NULL;
    if (r.bad || magic != MAGIC || alone != (bytes == ENVELOPE_BYTES)) {
        *why = "its envelope is malformed";
        return ENVELOPE_REFUSED;
    }
    if (confirmed - c->confirmed > c->sent - c->confirmed)
        *why = "it confirms more messages than were sent";
    else
        c->confirmed = confirmed;
    if (alone)
        return ENVELOPE_ALONE;
    uint32_t ahead = sequence - c->consumed;
    if (ahead >= ENVELOPE_CREDITS) {
        *why = "its number is not the next";
        return ENVELOPE_REFUSED;
    }
    if (ahead > 0)
        *why = "messages before it were damaged";
    c->consumed = sequence + 1;
    return ENVELOPE_MESSAGE;
}
