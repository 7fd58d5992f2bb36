/* SPDX-License-Identifier: BSD-3-Clause */
/* BATON_CHECKSUM: a want is done only if each block's hash is its producer's. */
#include "core/check.h"
#include "with_probe.h"
#include "with_world.h"

#include <stdio.h>
#include <string.h>

static const struct world_engine two_to_four[] = {
    {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
    {.name = "D", .tp = 4, .heads_total = 4, .num_blocks = 32, .layout = BATON_LAYOUT_NHD | BATON_LAYOUT_KV_FUSED},
};
static const struct world_engine large[] = {
    {.name = "P", .tp = 1, .heads_total = 1, .num_blocks = 500},
    {.name = "D", .tp = 1, .heads_total = 1, .num_blocks = 500},
};

#define CHECKED(w, engines)                                                                                            \
    WORLD(w, engines);                                                                                                 \
    w.settings.checksum = 1

static void test_good_bytes_pass(void **state)
{
    (void)state;
    for (uint32_t tokens = 1; tokens < 24; tokens++) { /* whole last blocks and others */
        CHECKED(w, two_to_four);
        baton_id_t want[4], offer[2];
        for (uint32_t i = 0; i < 2; i++) {
            world_fill(&w, i, 5, 2 + i, 3, tokens);
            offer[i] = world_offer(&w, i, "key", 2 + i, 3, tokens, 5000);
        }
        for (uint32_t i = 0; i < 4; i++)
            want[i] = world_want(&w, 2 + i, "P", "key", i, 2, tokens, 5000);
        world_run(&w, 4000 * MS);
        for (uint32_t i = 0; i < 2; i++)
            DONE(&w, i, offer[i]);
        for (uint32_t i = 0; i < 4; i++) {
            DONE(&w, 2 + i, want[i]);
            assert_int_equal(world_wrong(&w, 2 + i, 5, i, 2, tokens), 0);
        }
        assert_true(w.sent[WIRE_CHECK] >= 4 && w.sent[WIRE_SUMS] >= 4);
        world_fini(&w);
    }
}

/*
 * A producer that is asked for the first time by a rank has to read that one's card before it can tell any hashes. It
 * keeps the questions meanwhile: they are answered when the card has come, and not when they are asked again.
 */
static void test_the_first_question_waits_for_the_card(void **state)
{
    (void)state;
    for (uint64_t card_ms = 0; card_ms < 300; card_ms += 100) {
        CHECKED(w, large);
        world_fill(&w, 0, 3, 0, 1, 12);
        baton_id_t o[2], d[2];
        for (uint32_t i = 0; i < 2; i++) {
            char key[2] = {(char)('a' + i), 0};
            o[i] = world_offer(&w, 0, key, 0, 1, 12, 60000);
            d[i] = world_want(&w, 1, "P", key, 50 + 3 * i, 1, 12, 60000);
        }
        w.ranks[1].card_delay_ns = card_ms * MS;
        world_run(&w, (card_ms + 100) * MS);
        for (uint32_t i = 0; i < 2; i++) {
            DONE(&w, 1, d[i]);
            DONE(&w, 0, o[i]);
            assert_int_equal(world_wrong(&w, 1, 3, 50 + 3 * i, 1, 12), 0);
        }
        assert_int_equal(w.sent[WIRE_CHECK], 2);
        world_fini(&w);
    }
}

/* The card does not come, or the want is over when it does: what was kept is forgotten. */
static void test_a_question_does_not_wait_for_ever(void **state)
{
    (void)state;
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        CHECKED(w, large);
        w.settings.handshake_ms = 100;
        w.ranks[1].card_delay_ns = cancelled ? 50 * MS : 3000 * MS;
        baton_id_t o = world_offer(&w, 0, "key", 0, 1, 12, 60000);
        baton_id_t d = world_want(&w, 1, "P", "key", 50, 1, 12, cancelled ? 60000 : 2000);
        world_run(&w, 20 * MS);
        if (cancelled)
            world_cancel(&w, 1, d);
        world_run(&w, 5000 * MS);
        assert_non_null(world_event(&w, 1, d));
        assert_non_null(world_event(&w, 0, o));
        assert_int_equal(checks_waiting(w.ranks[0].core), 0);
        world_fini(&w);
    }
}

/* No more questions are kept than a rank has requests: what finds no place is asked again. */
static void test_the_questions_that_wait_are_bounded(void **state)
{
    (void)state;
    CHECKED(w, large);
    w.settings.requests = 2;
    w.settings.resend_ms = 50;
    w.ranks[1].card_delay_ns = 200 * MS;
    baton_id_t o[4], d[4];
    for (uint32_t i = 0; i < 4; i++) {
        char key[2] = {(char)('a' + i), 0};
        o[i] = world_offer(&w, 0, key, 0, 1, 12, 60000);
        d[i] = world_want(&w, 1, "P", key, 50 + 3 * i, 1, 12, 60000);
    }
    world_run(&w, 150 * MS);
    assert_in_range(checks_waiting(w.ranks[0].core), 0, 2);
    world_run(&w, 3000 * MS);
    for (uint32_t i = 0; i < 4; i++) {
        DONE(&w, 1, d[i]);
        DONE(&w, 0, o[i]);
    }
    world_fini(&w);
}

/* Spoils one byte of rank 2's cache, or of rank 0's, when the hashes are asked for: everything has landed. */
static int spoil_at_check(struct world *w, const struct world_message *m)
{
    uint8_t **at = w->user;
    if (m->m.type == WIRE_CHECK && *at != NULL) {
        **at ^= 1;
        *at = NULL;
    }
    return 1;
}

static void test_one_bit_is_found(void **state)
{
    (void)state;
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t block = 0; block < 3; block++) {
            CHECKED(w, large);
            w.rule = spoil_at_check;
            world_fill(&w, 0, 9, 10, 1, 12);
            const baton_tensor_t *t = &w.ranks[side].tensors[1];
            uint32_t id = side == 0 ? 10 + block : 20 + 2 * block;
            uint8_t *at = w.ranks[side].pool + t->offset + id * t->stride.block + t->stride.token + 3;
            w.user = &at;
            baton_id_t o = world_offer(&w, 0, "key", 10, 1, 12, 60000);
            baton_id_t d = world_want(&w, 1, "P", "key", 20, 2, 12, 5000);
            world_run(&w, 3000 * MS);
            assert_null(at);
            ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_ECHECKSUM);
            ENDED(&w, 0, o, BATON_STATUS_FAILED, BATON_ECHECKSUM);
            char text[64];
            snprintf(text, sizeof text, "block %u of 3 has", block);
            assert_non_null(strstr(world_event(&w, 1, d)->detail, text));
            world_fini(&w);
        }
}

/* Hashes of many blocks come in several messages. Lost and doubled ones do no harm. */
static int first_part_lost_twice(struct world *w, const struct world_message *m)
{
    unsigned *times = w->user;
    if (m->m.type != WIRE_SUMS)
        return 1;
    if (m->m.sums.first == 0 && (*times)++ < 2)
        return 0;
    return m->m.sums.first == 0 ? 1 : 2;
}

static void test_parts_that_are_lost_and_doubled(void **state)
{
    (void)state;
    CHECKED(w, large);
    unsigned times = 0;
    w.rule = first_part_lost_twice;
    w.user = &times;
    world_fill(&w, 0, 3, 0, 1, 1600);
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 1600, 60000); /* 400 blocks: parts of 192, 192, 16 */
    baton_id_t d = world_want(&w, 1, "P", "key", 50, 1, 1600, 20000);
    world_run(&w, 10000 * MS);
    DONE(&w, 1, d);
    DONE(&w, 0, o);
    assert_int_equal(world_wrong(&w, 1, 3, 50, 1, 1600), 0);
    assert_true(times >= 3); /* the lost part was asked for again */
    world_fini(&w);
}

static int no_checks(struct world *w, const struct world_message *m)
{
    (void)w;
    return m->m.type != WIRE_CHECK;
}

/* Blocks that cannot be hashed are not good, even where neither side could hash them. */
static void test_hashing_fails(void **state)
{
    (void)state;
    for (uint32_t sides = 1; sides < 4; sides++) {
        CHECKED(w, large);
        for (uint32_t r = 0; r < 2; r++)
            w.ranks[r].work_error = (sides & 1u << r) != 0 ? BATON_ESYSTEM : 0;
        world_fill(&w, 0, 3, 0, 1, 8);
        baton_id_t o = world_offer(&w, 0, "key", 0, 1, 8, 60000);
        baton_id_t d = world_want(&w, 1, "P", "key", 4, 1, 8, 20000);
        world_run(&w, 3000 * MS);
        ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_ESYSTEM);
        assert_non_null(strstr(world_event(&w, 1, d)->detail, "hash"));
        ENDED(&w, 0, o, BATON_STATUS_FAILED, BATON_ESYSTEM);
        for (uint32_t r = 0; r < 2; r++)
            assert_int_equal(probe_checks(w.ranks[r].core), 0);
        world_fini(&w);
    }
}

/* The offer ends before its hashes could be told. */
static void test_an_offer_that_ends_meanwhile(void **state)
{
    (void)state;
    CHECKED(w, large);
    world_fill(&w, 0, 3, 0, 1, 8);
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 8, 60000);
    w.rule = no_checks;
    baton_id_t d = world_want(&w, 1, "P", "key", 4, 1, 8, 20000);
    world_run(&w, 100 * MS);
    assert_null(world_event(&w, 1, d)); /* the want waits for the hashes */
    assert_int_equal(probe_checks(w.ranks[1].core), 1);
    world_cancel(&w, 0, o);
    w.rule = NULL;
    world_run(&w, 3000 * MS);
    ENDED(&w, 0, o, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    assert_int_equal(world_event(&w, 1, d)->status, BATON_STATUS_FAILED);
    assert_int_equal(probe_checks(w.ranks[1].core), 0);
    world_fini(&w);
}

/* A want that is given up while its hashes are compared ends like any other. */
static void test_cancel_while_checking(void **state)
{
    (void)state;
    for (uint64_t at = 0; at < 6 * MS; at += MS / 10) {
        CHECKED(w, large);
        baton_id_t warm = world_want(&w, 1, "P", "warm", 0, 1, 8, 1);
        world_run(&w, 20 * MS);
        assert_non_null(world_event(&w, 1, warm));
        world_offer(&w, 0, "key", 0, 1, 8, 500);
        baton_id_t d = world_want(&w, 1, "P", "key", 4, 1, 8, 20000);
        world_run(&w, w.now + at);
        world_cancel(&w, 1, d);
        world_run(&w, w.now + 1000 * MS);
        assert_non_null(world_event(&w, 1, d));
        assert_int_equal(probe_checks(w.ranks[0].core) + probe_checks(w.ranks[1].core), 0);
        world_fini(&w);
    }
}

/* All is written, and the producer dies or stops before it sends its hashes: by then nothing writes here any more. */
static void test_the_producer_stops_while_checking(void **state)
{
    (void)state;
    CHECKED(w, large);
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 8, 60000);
    w.rule = no_checks;
    baton_id_t d = world_want(&w, 1, "P", "key", 4, 1, 8, 3000);
    world_run(&w, 200 * MS);
    w.ranks[0].stopped = w.ranks[0].is_dead = true;
    world_run(&w, 10000 * MS);
    assert_non_null(world_event(&w, 1, d));
    assert_int_not_equal(world_event(&w, 1, d)->status, BATON_STATUS_DONE);
    w.ranks[0].stopped = false;
    world_run(&w, 100000 * MS);
    assert_non_null(world_event(&w, 0, o));
    world_fini(&w);
}

/* A rank asks for hashes though nothing is exchanged with it: it is answered, and takes no place. */
static void test_a_check_of_nothing(void **state)
{
    (void)state;
    static const struct world_engine stages[] = {
        {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 8, .one_layer_each = true},
        {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 8, .one_tensor = true}};
    CHECKED(w, stages);
    for (uint32_t r = 0; r < 2; r++) {
        world_fill(&w, r, 1, 0, 1, 8);
        world_offer(&w, r, "key", 0, 1, 8, 60000);
    }
    w.move_ns = 300 * MS; /* meanwhile the want is open and granted */
    baton_id_t d = world_want(&w, 2, "P", "key", 0, 1, 8, 60000);
    world_run(&w, 200 * MS);
    struct wire_message m = {.type = WIRE_CHECK,
                             .from = w.directory->rows[2].number,
                             .to = w.directory->rows[1].number,
                             .number = probe_number(w.ranks[2].core, 1),
                             .want_id = d,
                             .check = {.name.key = "key", .tokens = 8}};
    uint8_t bytes[WIRE_MESSAGE_MAX];
    struct port *port = &w.ranks[2].port;
    uint32_t before = w.sent[WIRE_SUMS];
    assert_int_equal(port->send(port->self, 1, bytes, wire_encode(&m, bytes)), 0);
    for (int i = 0; i < 50; i++) { /* until the producer knows the card of the rank that asks */
        world_run(&w, w.now + MS);
        m.number = probe_number(w.ranks[2].core, 1);
        if (w.sent[WIRE_SUMS] == before)
            assert_int_equal(port->send(port->self, 1, bytes, wire_encode(&m, bytes)), 0);
    }
    assert_true(w.sent[WIRE_SUMS] > before);
    assert_int_equal(probe_checks(w.ranks[1].core), 0);
    world_run(&w, 10000 * MS);
    assert_non_null(world_event(&w, 2, d));
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_bytes_pass),
        cmocka_unit_test(test_the_first_question_waits_for_the_card),
        cmocka_unit_test(test_a_question_does_not_wait_for_ever),
        cmocka_unit_test(test_the_questions_that_wait_are_bounded),
        cmocka_unit_test(test_one_bit_is_found),
        cmocka_unit_test(test_parts_that_are_lost_and_doubled),
        cmocka_unit_test(test_hashing_fails),
        cmocka_unit_test(test_an_offer_that_ends_meanwhile),
        cmocka_unit_test(test_cancel_while_checking),
        cmocka_unit_test(test_the_producer_stops_while_checking),
        cmocka_unit_test(test_a_check_of_nothing),
    };
    return WORLD_ALL_WAYS(tests);
}
