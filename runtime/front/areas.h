/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * areas: what ranks of a node keep in their segments to meet each other by memory alone. Each rank has the words by
 * which the others take its offers (shm/handoff.h), and behind them the lanes of the messages to it (shm/lanes.h). Its
 * card says where.
 *
 * The thread that builds the context.
 */
#ifndef BATON_FRONT_AREAS_H
#define BATON_FRONT_AREAS_H

#include "core/ground.h"
#include "shm/handoffs.h"
#include "shm/lanes.h"
#include "shm/rings.h"
#include "wire/card.h"

/** What is known of the areas of all ranks. */
struct areas {
    struct handoffs_rank *words; /* by rank */
    struct lanes_rank *lanes;    /* likewise */
    struct bell **bells;         /* likewise */
};

/** Bytes of my area for so many slots and ranks of my node. */
uint64_t areas_bytes(uint32_t slots, uint32_t neighbours);

/** No rank has an area yet. BATON_ENOMEM: areas_fini may follow all the same. */
int areas_init(struct areas *a, uint32_t num_ranks);
void areas_fini(struct areas *a);

/** Mine: `offset` in my segment, behind my board of so many slots. Without lanes, my messages go by the net. */
void areas_add_mine(struct areas *a, const struct ground *g, uint64_t offset, uint64_t board_offset, uint32_t slots,
                    bool has_lanes);
/** That of a rank whose segment is mapped here, where its card says so and says nothing impossible. */
void areas_add(struct areas *a, const struct ground *g, uint32_t rank, const struct wire_card *card);

/** Makes of them what the port needs. 0, or BATON_ENOMEM, with some of it made. */
int areas_join(const struct areas *a, const struct ground *g, const struct logger *log, struct rings **rings,
               struct handoffs **handoffs, struct lanes **lanes);

#endif
