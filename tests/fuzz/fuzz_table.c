/* SPDX-License-Identifier: BSD-3-Clause */
/* Block tables from anybody: no id past the limit comes through. */
#include "fuzz.h"

#include "core/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t ids[64];
    if (size < 4)
        return 0;
    uint32_t need = data[0] % 64, limit = 1 + data[1], slot = data[2];
    uint64_t generation = 1 + data[3];
    uint8_t *in = fuzz_copy(data + 4, size - 4);
    fuzz_seal_table(in, size - 4);
    int rc = wire_table_decode(in, size - 4, slot, generation, need, limit, ids);
    MUST(rc == 0 || rc == BATON_ESTALE || rc == BATON_EMESSAGE);
    for (uint32_t i = 0; rc == 0 && i < need; i++)
        MUST(ids[i] < limit);
    if (rc == 0 && need > 0) { /* written and read again, it is the same */
        uint8_t out[WIRE_TABLE_HEADER + sizeof ids];
        uint32_t again[64];
        wire_table_encode(slot, generation, ids, need, out);
        MUST(wire_table_decode(out, wire_table_bytes(need), slot, generation, need, limit, again) == 0);
        MUST(memcmp(ids, again, need * sizeof ids[0]) == 0);
    }
    free(in);
    return 0;
}
