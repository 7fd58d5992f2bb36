/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a want is told to each rank whose offer it touched, whatever messages are lost, and is acknowledged. */
#include "core/ends.h"
#include "with_probe.h"
#include "with_world.h"

#define TOKENS 8

static const struct world_engine one_to_one[] = {{.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32},
                                                 {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32}};
static const struct world_engine two_to_one[] = {{.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
                                                 {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32}};
static const struct world_engine replicas[] = {{.name = "P", .tp = 2, .heads_total = 1, .num_blocks = 8},
                                               {.name = "D", .tp = 1, .heads_total = 1, .num_blocks = 8}};

struct losses {
    uint32_t types, left; /* which types, one bit each; how many messages are still to be lost */
};

static int loses(struct world *w, const struct world_message *m)
{
    struct losses *l = w->user;
    if ((l->types >> m->m.type & 1) == 0 || l->left == 0)
        return 1;
    l->left--;
    return 0;
}

#define ENDS (1u << WIRE_DONE | 1u << WIRE_CANCEL | 1u << WIRE_RELEASE)
#define ANSWER (1u << WIRE_ENDED)

static void nothing_is_owed(const struct world *w)
{
    for (uint32_t i = 0; i < w->num_ranks; i++) {
        baton_stats_t stats;
        core_stats(w->ranks[i].core, &stats);
        assert_int_equal(ends_owed(w->ranks[i].core), 0);
        assert_int_equal(stats.ends_unanswered, 0);
    }
}

/* Messages of the end, or their answers, are lost some times: the offer still ends soon, long before its time. */
static void test_lost_ends_are_said_again(void **state)
{
    (void)state;
    static const struct {
        uint32_t tokens, held;
        bool cancel;
        int error; /* of the offer */
    } cases[] = {{TOKENS, 0, false, 0},
                 {TOKENS, TOKENS, false, 0},
                 {TOKENS, 0, true, BATON_ECANCELED},
                 {TOKENS + 1, 0, false, BATON_ETOKENS}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (uint32_t lost = 0; lost < 6; lost++) {
            WORLD(w, one_to_one);
            struct losses l = {lost < 3 ? ENDS : ANSWER, 1 + lost % 3};
            w.rule = loses;
            w.user = &l;
            baton_id_t o = cases[i].cancel ? world_offer_layers(&w, 0, "key", 0, 1, TOKENS, 60000)
                                           : world_offer(&w, 0, "key", 0, 1, TOKENS, 60000);
            uint32_t tokens = cases[i].held > 0 ? 0 : cases[i].tokens; /* 0 if the consumer holds all that it wants */
            baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, tokens, 50000);
            world_run(&w, 200 * MS);
            if (cases[i].cancel)
                world_cancel(&w, 1, d);
            world_run(&w, 8000 * MS);
            assert_non_null(world_event(&w, 1, d));
            const baton_event_t *e = world_event(&w, 0, o);
            assert_non_null(e);
            assert_int_equal(e->error, cases[i].error);
            nothing_is_owed(&w);
            world_fini(&w);
        }
}

/* The want's own event does not wait for any answer, and neither does closing. */
static void test_nothing_waits_for_an_answer(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, one_to_one);
    struct losses l = {ANSWER, UINT32_MAX};
    w.rule = loses;
    w.user = &l;
    world_offer(&w, 0, "key", 0, 1, TOKENS, 60000);
    baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 5000);
    world_run(&w, 100 * MS);
    DONE(&w, 1, d);
    assert_true(ends_owed(w.ranks[1].core) > 0);
    assert_true(core_is_quiet(w.ranks[1].core));
    core_shut(w.ranks[1].core, w.now);
    assert_true(core_is_quiet(w.ranks[1].core));
    world_fini(&w);
}

/* One producer rank refuses: the want is over, and both producer ranks release their blocks. */
static void test_a_refused_want_pins_no_blocks(void **state)
{
    (void)state;
    for (uint32_t first = 0; first < 2; first++) {
        WORLD(w, two_to_one);
        baton_id_t o[2];
        for (uint32_t i = 0; i < 2; i++)
            o[i] = world_offer(&w, i, "key", 0, 1, i == first ? TOKENS : TOKENS + 4, 60000);
        baton_id_t d = world_want(&w, 2, "P", "key", 8, 1, TOKENS + 4, 50000);
        world_run(&w, 3000 * MS);
        ENDED(&w, 2, d, BATON_STATUS_FAILED, BATON_ETOKENS);
        for (uint32_t i = 0; i < 2; i++)
            ENDED(&w, i, o[i], BATON_STATUS_FAILED, BATON_ETOKENS);
        nothing_is_owed(&w);
        world_fini(&w);
    }
}

static int no_wants(struct world *w, const struct world_message *m)
{
    (void)w;
    return m->m.type != WIRE_WANT;
}

/* No WANT ever comes through, but its end does: the offer need not wait, whichever came first. */
static void test_the_end_of_a_want_that_never_came(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    for (int offer_first = 0; offer_first < 2; offer_first++) {
        WORLD(w, one_to_one);
        w.rule = no_wants;
        baton_id_t o = offer_first ? world_offer(&w, 0, "key", 0, 1, TOKENS, 60000) : 0;
        baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 1000);
        world_run(&w, 2000 * MS);
        ENDED(&w, 1, d, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
        if (!offer_first)
            o = world_offer(&w, 0, "key", 0, 1, TOKENS, 60000);
        world_run(&w, 3000 * MS);
        ENDED(&w, 0, o, BATON_STATUS_FAILED, BATON_ETIMEDOUT);
        nothing_is_owed(&w);
        world_fini(&w);
    }
}

/* A replica that nobody reads is released once, and that message comes through too. */
static void test_an_idle_replica_is_released(void **state)
{
    (void)state;
    WORLD(w, replicas);
    struct losses l = {1u << WIRE_RELEASE, 2};
    w.rule = loses;
    w.user = &l;
    baton_id_t o[2];
    for (uint32_t i = 0; i < 2; i++)
        o[i] = world_offer(&w, i, "key", 0, 1, TOKENS, 60000);
    baton_id_t d = world_want(&w, 2, "P", "key", 0, 1, TOKENS, 50000);
    world_run(&w, 5000 * MS);
    DONE(&w, 2, d);
    for (uint32_t i = 0; i < 2; i++)
        DONE(&w, i, o[i]);
    nothing_is_owed(&w);
    world_fini(&w);
}

/* A late repetition of an end that was heard says nothing about the next offer of the key. */
static void test_a_repeated_end_meets_the_next_offer(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    for (uint32_t held = 0; held < 2; held++) {
        WORLD(w, one_to_one);
        struct losses l = {ANSWER, 3};
        w.rule = loses;
        w.user = &l;
        world_fill(&w, 0, 5, 0, 1, TOKENS);
        baton_id_t a = world_offer(&w, 0, "key", 0, 1, TOKENS, 60000);
        baton_id_t first = world_want(&w, 1, "P", "key", 8, 1, held ? 0 : TOKENS, 50000);
        world_run(&w, 100 * MS);
        DONE(&w, 1, first);
        DONE(&w, 0, a);
        baton_id_t b = world_offer(&w, 0, "key", 0, 1, TOKENS, 60000);
        world_run(&w, 10000 * MS);
        assert_int_equal(l.left, 0);
        assert_null(world_event(&w, 0, b));
        nothing_is_owed(&w);
        DONE_AFTER(&w, 1, world_want(&w, 1, "P", "key", 8, 1, TOKENS, 5000), 12000 * MS);
        DONE(&w, 0, b);
        world_fini(&w);
    }
}

/* A stopped producer hears of the end when it goes on. One that never goes on is no longer told after some time. */
static void test_a_stopped_producer(void **state)
{
    (void)state;
    for (int goes_on = 0; goes_on < 2; goes_on++) {
        WORLD(w, one_to_one);
        w.settings.ttl_ms = 30000;
        baton_stats_t stats;
        baton_id_t o = world_offer_layers(&w, 0, "key", 0, 1, TOKENS, 600000);
        w.mode = BATON_MODE_PULL;
        baton_id_t d = world_want(&w, 1, "P", "key", 8, 1, TOKENS, 1000);
        world_run(&w, 100 * MS);
        w.ranks[0].stopped = true;
        world_run(&w, 9000 * MS);
        assert_non_null(world_event(&w, 1, d));
        assert_true(ends_owed(w.ranks[1].core) > 0);
        if (goes_on) {
            w.ranks[0].stopped = false;
            world_run(&w, 25000 * MS);
            assert_non_null(world_event(&w, 0, o));
            nothing_is_owed(&w);
        }
        world_run(&w, 60000 * MS);
        assert_int_equal(ends_owed(w.ranks[1].core), 0);
        core_stats(w.ranks[1].core, &stats);
        assert_int_equal(stats.ends_unanswered, !goes_on);
        world_fini(&w);
    }
}

/* The room for unanswered ends is bounded: of many, the oldest are forgotten. */
static void test_what_is_owed_is_bounded(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, one_to_one);
    struct losses l = {ANSWER, UINT32_MAX};
    baton_stats_t stats;
    w.settings.requests = 4;
    w.rule = loses;
    w.user = &l;
    for (uint32_t i = 0; i < 30; i++) {
        char key[8] = {'k', (char)('a' + i), 0};
        world_offer(&w, 0, key, 0, 1, TOKENS, 60000);
        DONE_AFTER(&w, 1, world_want(&w, 1, "P", key, 8, 1, TOKENS, 5000), w.now + 50 * MS);
        assert_in_range(ends_owed(w.ranks[1].core), 1, 8);
    }
    core_stats(w.ranks[1].core, &stats);
    assert_int_equal(stats.ends_unanswered, 22);
    world_fini(&w);
}

/* Answers come in lists: many ends cost few messages. */
static void test_answers_are_gathered(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, one_to_one);
    for (uint32_t i = 0; i < 50; i++) {
        char key[8] = {'k', (char)('a' + i), 0};
        world_offer(&w, 0, key, 0, 1, TOKENS, 60000);
        world_want(&w, 1, "P", key, 8, 1, TOKENS, 5000);
        if (i % 10 == 9)
            world_run(&w, w.now + 20 * MS);
    }
    world_run(&w, w.now + 1000 * MS);
    nothing_is_owed(&w);
    assert_in_range(w.sent[WIRE_ENDED], 1, 2);
    assert_int_equal(w.sent[WIRE_DONE], 50); /* none was sent twice */
    world_fini(&w);
}

/* An end that finds no room to wait for its offer is not answered: it is sent again until there is room. */
static void test_an_end_without_room_is_not_answered(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    w.settings.tombstones = 1;
    w.settings.tombstone_ms = 2000;
    w.settings.resend_ms = 20;
    world_want(&w, 1, "P", "other", 0, 1, TOKENS, 20); /* its end takes the place */
    world_run(&w, 50 * MS);
    baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, 0, 100);
    world_run(&w, 300 * MS);
    DONE(&w, 1, d);
    assert_int_equal(probe_early(w.ranks[0].core), 1);
    assert_true(ends_owed(w.ranks[1].core) > 0);
    world_run(&w, 2800 * MS);
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, TOKENS, 60000);
    world_run(&w, 4000 * MS);
    DONE(&w, 0, o);
    nothing_is_owed(&w);
    world_fini(&w);
}

/* ---- a late want, meant for an offer that has ended -------------------------------------------------------------- */

enum named { BY_ATTEMPT, BY_NEXT_ATTEMPT, BY_CONSUMER, NAMED };

/* Both ranks of P offer the key, and then cancel. */
static void an_offer_that_ends(struct world *w, enum named by)
{
    w->attempt = by != BY_CONSUMER;
    w->seat = by == BY_CONSUMER ? "D" : NULL;
    for (uint32_t i = 0; i < 2; i++)
        world_cancel(w, i, world_offer(w, i, "key", 0, 1, TOKENS, 60000));
    world_run(w, w->now + 50 * MS);
}

/*
 * One rank of two says that the want's offer has ended. What the want then says to the other one, which has never
 * granted it anything, is no word about the next offer of the key there: before that comes, on the way, or after it.
 */
static void test_a_late_want_spares_the_next_offer(void **state)
{
    (void)state;
    for (enum named by = 0; by < NAMED; by++)
        for (uint64_t at = 0; at < 50 * MS; at += 5 * MS) {
            WORLD(w, two_to_one);
            baton_id_t o[2];
            for (uint32_t i = 0; i < 2; i++) {
                world_offer(&w, i, "warm", 0, 1, TOKENS, 1000);
                world_fill(&w, i, 7, 8, 1, TOKENS);
            }
            DONE_AFTER(&w, 2, world_want(&w, 2, "P", "warm", 0, 1, TOKENS, 1000), 100 * MS);
            an_offer_that_ends(&w, by);
            w.message_ns = 10 * MS;
            baton_id_t late = world_want(&w, 2, "P", "key", 0, 1, TOKENS, 5000);
            if (by != BY_NEXT_ATTEMPT)
                world_run(&w, w.now + 11 * MS); /* it came before the next offer, which it is not to have */
            world_run(&w, w.now + at);
            w.attempt += by == BY_NEXT_ATTEMPT;
            for (uint32_t i = 0; i < 2; i++)
                o[i] = world_offer(&w, i, "key", 8, 1, TOKENS, 60000);
            world_run(&w, w.now + 500 * MS);
            ENDED(&w, 2, late, BATON_STATUS_FAILED, BATON_EGONE);
            for (uint32_t i = 0; i < 2; i++)
                assert_null(world_event(&w, i, o[i]));
            DONE_AFTER(&w, 2, world_want(&w, 2, "P", "key", 0, 1, TOKENS, 5000), w.now + 500 * MS);
            for (uint32_t i = 0; i < 2; i++)
                DONE(&w, i, o[i]);
            assert_int_equal(world_wrong(&w, 2, 7, 0, 1, TOKENS), 0);
            nothing_is_owed(&w);
            world_fini(&w);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost_ends_are_said_again),
        cmocka_unit_test(test_nothing_waits_for_an_answer),
        cmocka_unit_test(test_a_refused_want_pins_no_blocks),
        cmocka_unit_test(test_the_end_of_a_want_that_never_came),
        cmocka_unit_test(test_an_idle_replica_is_released),
        cmocka_unit_test(test_a_repeated_end_meets_the_next_offer),
        cmocka_unit_test(test_a_stopped_producer),
        cmocka_unit_test(test_what_is_owed_is_bounded),
        cmocka_unit_test(test_answers_are_gathered),
        cmocka_unit_test(test_an_end_without_room_is_not_answered),
        cmocka_unit_test(test_a_late_want_spares_the_next_offer),
    };
    return WORLD_ALL_WAYS(tests);
}
