/* SPDX-License-Identifier: BSD-3-Clause */
/* Block tables from anybody: what comes through is within the bytes, and says the same when it is written again. */
#include "fuzz.h"

#include "wire/table.h"

static void same(const struct plan_tables *a, const struct plan_tables *b)
{
    MUST(a->num == b->num && a->num <= BATON_GROUPS_MAX);
    for (uint32_t i = 0; i < a->num; i++) {
        const baton_table_t *x = &a->table[i], *y = &b->table[i];
        MUST(x->num_blocks == y->num_blocks && x->first_token == y->first_token);
        MUST(x->num_blocks == 0 || memcmp(x->blocks, y->blocks, x->num_blocks * sizeof *x->blocks) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4)
        return 0;
    struct plan_tables tables, again;
    struct plan_why why;
    uint32_t need = data[0], slot = data[2], *ids, *more;
    const baton_group_t group = {.block_tokens = 2, .num_blocks = 1 + data[1]};
    uint64_t generation = 1 + data[3];
    uint8_t *in = fuzz_copy(data + 4, size - 4);
    fuzz_seal_table(in, size - 4);
    int rc = wire_table_decode(in, size - 4, slot, generation, &tables, &ids);
    MUST(rc == 0 || rc == BATON_ESTALE || rc == BATON_EMESSAGE);
    if (rc == 0) {
        for (uint32_t i = 0; i < tables.num; i++) /* reads each id that is needed */
            plan_table_check(&group, &tables.table[i], tables.table[i].first_token, need, &why);
        uint64_t bytes = wire_table_bytes(wire_table_entries(&tables));
        uint8_t *out = malloc(bytes);
        MUST(out != NULL);
        wire_table_encode(slot, generation, &tables, out);
        MUST(wire_table_decode(out, bytes, slot, generation, &again, &more) == 0);
        same(&tables, &again);
        free(out);
        free(more);
        free(ids);
    }
    free(in);
    return 0;
}
