/* SPDX-License-Identifier: BSD-3-Clause */
/* Cards from anybody, and the geometries in them: what passes every check must be usable without harm. */
#include "fuzz.h"

#include "core/wire.h"

static void compile(const baton_geometry_t *g)
{
    struct plan_box all = {g->layer_first, g->layer_count, g->head_first, g->head_count};
    struct plan_why why;
    struct plan *plan = NULL;
    if (plan_compile(g, g, &all, 1, &plan, &why) != 0)
        return;
    const uint32_t block[] = {g->num_blocks - 1};
    static struct plan_transfer t;
    struct plan_cursor at = {0};
    struct plan_run runs[8];
    uint64_t moved = 0;
    plan_transfer_init(&t, plan, 1, block, block);
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
        MUST(card.incarnation != 0 && memchr(card.host, '\0', sizeof card.host) != NULL);
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
