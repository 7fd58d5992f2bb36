/* SPDX-License-Identifier: BSD-3-Clause */
/* Offers that become ready layer by layer. */
#include "with_world.h"

#include <stdio.h>
#include <string.h>

#define TOKENS 13

static const struct world_engine one_to_one[] = {{.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32},
                                                 {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32}};
static const struct world_engine two_to_four[] = {
    {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
    {.name = "D", .tp = 4, .heads_total = 4, .num_blocks = 32, .layout = BATON_LAYOUT_NHD | BATON_LAYOUT_KV_FUSED},
};
static const struct world_engine block_major[] = {
    {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32, .layout = BATON_LAYOUT_BLOCK_MAJOR},
    {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32, .layout = BATON_LAYOUT_BLOCK_MAJOR},
};

/* Computes a layer just before it is told to be ready. */
static void compute(struct world *w, uint32_t rank, baton_id_t id, uint32_t layer, uint32_t seed)
{
    world_fill_layer(w, rank, layer, seed, 0, 1, TOKENS);
    world_ready(w, rank, id, layer, 1);
}

static void garbage(struct world *w, uint32_t rank)
{
    world_fill(w, rank, 99, 0, 1, TOKENS);
}

static void test_a_layer_moves_when_it_is_ready(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    garbage(&w, 0);
    world_poison(&w, 1);
    baton_id_t o = world_offer_layers(&w, 0, "key", 0, 1, TOKENS, 5000);
    baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 5000);
    world_run(&w, 100 * MS);
    assert_int_equal(w.ranks[1].moves, 0);
    compute(&w, 0, o, 0, 7);
    world_run(&w, 200 * MS);
    assert_int_equal(world_wrong_layer(&w, 1, 0, 7, 8, 1, TOKENS), 0); /* in place, and not done yet */
    assert_null(world_event(&w, 1, d));
    assert_null(world_event(&w, 0, o));
    compute(&w, 0, o, 1, 7);
    world_run(&w, 300 * MS);
    DONE(&w, 1, d);
    DONE(&w, 0, o);
    assert_int_equal(world_wrong(&w, 1, 7, 8, 1, TOKENS), 0);
    assert_true(world_event(&w, 1, d)->bytes > 0);
    world_fini(&w);
}

/*
 * Layers become ready before the want, before the handshake, twice, all at once, in the other order: the result is
 * the same.
 */
static void test_any_order(void **state)
{
    (void)state;
    static const uint64_t when[][4] = {/* offer, want, layer 0, layer 1, in ms */
                                       {0, 0, 0, 0},    {0, 50, 10, 20}, {0, 50, 10, 90}, {50, 0, 60, 70},
                                       {50, 0, 90, 60}, {0, 30, 60, 40}, {0, 0, 40, 40}};
    for (unsigned i = 0; i < sizeof when / sizeof when[0]; i++) {
        WORLD(w, two_to_four);
        baton_id_t o[2] = {0}, d[4];
        for (uint64_t ms = 0; ms < 100; ms += 10) {
            for (uint32_t r = 0; r < 2; r++) {
                if (ms == when[i][0]) {
                    garbage(&w, r);
                    o[r] = world_offer_layers(&w, r, "key", 0, 1, TOKENS, 5000);
                }
                for (uint32_t layer = 0; layer < 2; layer++)
                    if (ms == when[i][2 + layer]) {
                        compute(&w, r, o[r], layer, 5);
                        world_ready(&w, r, o[r], layer, 1);
                    }
            }
            for (uint32_t k = 0; k < 4 && ms == when[i][1]; k++) {
                world_poison(&w, 2 + k);
                d[k] = world_want(&w, 2 + k, "P", "key", 3, 2, TOKENS, 5000);
            }
            world_run(&w, (ms + 10) * MS);
        }
        world_run(&w, 400 * MS);
        for (uint32_t r = 0; r < 2; r++)
            DONE(&w, r, o[r]);
        for (uint32_t k = 0; k < 4; k++) {
            DONE(&w, 2 + k, d[k]);
            assert_int_equal(world_wrong(&w, 2 + k, 5, 3, 2, TOKENS), 0);
        }
        world_fini(&w);
    }
}

/* Layers that lie in one block on both sides move together, when the last of them is ready. */
static void test_layers_of_one_block(void **state)
{
    (void)state;
    WORLD(w, block_major);
    garbage(&w, 0);
    world_poison(&w, 1);
    baton_id_t o = world_offer_layers(&w, 0, "key", 0, 1, TOKENS, 5000);
    baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 5000);
    world_run(&w, 100 * MS);
    compute(&w, 0, o, 0, 7);
    world_run(&w, 200 * MS);
    assert_null(world_event(&w, 1, d));
    compute(&w, 0, o, 1, 7);
    world_run(&w, 300 * MS);
    DONE(&w, 1, d);
    assert_int_equal(world_wrong(&w, 1, 7, 8, 1, TOKENS), 0);
    world_fini(&w);
}

static int loses_words_of_layers(struct world *w, const struct world_message *m)
{
    int *left = w->user;
    return m->m.type == WIRE_READY && (*left)-- > 0 ? 0 : 1;
}

static void test_words_of_layers_are_lost(void **state)
{
    (void)state;
    for (int lost = 1; lost < 4; lost++) {
        WORLD(w, one_to_one);
        int left = lost;
        w.rule = loses_words_of_layers;
        w.user = &left;
        garbage(&w, 0);
        baton_id_t o = world_offer_layers(&w, 0, "key", 0, 1, TOKENS, 60000);
        baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 60000);
        world_run(&w, 100 * MS);
        compute(&w, 0, o, 0, 7);
        compute(&w, 0, o, 1, 7);
        world_run(&w, 20000 * MS);
        DONE(&w, 1, d);
        DONE(&w, 0, o);
        world_fini(&w);
    }
}

/* A prefill that fails cancels its offer: whoever waits for its layers hears of that at once. */
static void test_cancelled_between_layers(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    garbage(&w, 0);
    baton_id_t o = world_offer_layers(&w, 0, "key", 0, 1, TOKENS, 60000);
    baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 60000);
    world_run(&w, 100 * MS);
    compute(&w, 0, o, 0, 7);
    world_run(&w, 200 * MS);
    world_cancel(&w, 0, o);
    world_run(&w, 30000 * MS); /* by now the pause before a message is repeated is as long as it gets */
    assert_non_null(world_event(&w, 1, d));
    assert_int_equal(world_event(&w, 1, d)->status, BATON_STATUS_FAILED);
    assert_int_equal(world_event(&w, 0, o)->status, BATON_STATUS_CANCELLED);
    world_fini(&w);
}

/* The time to live begins with each layer; the want's own deadline stands. */
static void test_layers_that_never_come(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    garbage(&w, 0);
    baton_id_t o = world_offer_layers(&w, 0, "key", 0, 1, TOKENS, 300);
    world_run(&w, 250 * MS);
    compute(&w, 0, o, 0, 7);
    world_run(&w, 500 * MS);
    assert_null(world_event(&w, 0, o));
    world_run(&w, 600 * MS);
    ENDED(&w, 0, o, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    o = world_offer_layers(&w, 0, "kez", 0, 1, TOKENS, 60000);
    baton_id_t d = world_want(&w, 1, "P", "kez", 8, 1, TOKENS, 1000);
    compute(&w, 0, o, 0, 7);
    world_run(&w, 5000 * MS);
    assert_int_equal(world_event(&w, 1, d)->status, BATON_STATUS_EXPIRED);
    world_ready(&w, 0, o, 1, 1); /* the offer has ended: nothing happens */
    world_run(&w, 5100 * MS);
    world_fini(&w);
}

/*
 * baton_ready for an offer that was made whole is refused: nobody else would find the mistake, as the blocks may
 * be read.
 */
static void test_layers_of_an_offer_without_them(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 8, 5000);
    world_ready(&w, 0, o, 0, 1);
    ENDED(&w, 0, o, BATON_STATUS_FAILED, BATON_EINVAL);
    assert_string_equal(world_event(&w, 0, o)->detail,
                        "layers were said to be ready, and it was not offered in layers");
    o = world_offer_chunks(&w, 0, "chunks", 8, false, 5000);
    world_ready_of(&w, 0, o, 0, 1, 4);
    ENDED(&w, 0, o, BATON_STATUS_FAILED, BATON_EINVAL);
    world_fini(&w);
}

/* The event of an offer whose prefill stopped midway says where. */
static void test_the_layer_that_never_came_is_named(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    baton_id_t none = world_offer_layers(&w, 0, "none", 0, 1, 8, 50);
    baton_id_t gap = world_offer_layers(&w, 0, "gap", 2, 1, 8, 50);
    world_ready(&w, 0, gap, 0, 1);
    baton_id_t behind = world_offer_layers(&w, 0, "behind", 4, 1, 8, 50);
    world_ready(&w, 0, behind, 1, 1);
    baton_id_t whole = world_offer_layers(&w, 0, "whole", 6, 1, 8, 50);
    world_ready(&w, 0, whole, 0, 2);
    baton_id_t chunks = world_offer_chunks(&w, 0, "chunks", 8, false, 50);
    world_append(&w, 0, chunks, 0, 1, 4);
    baton_id_t both = world_offer_chunks(&w, 0, "both", 8, true, 50);
    world_append(&w, 0, both, 0, 1, 4);
    world_append(&w, 0, both, 1, 1, 8);
    world_ready_of(&w, 0, both, 0, 1, 8);
    world_run(&w, 500 * MS);
    const struct {
        baton_id_t id;
        const char *says;
    } offers[] = {{none, "layer 0 was never ready"},
                  {gap, "layer 1 was never ready"},
                  {behind, "layer 0 was never ready"},
                  {whole, "1 rank(s) or seat(s) not done"},
                  {chunks, "tokens from 4 on were never appended"},
                  {both, "layer 1 of the tokens from 4 on was never ready"}};
    for (unsigned i = 0; i < sizeof offers / sizeof offers[0]; i++) {
        ENDED(&w, 0, offers[i].id, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
        const char *detail = world_event(&w, 0, offers[i].id)->detail;
        assert_non_null(strstr(detail, offers[i].says));
        assert_string_equal(strstr(detail, offers[i].says), offers[i].says); /* and nothing follows */
    }
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_layer_that_never_came_is_named),
        cmocka_unit_test(test_layers_of_an_offer_without_them),
        cmocka_unit_test(test_a_layer_moves_when_it_is_ready),
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_layers_of_one_block),
        cmocka_unit_test(test_words_of_layers_are_lost),
        cmocka_unit_test(test_cancelled_between_layers),
        cmocka_unit_test(test_layers_that_never_come),
    };
    return WORLD_ALL_WAYS(tests);
}
