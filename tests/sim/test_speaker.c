/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words that are said again until they are answered, where a peer takes few messages at a time: each has its turn, no
 * one waits for a pause that grew while it could not speak, and none is dropped.
 */
#include <stdio.h>

#include "core/ends.h"
#include "core/want.h"
#include "with_probe.h"
#include "with_world.h"

static const struct world_engine one_to_one[] = {
    {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 64},
    {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 64},
};
static const struct world_engine one_to_three[] = {
    {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 64},
    {.name = "D1", .tp = 1, .heads_total = 4, .num_blocks = 64},
    {.name = "D2", .tp = 1, .heads_total = 4, .num_blocks = 64},
    {.name = "D3", .tp = 1, .heads_total = 4, .num_blocks = 64},
};

#define WANTS 16  /* as many as there are leases */
#define CREDITS 2 /* messages that a rank takes in a time of TICK */
#define TICK (80 * MS)

static uint32_t credits[2];

static int take_credit(struct world *w, const struct world_message *m)
{
    w->ranks[m->to].deaf |= --credits[m->to] == 0;
    return 1;
}

static void run(struct world *w, uint64_t until_ns)
{
    w->rule = take_credit;
    while (w->now < until_ns) {
        for (uint32_t i = 0; i < 2; i++) {
            credits[i] = CREDITS;
            w->ranks[i].deaf = false;
            core_step(w->ranks[i].core, w->now, w->now, NULL, 0);
        }
        world_run(w, w->now + TICK);
    }
    w->rule = NULL;
}

static void name(char key[16], uint32_t i)
{
    snprintf(key, 16, "key %u", i);
}

static void want_all(struct world *w, baton_id_t d[WANTS], uint32_t timeout_ms)
{
    char key[16];
    for (uint32_t i = 0; i < WANTS; i++) {
        name(key, i);
        d[i] = world_want(w, 1, "P", key, i, 1, 4, timeout_ms);
    }
}

static void offer_all(struct world *w, baton_id_t o[WANTS], uint32_t ttl_ms)
{
    char key[16];
    for (uint32_t i = 0; i < WANTS; i++) {
        name(key, i);
        o[i] = world_offer(w, 0, key, i, 1, 4, ttl_ms);
    }
}

/* Far more wants come before their offers than wait at the producer. */
static void wants_before_their_offers(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    baton_id_t d[WANTS], o[WANTS];
    w.settings.waiting = 8; /* of one rank 2 */
    want_all(&w, d, 20000);
    run(&w, 4000 * MS);
    offer_all(&w, o, 20000);
    run(&w, 6000 * MS);
    for (uint32_t i = 0; i < WANTS; i++) {
        DONE(&w, 1, d[i]);
        DONE(&w, 0, o[i]);
    }
    world_fini(&w);
}

/* All wants end while their producer is stopped. When it goes on, they are the caller's again at once. */
static void cancels_after_a_silence(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    baton_id_t d[WANTS];
    w.settings.requests = 4; /* so many messages wait for credits at most */
    w.settings.quiet_ms = 100;
    want_all(&w, d, 3000);
    run(&w, 800 * MS); /* the producer knows of them all */
    w.ranks[0].deaf = true;
    world_run(&w, 4000 * MS);
    for (uint32_t i = 0; i < WANTS; i++)
        assert_int_equal(world_given_up(&w, 1, d[i]) != NULL, world_mode == BATON_MODE_PUSH);
    run(&w, 5600 * MS);
    for (uint32_t i = 0; i < WANTS; i++)
        ENDED(&w, 1, d[i], BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    assert_int_equal(ends_owed(w.ranks[1].core), 0);
    assert_int_equal(world_stats(&w, 0).messages_bad, 0);
    world_fini(&w);
}

/* While a peer takes nothing, one word alone waits as a message; and one that is void by then is never said. */
static void one_word_waits(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, one_to_one);
    baton_id_t d[3];
    char key[16];
    w.ranks[0].deaf = true;
    for (uint32_t i = 0; i < 3; i++) {
        name(key, i);
        d[i] = world_want(&w, 1, "P", key, i, 1, 4, 20000);
    }
    world_run(&w, 3500 * MS);
    assert_int_equal(probe_waiting(w.ranks[1].core), 2); /* that, and a beat */
    world_cancel(&w, 1, d[2]);
    w.ranks[0].deaf = false;
    world_run(&w, 3900 * MS);
    assert_int_equal(w.sent[WIRE_CANCEL], 0);
    assert_in_range(w.sent[WIRE_WANT], 2, 3); /* the first may be repeated as soon as it has left */
    world_fini(&w);
}

/* Wants that nobody offered for have ended. What is known of them takes no place from a want that lives. */
static void ended_wants_hold_up_none(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    baton_id_t d[WANTS], o;
    w.settings.waiting = 8; /* of one rank 2 */
    want_all(&w, d, 100);
    world_run(&w, 1000 * MS);
    for (uint32_t i = 0; i < WANTS; i++)
        ENDED(&w, 1, d[i], BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    assert_int_equal(probe_early_as(w.ranks[0].core, EARLY_ENDED), WANTS);
    baton_id_t late = world_want(&w, 1, "P", "late", 0, 1, 4, 20000);
    world_run(&w, 1010 * MS);
    o = world_offer(&w, 0, "late", 0, 1, 4, 20000);
    DONE_AFTER(&w, 1, late, 1100 * MS); /* it did not have to ask again */
    DONE(&w, 0, o);
    world_fini(&w);
}

/* Their places are bounded too. What finds none is said again, and an offer that comes meanwhile hears it then. */
static void ended_wants_are_bounded(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    baton_id_t d[WANTS], o[WANTS];
    w.settings.tombstones = 8; /* of one rank 2 */
    want_all(&w, d, 100);
    world_run(&w, 1000 * MS);
    assert_int_equal(probe_early_as(w.ranks[0].core, EARLY_ENDED), 2);
    assert_int_equal(probe_early_as(w.ranks[0].core, EARLY_LIVE), 0);
    offer_all(&w, o, 20000);
    world_run(&w, 10000 * MS);
    for (uint32_t i = 0; i < WANTS; i++)
        ENDED(&w, 0, o[i], BATON_STATUS_FAILED, BATON_ETIMEDOUT);
    world_fini(&w);
}

/* The wants were refused as busy. Their RELEASE finds no room, and the answer to their CANCEL does not replace it. */
static void a_release_is_said_until_it_is_answered(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    baton_id_t d[WANTS], o[WANTS];
    w.settings.waiting = 4;    /* of one rank 1 */
    w.settings.tombstones = 4; /* likewise */
    want_all(&w, d, 100);
    world_run(&w, 3000 * MS);
    for (uint32_t i = 0; i < WANTS; i++)
        ENDED(&w, 1, d[i], BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    assert_int_equal(ends_owed(w.ranks[1].core), WANTS - 1); /* there was room for one */
    offer_all(&w, o, 20000);
    world_run(&w, 4000 * MS);
    for (uint32_t i = 0; i < WANTS; i++)
        ENDED(&w, 0, o[i], BATON_STATUS_FAILED, BATON_ETIMEDOUT);
    assert_int_equal(ends_owed(w.ranks[1].core), 0);
    world_fini(&w);
}

/* A push still reads the blocks of a cancelled offer when a want of another engine ends: the next offer hears it. */
static void a_release_meets_an_offer_that_drains(void **state)
{
    (void)state;
    WORLD(w, one_to_three);
    w.mode = BATON_MODE_PUSH;
    w.ranks[1].move_extra_ns = 1500 * MS;
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 4, 20000);
    world_want(&w, 1, "P", "key", 0, 1, 4, 10000);
    world_run(&w, 100 * MS);
    world_cancel(&w, 0, o);
    w.mode = BATON_MODE_PULL;
    baton_id_t d = world_want(&w, 2, "P", "key", 0, 1, 4, 10000);
    world_run(&w, 200 * MS);
    world_cancel(&w, 2, d);
    world_run(&w, 1000 * MS);
    ENDED(&w, 2, d, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    assert_null(world_event(&w, 0, o)); /* it drains */
    world_run(&w, 4000 * MS);
    assert_non_null(world_event(&w, 0, o));
    w.seat = "D2";
    o = world_offer(&w, 0, "key", 0, 1, 4, 20000);
    world_run(&w, 4100 * MS);
    ENDED(&w, 0, o, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    world_fini(&w);
}

static void append(struct world *w, baton_id_t chunks, uint32_t first, uint32_t end)
{
    for (uint32_t k = first; k < end; k++)
        world_append(w, 0, chunks, k, 1, 4 * (k + 1));
}

/* Each rank serves the other one. There is always a message about chunks that waits for the peer to take it. */
static void words_leave_among_other_messages(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, one_to_one);
    world_offer(&w, 1, "first", 0, 1, 4, 60000);
    world_offer(&w, 1, "other", 0, 1, 4, 60000);
    DONE_AFTER(&w, 0, world_want(&w, 0, "D", "first", 60, 1, 4, 50000), 100 * MS);
    const baton_id_t chunks = world_offer_chunks(&w, 0, "chunks", 240, false, 60000);
    w.mode = BATON_MODE_PULL; /* its reader is told of each chunk */
    world_want(&w, 1, "P", "chunks", 0, 1, 240, 50000);
    w.mode = world_mode;
    world_run(&w, 200 * MS);
    w.ranks[1].deaf = true;
    append(&w, chunks, 0, 10);
    const baton_id_t d = world_want(&w, 0, "D", "other", 61, 1, 4, 50000);
    for (uint32_t k = 10; k < 60; k += CREDITS) {
        append(&w, chunks, k, k + CREDITS);
        run(&w, w.now + 1); /* one TICK */
    }
    assert_true(probe_waiting(w.ranks[0].core) > 0);
    DONE(&w, 0, d);
    world_fini(&w);
}

/* Two peers take nothing, and messages to them fill the post. A third one, which takes all, is spoken to at once. */
static void silent_peers_hold_up_no_words_to_others(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, one_to_three);
    baton_id_t o[2], d[8];
    char key[16];
    w.settings.requests = 4;
    world_offer(&w, 3, "first", 0, 1, 4, 60000);
    DONE_AFTER(&w, 0, world_want(&w, 0, "D3", "first", 60, 1, 4, 50000), 100 * MS);
    w.mode = BATON_MODE_PULL; /* readers are told of each chunk */
    for (uint32_t i = 0; i < 2; i++) {
        w.seat = i == 0 ? "D1" : "D2";
        o[i] = world_offer_chunks(&w, 0, w.seat, 80, false, 60000);
        world_want(&w, 1 + i, "P", w.seat, 0, 1, 80, 50000);
    }
    world_run(&w, 200 * MS);
    w.ranks[1].deaf = w.ranks[2].deaf = true;
    for (uint32_t k = 0; k < 20; k++)
        for (uint32_t i = 0; i < 2; i++)
            world_append(&w, 0, o[i], 20 * i + k, 1, 4 * (k + 1));
    assert_int_equal(probe_waiting(w.ranks[0].core), 4 * w.settings.requests); /* it is full */
    w.seat = NULL;
    w.mode = world_mode;
    w.ranks[3].deaf = true; /* for a millisecond */
    for (uint32_t i = 0; i < 8; i++) {
        name(key, i);
        world_offer(&w, 3, key, i, 1, 4, 60000);
        d[i] = world_want(&w, 0, "D3", key, 50 + i, 1, 4, 50000);
    }
    world_run(&w, 201 * MS);
    w.ranks[3].deaf = false;
    core_step(w.ranks[0].core, w.now, w.now, NULL, 0);
    world_run(&w, 210 * MS);
    for (uint32_t i = 0; i < 8; i++)
        DONE(&w, 0, d[i]);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wants_before_their_offers),
        cmocka_unit_test(cancels_after_a_silence),
        cmocka_unit_test(one_word_waits),
        cmocka_unit_test(ended_wants_hold_up_none),
        cmocka_unit_test(ended_wants_are_bounded),
        cmocka_unit_test(a_release_is_said_until_it_is_answered),
        cmocka_unit_test(a_release_meets_an_offer_that_drains),
        cmocka_unit_test(words_leave_among_other_messages),
        cmocka_unit_test(silent_peers_hold_up_no_words_to_others),
    };
    return WORLD_ALL_WAYS(tests);
}
