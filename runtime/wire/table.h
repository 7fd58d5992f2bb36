/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table: the block tables of a request as bytes. They lie in the arena of the rank that offers or wants, and the other
 * side reads them there.
 */
#ifndef BATON_WIRE_TABLE_H
#define BATON_WIRE_TABLE_H

#include <stdint.h>

#include "plan/plan.h"

#define WIRE_TABLE_HEADER 32u
#define WIRE_TABLE_ENTRIES_MAX (1u << 24) /* of the tables of one call */
#define WIRE_TABLE_ENTRIES_SENT 400u      /* of tables that a GRANT carries */
#define WIRE_TABLE_SENT_MAX (WIRE_TABLE_HEADER + 4 * WIRE_TABLE_ENTRIES_SENT)

/** Entries of 4 bytes behind the header: the blocks, and a few more unless one table begins at token 0. */
uint32_t wire_table_entries(const struct plan_tables *tables);

/** Bytes that tables of so many entries take in all. */
static inline uint64_t wire_table_bytes(uint32_t entries)
{
    return WIRE_TABLE_HEADER + (uint64_t)entries * 4;
}

/** Writes the header and the entries. `out` has wire_table_bytes() and is aligned to 8 bytes. */
void wire_table_encode(uint32_t slot, uint64_t generation, const struct plan_tables *tables, uint8_t *out);
/**
 * Reads the tables of this slot and generation. After 0 they point into *entries, which the caller frees. Whether the
 * blocks make sense is for plan_table_check. `in` may change meanwhile: it is copied before it is checked.
 * BATON_ESTALE: tables of another lease, or a bad checksum. BATON_EMESSAGE: the entries make no tables. BATON_ENOMEM.
 */
int wire_table_decode(const uint8_t *in, uint64_t bytes, uint32_t slot, uint64_t generation, struct plan_tables *tables,
                      uint32_t **entries);
/** The same into `room` where the entries fit there: then *entries is that, and is not freed. */
int wire_table_decode_into(const uint8_t *in, uint64_t bytes, uint32_t slot, uint64_t generation, uint32_t *room,
                           uint32_t num_room, struct plan_tables *tables, uint32_t **entries);

#endif
