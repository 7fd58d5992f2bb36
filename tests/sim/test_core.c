/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol core on a fake port: handshakes, offers and wants in either order, ends of every kind, and messages that
 * arrive twice, late or not at all.
 */
#include "core/mover.h"
#include "core/want.h"
#include "with_probe.h"
#include "with_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct world_engine one_to_one[] = {
    {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32},
    {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32},
};
static const struct world_engine two_to_four[] = {
    {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
    {.name = "D", .tp = 4, .heads_total = 4, .num_blocks = 32, .layout = BATON_LAYOUT_NHD},
};

/* ---- meeting ----------------------------------------------------------------------------------------------------- */

static void test_offer_then_want(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    world_fill(&w, 0, 7, 3, 2, 18);
    baton_id_t o = world_offer(&w, 0, "key", 3, 2, 18, 1000);
    world_run(&w, 10 * MS);
    assert_null(world_event(&w, 0, o));
    baton_id_t d = world_want(&w, 1, "P", "key", 1, 3, 18, 1000);
    world_run(&w, 50 * MS);
    DONE(&w, 1, d);
    DONE(&w, 0, o);
    assert_int_equal(world_wrong(&w, 1, 7, 1, 3, 18), 0);
    assert_int_equal(world_event(&w, 1, d)->bytes, 2u * 2 * 4 * 18 * 8);
    world_fini(&w);
}

/* Of a pull the path by which the consumer reads, of a push the one by which the producer writes. */
static void test_an_event_names_the_path(void **state)
{
    (void)state;
    for (baton_mode_t mode = BATON_MODE_PULL; mode <= BATON_MODE_PUSH; mode++) {
        WORLD(w, one_to_one);
        w.mode = mode;
        world_fill(&w, 0, 7, 3, 2, 18);
        world_offer(&w, 0, "key", 3, 2, 18, 1000);
        baton_id_t d = world_want(&w, 1, "P", "key", 1, 3, 18, 1000);
        DONE_AFTER(&w, 1, d, 50 * MS);
        const baton_event_t *e = world_event(&w, 1, d);
        assert_int_equal(e->path_bytes[mode == BATON_MODE_PULL ? w.path[0] : w.path_out[1]], e->bytes);
        assert_int_not_equal(w.path[0], w.path_out[1]);
        world_fini(&w);
    }
}

/* Where the path tells the generation with the last bytes, it is not asked for. A push needs none. */
static void test_generations_are_asked_for_once(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        WORLD(w, one_to_one);
        w.asks = i & 1;
        w.chunk = i & 2 ? 100 : UINT64_MAX; /* several moves under way together */
        world_fill(&w, 0, 7, 3, 2, 18);
        world_offer(&w, 0, "key", 3, 2, 18, 1000);
        baton_id_t d = world_want(&w, 1, "P", "key", 1, 3, 18, 1000);
        DONE_AFTER(&w, 1, d, 50 * MS);
        assert_int_equal(world_wrong(&w, 1, 7, 1, 3, 18), 0);
        assert_int_equal(w.boards, w.asks && world_mode != BATON_MODE_PUSH);
        world_fini(&w);
    }
}

static void test_want_then_offer(void **state)
{
    (void)state;
    WORLD(w, two_to_four);
    baton_id_t want[4], offer[2];
    for (uint32_t i = 0; i < 4; i++)
        want[i] = world_want(&w, 2 + i, "P", "key", i, 2, 21, 1000);
    world_run(&w, 100 * MS);
    for (uint32_t i = 0; i < 2; i++) {
        world_fill(&w, i, 5, 2 + i, 3, 21);
        offer[i] = world_offer(&w, i, "key", 2 + i, 3, 21, 1000);
    }
    world_run(&w, 200 * MS);
    for (uint32_t i = 0; i < 2; i++)
        DONE(&w, i, offer[i]);
    for (uint32_t i = 0; i < 4; i++) {
        DONE(&w, 2 + i, want[i]);
        assert_int_equal(world_wrong(&w, 2 + i, 5, i, 2, 21), 0);
    }
    world_fini(&w);
}

static void test_fewer_tokens_than_offered(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    world_fill(&w, 0, 9, 0, 1, 30);
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 30, 1000);
    baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, 13, 1000);
    world_run(&w, 50 * MS);
    DONE(&w, 1, d);
    DONE(&w, 0, o);
    assert_int_equal(world_wrong(&w, 1, 9, 8, 1, 13), 0);
    world_fini(&w);
}

static void test_more_tokens_than_offered(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 12, 60000);
    baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, 13, 1000);
    world_run(&w, 50 * MS);
    ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_ETOKENS);
    assert_string_equal(world_event(&w, 1, d)->detail, "13 tokens wanted, 12 offered");
    ENDED(&w, 0, o, BATON_STATUS_FAILED, BATON_ETOKENS); /* the failed want does not pin its blocks */
    world_fini(&w);
}

static void test_nothing_needed_releases(void **state)
{
    (void)state;
    WORLD(w, two_to_four);
    baton_id_t offer[2];
    for (uint32_t i = 0; i < 2; i++)
        offer[i] = world_offer(&w, i, "key", 0, 1, 8, 60000);
    for (uint32_t i = 0; i < 4; i++)
        world_want(&w, 2 + i, "P", "key", 0, 1, 0, 1000);
    world_run(&w, 20 * MS);
    for (uint32_t i = 0; i < 2; i++)
        DONE(&w, i, offer[i]);
    world_fini(&w);
}

static void test_two_offers_one_key(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    world_fill(&w, 0, 7, 0, 1, 8);
    baton_id_t a = world_offer(&w, 0, "key", 0, 1, 8, 1000);
    baton_id_t b = world_offer(&w, 0, "key", 2, 1, 8, 1000);
    ENDED(&w, 0, b, BATON_STATUS_FAILED, BATON_EEXIST);
    baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, 8, 1000);
    world_run(&w, 50 * MS);
    DONE(&w, 0, a); /* nothing else was lost */
    DONE(&w, 1, d);
    assert_int_equal(world_wrong(&w, 1, 7, 0, 1, 8), 0);
    world_fini(&w);
}

static void test_second_engine_finds_no_seat(void **state)
{
    (void)state;
    static const struct world_engine engines[] = {{.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 8},
                                                  {.name = "D0", .tp = 1, .heads_total = 4, .num_blocks = 8},
                                                  {.name = "D1", .tp = 1, .heads_total = 4, .num_blocks = 8}};
    WORLD(w, engines);
    w.move_ns = 20 * MS;
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 8, 1000);
    baton_id_t d0 = world_want(&w, 1, "P", "key", 0, 1, 8, 1000);
    world_run(&w, 5 * MS);
    baton_id_t d1 = world_want(&w, 2, "P", "key", 0, 1, 8, 1000);
    world_run(&w, 200 * MS);
    DONE(&w, 1, d0);
    ENDED(&w, 2, d1, BATON_STATUS_FAILED, BATON_ESEAT);
    DONE(&w, 0, o);
    world_fini(&w);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static void test_expiry_is_told_at_once(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    w.seat = "D";
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 8, 20);
    world_run(&w, 30 * MS);
    ENDED(&w, 0, o, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    assert_int_equal(world_event_ns(&w, 0, o), 21 * MS); /* started at 1 ms */
    baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, 8, 60000);
    world_run(&w, 40 * MS);
    ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_EGONE);
    world_fini(&w);
}

static void test_tombstone_goes(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    w.settings.tombstone_ms = 100;
    world_offer(&w, 0, "key", 0, 1, 8, 20);
    world_run(&w, 200 * MS);
    baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, 8, 50);
    world_run(&w, 240 * MS);
    assert_null(world_event(&w, 1, d)); /* waits: the tombstone is gone, so the key is new again */
    world_run(&w, 260 * MS);
    ENDED(&w, 1, d, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    world_fini(&w);
}

static void test_lease_lives_as_long_as_a_want_for_it(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    baton_stats_t stats;
    w.move_ns = 200 * MS;
    world_fill(&w, 0, 7, 0, 1, 8);
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 8, 20); /* a tenth of the time that the move takes */
    baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, 8, 1000);
    world_run(&w, 500 * MS);
    DONE(&w, 0, o);
    DONE(&w, 1, d);
    assert_int_equal(world_wrong(&w, 1, 7, 0, 1, 8), 0);
    core_stats(w.ranks[0].core, &stats);
    assert_true(stats.leases_extended > 0);
    /* The lease lives no longer than the want may: here the consumer falls silent. */
    o = world_offer(&w, 0, "silent", 0, 1, 8, 20);
    world_want(&w, 1, "P", "silent", 0, 1, 8, 100);
    world_run(&w, 510 * MS);
    w.ranks[1].stopped = true;
    world_run(&w, 590 * MS);
    assert_null(world_event(&w, 0, o));
    world_run(&w, 900 * MS);
    if (world_mode == BATON_MODE_PUSH) { /* its writes are not known to be quiet before the consumer runs again */
        assert_null(world_event(&w, 0, o));
        w.ranks[1].stopped = false;
        world_run(&w, 910 * MS);
    } else {
        assert_in_range(world_event_ns(&w, 0, o), 600 * MS, 602 * MS);
    }
    ENDED(&w, 0, o, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    world_fini(&w);
}

static void test_deadline_without_offer(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, 8, 70);
    world_run(&w, 500 * MS);
    ENDED(&w, 1, d, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    uint64_t late = world_mode == BATON_MODE_PUSH ? 2 * w.message_ns : 0; /* the producer says that it writes nothing */
    assert_int_equal(world_event_ns(&w, 1, d), 71 * MS + late);
    /* A late offer learns of the want's end at once. */
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 8, 60000);
    ENDED(&w, 0, o, BATON_STATUS_FAILED, BATON_ETIMEDOUT);
    assert_int_equal(world_peer(&w, world_event(&w, 0, o)), 1);
    world_fini(&w);
}

/* The longest deadline that a message can carry, which is what "for ever" becomes. */
static void test_the_longest_deadline(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    world_fill(&w, 0, 3, 0, 1, 8);
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 8, UINT32_MAX);
    baton_id_t d = world_want(&w, 1, "P", "first", 0, 1, 8, 5);
    world_run(&w, 50 * MS); /* the handshake is over: the next want asks at once */
    d = world_want(&w, 1, "P", "key", 0, 1, 8, UINT32_MAX);
    world_run(&w, 100 * MS);
    DONE(&w, 1, d);
    DONE(&w, 0, o);
    world_fini(&w);
}

static void test_deadline_while_bytes_move_waits_for_quiet(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    w.move_ns = 100 * MS;
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 8, 60000);
    baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, 8, 50);
    world_run(&w, 90 * MS);
    assert_null(world_event(&w, 1, d)); /* its blocks may still be written into */
    world_run(&w, 500 * MS);
    ENDED(&w, 1, d, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    uint64_t ended = world_event_ns(&w, 1, d);
    assert_true(ended > 100 * MS && ended < 110 * MS);
    ENDED(&w, 0, o, BATON_STATUS_FAILED, BATON_ETIMEDOUT);
    world_fini(&w);
}

/* The want is cancelled in every state that it passes: it ends once, as cancelled or done, and so does the offer. */
static void test_cancel_want_at_any_time(void **state)
{
    (void)state;
    for (uint64_t at = 0; at < 3 * MS; at += MS / 20) {
        WORLD(w, two_to_four);
        baton_id_t want[4], offer[2];
        for (uint32_t i = 0; i < 4; i++)
            want[i] = world_want(&w, 2 + i, "P", "key", 0, 1, 16, 1000);
        world_run(&w, w.now + at / 2);
        for (uint32_t i = 0; i < 2; i++)
            offer[i] = world_offer(&w, i, "key", 0, 1, 16, 5000);
        world_run(&w, w.now + at / 2);
        for (uint32_t i = 0; i < 4; i++)
            world_cancel(&w, 2 + i, want[i]);
        world_run(&w, w.now + 100 * MS);
        for (uint32_t i = 0; i < 4; i++) {
            const baton_event_t *e = world_event(&w, 2 + i, want[i]);
            assert_non_null(e);
            assert_true(e->status == BATON_STATUS_CANCELLED || e->status == BATON_STATUS_DONE);
        }
        for (uint32_t i = 0; i < 2; i++) {
            const baton_event_t *e = world_event(&w, i, offer[i]);
            assert_non_null(e);
            assert_true(e->status == BATON_STATUS_CANCELLED || e->status == BATON_STATUS_DONE);
        }
        world_fini(&w);
    }
}

static void test_cancel_offer_at_any_time(void **state)
{
    (void)state;
    for (uint64_t at = 0; at < 3 * MS; at += MS / 20) {
        WORLD(w, one_to_one);
        w.seat = "D";
        world_fill(&w, 0, 3, 0, 1, 16);
        baton_id_t o = world_offer(&w, 0, "key", 0, 1, 16, 5000);
        baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, 16, 1000);
        world_run(&w, w.now + at);
        world_cancel(&w, 0, o);
        const baton_event_t *e = world_event(&w, 0, o);
        if (world_mode == BATON_MODE_PULL)
            assert_non_null(e); /* a producer that is only read is quiet at once */
        while ((e = world_event(&w, 0, o)) == NULL)
            world_run(&w, w.now + MS / 100);
        bool cancelled = e->status == BATON_STATUS_CANCELLED;
        assert_true(cancelled || e->status == BATON_STATUS_DONE);
        world_fill(&w, 0, 4, 0, 1, 16); /* the blocks are used again at once */
        world_run(&w, w.now + 100 * MS);
        e = world_event(&w, 1, d);
        assert_non_null(e);
        if (e->status == BATON_STATUS_DONE)
            assert_int_equal(world_wrong(&w, 1, 3, 0, 1, 16), 0); /* never the new bytes */
        else
            assert_int_equal(e->error, BATON_EGONE); /* whichever message told of the end */
        if (!cancelled)
            assert_int_equal(e->status, BATON_STATUS_DONE);
        world_fini(&w);
    }
}

static void test_close_ends_everything(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    baton_id_t o = world_offer(&w, 0, "a", 0, 1, 8, 5000);
    baton_id_t d = world_want(&w, 1, "P", "b", 0, 1, 8, 5000);
    world_run(&w, 10 * MS);
    core_shut(w.ranks[0].core, w.now);
    core_shut(w.ranks[1].core, w.now);
    world_run(&w, 20 * MS);
    ENDED(&w, 0, o, BATON_STATUS_FAILED, BATON_ECLOSED);
    ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_ECLOSED);
    world_fini(&w);
}

/* ---- handshakes -------------------------------------------------------------------------------------------------- */

static void eight_engines(struct world_engine e[9], char names[8][8])
{
    for (uint32_t i = 0; i < 8; i++) {
        snprintf(names[i], sizeof names[i], "P%u", i);
        e[i] = (struct world_engine){.name = names[i], .tp = 1, .heads_total = 4, .num_blocks = 8};
    }
    e[8] = (struct world_engine){.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 128};
}

static void test_eight_handshakes_take_the_time_of_one(void **state)
{
    (void)state;
    struct world_engine engines[9];
    char names[8][8];
    baton_pending_t pending[8];
    baton_stats_t stats;
    eight_engines(engines, names);
    WORLD(w, engines);
    for (uint32_t i = 0; i < 8; i++) {
        w.ranks[i].card_delay_ns = 20 * MS;
        world_want(&w, 8, names[i], "key", i, 8, 8, 1000);
    }
    world_run(&w, 11 * MS);
    assert_int_equal(core_pending(w.ranks[8].core, w.now, pending, 8), 8);
    assert_int_equal(pending[0].ranks_needed, 1);
    assert_int_equal(pending[0].ranks_known, 0);
    assert_int_equal(pending[0].wants, 1);
    assert_int_equal(pending[0].waiting_ns, 10 * MS);
    world_run(&w, 21 * MS); /* began at 1 ms */
    assert_int_equal(core_pending(w.ranks[8].core, w.now, pending, 8), 0);
    core_stats(w.ranks[8].core, &stats);
    assert_int_equal(stats.handshakes, 8);
    assert_int_equal(stats.handshake_ns_max, 20 * MS);
    world_fini(&w);
}

static void test_a_stopped_engine_delays_nobody(void **state)
{
    (void)state;
    struct world_engine engines[9];
    char names[8][8];
    baton_id_t want[8];
    eight_engines(engines, names);
    WORLD(w, engines);
    w.ranks[3].stopped = true;
    for (uint32_t i = 0; i < 8; i++) {
        w.ranks[i].card_delay_ns = 20 * MS;
        if (i != 3)
            world_offer(&w, i, "key", 0, 1, 8, 60000);
        want[i] = world_want(&w, 8, names[i], "key", i, 8, 8, 500);
    }
    world_run(&w, 40 * MS);
    for (uint32_t i = 0; i < 8; i++)
        if (i != 3)
            DONE(&w, 8, want[i]);
    assert_null(world_event(&w, 8, want[3]));
    world_run(&w, 1000 * MS);
    ENDED(&w, 8, want[3], BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    assert_int_equal(world_event_ns(&w, 8, want[3]), 501 * MS);
    assert_int_equal(world_peer(&w, world_event(&w, 8, want[3])), 3);
    world_fini(&w);
}

static void test_bad_cards_are_read_again(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    baton_stats_t stats;
    w.ranks[0].bad_cards = 3;
    world_offer(&w, 0, "key", 0, 1, 8, 60000);
    baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, 8, 5000);
    world_run(&w, 2000 * MS);
    DONE(&w, 1, d);
    core_stats(w.ranks[1].core, &stats);
    assert_int_equal(stats.handshake_retries, 3);
    world_fini(&w);
}

static void test_silent_card_is_asked_for_again(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    w.ranks[0].card_delay_ns = 10000 * MS; /* past handshake_ms */
    world_offer(&w, 0, "key", 0, 1, 8, 60000);
    baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, 8, 20000);
    world_run(&w, 100 * MS);
    w.ranks[0].card_delay_ns = 20 * MS;
    world_run(&w, 4000 * MS);
    DONE(&w, 1, d);
    world_fini(&w);
}

/* Nobody holds a part of what is wanted because the model is another: the reason names that, not the missing part. */
static void test_larger_totals_are_named(void **state)
{
    (void)state;
    static const struct world_engine engines[] = {
        {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 8},
        {.name = "D", .tp = 2, .heads_total = 8, .num_blocks = 8},
    };
    WORLD(w, engines);
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 8, 100);
    baton_id_t first = world_want(&w, 2, "P", "key", 0, 1, 8, 5000); /* the producer has its heads */
    baton_id_t second = world_want(&w, 3, "P", "key", 0, 1, 8, 5000);
    baton_id_t given_up = world_want(&w, 3, "P", "other", 0, 1, 8, 5000);
    world_cancel(&w, 3, given_up);
    world_run(&w, 50 * MS);
    ENDED(&w, 2, first, BATON_STATUS_FAILED, BATON_EGEOMETRY);
    ENDED(&w, 3, second, BATON_STATUS_FAILED, BATON_EGEOMETRY);
    ENDED(&w, 3, given_up, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    assert_string_equal(world_event(&w, 2, first)->detail, "heads_total differs: 4 and 8");
    assert_string_equal(world_event(&w, 3, second)->detail, "heads_total differs: 4 and 8");
    world_run(&w, 200 * MS);
    assert_non_null(world_event(&w, 0, o));
    world_fini(&w);
}

/* The same model, of which the producer's engine holds less than all. */
static void test_what_nobody_holds(void **state)
{
    (void)state;
    static const struct world_engine engines[] = {
        {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 8},
        {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 8},
    };
    WORLD(w, engines);
    w.directory->engines[0]->members[1].box[0].head_count = 1;
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 8, 100);
    for (int round = 0; round < 2; round++) { /* the second time it fails at once */
        baton_id_t d = world_want(&w, 2, "P", "key", 0, 1, 8, 5000);
        if (round == 0)
            world_run(&w, 50 * MS);
        ENDED(&w, 2, d, BATON_STATUS_FAILED, BATON_ESOURCE);
        assert_string_equal(world_event(&w, 2, d)->detail, "no rank holds layer 0, head 3 of split 0");
    }
    struct call *all_held = calloc(1, sizeof *all_held);
    assert_non_null(all_held);
    *all_held = (struct call){.kind = CALL_WANT, .id = 1000, .submitted_ns = w.now, .want.timeout_ms = 100};
    strcpy(all_held->key, "key");
    world_submit(&w, 2, all_held);
    ENDED(&w, 2, 1000, BATON_STATUS_FAILED, BATON_ESOURCE);
    world_run(&w, 300 * MS);
    ENDED(&w, 0, o, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT); /* nobody took its seat */
    world_fini(&w);
}

static void test_geometry_that_differs_is_named(void **state)
{
    (void)state;
    static const struct world_engine engines[] = {
        {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 8, .model = "llama"},
        {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 8, .model = "qwen"},
    };
    WORLD(w, engines);
    baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, 8, 5000);
    world_run(&w, 50 * MS);
    ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_EGEOMETRY);
    assert_string_equal(world_event(&w, 1, d)->detail, "model differs: \"llama\" and \"qwen\"");
    d = world_want(&w, 1, "P", "key", 0, 1, 8, 5000); /* the next time it fails at once */
    ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_EGEOMETRY);
    world_fini(&w);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static int double_all(struct world *w, const struct world_message *m)
{
    (void)w, (void)m;
    return 2;
}

static void test_every_message_twice(void **state)
{
    (void)state;
    WORLD(w, two_to_four);
    baton_id_t want[4], offer[2];
    w.rule = double_all;
    for (uint32_t i = 0; i < 2; i++) {
        world_fill(&w, i, 5, 0, 1, 9);
        offer[i] = world_offer(&w, i, "key", 0, 1, 9, 1000);
    }
    for (uint32_t i = 0; i < 4; i++)
        want[i] = world_want(&w, 2 + i, "P", "key", 0, 1, 9, 1000);
    world_run(&w, 100 * MS);
    for (uint32_t i = 0; i < 2; i++)
        DONE(&w, i, offer[i]);
    for (uint32_t i = 0; i < 4; i++) {
        DONE(&w, 2 + i, want[i]);
        assert_int_equal(world_wrong(&w, 2 + i, 5, 0, 1, 9), 0);
    }
    world_fini(&w);
}

static int done_of_one_twice(struct world *w, const struct world_message *m)
{
    (void)w;
    return m->m.type == WIRE_DONE && m->from == 2 ? 2 : m->m.type == WIRE_DONE ? 0 : 1;
}

static void test_identity_not_counting(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, two_to_four);
    w.rule = done_of_one_twice; /* rank 2's DONE comes twice, rank 3's never */
    baton_id_t offer = world_offer(&w, 0, "key", 0, 1, 8, 100);
    world_offer(&w, 1, "key", 0, 1, 8, 100);
    baton_id_t want[4];
    for (uint32_t i = 0; i < 4; i++)
        want[i] = world_want(&w, 2 + i, "P", "key", 0, 1, 8, 300);
    world_run(&w, 200 * MS);
    for (uint32_t i = 0; i < 4; i++)
        DONE(&w, 2 + i, want[i]);
    assert_null(world_event(&w, 0, offer)); /* a count would have ended it */
    world_run(&w, 400 * MS);
    ENDED(&w, 0, offer, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    world_fini(&w);
}

static int drop_first_wants(struct world *w, const struct world_message *m)
{
    return m->m.type == WIRE_WANT && w->sent[WIRE_WANT] <= 2 ? 0 : 1;
}

static void test_lost_want_is_sent_again(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, one_to_one);
    w.rule = drop_first_wants;
    world_offer(&w, 0, "key", 0, 1, 8, 60000);
    baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, 8, 60000);
    world_run(&w, 3000 * MS);
    DONE(&w, 1, d);
    assert_int_equal(w.sent[WIRE_WANT], 3);
    world_fini(&w);
}

static void test_no_credits_for_a_while(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, one_to_one);
    baton_id_t d[10];
    w.ranks[0].deaf = true;
    for (uint32_t i = 0; i < 10; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%u", i);
        world_offer(&w, 0, key, 0, 1, 4, 60000);
        d[i] = world_want(&w, 1, "P", key, i, 1, 4, 5000);
    }
    world_run(&w, 100 * MS);
    assert_true(core_is_busy(w.ranks[1].core));
    w.ranks[0].deaf = false;
    world_run(&w, 200 * MS);
    for (uint32_t i = 0; i < 10; i++)
        DONE(&w, 1, d[i]);
    world_fini(&w);
}

static void test_malformed_messages_are_counted(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    baton_stats_t stats;
    uint8_t junk[64];
    memset(junk, 0x5a, sizeof junk);
    struct port_event e = {.kind = PORT_MESSAGE, .peer = 0, .data = junk, .bytes = sizeof junk};
    core_step(w.ranks[1].core, w.now, w.now, &e, 1);
    struct wire_message m = {.type = WIRE_CANCEL, .from = 1, .to = 1001, .want_id = 1, .end.name.key = "k"};
    uint8_t data[WIRE_MESSAGE_MAX];
    e.data = data;
    e.bytes = wire_encode(&m, data); /* of another member */
    core_step(w.ranks[1].core, w.now, w.now, &e, 1);
    core_stats(w.ranks[1].core, &stats);
    assert_int_equal(stats.messages_bad, 2);
    world_fini(&w);
}

/* A type that only a newer version knows is skipped; an unknown type of this version is an error. */
static void test_unknown_types_are_skipped(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    baton_stats_t stats;
    struct wire_message m = {.type = WIRE_BEAT, .from = 1000, .to = 1001, .number = 1};
    uint8_t data[WIRE_MESSAGE_MAX];
    struct port_event e = {.kind = PORT_MESSAGE, .peer = 0, .data = data, .bytes = wire_encode(&m, data)};
    data[3] = WIRE_TYPE_LAST + 1;
    core_step(w.ranks[1].core, w.now, w.now, &e, 1);
    core_stats(w.ranks[1].core, &stats);
    assert_int_equal(stats.messages_bad, 1);
    assert_int_equal(stats.messages_unknown, 0);
    data[2] = WIRE_VERSION + 1;
    core_step(w.ranks[1].core, w.now, w.now, &e, 1);
    core_stats(w.ranks[1].core, &stats);
    assert_int_equal(stats.messages_bad, 1);
    assert_int_equal(stats.messages_unknown, 1);
    world_fini(&w);
}

static void test_slots_run_out(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    baton_id_t o[17];
    for (uint32_t i = 0; i < 17; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%u", i);
        o[i] = world_offer(&w, 0, key, 0, 1, 4, 100);
    }
    ENDED(&w, 0, o[16], BATON_STATUS_FAILED, BATON_EAGAIN);
    world_run(&w, 200 * MS);
    for (uint32_t i = 0; i < 16; i++)
        ENDED(&w, 0, o[i], BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    world_fini(&w);
}

/* A slot that was granted, ended and granted again must not pass for the first grant. */
static void reuse_in_the_middle(struct world *w, uint32_t from, uint32_t to)
{
    (void)to;
    baton_id_t *first = w->user;
    if (*first == 0)
        return;
    baton_id_t id = *first;
    *first = 0;
    world_cancel(w, from, id);
    world_fill(w, from, 99, 0, 1, 16);
    world_offer(w, from, "other", 0, 1, 16, 60000);
}

static void test_reused_slot_is_not_the_same_lease(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    if (world_mode == BATON_MODE_PUSH) { /* a producer that writes does not free the slot before it is quiet */
        world_fini(&w);
        return;
    }
    w.on_move = reuse_in_the_middle;
    world_fill(&w, 0, 3, 0, 1, 16);
    baton_id_t first = world_offer(&w, 0, "key", 0, 1, 16, 60000), o = first;
    w.user = &first;
    baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, 16, 1000);
    world_run(&w, 100 * MS);
    ENDED(&w, 0, o, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_EGONE);
    world_fini(&w);
}

/* ---- several things in one step ---------------------------------------------------------------------------------- */

static void nothing_is_under_way(struct world *w)
{
    for (uint32_t i = 0; i < w->num_ranks; i++) {
        assert_int_equal(probe_held(w->ranks[i].core), 0);
        assert_int_equal(probe_reading(w->ranks[i].core), 0);
        assert_int_equal(wants_legs(w->ranks[i].core), 0);
        assert_false(movers_wait(w->ranks[i].core));
        assert_int_equal(probe_ops(w->ranks[i].core), 0);
    }
}

/*
 * Two legs move, one of them slowly, while the third is refused, after every delay. So in some round the refusal comes
 * in one step with bytes of a leg that it makes quiet, while the want must wait for the slow leg.
 */
static void test_bytes_of_a_leg_given_up_in_the_same_step(void **state)
{
    (void)state;
    static const struct world_engine engines[] = {{.name = "P", .tp = 4, .heads_total = 4, .num_blocks = 32},
                                                  {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32}};
    uint32_t given_up = 0;
    for (uint64_t at = 0; at < MS; at += MS / 100) {
        WORLD(w, engines);
        w.batch_ns = MS / 20;
        w.chunk = 128;
        w.ranks[1].move_extra_ns = MS;
        baton_id_t warm = world_want(&w, 4, "P", "warm", 0, 1, 4, 1);
        world_run(&w, 20 * MS); /* the handshake is done */
        assert_non_null(world_event(&w, 4, warm));
        for (uint32_t i = 0; i < 3; i++)
            world_offer(&w, i, "key", 0, 1, 64, 5000);
        baton_id_t d = world_want(&w, 4, "P", "key", 0, 1, 64, 1000);
        world_run(&w, w.now + at);
        world_offer(&w, 3, "key", 0, 1, 60, 5000); /* too few tokens: refused */
        world_run(&w, w.now + 10 * MS);
        const baton_event_t *e = world_event(&w, 4, d);
        assert_non_null(e);
        assert_int_equal(e->error, BATON_ETOKENS);
        given_up += w.ranks[0].moves + w.ranks[4].moves > 0;
        world_run(&w, w.now + 100 * MS);
        nothing_is_under_way(&w);
        world_fini(&w);
    }
    assert_true(given_up > 10); /* often it happened while bytes moved */
}

static void test_cancels_in_batches(void **state)
{
    (void)state;
    for (uint64_t at = 0; at < 3 * MS; at += MS / 50) {
        WORLD(w, two_to_four);
        w.batch_ns = MS / 10;
        w.seat = "D";
        baton_id_t want[4], offer[2];
        for (uint32_t i = 0; i < 2; i++)
            offer[i] = world_offer(&w, i, "key", 0, 1, 32, 5000);
        for (uint32_t i = 0; i < 4; i++)
            want[i] = world_want(&w, 2 + i, "P", "key", 0, 1, 32, 1000);
        world_run(&w, w.now + at);
        world_cancel(&w, 2, want[0]);
        world_cancel(&w, 1, offer[1]);
        world_run(&w, w.now + 100 * MS);
        for (uint32_t i = 0; i < 4; i++)
            assert_non_null(world_event(&w, 2 + i, want[i]));
        nothing_is_under_way(&w);
        world_fini(&w);
    }
}

/* ---- peers that take no messages --------------------------------------------------------------------------------- */

static const struct world_engine three_to_one[] = {{.name = "P0", .tp = 1, .heads_total = 4, .num_blocks = 8},
                                                   {.name = "P1", .tp = 1, .heads_total = 4, .num_blocks = 8},
                                                   {.name = "P2", .tp = 1, .heads_total = 4, .num_blocks = 8},
                                                   {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 64}};

static void test_blocked_peers_block_nobody_else(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    static const char *const names[] = {"P0", "P1", "P2"};
    WORLD(w, three_to_one);
    baton_id_t d[3];
    for (uint32_t i = 0; i < 3; i++) {
        w.ranks[i].deaf = true;
        world_offer(&w, i, "key", 0, 1, 8, 60000);
    }
    for (uint32_t i = 0; i < 3; i++)
        d[i] = world_want(&w, 3, names[i], "key", 2 * i, 1, 8, 30000);
    world_run(&w, 100 * MS);
    assert_int_equal(probe_waiting(w.ranks[3].core), 3);
    w.ranks[2].deaf = false;
    world_run(&w, 3000 * MS);
    DONE(&w, 3, d[2]);
    assert_int_equal(probe_waiting(w.ranks[3].core), 4); /* WANT is not repeated while it waits; a beat is asked */
    w.ranks[0].deaf = w.ranks[1].deaf = false;
    world_run(&w, 20000 * MS);
    DONE(&w, 3, d[0]);
    DONE(&w, 3, d[1]);
    assert_int_equal(w.sent[WIRE_WANT], 3);
    world_fini(&w);
}

static void test_closing_waits_for_no_credits(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    w.ranks[0].deaf = true;
    w.mode = BATON_MODE_PULL;
    baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, 8, 60000);
    world_run(&w, 50 * MS);
    assert_false(core_is_quiet(w.ranks[1].core));
    core_shut(w.ranks[1].core, w.now);
    world_run(&w, 60 * MS);
    ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_ECLOSED);
    assert_true(probe_waiting(w.ranks[1].core) > 0);
    assert_true(core_is_quiet(w.ranks[1].core));
    world_fini(&w);
}

static void test_messages_are_counted(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, two_to_four);
    uint64_t sent = 0, counted = 0, received = 0;
    for (uint32_t i = 0; i < 2; i++)
        world_offer(&w, i, "key", 0, 1, 9, 1000);
    for (uint32_t i = 0; i < 4; i++)
        world_want(&w, 2 + i, "P", "key", 0, 1, 9, 1000);
    world_run(&w, 100 * MS);
    for (uint32_t i = 0; i < w.num_ranks; i++) {
        baton_stats_t stats;
        core_stats(w.ranks[i].core, &stats);
        counted += stats.messages_sent;
        received += stats.messages_received;
    }
    for (uint32_t t = 0; t < sizeof w.sent / sizeof w.sent[0]; t++)
        sent += w.sent[t];
    assert_true(sent >= 12); /* four WANT, GRANT, DONE */
    assert_int_equal(counted, sent);
    assert_int_equal(received, sent);
    world_fini(&w);
}

/* ---- odd caches -------------------------------------------------------------------------------------------------- */

/*
 * The second layer has no tensor on either side of this pair: that leg has no bytes, but its fence is checked all
 * the same.
 */
static void test_leg_without_bytes(void **state)
{
    (void)state;
    static const struct world_engine engines[] = {
        {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 8, .one_layer_each = true},
        {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 8, .one_tensor = true}};
    WORLD(w, engines);
    baton_id_t a = world_offer(&w, 0, "key", 0, 1, 8, 1000), b = world_offer(&w, 1, "key", 0, 1, 8, 1000);
    baton_id_t d = world_want(&w, 2, "P", "key", 0, 1, 8, 500);
    world_run(&w, 100 * MS);
    DONE(&w, 2, d);
    DONE(&w, 0, a);
    DONE(&w, 1, b);
    assert_int_equal(w.ranks[1].moves, 0);
    world_fini(&w);
}

/*
 * Both producer ranks hold the one head. One is read; the other is told so, though the consumer's first rank has
 * no cache.
 */
static void test_idle_replica_is_released(void **state)
{
    (void)state;
    static const struct world_engine engines[] = {
        {.name = "P", .tp = 2, .heads_total = 1, .num_blocks = 8},
        {.name = "D", .tp = 1, .heads_total = 1, .num_blocks = 8, .bare_first = true}};
    WORLD(w, engines);
    baton_id_t o[2];
    for (uint32_t i = 0; i < 2; i++)
        o[i] = world_offer(&w, i, "key", 0, 1, 8, 60000);
    baton_id_t d = world_want(&w, 3, "P", "key", 0, 1, 8, 1000);
    world_run(&w, 100 * MS);
    DONE(&w, 3, d);
    DONE(&w, 0, o[0]);
    DONE(&w, 1, o[1]);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offer_then_want),
        cmocka_unit_test(test_an_event_names_the_path),
        cmocka_unit_test(test_generations_are_asked_for_once),
        cmocka_unit_test(test_want_then_offer),
        cmocka_unit_test(test_fewer_tokens_than_offered),
        cmocka_unit_test(test_more_tokens_than_offered),
        cmocka_unit_test(test_nothing_needed_releases),
        cmocka_unit_test(test_two_offers_one_key),
        cmocka_unit_test(test_second_engine_finds_no_seat),
        cmocka_unit_test(test_expiry_is_told_at_once),
        cmocka_unit_test(test_tombstone_goes),
        cmocka_unit_test(test_lease_lives_as_long_as_a_want_for_it),
        cmocka_unit_test(test_deadline_without_offer),
        cmocka_unit_test(test_the_longest_deadline),
        cmocka_unit_test(test_deadline_while_bytes_move_waits_for_quiet),
        cmocka_unit_test(test_cancel_want_at_any_time),
        cmocka_unit_test(test_cancel_offer_at_any_time),
        cmocka_unit_test(test_close_ends_everything),
        cmocka_unit_test(test_eight_handshakes_take_the_time_of_one),
        cmocka_unit_test(test_a_stopped_engine_delays_nobody),
        cmocka_unit_test(test_bad_cards_are_read_again),
        cmocka_unit_test(test_silent_card_is_asked_for_again),
        cmocka_unit_test(test_larger_totals_are_named),
        cmocka_unit_test(test_what_nobody_holds),
        cmocka_unit_test(test_geometry_that_differs_is_named),
        cmocka_unit_test(test_every_message_twice),
        cmocka_unit_test(test_identity_not_counting),
        cmocka_unit_test(test_lost_want_is_sent_again),
        cmocka_unit_test(test_no_credits_for_a_while),
        cmocka_unit_test(test_malformed_messages_are_counted),
        cmocka_unit_test(test_unknown_types_are_skipped),
        cmocka_unit_test(test_slots_run_out),
        cmocka_unit_test(test_reused_slot_is_not_the_same_lease),
        cmocka_unit_test(test_bytes_of_a_leg_given_up_in_the_same_step),
        cmocka_unit_test(test_cancels_in_batches),
        cmocka_unit_test(test_blocked_peers_block_nobody_else),
        cmocka_unit_test(test_closing_waits_for_no_credits),
        cmocka_unit_test(test_messages_are_counted),
        cmocka_unit_test(test_leg_without_bytes),
        cmocka_unit_test(test_idle_replica_is_released),
    };
    return WORLD_ALL_WAYS(tests);
}
