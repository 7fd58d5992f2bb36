/* SPDX-License-Identifier: BSD-3-Clause */
/* Block tables that travel in the grant: which do, who takes them, and that others than the lease's are refused. */
#include "with_world.h"

#include "wire/table.h"

static const struct world_engine one_to_one[] = {
    {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32},
    {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32},
};

#define TOKENS 13 /* in 4 blocks */

/* An offer of rank 0 is wanted by rank 1. Returns the tables that were read for it. */
static uint32_t reads_of(struct world *w, const char *key)
{
    uint32_t before = w->tables;
    world_fill(w, 0, 7, 0, 1, TOKENS);
    world_poison(w, 1);
    baton_id_t o = world_offer(w, 0, key, 0, 1, TOKENS, 5000);
    DONE_AFTER(w, 1, world_want(w, 1, "P", key, 8, 1, TOKENS, 5000), w->now + 100 * MS);
    DONE(w, 0, o);
    assert_int_equal(world_wrong(w, 1, 7, 8, 1, TOKENS), 0);
    return w->tables - before;
}

static void short_tables_are_not_read(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    assert_int_equal(reads_of(&w, "first"), 0);
    w.settings.grant_blocks = 4;
    assert_int_equal(reads_of(&w, "as long as may be"), 0);
    w.settings.grant_blocks = 3;
    assert_int_equal(reads_of(&w, "longer"), 1);
    w.settings.grant_blocks = 0;
    assert_int_equal(reads_of(&w, "never"), 1);
    world_fini(&w);
}

static void layers_wait_for_no_table(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    world_fill(&w, 0, 7, 0, 1, TOKENS);
    baton_id_t o = world_offer_layers(&w, 0, "key", 0, 1, TOKENS, 5000);
    baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 5000);
    for (uint32_t layer = 0; layer < 2; layer++) {
        world_run(&w, w.now + 20 * MS);
        world_ready(&w, 0, o, layer, 1);
    }
    DONE_AFTER(&w, 1, d, w.now + 100 * MS);
    DONE(&w, 0, o);
    assert_int_equal(w.tables, 0);
    assert_int_equal(world_wrong(&w, 1, 7, 8, 1, TOKENS), 0);
    world_fini(&w);
}

/* Chunks make the table longer: what came with the grant is not all. */
static void chunks_are_read(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    world_fill(&w, 0, 7, 0, 1, TOKENS);
    baton_id_t o = world_offer_chunks(&w, 0, "key", TOKENS, false, 5000);
    world_append(&w, 0, o, 0, 2, 8);
    baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 5000);
    world_run(&w, w.now + 50 * MS);
    assert_int_equal(w.tables, 0);
    assert_int_equal(world_wrong(&w, 1, 7, 8, 1, 8), 0);
    world_append(&w, 0, o, 2, 2, TOKENS);
    DONE_AFTER(&w, 1, d, w.now + 100 * MS);
    DONE(&w, 0, o);
    assert_int_equal(w.tables, 1);
    assert_int_equal(world_wrong(&w, 1, 7, 8, 1, TOKENS), 0);
    world_fini(&w);
}

/* ---- tables that are not the lease's ----------------------------------------------------------------------------- */

static const struct lie {
    const char *what;
    uint32_t at; /* the byte of the table that is changed */
} lies[] = {
    {"magic", 0}, {"slot", 4}, {"generation", 8}, {"count", 16}, {"checksum", 24}, {"block", WIRE_TABLE_HEADER},
};

/* The producer itself sends them so: the hash of the packet is right. */
static void lie(struct world *w, const struct world_message *m, uint8_t *packet, uint32_t bytes)
{
    const struct lie *l = w->user;
    struct wire_message sent = m->m;
    uint8_t table[WIRE_TABLE_SENT_MAX];
    if (sent.type != WIRE_GRANT || sent.grant.table.num == 0)
        return;
    memcpy(table, sent.grant.table.data, sent.grant.table.num);
    table[l->at] ^= 1;
    sent.grant.table.data = table;
    assert_int_equal(wire_encode(&sent, packet + ENVELOPE_BYTES) + ENVELOPE_BYTES, bytes);
    struct envelope_counts c = w->counts[m->from * w->most + m->to];
    c.sent--; /* as it was when this packet was sealed */
    envelope_seal(&c, (struct envelope_route){m->from, m->to}, packet, bytes - ENVELOPE_BYTES);
}

static void others_are_refused(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof lies / sizeof *lies; i++) {
        WORLD(w, one_to_one);
        struct lie l = lies[i];
        baton_stats_t stats;
        w.user = &l;
        w.damage = lie;
        world_fill(&w, 0, 7, 0, 1, TOKENS);
        world_poison(&w, 1);
        world_offer(&w, 0, "key", 0, 1, TOKENS, 1000);
        baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 5000);
        world_run(&w, 100 * MS);
        ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_EMESSAGE);
        core_stats(w.ranks[1].core, &stats);
        assert_int_equal(stats.messages_bad, 1);
        assert_int_equal(w.refused, 0);
        assert_int_equal(w.ranks[0].moves, 0);
        w.damage = NULL;
        assert_int_equal(reads_of(&w, "after"), 0);
        world_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_tables_are_not_read),
        cmocka_unit_test(layers_wait_for_no_table),
        cmocka_unit_test(chunks_are_read),
        cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
