/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages about another offer or want than the one that is there: an old end, an early release, the second of two
 * wants; and more messages than there is room for.
 */
#include "with_probe.h"
#include "with_world.h"

#include <stdio.h>

static const struct world_engine one_to_one[] = {
    {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32},
    {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32},
};
static const struct world_engine one_to_two[] = {
    {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32},
    {.name = "D0", .tp = 1, .heads_total = 4, .num_blocks = 32},
    {.name = "D1", .tp = 1, .heads_total = 4, .num_blocks = 32},
};
static const struct world_engine replicas[] = {
    /* both ranks hold the one head, so one of them is idle */
    {.name = "P", .tp = 2, .heads_total = 1, .num_blocks = 8},
    {.name = "D", .tp = 1, .heads_total = 1, .num_blocks = 8},
};

/*
 * The first offer is cancelled at every moment of the transfer, and its key is offered anew as soon as it ended. The
 * second offer ends only by a want that got its bytes.
 */
static void test_an_old_end_meets_the_next_offer(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    unsigned by_first = 0, by_second = 0;
    for (uint64_t at = 0; at < 8 * MS; at += MS / 10) {
        WORLD(w, one_to_one);
        w.chunk = 128;
        baton_id_t warm = world_want(&w, 1, "P", "warm", 0, 1, 8, 1);
        world_run(&w, 20 * MS);
        assert_non_null(world_event(&w, 1, warm));
        world_fill(&w, 0, 1, 0, 1, 32);
        world_fill(&w, 0, 2, 8, 1, 32);
        baton_id_t a = world_offer(&w, 0, "key", 0, 1, 32, 5000);
        baton_id_t first = world_want(&w, 1, "P", "key", 0, 1, 32, 5000);
        world_run(&w, w.now + at);
        world_cancel(&w, 0, a);
        while (world_event(&w, 0, a) == NULL)
            world_run(&w, w.now + MS / 100);
        baton_id_t b = world_offer(&w, 0, "key", 8, 1, 32, 5000);
        world_run(&w, w.now + 30 * MS);
        const baton_event_t *e = world_event(&w, 1, first);
        assert_non_null(e);
        if (e->status == BATON_STATUS_DONE && world_wrong(&w, 1, 2, 0, 1, 32) == 0) {
            DONE(&w, 0, b);
            by_first++;
        } else {
            if (e->status == BATON_STATUS_DONE)
                assert_int_equal(world_wrong(&w, 1, 1, 0, 1, 32), 0);
            assert_null(world_event(&w, 0, b));
            baton_id_t second = world_want(&w, 1, "P", "key", 8, 1, 32, 5000);
            world_run(&w, w.now + 30 * MS);
            DONE(&w, 1, second);
            DONE(&w, 0, b);
            assert_int_equal(world_wrong(&w, 1, 2, 8, 1, 32), 0);
            by_second++;
        }
        world_fini(&w);
    }
    assert_true(by_second > 20);
    assert_true(by_first > 0);
}

/* The same where another rank of that engine has bound a seat of the new offer already. */
static void test_an_old_end_meets_a_bound_seat(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    static const struct world_engine engines[] = {{.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32},
                                                  {.name = "D", .tp = 2, .heads_total = 4, .num_blocks = 32}};
    WORLD(w, engines);
    w.settings.chunk_bytes = w.chunk = 64;
    w.settings.rma_bytes = 128;
    w.move_ns = MS;
    world_offer(&w, 0, "warm", 0, 1, 8, 1000);
    for (uint32_t i = 1; i <= 2; i++)
        world_want(&w, i, "P", "warm", 0, 1, 8, 1000);
    world_run(&w, 100 * MS);
    baton_id_t a = world_offer(&w, 0, "key", 0, 1, 32, 60000), old[2], new[2];
    for (uint32_t i = 0; i < 2; i++)
        old[i] = world_want(&w, 1 + i, "P", "key", 0, 1, 32, 60000);
    world_run(&w, 105 * MS); /* the bytes move */
    w.ranks[2].stopped = true;
    world_cancel(&w, 0, a);
    world_run(&w, 200 * MS);
    if (world_mode == BATON_MODE_PULL)
        assert_non_null(world_event(&w, 0, a));
    w.ranks[2].stopped =
        world_mode == BATON_MODE_PULL; /* a push cannot be over before its consumer is there to take it */
    world_run(&w, 300 * MS);
    assert_int_equal(world_event(&w, 1, old[0])->status, BATON_STATUS_FAILED);
    world_fill(&w, 0, 4, 8, 1, 32);
    baton_id_t b = world_offer(&w, 0, "key", 8, 1, 32, 60000);
    new[0] = world_want(&w, 1, "P", "key", 8, 1, 32, 60000);
    world_run(&w, 310 * MS);
    w.ranks[2].stopped = false;
    world_run(&w, 500 * MS);
    assert_int_equal(world_event(&w, 2, old[1])->status, BATON_STATUS_FAILED);
    assert_null(world_event(&w, 0, b));
    new[1] = world_want(&w, 2, "P", "key", 8, 1, 32, 60000);
    world_run(&w, 700 * MS);
    for (uint32_t i = 0; i < 2; i++) {
        DONE(&w, 1 + i, new[i]);
        assert_int_equal(world_wrong(&w, 1 + i, 4, 8, 1, 32), 0);
    }
    DONE(&w, 0, b);
    world_fini(&w);
}

/* The last repetition of a want without attempts meets the next offer of its key; then its DONE comes. */
static void test_a_repeated_want_meets_the_next_offer(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, one_to_one);
    w.settings.resend_ms = 5;
    world_fill(&w, 0, 3, 0, 1, 8);
    world_fill(&w, 0, 4, 8, 1, 8);
    baton_id_t warm = world_offer(&w, 0, "warm", 0, 1, 8, 5000);
    DONE_AFTER(&w, 1, world_want(&w, 1, "P", "warm", 0, 1, 8, 5000), 100 * MS);
    DONE(&w, 0, warm);
    w.message_ns = 8 * MS;
    baton_id_t a = world_offer(&w, 0, "key", 0, 1, 8, 5000);
    baton_id_t first = world_want(&w, 1, "P", "key", 0, 1, 8, 5000);
    world_run(&w, 120 * MS);
    uint32_t grants = w.sent[WIRE_GRANT];
    world_cancel(&w, 0, a);
    baton_id_t b = world_offer(&w, 0, "key", 8, 1, 8, 60000);
    world_run(&w, 400 * MS);
    assert_true(w.sent[WIRE_GRANT] > grants); /* offer b granted the first want */
    DONE(&w, 1, first);
    if (world_mode == BATON_MODE_PUSH) { /* over only when its last repetition is answered: it wrote offer b */
        assert_int_equal(world_wrong(&w, 1, 4, 0, 1, 8), 0);
        DONE(&w, 0, b);
    } else {
        assert_int_equal(world_wrong(&w, 1, 3, 0, 1, 8), 0);
        assert_null(world_event(&w, 0, b));
        DONE_AFTER(&w, 1, world_want(&w, 1, "P", "key", 0, 1, 8, 5000), 500 * MS);
        assert_int_equal(world_wrong(&w, 1, 4, 0, 1, 8), 0);
        DONE(&w, 0, b);
    }
    world_fini(&w);
}

/* A rank may have one want of a key from an engine at a time, so an offer serves it once. */
static void test_two_wants_of_one_key(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    world_fill(&w, 0, 3, 0, 1, 8);
    baton_id_t a = world_want(&w, 1, "P", "key", 0, 1, 8, 5000), b = world_want(&w, 1, "P", "key", 4, 1, 8, 5000);
    baton_id_t other = world_want(&w, 1, "P", "kez", 8, 1, 8, 5000);
    world_run(&w, 50 * MS);
    ENDED(&w, 1, b, BATON_STATUS_FAILED, BATON_EEXIST);
    assert_null(world_event(&w, 1, a));
    world_cancel(&w, 1, a);
    world_run(&w, 100 * MS);
    ENDED(&w, 1, a, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    baton_id_t c = world_want(&w, 1, "P", "key", 4, 1, 8, 5000);
    world_run(&w, 150 * MS);
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 8, 5000), p = world_offer(&w, 0, "kez", 0, 1, 8, 5000);
    world_run(&w, 200 * MS);
    DONE(&w, 1, c);
    DONE(&w, 1, other);
    DONE(&w, 0, o);
    DONE(&w, 0, p);
    assert_int_equal(world_wrong(&w, 1, 3, 4, 1, 8), 0);
    world_fini(&w);
}

/*
 * A rank that a want does not need hears so before its own offer comes, and remembers that as long as the want lasts.
 */
static void test_a_release_lasts_as_long_as_its_want(void **state)
{
    (void)state;
    WORLD(w, replicas);
    w.settings.tombstone_ms = 50;
    baton_id_t d = world_want(&w, 2, "P", "key", 0, 1, 8, 5000), o[2];
    world_run(&w, 1000 * MS);
    for (uint32_t i = 0; i < 2; i++)
        o[i] = world_offer(&w, i, "key", 0, 1, 8, 60000);
    world_run(&w, 3000 * MS);
    DONE(&w, 2, d);
    DONE(&w, 0, o[0]);
    DONE(&w, 1, o[1]);
    world_fini(&w);
}

/* The same where that rank still remembers the end of the key's former attempt. */
static void test_a_release_outlives_the_tombstone_of_a_former_attempt(void **state)
{
    (void)state;
    for (uint32_t idle = 0; idle < 2; idle++) {
        WORLD(w, replicas);
        w.attempt = 1;
        baton_id_t former = world_offer(&w, idle, "key", 0, 1, 8, 10);
        world_run(&w, 30 * MS);
        ENDED(&w, idle, former, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
        w.attempt = 2;
        baton_id_t d = world_want(&w, 2, "P", "key", 0, 1, 8, 5000), o[2];
        world_run(&w, 60 * MS);
        for (uint32_t i = 0; i < 2; i++)
            o[i] = world_offer(&w, i, "key", 0, 1, 8, 60000);
        world_run(&w, 200 * MS);
        DONE(&w, 2, d);
        DONE(&w, 0, o[0]);
        DONE(&w, 1, o[1]);
        world_fini(&w);
    }
}

/* A release that names another attempt than this one says nothing about this one. */
static void test_a_release_of_another_attempt_is_no_release(void **state)
{
    (void)state;
    for (uint32_t first = 0; first < 2; first++) { /* the release comes before the offer, or after it */
        WORLD(w, replicas);
        baton_id_t o[2];
        for (uint32_t step = 0; step < 2; step++) {
            w.attempt = first == (step == 0) ? 1 : 2;
            if (w.attempt == 1)
                world_want(&w, 2, "P", "key", 0, 1, 0, 5000); /* needs nothing, and tells both ranks */
            else
                for (uint32_t r = 0; r < 2; r++)
                    o[r] = world_offer(&w, r, "key", 0, 1, 8, 60000);
            world_run(&w, 50 * MS + step * 50 * MS);
        }
        for (uint32_t r = 0; r < 2; r++)
            assert_null(world_event(&w, r, o[r]));
        w.attempt = 2;
        world_want(&w, 2, "P", "key", 0, 1, 0, 5000);
        world_run(&w, 200 * MS);
        for (uint32_t r = 0; r < 2; r++)
            DONE(&w, r, o[r]);
        world_fini(&w);
    }
}

/* One rank may take a quarter of the places in which wants wait for their offers. Beyond that it is refused. */
static void test_one_rank_leaves_room_for_others(void **state)
{
    (void)state;
    static const char *const keys[] = {"k0", "k1", "k2", "k3", "k4"};
    WORLD(w, one_to_two);
    w.settings.waiting = 8;
    baton_id_t greedy[5], o[5];
    for (uint32_t i = 0; i < 5; i++)
        greedy[i] = world_want(&w, 1, "P", keys[i], 2 * i, 1, 8, 20000);
    world_run(&w, 50 * MS);
    assert_int_equal(probe_early_of(w.ranks[0].core, 1), 2);
    assert_int_equal(probe_early(w.ranks[0].core), 2);
    baton_id_t modest = world_want(&w, 2, "P", "mine", 0, 1, 8, 20000);
    world_run(&w, 100 * MS);
    assert_int_equal(probe_early(w.ranks[0].core), 3);
    baton_id_t mine = world_offer(&w, 0, "mine", 0, 1, 8, 20000);
    world_run(&w, 120 * MS);
    DONE(&w, 2, modest);
    DONE(&w, 0, mine);
    for (uint32_t i = 0; i < 5; i++)
        o[i] = world_offer(&w, 0, keys[i], 0, 1, 8, 20000);
    world_run(&w, 15000 * MS);
    for (uint32_t i = 0; i < 5; i++) {
        DONE(&w, 1, greedy[i]);
        DONE(&w, 0, o[i]);
    }
    assert_int_equal(probe_early(w.ranks[0].core), 0);
    assert_int_equal(probe_early_of(w.ranks[0].core, 1), 0);
    world_fini(&w);
}

/* A rank that was told that there is no room asks again at an even pace, and is answered soon after there is room. */
static void test_no_room_is_asked_again_soon(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    w.settings.waiting = 4; /* one rank may take one of these */
    w.settings.resend_ms = 100;
    baton_id_t first = world_want(&w, 1, "P", "first", 0, 1, 8, 60000);
    baton_id_t second = world_want(&w, 1, "P", "second", 4, 1, 8, 60000);
    world_run(&w, 20000 * MS);
    baton_id_t o = world_offer(&w, 0, "second", 0, 1, 8, 60000);
    world_run(&w, 20250 * MS);
    DONE(&w, 1, second);
    DONE(&w, 0, o);
    assert_null(world_event(&w, 1, first));
    world_cancel(&w, 1, first);
    world_run(&w, 21000 * MS);
    world_fini(&w);
}

/* A push that finds no room for its table at the consumer has touched nothing at the producer. */
static void test_a_want_without_room_ends_no_offer(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    w.mode = BATON_MODE_PUSH;
    world_fill(&w, 0, 6, 0, 1, 8);
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 8, 60000), full[64], d = 0;
    uint32_t n = 0;
    for (; n < 64; n++) { /* wants of other keys take every lease slot */
        char key[16];
        snprintf(key, sizeof key, "k%u", n);
        full[n] = world_want(&w, 1, "P", key, 0, 1, 8, 60000);
        world_run(&w, w.now + 20 * MS);
        if (world_event(&w, 1, full[n]) != NULL)
            break;
    }
    assert_in_range(n, 1, 63);
    ENDED(&w, 1, full[n], BATON_STATUS_FAILED, BATON_EAGAIN);
    d = world_want(&w, 1, "P", "key", 4, 1, 8, 60000);
    world_run(&w, w.now + 20 * MS);
    ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_EAGAIN);
    assert_null(world_event(&w, 0, o));
    for (uint32_t i = 0; i < n; i++)
        world_cancel(&w, 1, full[i]);
    world_run(&w, w.now + 100 * MS);
    d = world_want(&w, 1, "P", "key", 4, 1, 8, 60000);
    world_run(&w, w.now + 100 * MS);
    DONE(&w, 1, d);
    DONE(&w, 0, o);
    assert_int_equal(world_wrong(&w, 1, 6, 4, 1, 8), 0);
    world_fini(&w);
}

static int no_last_words(struct world *w, const struct world_message *m)
{
    (void)w;
    return m->m.type != WIRE_DONE && m->m.type != WIRE_CANCEL && m->m.type != WIRE_RELEASE;
}

/* The want is over when the offer comes, and the message about that was lost: the offer still need not wait for it. */
static void test_a_want_past_its_deadline_is_over(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    w.rule = no_last_words;
    baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, 8, 50);
    world_run(&w, 100 * MS);
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 8, 60000);
    world_run(&w, 110 * MS);
    ENDED(&w, 0, o, BATON_STATUS_FAILED, BATON_ETIMEDOUT);
    w.rule = NULL; /* a push ends once its cancel is answered */
    world_run(&w, 10000 * MS);
    ENDED(&w, 1, d, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    world_fini(&w);
}

static void test_closing_answers_those_that_wait(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, 8, 60000);
    world_run(&w, 50 * MS);
    assert_null(world_event(&w, 1, d));
    core_shut(w.ranks[0].core, w.now);
    world_run(&w, 60 * MS);
    ENDED(&w, 1, d, BATON_STATUS_FAILED, BATON_ECLOSED);
    assert_true(core_is_quiet(w.ranks[0].core));
    world_fini(&w);
}

/* Under BATON_PARANOID a block belongs to one open want at a time, from its call until its event. */
static void test_two_wants_into_one_block(void **state)
{
    (void)state;
    for (uint64_t paranoid = 0; paranoid < 2; paranoid++) {
        WORLD(w, one_to_one);
        w.settings.paranoid = paranoid;
        baton_id_t first = world_want(&w, 1, "P", "a", 0, 1, 8, 50);          /* blocks 0 and 1 */
        baton_id_t beside = world_want(&w, 1, "P", "b", 2, 1, 8, 50);         /* 2 and 3 */
        baton_id_t into = world_want(&w, 1, "P", "c", 5, UINT32_MAX, 20, 50); /* 5, 4, 3, 2, 1 */
        if (paranoid) {
            ENDED(&w, 1, into, BATON_STATUS_FAILED, BATON_EINVAL);
            assert_string_equal(world_event(&w, 1, into)->detail,
                                "group 0: block 3 belongs to another open want of this rank");
        } else {
            assert_null(world_event(&w, 1, into));
        }
        baton_id_t free_yet = world_want(&w, 1, "P", "d", 4, 1, 8, 50); /* 4 and 5: what was refused took none */
        world_run(&w, 2000 * MS);
        ENDED(&w, 1, first, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
        ENDED(&w, 1, beside, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
        ENDED(&w, 1, free_yet, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
        into = world_want(&w, 1, "P", "c", 5, UINT32_MAX, 20, 50); /* all have had their events */
        world_run(&w, 3000 * MS);
        if (paranoid)
            ENDED(&w, 1, into, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
        world_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_wants_into_one_block),
        cmocka_unit_test(test_an_old_end_meets_the_next_offer),
        cmocka_unit_test(test_an_old_end_meets_a_bound_seat),
        cmocka_unit_test(test_a_repeated_want_meets_the_next_offer),
        cmocka_unit_test(test_two_wants_of_one_key),
        cmocka_unit_test(test_a_release_lasts_as_long_as_its_want),
        cmocka_unit_test(test_a_release_outlives_the_tombstone_of_a_former_attempt),
        cmocka_unit_test(test_a_release_of_another_attempt_is_no_release),
        cmocka_unit_test(test_one_rank_leaves_room_for_others),
        cmocka_unit_test(test_no_room_is_asked_again_soon),
        cmocka_unit_test(test_a_want_without_room_ends_no_offer),
        cmocka_unit_test(test_a_want_past_its_deadline_is_over),
        cmocka_unit_test(test_closing_answers_those_that_wait),
    };
    return WORLD_ALL_WAYS(tests);
}
