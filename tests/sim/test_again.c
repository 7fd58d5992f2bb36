/* SPDX-License-Identifier: BSD-3-Clause */
/* One key is used again and again, without attempts: messages about a former offer or want meet the next one. */
#include "with_probe.h"
#include "with_world.h"

#define TOKENS 13

static const struct world_engine one_to_one[] = {{.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32},
                                                 {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32}};

/* Loses the first message of a type. */
static int loses_one(struct world *w, const struct world_message *m)
{
    enum wire_type *type = w->user;
    if (m->m.type != *type)
        return 1;
    *type = 0;
    return 0;
}

/*
 * A prefill is given up between its layers, and done anew: whoever waits for the former offer soon hears of its end,
 * and this does not delay the new offer.
 */
static void test_a_prefill_begins_anew(void **state)
{
    (void)state;
    for (int in_chunks = 0; in_chunks < 2; in_chunks++) {
        WORLD(w, one_to_one);
        world_fill(&w, 0, 99, 0, 1, TOKENS);
        world_poison(&w, 1);
        baton_id_t a = in_chunks ? world_offer_chunks(&w, 0, "key", TOKENS, false, 2000)
                                 : world_offer_layers(&w, 0, "key", 0, 1, TOKENS, 2000);
        baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 60000);
        world_run(&w, 100 * MS);
        if (in_chunks)
            world_append(&w, 0, a, 0, 2, 8);
        else
            world_ready(&w, 0, a, 0, 1);
        world_run(&w, 200 * MS);
        world_cancel(&w, 0, a);
        world_run(&w, 210 * MS);
        world_fill(&w, 0, 5, 16, 1, TOKENS);
        baton_id_t b = world_offer(&w, 0, "key", 16, 1, TOKENS, 2000);
        world_run(&w, 5000 * MS);
        const baton_event_t *e = world_event(&w, 1, d);
        assert_non_null(e);
        if (world_mode == BATON_MODE_PULL)
            assert_int_equal(e->error, BATON_EGONE);
        if (e->status == BATON_STATUS_DONE)
            assert_int_equal(world_wrong(&w, 1, 5, 8, 1, TOKENS), 0);
        assert_non_null(world_event(&w, 0, b)); /* by its own deadline at the latest */
        world_fini(&w);
    }
}

/* The end of a want that a former offer had granted says nothing about the next offer. */
static void test_the_end_of_a_want_that_a_former_offer_granted(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    w.settings.tombstones = 1;
    world_poison(&w, 1);
    baton_id_t a = world_offer_layers(&w, 0, "key", 0, 1, TOKENS, 60000);
    baton_id_t first = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 5000);
    world_run(&w, 100 * MS);
    world_ready(&w, 0, a, 0, 1);
    world_run(&w, 101 * MS);
    world_cancel(&w, 0, a);
    baton_id_t other = world_offer(&w, 0, "other", 4, 1, TOKENS, 60000);
    world_cancel(&w, 0, other); /* its tombstone takes the place of the first tombstone */
    world_run(&w, 6000 * MS);
    assert_non_null(world_event(&w, 1, first));
    world_fill(&w, 0, 5, 16, 1, TOKENS);
    baton_id_t b = world_offer(&w, 0, "key", 16, 1, TOKENS, 20000);
    world_run(&w, 6500 * MS);
    assert_null(world_event(&w, 0, b));
    baton_id_t second = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 5000);
    world_run(&w, 15000 * MS);
    DONE(&w, 1, second);
    DONE(&w, 0, b);
    assert_int_equal(world_wrong(&w, 1, 5, 8, 1, TOKENS), 0);
    world_fini(&w);
}

/*
 * A want that a former offer gave all it needed asks once more, and the next offer grants that: the end of the want
 * does not end what the next offer granted.
 */
static void test_an_end_leaves_the_grant_of_the_next_offer(void **state)
{
    (void)state;
    if (world_mode == BATON_MODE_PUSH)
        return;
    WORLD(w, one_to_one);
    world_poison(&w, 1);
    world_fill(&w, 0, 5, 16, 1, TOKENS);
    w.settings.resend_ms = 50;
    w.zero_tail = w.ranks[1].refuses_zero = true; /* so that the want is not over with its last byte */
    baton_id_t a = world_offer_layers(&w, 0, "key", 0, 1, TOKENS, 60000);
    baton_id_t first = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 5000);
    world_run(&w, 20 * MS);
    uint32_t asked = w.sent[WIRE_WANT];
    w.message_ns = 20 * MS;
    while (w.sent[WIRE_WANT] == asked && w.now < 1000 * MS)
        world_run(&w, w.now + MS);
    w.message_ns = MS / 10;
    world_ready(&w, 0, a, 0, 2);
    world_run(&w, w.now + 4 * MS);
    world_cancel(&w, 0, a);
    baton_id_t b = world_offer(&w, 0, "key", 16, 1, TOKENS, 60000);
    world_run(&w, w.now + 40 * MS);
    assert_null(world_event(&w, 1, first));
    assert_true(probe_reads(w.ranks[0].core, 1)); /* offer b granted the want */
    w.ranks[1].refuses_zero = w.zero_tail = false;
    world_run(&w, w.now + 500 * MS);
    DONE(&w, 1, first);
    assert_null(world_event(&w, 0, b));
    baton_id_t second = world_want(&w, 1, "P", "key", 16, 1, TOKENS, 5000);
    world_run(&w, w.now + 500 * MS);
    DONE(&w, 1, second);
    DONE(&w, 0, b);
    assert_int_equal(world_wrong(&w, 1, 5, 16, 1, TOKENS), 0);
    world_fini(&w);
}

/*
 * The last message of a former offer's push is lost, and the next offer serves the want: a cancel then reaches
 * that one.
 */
static void test_a_cancel_is_of_the_offer_that_serves(void **state)
{
    (void)state;
    if (world_mode == BATON_MODE_PULL)
        return;
    WORLD(w, one_to_one);
    enum wire_type lost = WIRE_WRITTEN;
    w.rule = loses_one;
    w.user = &lost;
    baton_id_t a = world_offer_layers(&w, 0, "key", 0, 1, TOKENS, 60000);
    baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 50000);
    world_run(&w, 100 * MS);
    world_ready(&w, 0, a, 0, 1);
    world_run(&w, 200 * MS);
    world_cancel(&w, 0, a);
    world_run(&w, 210 * MS);
    baton_id_t b = world_offer_layers(&w, 0, "key", 16, 1, TOKENS, 60000);
    world_run(&w, 5000 * MS);
    world_cancel(&w, 1, d);
    world_run(&w, 8000 * MS);
    ENDED(&w, 1, d, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    ENDED(&w, 0, b, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    world_fini(&w);
}

/* The message that a want is done is lost, and the same is wanted again: the offer serves it again. */
static void test_wanted_again_before_the_offer_knows(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, one_to_one);
    enum wire_type lost = WIRE_DONE;
    w.rule = loses_one;
    w.user = &lost;
    world_fill(&w, 0, 5, 0, 1, TOKENS);
    world_poison(&w, 1);
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, TOKENS, 20000);
    baton_id_t first = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 3000);
    world_run(&w, 200 * MS);
    DONE(&w, 1, first);
    baton_id_t second = world_want(&w, 1, "P", "key", 16, 1, TOKENS, 3000);
    world_run(&w, 2000 * MS);
    DONE(&w, 1, second);
    DONE(&w, 0, o);
    assert_int_equal(world_wrong(&w, 1, 5, 16, 1, TOKENS), 0);
    world_fini(&w);
}

/* An offer refuses a want for good. Repetitions of the want that were on their way do not take the next offer. */
static void test_a_refused_want_does_not_take_the_next_offer(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    static const struct world_engine one_to_two[] = {{.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32},
                                                     {.name = "D", .tp = 2, .heads_total = 4, .num_blocks = 32}};
    WORLD(w, one_to_two);
    w.settings.resend_ms = 10;
    baton_id_t a = world_offer(&w, 0, "key", 0, 1, TOKENS, 60000);
    DONE_AFTER(&w, 1, world_want(&w, 1, "P", "key", 8, 1, TOKENS, 3000), 200 * MS);
    w.message_ns = 50 * MS;
    baton_id_t second = world_want(&w, 1, "P", "key", 16, 1, TOKENS, 3000);
    world_run(&w, w.now + 51 * MS);
    world_cancel(&w, 0, a);
    baton_id_t b = world_offer(&w, 0, "key", 0, 1, TOKENS, 60000);
    const uint32_t grants = w.sent[WIRE_GRANT];
    world_run(&w, w.now + 1000 * MS);
    ENDED(&w, 1, second, BATON_STATUS_FAILED, BATON_EGONE);
    assert_int_equal(w.sent[WIRE_GRANT], grants);
    assert_null(world_event(&w, 0, b));
    w.message_ns = MS / 10;
    for (uint32_t i = 1; i <= 2; i++)
        DONE_AFTER(&w, i, world_want(&w, i, "P", "key", 8, 1, TOKENS, 3000), w.now + 500 * MS);
    DONE(&w, 0, b);
    world_fini(&w);
}

/* A want that needs nothing any more waits for its offer as a release. A late end of a former want leaves it there. */
static void test_a_late_end_meets_a_release(void **state)
{
    (void)state;
    if (world_mode == BATON_MODE_PUSH)
        return; /* a push is quiet when its want ends */
    WORLD(w, one_to_one);
    w.settings.tombstones = 1;
    w.settings.quiet_ms = 100;
    world_fill(&w, 0, 5, 0, 1, TOKENS);
    baton_id_t a = world_offer(&w, 0, "key", 0, 1, TOKENS, 60000);
    w.move_ns = 3000 * MS;
    world_want(&w, 1, "P", "key", 8, 1, TOKENS, 500);
    world_run(&w, 100 * MS);
    world_cancel(&w, 0, a);
    baton_id_t other = world_offer(&w, 0, "other", 4, 1, TOKENS, 60000);
    world_cancel(&w, 0, other); /* its tombstone takes the place of the first tombstone */
    world_run(&w, 1000 * MS);
    baton_id_t second = world_want(&w, 1, "P", "key", 16, 1, TOKENS, 20000);
    world_run(&w, 1100 * MS);
    world_cancel(&w, 1, second);
    world_run(&w, 1200 * MS);
    assert_int_equal(probe_early(w.ranks[0].core), 1);
    world_run(&w, 5000 * MS); /* the first want's blocks are quiet by now, and it has ended */
    assert_int_equal(probe_early(w.ranks[0].core), 1);
    world_fini(&w);
}

/* A message says that all is written, but names fewer bytes than are wanted. */
static void test_fewer_bytes_than_wanted(void **state)
{
    (void)state;
    if (world_mode == BATON_MODE_PULL)
        return;
    WORLD(w, one_to_one);
    enum wire_type lost = WIRE_WRITTEN;
    w.rule = loses_one;
    w.user = &lost;
    world_offer(&w, 0, "key", 0, 1, TOKENS, 20000);
    baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 20000);
    while (lost != 0)
        world_run(&w, w.now + MS);
    struct wire_message m = {
        .type = WIRE_WRITTEN,
        .from = w.directory->rows[0].number,
        .to = w.directory->rows[1].number,
        .number = probe_number(w.ranks[0].core, 1),
        .want_id = d,
        .written = {.asks = 1, .bytes = TOKENS * 4 * 8 * 2 * 2 - 1, .generation = 1, .path = BATON_PATH_RMA}};
    uint8_t bytes[WIRE_MESSAGE_MAX];
    struct port *port = &w.ranks[0].port;
    assert_int_equal(port->send(port->self, 1, bytes, wire_encode(&m, bytes)), 0);
    world_run(&w, 30000 * MS);
    assert_int_equal(world_event(&w, 1, d)->status, BATON_STATUS_FAILED);
    assert_int_equal(world_event(&w, 1, d)->error, BATON_EMESSAGE);
    world_fini(&w);
}

/* Between builds whose planning rules differ the one that reads decides alone; what both would plan is refused. */
static void test_other_rules(void **state)
{
    (void)state;
    for (int who = 0; who < 4; who++) {
        struct world_engine engines[] = {one_to_one[0], one_to_one[1]};
        engines[who % 2].other_rules = true;
        WORLD(w, engines);
        w.settings.checksum = who / 2;
        world_fill(&w, 0, 5, 0, 1, TOKENS);
        world_poison(&w, 1);
        world_offer(&w, 0, "key", 0, 1, TOKENS, 1000);
        baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 1000);
        world_run(&w, 5000 * MS);
        if (world_mode == BATON_MODE_PULL && who / 2 == 0) {
            DONE(&w, 1, d);
            assert_int_equal(world_wrong(&w, 1, 5, 8, 1, TOKENS), 0);
        } else {
            ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_EGEOMETRY);
        }
        world_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_prefill_begins_anew),
        cmocka_unit_test(test_the_end_of_a_want_that_a_former_offer_granted),
        cmocka_unit_test(test_an_end_leaves_the_grant_of_the_next_offer),
        cmocka_unit_test(test_a_cancel_is_of_the_offer_that_serves),
        cmocka_unit_test(test_wanted_again_before_the_offer_knows),
        cmocka_unit_test(test_a_refused_want_does_not_take_the_next_offer),
        cmocka_unit_test(test_a_late_end_meets_a_release),
        cmocka_unit_test(test_fewer_bytes_than_wanted),
        cmocka_unit_test(test_other_rules),
    };
    return WORLD_ALL_WAYS(tests);
}
