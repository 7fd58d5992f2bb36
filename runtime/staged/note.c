/* SPDX-License-Identifier: BSD-3-Clause */
/* note: see note.h. */
#include "staged/note.h"

#include <string.h>

#include "wire/bytes.h"

#define NOTE_MAGIC 0x5342u /* "BS" */
#define NOTE_VERSION 1

bool note_is(const uint8_t *message, uint32_t bytes)
{
    struct reader r = {.at = message, .end = message + bytes};
    return get16(&r) == NOTE_MAGIC && !r.bad;
}

uint32_t note_encode(const struct note *n, uint8_t *out)
{
    struct writer w = {.at = out, .end = out + WIRE_MESSAGE_MAX};
    put16(&w, NOTE_MAGIC);
    put8(&w, NOTE_VERSION);
    put8(&w, (uint8_t)n->type);
    put32(&w, n->num_runs);
    put64(&w, n->id);
    put64(&w, n->slot);
    put64(&w, n->word);
    put64(&w, n->generation);
    put32(&w, (uint32_t)n->error);
    put32(&w, 0);
    for (uint32_t i = 0; i < n->num_runs; i++) {
        put32(&w, n->run[i].region);
        put32(&w, n->run[i].bytes);
        put64(&w, n->run[i].offset);
    }
    return (uint32_t)(w.at - out);
}

int note_decode(const uint8_t *message, uint32_t bytes, struct note *n)
{
    struct reader r = {.at = message, .end = message + bytes};
    bool is_note = get16(&r) == NOTE_MAGIC;
    uint8_t version = get8(&r), type = get8(&r);
    *n = (struct note){.type = (enum note_type)type};
    n->num_runs = get32(&r);
    n->id = get64(&r);
    n->slot = get64(&r);
    n->word = get64(&r);
    n->generation = get64(&r);
    n->error = (int32_t)get32(&r);
    get32(&r);
    bool has_runs = type == NOTE_ASK || type == NOTE_PUT;
    if (r.bad || !is_note || version != NOTE_VERSION || type < NOTE_ASK || type > NOTE_FREE || n->error > 0 ||
        n->num_runs > NOTE_RUNS || (n->num_runs > 0) != has_runs)
        return BATON_EMESSAGE;
    for (uint32_t i = 0; i < n->num_runs; i++) {
        n->run[i].region = get32(&r);
        n->run[i].bytes = get32(&r);
        n->run[i].offset = get64(&r);
    }
    return r.bad ? BATON_EMESSAGE : 0;
}
