/* SPDX-License-Identifier: BSD-3-Clause */
/* Cards from anybody, and the geometries in them: what passes every check must be usable without harm. */
#include "fuzz.h"

#include "wire/card.h"

static void compile(const baton_geometry_t *g)
{
    struct plan_box boxes[BATON_SPLITS_MAX];
    struct plan_why why;
    struct plan *plan = NULL;
    if (plan_compile(g, g, boxes, plan_boxes(g, boxes), &plan, &why) != 0)
        return;
    uint32_t last[BATON_GROUPS_MAX];
    struct plan_tables tables = {.num = g->num_groups};
    for (uint32_t i = 0; i < tables.num; i++) {
        last[i] = g->groups[i].num_blocks - 1;
        tables.table[i] = (baton_table_t){&last[i], 1, 0};
    }
    static struct plan_transfer t;
    struct plan_cursor at = {0};
    struct plan_run runs[8];
    uint64_t moved = 0;
    MUST(plan_transfer_init(&t, plan, 0, 1, &tables, &tables, &why) == 0);
    for (int i = 0; i < 64; i++) {
        uint32_t n = plan_next(&t, &at, runs, 8, 4096);
        for (uint32_t k = 0; k < n; k++) {
            MUST(runs[k].src <= g->bytes && runs[k].bytes <= g->bytes - runs[k].src);
            moved += runs[k].bytes;
        }
        if (n == 0)
            break;
    }
    MUST(moved <= t.bytes);
    plan_destroy(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wire_card card;
    struct plan_why why;
    static uint8_t out[WIRE_CARD_MAX];
    uint8_t *in = fuzz_copy(data, size);
    fuzz_seal_card(in, size);
    if (wire_card_decode(in, (uint32_t)size, &card) == 0) {
        MUST(card.member != 0);
        int n = wire_card_encode(&card, out, sizeof out);
        MUST(n > 0);
        if (card.has_geometry && geometry_check(&card.geometry, &card.pool_bytes, 1, &why) == 0 &&
            card.geometry.bytes == card.pool_bytes)
            compile(&card.geometry);
        wire_card_free(&card);
        MUST(wire_card_decode(out, (uint32_t)n, &card) == 0);
        wire_card_free(&card);
    }
    free(in);
    return 0;
}
