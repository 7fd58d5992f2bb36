/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * note: what two ranks that stage bytes for each other tell each other. A control message with a magic of its own,
 * which the core never sees. "Source" is the rank whose bytes move, "destination" the one that gets them.
 *
 *   ASK     destination to source: gather these runs of yours
 *   HERE    source to destination: what you asked for lies in a slot of mine; or why it does not
 *   PUT     source to destination: bytes for these runs of yours lie in a slot of mine
 *   LANDED  destination to source: what you put is in place; or why it is not
 *   FREE    destination to source: I need that slot no longer
 */
#ifndef BATON_STAGED_NOTE_H
#define BATON_STAGED_NOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/message.h"

enum note_type { NOTE_ASK = 1, NOTE_HERE, NOTE_PUT, NOTE_LANDED, NOTE_FREE };

/** Contiguous bytes of one region. */
struct note_run {
    uint32_t region, bytes;
    uint64_t offset;
};

#define NOTE_HEADER 48u
#define NOTE_RUN 16u
#define NOTE_RUNS ((WIRE_MESSAGE_MAX - NOTE_HEADER) / NOTE_RUN)

struct note {
    enum note_type type;
    uint64_t id;         /* of the sender of ASK or PUT; HERE and LANDED repeat it */
    int32_t error;       /* HERE, LANDED: 0 or BATON_E... */
    uint64_t slot, word; /* HERE, PUT: offsets in the sender's segment: of the bytes, and of their generation */
    uint64_t generation; /* HERE, PUT, FREE: what that word must be after the bytes were read */
    uint32_t num_runs;   /* ASK, PUT */
    struct note_run run[NOTE_RUNS];
};

/** Whether a control message is a note. */
bool note_is(const uint8_t *message, uint32_t bytes);
/** Writes at most WIRE_MESSAGE_MAX bytes. Returns the length. The note is trusted (our own). */
uint32_t note_encode(const struct note *n, uint8_t *out);
/** 0, or BATON_EMESSAGE. Whether runs lie within regions is for the receiver to see. */
int note_decode(const uint8_t *message, uint32_t bytes, struct note *n);

#endif
