/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words that are said again until they are answered, where a peer takes few messages at a time: each has its turn, no
 * one waits for a pause that grew while it could not speak, and none is dropped.
 */
#include <stdio.h>

#include "core_inside.h"
#include "with_world.h"

static const struct world_engine one_to_one[] = {
    {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 64},
    {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 64},
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
    assert_int_equal(w.ranks[0].core->stats.messages_bad, 0);
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
    assert_int_equal(post_waiting(w.ranks[1].core->post), 2); /* that, and a beat */
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
    assert_int_equal(early_kept_as(w.ranks[0].core, EARLY_ENDED), WANTS);
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
    assert_int_equal(early_kept_as(w.ranks[0].core, EARLY_ENDED), 2);
    assert_int_equal(early_kept_as(w.ranks[0].core, EARLY_LIVE), 0);
    offer_all(&w, o, 20000);
    world_run(&w, 10000 * MS);
    for (uint32_t i = 0; i < WANTS; i++)
        ENDED(&w, 0, o[i], BATON_STATUS_FAILED, BATON_ETIMEDOUT);
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
    };
    return WORLD_ALL_WAYS(tests);
}
