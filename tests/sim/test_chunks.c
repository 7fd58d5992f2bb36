/* SPDX-License-Identifier: BSD-3-Clause */
/* Offers that grow by chunks of tokens, as in a chunked prefill. */
#include "with_world.h"

#include <string.h>

#define TOKENS 13
#define BLOCKS 4

static const struct world_engine one_to_one[] = {{.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32},
                                                 {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32}};
static const struct world_engine two_to_four[] = {
    {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
    {.name = "D", .tp = 4, .heads_total = 4, .num_blocks = 32, .layout = BATON_LAYOUT_NHD | BATON_LAYOUT_KV_FUSED},
};

static uint32_t blocks_of(uint32_t tokens)
{
    return (tokens + 3) / 4;
}

/* Computes tokens just before they are appended, in new blocks where the former are full. */
static void compute(struct world *w, uint32_t rank, baton_id_t id, uint32_t from, uint32_t to, uint32_t seed)
{
    world_fill(w, rank, seed, 0, 1, to);
    world_append(w, rank, id, blocks_of(from), blocks_of(to) - blocks_of(from), to);
}

static void garbage(struct world *w, uint32_t rank)
{
    world_fill(w, rank, 99, 0, 1, TOKENS);
}

static void test_tokens_move_when_they_are_appended(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    garbage(&w, 0);
    world_poison(&w, 1);
    baton_id_t o = world_offer_chunks(&w, 0, "key", TOKENS, false, 5000);
    baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 5000);
    world_run(&w, 100 * MS);
    assert_int_equal(w.ranks[1].moves, 0);
    compute(&w, 0, o, 0, 5, 7);
    world_run(&w, 200 * MS);
    assert_int_equal(world_wrong(&w, 1, 7, 8, 1, 5),
                     0); /* those tokens are there, nothing behind them is, and no event has come yet */
    assert_null(world_event(&w, 1, d));
    assert_null(world_event(&w, 0, o));
    compute(&w, 0, o, 5, TOKENS, 7);
    world_run(&w, 300 * MS);
    DONE(&w, 1, d);
    DONE(&w, 0, o);
    assert_int_equal(world_wrong(&w, 1, 7, 8, 1, TOKENS), 0);
    assert_int_equal(world_event(&w, 1, d)->bytes, TOKENS * 4 * 8 * 2 * 2);
    assert_int_equal(world_event(&w, 0, o)->num_blocks, BLOCKS);
    world_fini(&w);
}

/* Chunks of any size; the want comes before, between or after them; with and without hashes. */
static void test_any_chunks(void **state)
{
    (void)state;
    static const uint32_t ends[][TOKENS] = {
        {13}, {1, 13}, {4, 8, 13}, {12, 13}, {5, 10, 13}, {3, 4, 5, 13}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}};
    for (unsigned i = 0; i < 2 * 3 * sizeof ends / sizeof ends[0]; i++) {
        const uint32_t *end = ends[i / 6];
        uint64_t want_at = i % 3 * 40;
        WORLD(w, two_to_four);
        w.settings.checksum = i % 6 / 3;
        baton_id_t o[2], d[4];
        for (uint32_t r = 0; r < 2; r++) {
            garbage(&w, r);
            o[r] = world_offer_chunks(&w, r, "key", TOKENS, false, 5000);
        }
        for (uint32_t ms = 0, k = 0, at = 0; ms < 300; ms += 5) {
            for (uint32_t n = 0; n < 4 && ms == want_at; n++) {
                world_poison(&w, 2 + n);
                d[n] = world_want(&w, 2 + n, "P", "key", 3, 2, TOKENS, 5000);
            }
            for (uint32_t r = 0; r < 2 && at < TOKENS && ms % 10 == 0; r++)
                compute(&w, r, o[r], at, end[k], 5);
            if (at < TOKENS && ms % 10 == 0)
                at = end[k++];
            world_run(&w, (ms + 5) * MS);
        }
        world_run(&w, 1000 * MS);
        for (uint32_t r = 0; r < 2; r++)
            DONE(&w, r, o[r]);
        for (uint32_t n = 0; n < 4; n++) {
            DONE(&w, 2 + n, d[n]);
            assert_int_equal(world_wrong(&w, 2 + n, 5, 3, 2, TOKENS), 0);
        }
        world_fini(&w);
    }
}

/* All blocks are given at once, but the tokens one by one. */
static void test_blocks_that_were_given_before(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    world_poison(&w, 1);
    baton_id_t o = world_offer_chunks(&w, 0, "key", TOKENS, false, 5000);
    baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 5000);
    for (uint32_t t = 1; t <= TOKENS; t++) {
        world_fill(&w, 0, 7, 0, 1, t);
        world_append(&w, 0, o, 0, t == 1 ? BLOCKS : 0, t);
        world_run(&w, t * 10 * MS);
    }
    world_run(&w, 300 * MS);
    DONE(&w, 1, d);
    DONE(&w, 0, o);
    assert_int_equal(world_wrong(&w, 1, 7, 8, 1, TOKENS), 0);
    world_fini(&w);
}

/* A want that needs only tokens that are there ends before the prefill does. A want that holds some gets the rest. */
static void test_wants_of_fewer_tokens(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    garbage(&w, 0);
    world_poison(&w, 1);
    baton_id_t o = world_offer_chunks(&w, 0, "key", TOKENS, false, 5000);
    baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, 6, 5000);
    compute(&w, 0, o, 0, 5, 7);
    world_run(&w, 100 * MS);
    assert_null(world_event(&w, 1, d));
    compute(&w, 0, o, 5, 7, 7);
    world_run(&w, 200 * MS);
    DONE(&w, 1, d);
    DONE(&w, 0, o); /* its only consumer is done */
    assert_int_equal(world_wrong(&w, 1, 7, 8, 1, 6), 0);
    world_append(&w, 0, o, 2, 2, TOKENS); /* the offer has ended: nothing happens */
    world_run(&w, 300 * MS);
    world_fini(&w);
}

static int loses_words(struct world *w, const struct world_message *m)
{
    int *left = w->user;
    return m->m.type == WIRE_READY && (*left)-- > 0 ? 0 : 1;
}

static void test_words_are_lost(void **state)
{
    (void)state;
    for (int lost = 1; lost < 6; lost++) {
        WORLD(w, one_to_one);
        int left = lost;
        w.rule = loses_words;
        w.user = &left;
        garbage(&w, 0);
        world_poison(&w, 1);
        baton_id_t o = world_offer_chunks(&w, 0, "key", TOKENS, false, 60000);
        baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 60000);
        world_run(&w, 100 * MS);
        for (uint32_t t = 3; t < TOKENS; t += 3)
            compute(&w, 0, o, t - 3, t, 7);
        compute(&w, 0, o, 12, TOKENS, 7);
        world_run(&w, 20000 * MS);
        DONE(&w, 1, d);
        DONE(&w, 0, o);
        assert_int_equal(world_wrong(&w, 1, 7, 8, 1, TOKENS), 0);
        world_fini(&w);
    }
}

/*
 * When the consumer reads an offer's table, this has moved, and another table lies in its place. The message about that
 * is there or is lost.
 */
static void test_a_table_moves_while_it_is_read(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        WORLD(w, one_to_one);
        int left = 0;
        w.rule = loses_words;
        w.user = &left;
        w.board_ns = 20 * MS;
        garbage(&w, 0);
        world_poison(&w, 1);
        baton_id_t o = world_offer_chunks(&w, 0, "key", TOKENS, false, 60000);
        baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 60000);
        world_run(&w, 200 * MS);
        compute(&w, 0, o, 0, 5, 7);
        world_run(&w, 202 * MS); /* the consumer is told, and reads the table */
        left = lost;
        compute(&w, 0, o, 5, 10, 7);
        baton_id_t p = world_offer(&w, 0, "other", 20, 1, 5, 60000); /* its table is as long as the first one was */
        world_run(&w, 300 * MS);
        compute(&w, 0, o, 10, TOKENS, 7);
        world_run(&w, 30000 * MS);
        DONE(&w, 1, d);
        DONE(&w, 0, o);
        assert_null(world_event(&w, 0, p));
        assert_int_equal(world_wrong(&w, 1, 7, 8, 1, TOKENS), 0);
        world_fini(&w);
    }
}

static void test_cancelled_between_chunks(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    garbage(&w, 0);
    baton_id_t o = world_offer_chunks(&w, 0, "key", TOKENS, false, 60000);
    baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 60000);
    compute(&w, 0, o, 0, 5, 7);
    world_run(&w, 200 * MS);
    world_cancel(&w, 0, o);
    world_run(&w, 30000 * MS);
    assert_non_null(world_event(&w, 1, d));
    assert_int_equal(world_event(&w, 1, d)->status, BATON_STATUS_FAILED);
    assert_int_equal(world_event(&w, 0, o)->status, BATON_STATUS_CANCELLED);
    world_fini(&w);
}

/* The consumer gives up between chunks. */
static void test_given_up_between_chunks(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    garbage(&w, 0);
    world_poison(&w, 1);
    baton_id_t o = world_offer_chunks(&w, 0, "key", TOKENS, false, 5000);
    baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 5000);
    compute(&w, 0, o, 0, 5, 7);
    world_run(&w, 100 * MS);
    world_cancel(&w, 1, d);
    world_run(&w, 200 * MS);
    ENDED(&w, 1, d, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    ENDED(&w, 0, o, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    world_fini(&w);
}

/* The time to live begins with each chunk; the want's own deadline stands. */
static void test_chunks_that_never_come(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    garbage(&w, 0);
    baton_id_t o = world_offer_chunks(&w, 0, "key", TOKENS, false, 300);
    world_run(&w, 250 * MS);
    compute(&w, 0, o, 0, 5, 7);
    world_run(&w, 500 * MS);
    assert_null(world_event(&w, 0, o));
    world_run(&w, 600 * MS);
    ENDED(&w, 0, o, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    o = world_offer_chunks(&w, 0, "kez", TOKENS, false, 60000);
    baton_id_t d = world_want(&w, 1, "P", "kez", 8, 1, TOKENS, 1000);
    compute(&w, 0, o, 0, 5, 7);
    world_run(&w, 5000 * MS);
    assert_int_equal(world_event(&w, 1, d)->status, BATON_STATUS_EXPIRED);
    world_fini(&w);
}

/* Each chunk becomes ready layer by layer. When a chunk begins, all layers of the one before are ready. */
static void test_chunks_in_layers(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    garbage(&w, 0);
    world_poison(&w, 1);
    baton_id_t o = world_offer_chunks(&w, 0, "key", TOKENS, true, 5000);
    baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 5000);
    world_append(&w, 0, o, 0, 2, 6);
    world_run(&w, 100 * MS);
    assert_int_equal(w.ranks[1].moves, 0);
    world_fill_layer(&w, 0, 0, 7, 0, 1, 6);
    world_ready_of(&w, 0, o, 0, 1, 6);
    world_run(&w, 200 * MS);
    assert_int_equal(world_wrong_layer(&w, 1, 0, 7, 8, 1, 6), 0);
    assert_int_not_equal(world_wrong_layer(&w, 1, 1, 7, 8, 1, 6), 0);
    world_fill_layer(&w, 0, 1, 7, 0, 1, 6);
    world_append(&w, 0, o, 2, 2, TOKENS);
    world_run(&w, 300 * MS);
    assert_int_equal(world_wrong(&w, 1, 7, 8, 1, 6), 0);
    for (uint32_t layer = 2; layer-- > 0;) {
        assert_null(world_event(&w, 1, d));
        world_fill_layer(&w, 0, layer, 7, 0, 1, TOKENS);
        world_ready_of(&w, 0, o, layer, 1, TOKENS);
        world_run(&w, (500 - layer * 100) * MS);
    }
    DONE(&w, 1, d);
    DONE(&w, 0, o);
    assert_int_equal(world_wrong(&w, 1, 7, 8, 1, TOKENS), 0);
    world_fini(&w);
}

/* A baton_ready about one chunk comes when the next chunk has begun: it says nothing about the next one's layers. */
static void test_a_late_call_about_the_former_chunk(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    garbage(&w, 0);
    world_poison(&w, 1);
    baton_id_t o = world_offer_chunks(&w, 0, "key", TOKENS, true, 5000);
    baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 5000);
    world_fill(&w, 0, 7, 0, 1, 6);
    world_append(&w, 0, o, 0, 2, 6);
    world_ready_of(&w, 0, o, 0, 2, 6);
    world_run(&w, 100 * MS);
    world_append(&w, 0, o, 2, 2, TOKENS);
    world_ready_of(&w, 0, o, 0, 2, 6);
    world_run(&w, 200 * MS);
    assert_null(world_event(&w, 1, d));
    world_fill(&w, 0, 7, 0, 1, TOKENS);
    world_ready_of(&w, 0, o, 0, 2, TOKENS);
    world_run(&w, 300 * MS);
    DONE(&w, 1, d);
    DONE(&w, 0, o);
    assert_int_equal(world_wrong(&w, 1, 7, 8, 1, TOKENS), 0);
    o = world_offer_chunks(&w, 0, "kez", TOKENS, true, 5000);
    world_append(&w, 0, o, 0, 2, 6);
    world_ready(&w, 0, o, 0, 2); /* does not say of which chunk */
    ENDED(&w, 0, o, BATON_STATUS_FAILED, BATON_EINVAL);
    world_fini(&w);
}

/* A cancel is heard soon, however long the prefill took until then. */
static void test_a_cancel_is_heard_soon(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    garbage(&w, 0);
    baton_id_t o = world_offer_chunks(&w, 0, "key", TOKENS, false, 60000);
    baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 60000);
    for (uint32_t t = 1; t < 6; t++) {
        world_run(&w, t * 2000 * MS);
        compute(&w, 0, o, t - 1, t, 7);
    }
    world_run(&w, 10100 * MS);
    world_cancel(&w, 0, o);
    world_run(&w, 30000 * MS);
    assert_int_equal(world_event(&w, 1, d)->status, BATON_STATUS_FAILED);
    assert_true(world_event_ns(&w, 1, d) < (10100 + 2 * w.settings.resend_ms) * MS);
    world_fini(&w);
}

/* An append that does not fit ends the offer with its reason, and the want with it. */
static void test_what_does_not_fit(void **state)
{
    (void)state;
    static const struct {
        uint32_t blocks, tokens;
        int error;
    } bad[] = {{1, 5, BATON_ETOKENS},  /* no more tokens than before */
               {1, 4, BATON_ETOKENS},  /* fewer tokens than before */
               {0, 9, BATON_ETOKENS},  /* tokens without blocks */
               {2, 14, BATON_ETOKENS}, /* more than were offered */
               {3, 13, BATON_ETOKENS}, /* more blocks than those tokens take */
               {0, 0, BATON_EINVAL}};  /* the offer was not begun in chunks */
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        WORLD(w, one_to_one);
        bool plain = bad[i].error == BATON_EINVAL;
        w.seat = "D";
        garbage(&w, 0);
        baton_id_t o = plain ? world_offer(&w, 0, "key", 0, 1, TOKENS, 5000)
                             : world_offer_chunks(&w, 0, "key", TOKENS, false, 5000);
        if (!plain)
            compute(&w, 0, o, 0, 5, 7);
        world_append(&w, 0, o, 2, bad[i].blocks, bad[i].tokens);
        baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 1000);
        world_run(&w, 3000 * MS);
        ENDED(&w, 0, o, BATON_STATUS_FAILED, bad[i].error);
        assert_true(strlen(world_event(&w, 0, o)->detail) > 0);
        assert_null(strstr(world_event(&w, 0, o)->detail, "rank 1")); /* its own reason, not the consumer's */
        assert_int_equal(world_event(&w, 1, d)->status, BATON_STATUS_FAILED);
        world_fini(&w);
    }
}

/* Several producer ranks, and another engine that comes too late. */
static void test_several_ranks(void **state)
{
    (void)state;
    static const struct world_engine three[] = {{.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
                                                {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32},
                                                {.name = "E", .tp = 4, .heads_total = 4, .num_blocks = 32}};
    WORLD(w, three);
    baton_id_t o[2], d[5];
    for (uint32_t r = 0; r < 2; r++) {
        garbage(&w, r);
        o[r] = world_offer_chunks(&w, r, "key", TOKENS, false, 5000);
    }
    world_poison(&w, 2);
    d[0] = world_want(&w, 2, "P", "key", 8, 1, TOKENS, 5000);
    for (uint32_t r = 0; r < 2; r++)
        compute(&w, r, o[r], 0, 8, 7);
    world_run(&w, 100 * MS);
    for (uint32_t r = 0; r < 2; r++)
        compute(&w, r, o[r], 8, TOKENS, 7);
    world_run(&w, 200 * MS);
    DONE(&w, 2, d[0]);
    for (uint32_t r = 0; r < 2; r++)
        DONE(&w, r, o[r]); /* one seat */
    for (uint32_t k = 1; k < 5; k++)
        d[k] = world_want(&w, 2 + k, "P", "key", 8, 1, TOKENS, 500);
    world_run(&w, 1000 * MS);
    for (uint32_t k = 1; k < 5; k++) /* these wait for the next offer of the key */
        ENDED(&w, 2 + k, d[k], BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_move_when_they_are_appended),
        cmocka_unit_test(test_any_chunks),
        cmocka_unit_test(test_blocks_that_were_given_before),
        cmocka_unit_test(test_wants_of_fewer_tokens),
        cmocka_unit_test(test_words_are_lost),
        cmocka_unit_test(test_a_table_moves_while_it_is_read),
        cmocka_unit_test(test_cancelled_between_chunks),
        cmocka_unit_test(test_given_up_between_chunks),
        cmocka_unit_test(test_chunks_that_never_come),
        cmocka_unit_test(test_chunks_in_layers),
        cmocka_unit_test(test_a_late_call_about_the_former_chunk),
        cmocka_unit_test(test_a_cancel_is_heard_soon),
        cmocka_unit_test(test_what_does_not_fit),
        cmocka_unit_test(test_several_ranks),
    };
    return WORLD_ALL_WAYS(tests);
}
