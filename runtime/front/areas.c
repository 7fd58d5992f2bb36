/* SPDX-License-Identifier: BSD-3-Clause */
/* areas: see areas.h. */
#include "front/areas.h"

#include <stdlib.h>

/* One area, as it is mapped here. */
struct area {
    struct places places;
    struct handoff words;  /* without area: there are none, or they may not be used */
    struct lanes_at lanes; /* likewise */
    struct bell *bell;
};

struct neighbour {
    uint32_t rank;
    struct area area;
    uint32_t place, its; /* mine in its area, and its in mine. PLACES_NONE: not claimed; not open */
    bool has_met;
};

struct areas {
    const struct ground *ground;
    const struct directory *directory;
    struct area mine;
    struct rings *rings;
    struct handoffs *handoffs;
    struct lanes *lanes;
    uint32_t num_near;
    struct neighbour near[]; /* as many as my node has places */
};

/* ---- where things lie -------------------------------------------------------------------------------------------- */

static uint64_t in_lines(uint64_t bytes)
{
    return (bytes + 63) & ~UINT64_C(63);
}

/* The places and the words, each up to a whole line. */
static uint64_t places_end(uint32_t places)
{
    return in_lines(places_bytes(places));
}

static uint64_t words_end(uint32_t slots, uint32_t places)
{
    return places_end(places) + in_lines(handoff_bytes(slots, places));
}

uint64_t areas_bytes(uint32_t slots, uint32_t places)
{
    return words_end(slots, places) + lanes_bytes(places);
}

static struct area area_at(uint8_t *segment, uint64_t offset, uint64_t board_offset, uint32_t slots, uint32_t places)
{
    uint8_t *at = segment + offset;
    return (struct area){.places = {(void *)at, places},
                         .words = {.area = at + places_end(places),
                                   .board = (const void *)(segment + board_offset),
                                   .slots = slots,
                                   .places = places},
                         .lanes = {at + words_end(slots, places), places},
                         .bell = (void *)segment};
}

/* ---- mine -------------------------------------------------------------------------------------------------------- */

static uint64_t number_of(const struct areas *a, uint32_t rank)
{
    return a->directory->rows[rank].number;
}

static struct neighbour *add(struct areas *a, uint32_t rank, const struct area *area)
{
    struct neighbour *n = &a->near[a->num_near++];
    *n = (struct neighbour){.rank = rank, .area = *area, .its = PLACES_NONE};
    n->place = places_claim(&n->area.places, number_of(a, a->ground->self));
    return n;
}

int areas_create(const struct ground *g, const struct vicinity *vicinity, const struct directory *d,
                 const struct areas_mine *mine, const struct logger *log, struct areas **out)
{
    struct areas *a = calloc(1, sizeof *a + g->places * sizeof a->near[0]);
    if (a == NULL)
        return BATON_ENOMEM;
    a->ground = g;
    a->directory = d;
    if (mine->offset > 0) {
        a->mine = area_at(g->segment, mine->offset, mine->board_offset, mine->slots, g->places);
        if (!mine->has_lanes)
            a->mine.lanes = (struct lanes_at){NULL, 0};
    }
    if (rings_create(vicinity, &a->rings) != 0 || handoffs_create(vicinity, a->rings, &a->handoffs) != 0 ||
        lanes_create(&a->mine.lanes, vicinity, a->rings, log, &a->lanes) != 0) {
        areas_destroy(a);
        return BATON_ENOMEM;
    }
    if (mine->offset > 0) {
        add(a, g->self, &a->mine);
        areas_open(a);
        areas_meet(a);
    }
    *out = a;
    return 0;
}

void areas_destroy(struct areas *a)
{
    if (a == NULL)
        return;
    handoffs_destroy(a->handoffs);
    lanes_destroy(a->lanes);
    rings_destroy(a->rings);
    free(a);
}

/* ---- neighbours -------------------------------------------------------------------------------------------------- */

static bool fits(uint64_t offset, uint64_t bytes, uint64_t segment_bytes)
{
    return offset <= segment_bytes && bytes <= segment_bytes - offset;
}

void areas_add(struct areas *a, uint32_t rank, const struct wire_card *card)
{
    const struct ground_peer *peer = &a->ground->peers[rank];
    const uint32_t slots = card->index_slots, places = card->words_slots;
    const uint64_t lanes = card->index_offset + words_end(slots, places);
    const bool is_sane = slots > 0 && slots <= HANDOFF_SLOTS_MAX && slots <= card->board_slots && places > 0 &&
                         card->index_offset == card->words_offset && card->index_offset != 0 &&
                         card->index_offset % 64 == 0 && card->board_offset % 8 == 0 &&
                         fits(card->index_offset, words_end(slots, places), peer->bytes) &&
                         fits(card->board_offset, 8 * (uint64_t)card->board_slots, peer->bytes);
    if (a->mine.words.area == NULL || !is_sane || a->num_near == a->ground->places)
        return;
    struct area area = area_at(peer->mapped, card->index_offset, card->board_offset, slots, places);
    if (peer->process == 0) /* who dies with a lease is not seen */
        area.words = (struct handoff){.area = NULL};
    if ((card->features & WIRE_CARD_LANES) == 0 || !fits(lanes, lanes_bytes(places), peer->bytes))
        area.lanes = (struct lanes_at){NULL, 0};
    add(a, rank, &area);
}

static struct neighbour *find(struct areas *a, uint32_t rank)
{
    for (uint32_t i = 0; i < a->num_near; i++)
        if (a->near[i].rank == rank)
            return &a->near[i];
    return NULL;
}

/* A number that nobody has who was added, or that stands there twice, is no claim. */
void areas_open(struct areas *a)
{
    uint32_t place = 0;
    uint64_t member;
    for (; places_next_claim(&a->mine.places, &place, &member); place++) {
        const uint32_t rank = directory_rank(a->directory, member);
        struct neighbour *n = rank != DIRECTORY_NONE ? find(a, rank) : NULL;
        if (n != NULL && n->its == PLACES_NONE && places_open(&a->mine.places, place, member))
            n->its = place;
    }
}

void areas_meet(struct areas *a)
{
    const uint64_t me = number_of(a, a->ground->self);
    for (uint32_t i = 0; i < a->num_near; i++) {
        struct neighbour *n = &a->near[i];
        if (n->has_met || n->its == PLACES_NONE || !places_is_open(&n->area.places, n->place, me))
            continue;
        n->has_met = true;
        rings_join(a->rings, n->rank, n->area.bell);
        if (n->area.words.area != NULL)
            handoffs_join(a->handoffs, n->rank, &(struct handoffs_rank){n->area.words, n->place, n->its});
        if (n->area.lanes.area != NULL && a->mine.lanes.area != NULL)
            lanes_join(a->lanes, n->rank, &(struct lanes_rank){n->area.lanes, n->place, n->its});
    }
}

void areas_leave(struct areas *a, uint32_t rank)
{
    struct neighbour *n = find(a, rank);
    lanes_leave(a->lanes, rank);
    handoffs_leave(a->handoffs, rank);
    rings_leave(a->rings, rank);
    if (n != NULL && n->its != PLACES_NONE) { /* it may have used its place though this rank has not met it */
        lanes_clear(a->lanes, n->its);
        handoff_clear(&a->mine.words, n->its);
    }
    places_give_back(&a->mine.places, number_of(a, rank)); /* also what it claimed before it was added */
    if (n != NULL)
        *n = a->near[--a->num_near];
}

void areas_forget(struct areas *a, uint32_t engine)
{
    if (a->mine.words.area != NULL)
        handoff_forget(&a->mine.words, directory_identity(a->directory, engine));
}

struct rings *areas_rings(const struct areas *a)
{
    return a->rings;
}

struct handoffs *areas_handoffs(const struct areas *a)
{
    return a->handoffs;
}

struct lanes *areas_lanes(const struct areas *a)
{
    return a->lanes;
}
