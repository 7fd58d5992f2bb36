/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz: see fuzz.h. */
#include "fuzz.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "wire/envelope.h"
#include "wire/row.h"
#include "wire/table.h"

uint8_t *fuzz_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    MUST(copy != NULL);
    memcpy(copy, data, size);
    return copy;
}

static void put64(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

void fuzz_seal_envelope(uint8_t *packet, size_t size)
{
    if (size < ENVELOPE_BYTES)
        return;
    bool alone = packet[20] & 1;
    uint64_t seed = XXH3_64bits_withSeed(packet, 20, alone);
    uint32_t hash = (uint32_t)XXH3_64bits_withSeed(packet + ENVELOPE_BYTES, size - ENVELOPE_BYTES, seed);
    for (int i = 0; i < 4; i++)
        packet[20 + i] = (uint8_t)(((hash & ~UINT32_C(1)) | alone) >> (8 * i));
}

void fuzz_seal_row(uint8_t *row)
{
    put64(row + WIRE_ROW_BYTES - 8, XXH3_64bits(row, WIRE_ROW_BYTES - 8));
}

void fuzz_seal_card(uint8_t *card, size_t size)
{
    if (size < 16)
        return;
    for (int i = 0; i < 4; i++)
        card[4 + i] = (uint8_t)(size >> (8 * i));
    put64(card + 8, XXH3_64bits(card + 16, size - 16));
}

static uint64_t number(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

void fuzz_seal_table(uint8_t *table, size_t size)
{
    if (size < WIRE_TABLE_HEADER)
        return;
    uint64_t slot = number(table + 4, 4), generation = number(table + 8, 8), count = number(table + 16, 4);
    if (count > (size - WIRE_TABLE_HEADER) / 4)
        return;
    uint64_t seed = generation ^ (slot << 32) ^ (count << 1) ^ (table[1] != 'T'); /* of one table, or of several */
    put64(table + 24, XXH3_64bits_withSeed(table + WIRE_TABLE_HEADER, count * 4, seed));
}
