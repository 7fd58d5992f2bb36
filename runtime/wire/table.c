/* SPDX-License-Identifier: BSD-3-Clause */
/* table: see table.h. */
#include "wire/table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "wire/bytes.h"
#include "wire/version.h"

#define TABLE_MAGIC 0x5442u  /* "BT" */
#define TABLES_MAGIC 0x4742u /* "BG" */

/* One table that begins at token 0 is just its blocks. Several tables begin with how many they are, and how many blocks
 * and which first token each has. */
static bool is_plain(const struct plan_tables *t)
{
    return t->num == 1 && t->table[0].first_token == 0;
}

uint32_t wire_table_entries(const struct plan_tables *t)
{
    uint32_t n = is_plain(t) ? 0 : 1 + 2 * t->num;
    for (uint32_t i = 0; i < t->num; i++)
        n += t->table[i].num_blocks;
    return n;
}

/* The seed makes it a checksum of kind, slot, generation and count too. */
static uint64_t table_checksum(uint16_t magic, uint32_t slot, uint64_t generation, uint32_t count,
                               const uint8_t *entries)
{
    uint64_t seed = generation ^ ((uint64_t)slot << 32) ^ ((uint64_t)count << 1) ^ (magic != TABLE_MAGIC);
    return XXH3_64bits_withSeed(entries, (size_t)count * 4, seed);
}

void wire_table_encode(uint32_t slot, uint64_t generation, const struct plan_tables *t, uint8_t *out)
{
    uint32_t count = wire_table_entries(t);
    struct writer entries = {.at = out + WIRE_TABLE_HEADER, .end = out + wire_table_bytes(count)};
    if (!is_plain(t))
        put32(&entries, t->num);
    for (uint32_t i = 0; i < t->num && !is_plain(t); i++) {
        put32(&entries, t->table[i].num_blocks);
        put32(&entries, t->table[i].first_token);
    }
    for (uint32_t i = 0; i < t->num; i++)
        for (uint32_t k = 0; k < t->table[i].num_blocks; k++)
            put32(&entries, t->table[i].blocks[k]);
    struct writer w = {.at = out, .end = out + WIRE_TABLE_HEADER};
    uint16_t magic = is_plain(t) ? TABLE_MAGIC : TABLES_MAGIC;
    put16(&w, magic);
    put8(&w, WIRE_VERSION);
    put8(&w, 0);
    put32(&w, slot);
    put64(&w, generation);
    put32(&w, count);
    put32(&w, 0); /* spare */
    put64(&w, table_checksum(magic, slot, generation, count, out + WIRE_TABLE_HEADER));
}

/* Cuts the entries of several tables. */
static int tables_from(const uint32_t *entry, uint32_t count, struct plan_tables *t)
{
    t->num = count > 0 ? entry[0] : 0;
    if (t->num == 0 || t->num > BATON_GROUPS_MAX || count < 1 + 2 * t->num)
        return BATON_EMESSAGE;
    uint32_t at = 1 + 2 * t->num;
    for (uint32_t i = 0; i < t->num; i++) {
        uint32_t num_blocks = entry[1 + 2 * i];
        if (num_blocks > count - at)
            return BATON_EMESSAGE;
        t->table[i] = (baton_table_t){entry + at, num_blocks, entry[2 + 2 * i]};
        at += num_blocks;
    }
    return at == count ? 0 : BATON_EMESSAGE;
}

int wire_table_decode(const uint8_t *in, uint64_t bytes, uint32_t slot, uint64_t generation, struct plan_tables *tables,
                      uint32_t **entries)
{
    return wire_table_decode_into(in, bytes, slot, generation, NULL, 0, tables, entries);
}

int wire_table_decode_into(const uint8_t *in, uint64_t bytes, uint32_t slot, uint64_t generation, uint32_t *room,
                           uint32_t num_room, struct plan_tables *tables, uint32_t **entries)
{
    uint8_t header[WIRE_TABLE_HEADER];
    if (bytes < sizeof header)
        return BATON_ESTALE;
    memcpy(header, in, sizeof header);
    struct reader r = {.at = header, .end = header + sizeof header};
    uint16_t magic = get16(&r);
    bool good = (magic == TABLE_MAGIC || magic == TABLES_MAGIC) && get8(&r) >= 1;
    get8(&r);
    good &= get32(&r) == slot;
    good &= get64(&r) == generation;
    uint32_t count = get32(&r);
    get32(&r);
    uint64_t checksum = get64(&r);
    if (!good || bytes < wire_table_bytes(count))
        return BATON_ESTALE;
    uint32_t *entry = room != NULL && count <= num_room ? room : malloc(count > 0 ? count * sizeof *entry : 1);
    if (entry == NULL)
        return BATON_ENOMEM;
    memcpy(entry, in + WIRE_TABLE_HEADER, count * sizeof *entry);
    int rc = checksum == table_checksum(magic, slot, generation, count, (const uint8_t *)entry) ? 0 : BATON_ESTALE;
    r = (struct reader){.at = (const uint8_t *)entry, .end = (const uint8_t *)(entry + count)};
    for (uint32_t i = 0; i < count; i++)
        entry[i] = get32(&r);
    struct plan_tables found = {.num = 1, .table = {{.blocks = entry, .num_blocks = count}}};
    if (rc == 0 && magic == TABLES_MAGIC)
        rc = tables_from(entry, count, &found);
    if (rc != 0) {
        if (entry != room)
            free(entry);
        return rc;
    }
    *tables = found;
    *entries = entry;
    return 0;
}
