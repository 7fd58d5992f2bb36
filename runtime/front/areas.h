/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * areas: what ranks of a node keep in their segments to meet each other by memory alone. An area has places
 * (shm/places.h), then the words by which neighbours take its rank's offers (shm/handoff.h), then the lanes of the
 * messages to it (shm/lanes.h). Its card says where. Two neighbours meet so once each has an open place in the other's
 * area: both claim theirs (areas_add), both open the other's (areas_open), and then areas_meet finds that it is so.
 *
 * The thread that builds the context; then whoever makes turns.
 */
#ifndef BATON_FRONT_AREAS_H
#define BATON_FRONT_AREAS_H

#include "core/directory.h"
#include "core/ground.h"
#include "shm/handoffs.h"
#include "shm/lanes.h"
#include "shm/rings.h"
#include "wire/card.h"

struct areas;

/** Mine: where it lies. */
struct areas_mine {
    uint64_t offset;       /* in my segment; 0: I have none, and meet nobody so */
    uint64_t board_offset; /* of my board */
    uint32_t slots;        /* of that */
    bool has_lanes;        /* else my messages go by the net */
};

/** Bytes of an area for so many slots and places. All of them 0, nothing has happened there. */
uint64_t areas_bytes(uint32_t slots, uint32_t places);

/** My own place is open when this returns, if I have an area. What it is given outlives it. 0, or BATON_ENOMEM. */
int areas_create(const struct ground *g, const struct vicinity *vicinity, const struct directory *d,
                 const struct areas_mine *mine, const struct logger *log, struct areas **out);
void areas_destroy(struct areas *a);

/**
 * A neighbour whose segment is mapped here: claims my place in its area, if its card says where that lies and says
 * nothing impossible, and a place is free.
 */
void areas_add(struct areas *a, uint32_t rank, const struct wire_card *card);
/** Opens the places in mine that neighbours have claimed who were added. */
void areas_open(struct areas *a);
/** Finds who opened mine: with them this rank meets by memory from now on. */
void areas_meet(struct areas *a);
/** That neighbour is forgotten (core/gone.h), and nothing of it can land here any more: its place is free again. */
void areas_leave(struct areas *a, uint32_t rank);
/** No rank of that engine says anything any more: words forget it. */
void areas_forget(struct areas *a, uint32_t engine);

struct rings *areas_rings(const struct areas *a);
struct handoffs *areas_handoffs(const struct areas *a);
struct lanes *areas_lanes(const struct areas *a);

#endif
