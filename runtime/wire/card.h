/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * card: what a rank tells of itself: its cache, and where its tables and generations lie. Peers read the card from the
 * rank's segment.
 */
#ifndef BATON_WIRE_CARD_H
#define BATON_WIRE_CARD_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/plan.h"

#define WIRE_CARD_MAX 262144u

/**
 * A region of a cache whose memory the engine owns, and the file that it is mapped from, if processes of the node can
 * map it too: they find the file among the descriptors of the rank's process.
 */
struct wire_region {
    uint64_t address, bytes;
    uint32_t descriptor; /* WIRE_NO_FILE: none */
    uint64_t device, inode, offset;
    uint32_t memory;  /* a baton_memory_t */
    uint32_t ordinal; /* of the device that it is the memory of; else 0 */
};
#define WIRE_NO_FILE UINT32_MAX

/** Whether only a driver may touch it. */
static inline bool wire_region_is_device(const struct wire_region *r)
{
    return r->memory == BATON_MEMORY_DEVICE;
}

#define WIRE_CARD_LANES 1u /* the rank sends its messages within the node by lanes, and its own lie behind the words */

/** Offsets count from the start of the rank's segment. */
struct wire_card {
    uint64_t member; /* the number of whose it is */
    uint64_t board_offset;
    uint32_t board_slots;
    uint64_t arena_offset, arena_bytes;
    uint64_t pool_offset, pool_bytes;
    uint32_t features; /* WIRE_CARD_..., or 0 */
    uint64_t index_offset,
        words_offset; /* of the words by which ranks of its node take its offers; 0: there are none */
    uint32_t index_slots, words_slots;
    /* behind the geometry: */
    uint64_t segment;            /* the address of the rank's segment in its process */
    uint32_t num_regions;        /* 0: region 0 alone, at pool_offset */
    struct wire_region *regions; /* decoded: malloc'ed */
    uint32_t has_geometry;
    baton_geometry_t geometry; /* decoded: its tensors are malloc'ed */
};

/** Writes at most `size` bytes; returns the length, or BATON_EINVAL if it would be more than size or WIRE_CARD_MAX. */
int wire_card_encode(const struct wire_card *card, uint8_t *out, uint32_t size);
/**
 * Checks lengths, the checksum, the ends of texts, and counts. Whether the geometry makes sense is for geometry_check.
 * Returns 0, BATON_EMESSAGE or BATON_ENOMEM. After 0 the card must stay where it is until wire_card_free.
 */
int wire_card_decode(const uint8_t *in, uint32_t bytes, struct wire_card *card);
void wire_card_free(struct wire_card *card);

#endif
