/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A key that is used again: with attempts, in either order; and without attempts, where wants wait for the next offer.
 */
#include "with_probe.h"
#include "with_world.h"

#include <stdio.h>

#define TOKENS 8

static const struct world_engine two_engines[] = {{.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32},
                                                  {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32},
                                                  {.name = "E", .tp = 1, .heads_total = 4, .num_blocks = 32}};
static const struct world_engine to_two_ranks[] = {{.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32},
                                                   {.name = "D", .tp = 2, .heads_total = 4, .num_blocks = 32}};

static baton_id_t offer(struct world *w, uint32_t attempt, uint32_t first, uint32_t ttl_ms)
{
    w->attempt = attempt;
    world_fill(w, 0, 100 + attempt, first, 1, TOKENS);
    return world_offer(w, 0, "key", first, 1, TOKENS, ttl_ms);
}

static baton_id_t want(struct world *w, uint32_t rank, uint32_t attempt, uint32_t first, uint32_t timeout_ms)
{
    w->attempt = attempt;
    return world_want(w, rank, "P", "key", first, 1, TOKENS, timeout_ms);
}

/* One request, wanted first or offered first: each want gets the bytes of its own offer. */
static void serve(struct world *w, uint32_t attempt, bool want_first)
{
    baton_id_t o = 0, d = 0;
    for (int i = 0; i < 2; i++) {
        if ((i == 0) == want_first)
            d = want(w, 1, attempt, 0, 5000);
        else
            o = offer(w, attempt, 4, 5000);
        world_run(w, w->now + 700 * MS);
    }
    world_run(w, w->now + 1000 * MS);
    DONE(w, 1, d);
    DONE(w, 0, o);
    assert_int_equal(world_event(w, 1, d)->attempt, attempt);
    assert_int_equal(world_event(w, 0, o)->attempt, attempt);
    assert_int_equal(world_wrong(w, 1, 100 + attempt, 0, 1, TOKENS), 0);
    world_poison(w, 1);
}

static void test_either_order_again_and_again(void **state)
{
    (void)state;
    for (uint32_t step = 0; step < 2; step++) /* the same attempt 0, then others */
        for (unsigned orders = 0; orders < 16; orders++) {
            WORLD(w, two_engines);
            world_poison(&w, 1);
            for (uint32_t i = 0; i < 4; i++)
                serve(&w, i * step, orders >> i & 1);
            world_fini(&w);
        }
}

/*
 * When an attempt has ended, its wants and those of older attempts are answered at once; newer ones wait for
 * their offer.
 */
static void test_older_attempts_are_gone(void **state)
{
    (void)state;
    WORLD(w, two_engines);
    baton_id_t o = offer(&w, 5, 0, 50);
    world_run(&w, 100 * MS);
    ENDED(&w, 0, o, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    for (uint32_t attempt = 3; attempt <= 5; attempt++) {
        baton_id_t d = want(&w, 1, attempt == 3 ? 0 : attempt, 0, 20000);
        world_run(&w, w.now + 10 * MS);
        ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_EGONE);
    }
    baton_id_t newer = want(&w, 1, 6, 0, 20000);
    world_run(&w, w.now + 2000 * MS);
    assert_null(world_event(&w, 1, newer));
    baton_id_t next = offer(&w, 6, 8, 5000);
    world_run(&w, w.now + 2000 * MS);
    DONE(&w, 1, newer);
    DONE(&w, 0, next);
    /* an older attempt that waited before the newer one ended learns of that when it asks again */
    baton_id_t waits = want(&w, 1, 7, 0, 20000);
    world_run(&w, w.now + 10 * MS);
    offer(&w, 8, 0, 20);
    world_run(&w, w.now + 3000 * MS);
    ENDED(&w, 1, waits, BATON_STATUS_FAILED, BATON_EGONE);
    assert_int_equal(probe_early(w.ranks[0].core), 0);
    world_fini(&w);
}

/* Several attempts of one key at a time: each want meets the offer of its attempt, and each has its own end. */
static void test_attempts_beside_each_other(void **state)
{
    (void)state;
    WORLD(w, two_engines);
    baton_id_t o[3], d[3];
    world_poison(&w, 1);
    for (uint32_t i = 0; i < 3; i++)
        d[i] = want(&w, 1, 2 - i, 4 * (2 - i), 20000);
    assert_null(world_event(&w, 1, d[2])); /* not refused with EEXIST */
    for (uint32_t i = 0; i < 3; i++) {
        o[i] = offer(&w, i, 4 * i, 20000);
        world_run(&w, w.now + 100 * MS);
        DONE(&w, 0, o[i]);
        DONE(&w, 1, d[2 - i]);
        assert_int_equal(world_wrong(&w, 1, 100 + i, 4 * i, 1, TOKENS), 0);
    }
    world_fini(&w);
}

/* Without attempts, a seat by name that nobody took belongs to the want that comes late. The next want waits. */
static void test_an_untaken_seat_by_name(void **state)
{
    (void)state;
    for (int by_name = 0; by_name < 2; by_name++) {
        WORLD(w, two_engines);
        w.seat = by_name ? "D" : NULL;
        offer(&w, 0, 0, 50);
        world_run(&w, 100 * MS);
        baton_id_t other = by_name ? want(&w, 2, 0, 0, 300) : 0, late = want(&w, 1, 0, 0, 300);
        world_run(&w, 200 * MS);
        if (by_name)
            ENDED(&w, 1, late, BATON_STATUS_FAILED, BATON_EGONE);
        else
            assert_null(world_event(&w, 1, late));
        world_run(&w, 5000 * MS);
        if (by_name)
            ENDED(&w, 2, other, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
        else
            ENDED(&w, 1, late, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
        baton_id_t again = want(&w, 1, 0, 0, 20000);
        world_run(&w, 6000 * MS);
        assert_null(world_event(&w, 1, again));
        offer(&w, 0, 4, 5000);
        DONE_AFTER(&w, 1, again, 8000 * MS);
        world_fini(&w);
    }
}

/*
 * An offer ended after one rank of an engine had been served. A rank of it that was not served hears of the end at
 * once; the one that was served waits for the next offer.
 */
static void test_a_rank_that_was_not_served_hears_of_the_end(void **state)
{
    (void)state;
    WORLD(w, to_two_ranks);
    baton_id_t o = offer(&w, 0, 0, 1000), first = want(&w, 1, 0, 0, 20000);
    world_run(&w, 500 * MS);
    DONE(&w, 1, first);
    world_cancel(&w, 0, o);
    world_run(&w, 600 * MS);
    baton_id_t sibling = want(&w, 2, 0, 0, 20000), next = want(&w, 1, 0, 0, 20000);
    world_run(&w, 700 * MS);
    ENDED(&w, 2, sibling, BATON_STATUS_FAILED, BATON_EGONE);
    assert_null(world_event(&w, 1, next));
    baton_id_t retry = want(&w, 2, 0, 0, 20000);
    world_run(&w, 3000 * MS);
    assert_null(world_event(&w, 2, retry));
    offer(&w, 0, 4, 5000);
    world_run(&w, 6000 * MS);
    DONE(&w, 1, next);
    DONE(&w, 2, retry);
    world_fini(&w);
}

/*
 * An offer granted a want of a rank, and both ended, whichever first and however. The rank's next want waits for the
 * next offer: it has had its part of the one that ended.
 */
static void test_the_next_want_of_a_rank_that_was_granted(void **state)
{
    (void)state;
    static const struct {
        bool done, first_ends; /* else the offer ends first, while its bytes move */
    } cases[] = {{true, true}, {false, true}, {false, false}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int by_name = 0; by_name < 2; by_name++) {
            WORLD(w, two_engines);
            world_offer(&w, 0, "warm", 0, 1, 4, 1000); /* who reads is found out by the first contact */
            DONE_AFTER(&w, 1, world_want(&w, 1, "P", "warm", 0, 1, 4, 1000), 100 * MS);
            w.seat = by_name ? "D" : NULL;
            w.move_ns = cases[i].done ? w.move_ns : 50 * MS;
            baton_id_t o = offer(&w, 0, 0, 20000), first = want(&w, 1, 0, 0, 20000);
            world_run(&w, 120 * MS);
            if (!cases[i].done)
                world_cancel(&w, !!cases[i].first_ends, cases[i].first_ends ? first : o);
            world_run(&w, 1000 * MS);
            assert_non_null(world_event(&w, 0, o));
            assert_non_null(world_event(&w, 1, first));
            baton_id_t next = want(&w, 1, 0, 0, 20000);
            world_run(&w, 3000 * MS);
            assert_null(world_event(&w, 1, next));
            baton_id_t again = offer(&w, 0, 4, 20000);
            DONE_AFTER(&w, 1, next, 5000 * MS);
            DONE(&w, 0, again);
            world_fini(&w);
        }
}

static int no_grants(struct world *w, const struct world_message *m)
{
    (void)w;
    return m->m.type != WIRE_GRANT && m->m.type != WIRE_WRITTEN;
}

/*
 * An ended offer had granted a want, but the grant was lost: the want is answered, and does not wait for another offer.
 */
static void test_a_granted_want_learns_of_the_end(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, two_engines);
    w.rule = no_grants;
    baton_id_t o = offer(&w, 0, 0, 20000), d = want(&w, 1, 0, 0, 20000);
    world_run(&w, 100 * MS);
    world_cancel(&w, 0, o);
    w.rule = NULL;
    world_run(&w, 3000 * MS);
    ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_EGONE);
    world_fini(&w);
}

/* What is remembered of former wants is bounded: by the number of tombstones, and by time. */
static void test_what_is_remembered_is_bounded(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, to_two_ranks);
    w.settings.tombstones = 3;
    w.settings.tombstone_ms = 30000;
    for (uint32_t i = 0; i < 20; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%u", i);
        baton_id_t o = world_offer(&w, 0, key, 0, 1, TOKENS, 5000);
        for (uint32_t rank = 1; rank <= 2; rank++)
            world_want(&w, rank, "P", key, 0, 1, TOKENS, 5000);
        world_run(&w, w.now + 500 * MS);
        DONE(&w, 0, o);
        assert_in_range(probe_formers(w.ranks[0].core), 1, 6);
        assert_in_range(probe_requests(w.ranks[0].core), 1, 3);
    }
    world_run(&w, w.now + 31000 * MS);
    assert_int_equal(probe_formers(w.ranks[0].core), 0);
    assert_int_equal(probe_requests(w.ranks[0].core), 0);
    world_fini(&w);
}

/* Many attempts of one key leave one tombstone. */
static void test_one_tombstone_a_key(void **state)
{
    (void)state;
    WORLD(w, two_engines);
    for (uint32_t attempt = 1; attempt <= 20; attempt++) {
        offer(&w, attempt, 0, 5);
        world_run(&w, w.now + 10 * MS);
        assert_int_equal(probe_tombstones(w.ranks[0].core), 1);
    }
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_either_order_again_and_again),
        cmocka_unit_test(test_older_attempts_are_gone),
        cmocka_unit_test(test_attempts_beside_each_other),
        cmocka_unit_test(test_an_untaken_seat_by_name),
        cmocka_unit_test(test_a_rank_that_was_not_served_hears_of_the_end),
        cmocka_unit_test(test_the_next_want_of_a_rank_that_was_granted),
        cmocka_unit_test(test_a_granted_want_learns_of_the_end),
        cmocka_unit_test(test_what_is_remembered_is_bounded),
        cmocka_unit_test(test_one_tombstone_a_key),
    };
    return WORLD_ALL_WAYS(tests);
}
