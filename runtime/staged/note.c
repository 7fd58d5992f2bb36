/* SPDX-License-Identifier: BSD-3-Clause */
/* note: see note.h. */
#include "staged/note.h"

#include <string.h>

#include "wire/bytes.h"

#define NOTE_MAGIC 0x5342u /* "BS" */
#define NOTE_VERSION 1

#define OF_NOTE(member, sent) WIRE_NUMBER(struct note, member, sent)
/* What stands behind the type. */
static const struct wire_number note_numbers[] = {OF_NOTE(num_runs, 4),
                                                  OF_NOTE(id, 8),
                                                  OF_NOTE(slot, 8),
                                                  OF_NOTE(word, 8),
                                                  OF_NOTE(generation, 8),
                                                  OF_NOTE(error, 4),
                                                  {0}};

#define OF_RUN(member, sent) WIRE_NUMBER(struct note_run, member, sent)
static const struct wire_number run_numbers[] = {OF_RUN(region, 4), OF_RUN(bytes, 4), OF_RUN(offset, 8), {0}};

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
    put_numbers(&w, n, note_numbers);
    put32(&w, 0);
    for (uint32_t i = 0; i < n->num_runs; i++)
        put_numbers(&w, &n->run[i], run_numbers);
    return (uint32_t)(w.at - out);
}

int note_decode(const uint8_t *message, uint32_t bytes, struct note *n)
{
    struct reader r = {.at = message, .end = message + bytes};
    bool is_note = get16(&r) == NOTE_MAGIC;
    uint8_t version = get8(&r), type = get8(&r);
    *n = (struct note){.type = (enum note_type)type};
    get_numbers(&r, n, note_numbers);
    get32(&r);
    bool has_runs = type == NOTE_ASK || type == NOTE_PUT;
    if (r.bad || !is_note || version != NOTE_VERSION || type < NOTE_ASK || type > NOTE_FREE || n->error > 0 ||
        n->num_runs > NOTE_RUNS || (n->num_runs > 0) != has_runs)
        return BATON_EMESSAGE;
    for (uint32_t i = 0; i < n->num_runs; i++)
        get_numbers(&r, &n->run[i], run_numbers);
    return r.bad ? BATON_EMESSAGE : 0;
}
