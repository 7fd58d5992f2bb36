/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table: the block tables of a request, as they lie in the arena of its rank, where the other side reads them.
 */
#ifndef BATON_WIRE_TABLE_H
#define BATON_WIRE_TABLE_H

#include <stdint.h>

#include "plan/plan.h"

#define WIRE_TABLE_HEADER 32u
#define WIRE_NUMBERS_MAX (1u << 24) /* of the tables of one call */

/** Numbers behind the header: the ids, and a few more unless there is one table that begins at token 0. */
uint32_t wire_table_numbers(const struct plan_tables *tables);

/** Bytes of tables of so many numbers. */
static inline uint64_t wire_table_bytes(uint32_t numbers)
{
    return WIRE_TABLE_HEADER + (uint64_t)numbers * 4;
}

/** Writes header (magic, slot, generation, count, checksum) and numbers; `out` has wire_table_bytes(), 8-aligned. */
void wire_table_encode(uint32_t slot, uint64_t generation, const struct plan_tables *tables, uint8_t *out);
/**
 * Checks that `in` holds the tables of this slot and generation; they then point into *ids, which is malloc'ed. What
 * the ids mean is plan_table_check's to judge. BATON_ESTALE: another lease's, or a bad checksum. BATON_EMESSAGE: the
 * numbers make no tables. BATON_ENOMEM. `in` may change while it is read: it is copied before it is checked.
 */
int wire_table_decode(const uint8_t *in, uint64_t bytes, uint32_t slot, uint64_t generation, struct plan_tables *tables,
                      uint32_t **ids);

#endif
