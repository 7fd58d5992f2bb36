/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * places: which member of the node has which place in an area: its words about the offers there (handoff.h), and its
 * lane to whom the area belongs (lanes.h). Both are counted by places, so an area is as large as the neighbours that it
 * has room for, however many members there are.
 *
 * A neighbour claims a free place: it puts its number there, by compare and exchange. It uses the place once the owner
 * of the area has marked it open, which the owner does when it would see the neighbour's end. Until then, and where no
 * place is free, the two go by other ways. Nobody but the owner gives a place back: one that was never opened, when its
 * claimer has gone, and one that is open, when nothing of its member can land here any more and the place is as if it
 * had never been used. A claimer that is taken for gone and lives finds by its own compare that the place is not its.
 * tests/model/places.pml is the model of it.
 *
 * The words lie in shared memory and may hold anything: whoever reads a number there looks it up.
 *
 * THREAD. A claimer: one thread of its process at a time; the owner likewise. None blocks.
 */
#ifndef BATON_SHM_PLACES_H
#define BATON_SHM_PLACES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PLACES_NONE UINT32_MAX

struct place {
    _Atomic uint64_t claimed; /* a member's number; 0: free */
    _Atomic uint64_t open;    /* the same number, once the owner has opened it */
};

/** The places of one area, as they are mapped here. */
struct places {
    struct place *of;
    uint32_t num;
};

uint64_t places_bytes(uint32_t num);

/** The place of that member (never 0), claimed now if it had none. PLACES_NONE: all are taken. */
uint32_t places_claim(const struct places *p, uint64_t member);
/** Whether that member may use it. */
bool places_is_open(const struct places *p, uint32_t place, uint64_t member);

/* ---- the owner's ------------------------------------------------------------------------------------------------- */

/**
 * The first claim at or behind *place that is not open: its place, and whose it says that it is. False: there is none.
 */
bool places_next_claim(const struct places *p, uint32_t *place, uint64_t *member);
/** That member's claim is open from now on, if it stands there. */
bool places_open(const struct places *p, uint32_t place, uint64_t member);
/** What that member claimed is free again. Words and lane must be as they were before it was opened. */
void places_give_back(const struct places *p, uint64_t member);

#endif
