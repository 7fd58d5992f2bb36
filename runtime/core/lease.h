/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lease: the slots of my lease board and the arena where the block tables of live offers lie.
 *
 * A slot's generation goes up when the slot is granted and when its lease ends. All slots take their generations from
 * one count, so each generation belongs to one lease of this rank and is never used again. The board itself is written
 * through port.raise.
 */
#ifndef BATON_CORE_LEASE_H
#define BATON_CORE_LEASE_H

#include <stdint.h>

#include "plan/plan.h"

struct lease {
    uint32_t slot;
    uint64_t generation;
    uint64_t table_offset, table_bytes; /* in the arena */
};

struct leases;

/** Generations start above `first`, which differs for each member and is at most INT64_MAX. NULL: out of memory. */
struct leases *leases_create(uint32_t slots, uint64_t first, uint8_t *arena, uint64_t arena_bytes);
void leases_destroy(struct leases *l);

/**
 * Takes a slot and room for tables of so many entries (those of these at least), and writes these. The caller raises
 * the board to lease->generation. BATON_EAGAIN: no slot, or no room in the arena; BATON_ENOMEM.
 */
int lease_open(struct leases *l, const struct plan_tables *tables, uint32_t entries, struct lease *lease);

/** Overwrites a lease's tables by longer ones, within the room that was taken. A reader meanwhile may find neither. */
void lease_rewrite(struct leases *l, const struct plan_tables *tables, const struct lease *lease);

/** An open lease's tables as they lie in the arena: wire_table_bytes() of them. */
const uint8_t *lease_encoded(const struct leases *l, const struct lease *lease);

/** Ends it and returns the slot's new generation, to which the caller raises the board before anything else. */
uint64_t lease_end(struct leases *l, const struct lease *lease);

/** Leases open. */
uint32_t leases_live(const struct leases *l);

#endif
