/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * card: what a rank publishes of itself. Whoever needs it reads it from that rank's segment.
 */
#ifndef BATON_WIRE_CARD_H
#define BATON_WIRE_CARD_H

#include <stdint.h>

#include "plan/plan.h"

#define WIRE_CARD_MAX 65536u

/** Offsets are in the rank's segment. */
struct wire_card {
    uint64_t incarnation;
    char host[64];
    char unread[2][32]; /* texts of earlier builds that nobody reads: empty in ours */
    uint64_t board_offset;
    uint32_t board_slots;
    uint64_t arena_offset, arena_bytes;
    uint64_t pool_offset, pool_bytes;
    /* reserved, 0 in this version: what its build can do; where its offers' index and its readers' words lie */
    uint32_t features;
    uint64_t index_offset, words_offset;
    uint32_t index_slots, words_slots;
    uint32_t has_geometry;
    baton_geometry_t geometry; /* decoded: its tensors are malloc'ed */
};

/** Writes at most `size` bytes; returns the length, or BATON_EINVAL if it would be more than size or WIRE_CARD_MAX. */
int wire_card_encode(const struct wire_card *card, uint8_t *out, uint32_t size);
/**
 * Decodes and checks lengths, checksum, terminated strings, counts. The geometry's own sense is geometry_check's to
 * judge. On success wire_card_free is due, and the card must stay where it is. 0, BATON_EMESSAGE or BATON_ENOMEM.
 */
int wire_card_decode(const uint8_t *in, uint32_t bytes, struct wire_card *card);
void wire_card_free(struct wire_card *card);

#endif
