/* SPDX-License-Identifier: BSD-3-Clause */
/* areas: see areas.h. */
#include "front/areas.h"

#include <stdlib.h>

/* The words, up to a whole line: the lanes follow. */
static uint64_t words_bytes(uint32_t slots, uint32_t neighbours)
{
    return (handoff_bytes(slots, neighbours) + 63) & ~UINT64_C(63);
}

uint64_t areas_bytes(uint32_t slots, uint32_t neighbours)
{
    return words_bytes(slots, neighbours) + lanes_bytes(neighbours);
}

int areas_init(struct areas *a, uint32_t num_ranks)
{
    a->words = calloc(num_ranks, sizeof *a->words);
    a->lanes = calloc(num_ranks, sizeof *a->lanes);
    a->bells = calloc(num_ranks, sizeof *a->bells);
    return a->words != NULL && a->lanes != NULL && a->bells != NULL ? 0 : BATON_ENOMEM;
}

void areas_fini(struct areas *a)
{
    free(a->words);
    free(a->lanes);
    free(a->bells);
    *a = (struct areas){0};
}

/* ---- where they are ---------------------------------------------------------------------------------------------- */

static void add_lanes(struct areas *a, const struct ground *g, uint32_t rank, uint8_t *area, uint32_t ranks)
{
    a->lanes[rank] = (struct lanes_rank){.area = area, .ranks = ranks, .node_rank = g->peers[rank].place};
}

void areas_add_mine(struct areas *a, const struct ground *g, uint64_t offset, uint64_t board_offset, uint32_t slots,
                    bool has_lanes)
{
    const uint32_t self = g->self, ranks = g->places;
    uint8_t *segment = g->segment, *area = offset > 0 ? segment + offset : NULL;
    a->words[self] = (struct handoffs_rank){
        .at = {.area = area, .board = (const void *)(segment + board_offset), .slots = slots, .ranks = ranks},
        .node_rank = g->peers[self].place};
    a->bells[self] = ground_bell(g);
    if (area != NULL && has_lanes)
        add_lanes(a, g, self, area + words_bytes(slots, ranks), ranks);
}

static bool fits(uint64_t offset, uint64_t bytes, uint64_t segment_bytes)
{
    return offset <= segment_bytes && bytes <= segment_bytes - offset;
}

void areas_add(struct areas *a, const struct ground *g, uint32_t rank, const struct wire_card *card)
{
    const struct ground_peer *peer = &g->peers[rank];
    uint8_t *segment = peer->mapped;
    const uint32_t slots = card->index_slots, ranks = card->words_slots;
    const bool is_sane = slots > 0 && slots <= HANDOFF_SLOTS_MAX && slots <= card->board_slots &&
                         ranks <= g->num_peers && g->peers[g->self].place < ranks && /* I have words there */
                         card->index_offset == card->words_offset && card->index_offset != 0 &&
                         card->index_offset % 64 == 0 && card->board_offset % 8 == 0 &&
                         fits(card->index_offset, words_bytes(slots, ranks), peer->bytes) &&
                         fits(card->board_offset, 8 * (uint64_t)card->board_slots, peer->bytes);
    if (!is_sane)
        return;
    a->bells[rank] = (struct bell *)(void *)segment;
    if (peer->process != 0) /* who dies with a lease is seen */
        a->words[rank] = (struct handoffs_rank){.at = {.area = segment + card->index_offset,
                                                       .board = (const void *)(segment + card->board_offset),
                                                       .slots = slots,
                                                       .ranks = ranks},
                                                .node_rank = peer->place};
    const uint64_t lanes = card->index_offset + words_bytes(slots, ranks);
    if ((card->features & WIRE_CARD_LANES) != 0 && fits(lanes, lanes_bytes(ranks), peer->bytes))
        add_lanes(a, g, rank, segment + lanes, ranks);
}

int areas_join(const struct areas *a, const struct ground *g, const struct logger *log, struct rings **rings,
               struct handoffs **handoffs, struct lanes **lanes)
{
    const uint32_t self = g->self, size = g->num_peers;
    int rc = rings_create(a->bells, size, rings);
    if (rc == 0)
        rc = handoffs_create(self, a->words, size, *rings, handoffs);
    return rc != 0 ? rc : lanes_create(self, a->lanes, size, *rings, log, lanes);
}
