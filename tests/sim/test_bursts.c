/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More comes at once than a step takes, or to a rank that was stopped: nothing expires by what lies unread. Each step
 * of these worlds takes one event (with_world.c), the least bound that there can be.
 */
#include "with_probe.h"
#include "with_world.h"

#include <stdio.h>
#include <string.h>

#define TOKENS 18
#define OFFERS 100u /* more than are heard in one step */

static const struct world_engine one_to_one[] = {
    {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32, .node = 1},
    {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32, .node = 1},
};
static const struct world_engine one_to_four[] = {
    {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32, .node = 1},
    {.name = "D", .tp = 4, .heads_total = 4, .num_blocks = 32, .node = 1},
};

/* The first contact of a rank takes messages. */
static void warm(struct world *w, uint32_t rank)
{
    world_offer(w, 0, "warm", 0, 1, 4, 1000);
    world_want(w, rank, "P", "warm", 0, 1, 4, 1000);
    world_run(w, w->now + 50 * MS);
}

static const char *key_of(uint32_t i)
{
    static char key[16];
    snprintf(key, sizeof key, "k%u", i);
    return key;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* Its time is over while it is stopped, and readers have spoken of more offers than it hears in one step. */
static void offers_go_on_under_all_that_read_them(void **state)
{
    (void)state;
    baton_id_t o[OFFERS], d[OFFERS];
    world_words = true;
    world_leases = OFFERS;
    WORLD(w, one_to_one);
    warm(&w, 1);
    w.ranks[0].num_events = w.ranks[1].num_events = 0;
    w.move_ns = 40 * MS;
    for (uint32_t i = 0; i < OFFERS; i++)
        o[i] = world_offer(&w, 0, key_of(i), 3, 1, 4, 20);
    w.ranks[0].stopped = true;
    for (uint32_t i = 0; i < OFFERS; i++)
        d[i] = world_want(&w, 1, "P", key_of(i), i % 28, 1, 4, 5000);
    world_run(&w, w.now + 30 * MS); /* their time is over, and none has been read yet */
    w.ranks[0].stopped = false;
    world_run(&w, w.now + 1000 * MS);
    for (uint32_t i = 0; i < OFFERS; i++) {
        DONE(&w, 1, d[i]);
        DONE(&w, 0, o[i]);
    }
    assert_int_equal(world_stats(&w, 0).leases_extended, OFFERS);
    world_fini(&w);
    world_leases = 0;
}

/*
 * Who reads is found out bit by bit, and the first words of an engine, or its first messages, come shortly before the
 * offer's time ends. It goes on until it is known who reads, and then for its readers.
 */
static void an_offer_waits_until_it_is_known_who_reads(void **state)
{
    (void)state;
    for (int by_words = 0; by_words < 2; by_words++) {
        baton_id_t d[5];
        world_words = by_words;
        WORLD(w, one_to_four);
        probe_work_slowly(w.ranks[0].core, 5 * MS);
        w.move_ns = 40 * MS;
        const uint64_t since = w.now;
        baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 20);
        world_run(&w, since + 15 * MS);
        for (uint32_t r = 1; r < 5; r++)
            d[r] = world_want(&w, r, "P", "key", 1, 1, TOKENS, 5000);
        world_run(&w, since + 1000 * MS);
        for (uint32_t r = 1; r < 5; r++)
            DONE(&w, r, d[r]);
        DONE(&w, 0, o);
        world_fini(&w);
    }
}

/* It waits no longer than for quiet_ms, whatever holds that up. */
static void an_offer_does_not_wait_for_ever(void **state)
{
    (void)state;
    world_words = true;
    WORLD(w, one_to_four);
    w.settings.quiet_ms = 100;
    probe_work_slowly(w.ranks[0].core, 50 * MS);
    w.move_ns = 1000 * MS;
    const uint64_t since = w.now;
    baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 20);
    baton_id_t d = world_want(&w, 1, "P", "key", 1, 1, TOKENS, 5000);
    world_run(&w, since + 5000 * MS);
    ENDED(&w, 0, o, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    assert_in_range(world_event_ns(&w, 0, o), since + 120 * MS, since + 170 * MS);
    ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_EGONE);
    world_fini(&w);
}

static bool deaf(void *self, uint32_t *slot)
{
    (void)self;
    (void)slot;
    return false;
}

/* Of a rank's word and its later message the word counts first: else a push would begin for a rank that was done. */
static void a_word_counts_before_a_later_message(void **state)
{
    (void)state;
    world_words = true;
    WORLD(w, one_to_four);
    for (uint32_t r = 1; r < 5; r++)
        warm(&w, r);
    struct port_handoff hand = *w.ranks[0].port.handoff;
    baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 300);
    hand.told = deaf;
    w.ranks[0].port.handoff = &hand;
    DONE_AFTER(&w, 1, world_want(&w, 1, "P", "key", 1, 1, TOKENS, 1000), w.now + 5 * MS);
    w.mode = BATON_MODE_PUSH;
    baton_id_t d = world_want(&w, 1, "P", "key", 1, 1, TOKENS, 1000);
    world_run(&w, w.now + 100 * MS);
    ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_EGONE);
    world_run(&w, w.now + 1000 * MS);
    ENDED(&w, 0, o, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    world_fini(&w);
}

/* ---- messages to a rank that was stopped ------------------------------------------------------------------------- */

/* All are of one node: what moves needs nothing of a rank that is stopped. Before anything begins. */
static void near(struct world *w)
{
    for (uint32_t i = 0; i < w->num_ranks; i++)
        w->path[i] = BATON_PATH_SHM;
}

/* The rank is stopped now, and goes on when all deadlines are over. */
static void stop_for(struct world *w, uint32_t rank, uint64_t ns)
{
    w->ranks[rank].stopped = true;
    world_run(w, w->now + ns);
    w->ranks[rank].stopped = false;
    world_run(w, w->now + 500 * MS);
}

/* All was written while it was stopped. */
static void a_want_hears_that_all_was_written(void **state)
{
    (void)state;
    world_words = false;
    WORLD(w, one_to_one);
    near(&w);
    warm(&w, 1);
    w.mode = BATON_MODE_PUSH;
    w.move_ns = 10 * MS;
    world_fill(&w, 0, 7, 3, 1, TOKENS);
    world_poison(&w, 1);
    baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 1000);
    baton_id_t d = world_want(&w, 1, "P", "key", 1, 1, TOKENS, 100);
    world_run(&w, w.now + 5 * MS);
    stop_for(&w, 1, 200 * MS);
    DONE(&w, 1, d);
    DONE(&w, 0, o);
    assert_int_equal(world_wrong(&w, 1, 7, 1, 1, TOKENS), 0);
    world_fini(&w);
}

/* The last generation was read while it was stopped. */
static void a_want_hears_that_all_was_read(void **state)
{
    (void)state;
    world_words = false;
    WORLD(w, one_to_one);
    warm(&w, 1);
    w.asks = true;
    w.board_ns = 10 * MS;
    baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 1000);
    baton_id_t d = world_want(&w, 1, "P", "key", 1, 1, TOKENS, 100);
    for (unsigned i = 0; probe_reading(w.ranks[1].core) == 0; i++) {
        assert_true(i < 1000);
        world_run(&w, w.now + MS / 10);
    }
    stop_for(&w, 1, 200 * MS);
    DONE(&w, 1, d);
    DONE(&w, 0, o);
    world_fini(&w);
}

/* Its reader was done while it was stopped, and its time, and the want's, was over. */
static void an_offer_hears_that_it_is_done(void **state)
{
    (void)state;
    world_words = false;
    WORLD(w, one_to_one);
    near(&w);
    warm(&w, 1);
    w.move_ns = 10 * MS;
    baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 50);
    baton_id_t d = world_want(&w, 1, "P", "key", 1, 1, TOKENS, 100);
    world_run(&w, w.now + 5 * MS);
    stop_for(&w, 0, 300 * MS);
    DONE(&w, 1, d);
    DONE(&w, 0, o);
    world_fini(&w);
}

/* The want came while it was stopped, before its time was over. */
static void an_offer_hears_a_want(void **state)
{
    (void)state;
    world_words = false;
    WORLD(w, one_to_one);
    warm(&w, 1);
    baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 50);
    w.ranks[0].stopped = true;
    baton_id_t d = world_want(&w, 1, "P", "key", 1, 1, TOKENS, 5000);
    stop_for(&w, 0, 300 * MS);
    DONE(&w, 1, d);
    DONE(&w, 0, o);
    world_fini(&w);
}

/* Beats of all others came while it was stopped for longer than a rank may be silent. */
static void nobody_is_lost_whose_beats_lie_unread(void **state)
{
    (void)state;
    static const struct world_engine apart[] = {
        {.name = "P", .tp = 4, .heads_total = 4, .num_blocks = 32},
        {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32},
    };
    world_words = false;
    WORLD(w, apart);
    for (uint32_t r = 0; r < 4; r++)
        world_offer(&w, r, "other", 3, 1, TOKENS, 60000);
    baton_id_t d = world_want(&w, 4, "P", "key", 1, 1, TOKENS, 60000);
    world_run(&w, w.now + 1000 * MS);
    stop_for(&w, 4, 2 * w.settings.peer_ms * MS);
    world_run(&w, w.now + w.settings.peer_ms * MS);
    assert_null(world_event(&w, 4, d));
    assert_int_equal(world_stats(&w, 4).peers_lost, 0);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offers_go_on_under_all_that_read_them),
        cmocka_unit_test(an_offer_waits_until_it_is_known_who_reads),
        cmocka_unit_test(an_offer_does_not_wait_for_ever),
        cmocka_unit_test(a_word_counts_before_a_later_message),
        cmocka_unit_test(a_want_hears_that_all_was_written),
        cmocka_unit_test(a_want_hears_that_all_was_read),
        cmocka_unit_test(an_offer_hears_that_it_is_done),
        cmocka_unit_test(an_offer_hears_a_want),
        cmocka_unit_test(nobody_is_lost_whose_beats_lie_unread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
