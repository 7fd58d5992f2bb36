/* SPDX-License-Identifier: BSD-3-Clause */
/* What turns that are lent (front/turns.h) leave to the next one: all that has to do with ranks of other nodes. */
#include "with_world.h"

static const struct world_engine pair[] = {
    {.name = "P", .tp = 1, .heads_total = 1, .num_blocks = 500},
    {.name = "D", .tp = 1, .heads_total = 1, .num_blocks = 500},
};
enum { P, D };

/* Lets time pass until P has been sent, or has sent, its first message of that type and it has come. */
static void run_until_sent(struct world *w, enum wire_type type)
{
    const uint64_t until = w->now + 100 * MS;
    while (w->sent[type] == 0 && w->now < until)
        world_run(w, w->now + MS / 100);
    assert_int_equal(w->sent[type], 1);
    world_run(w, w->now + w->message_ns);
}

/*
 * More hashes than one message has are sent in one turn, all or none: those that find no place are asked for again, and
 * the next turn that answers may be lent too.
 */
static void test_two_messages_with_hashes(void **state)
{
    (void)state;
    enum { TOKENS = 4 * (WIRE_LIST_MAX + 10) };
    WORLD(w, pair);
    w.settings.checksum = 1;
    w.board_ns = MS; /* that hashing takes */
    world_fill(&w, P, 3, 0, 1, TOKENS);
    baton_id_t offer = world_offer(&w, P, "key", 0, 1, TOKENS, 60000);
    baton_id_t want = world_want(&w, D, "P", "key", 0, 1, TOKENS, 60000);
    run_until_sent(&w, WIRE_CHECK);
    world_lend(&w, P, true);
    world_run(&w, w.now + 20 * MS);
    assert_int_equal(w.sent[WIRE_SUMS], 0);
    world_lend(&w, P, false);
    world_run(&w, w.now + 50 * MS);
    DONE(&w, D, want);
    DONE(&w, P, offer);
    assert_int_equal(world_wrong(&w, D, 3, 0, 1, TOKENS), 0);
    assert_true(w.sent[WIRE_SUMS] == 2 && w.sent[WIRE_CHECK] == 1);
    world_fini(&w);
}

/* A rank of another node that was granted a lease finds its end before the blocks are the engine's again. */
static void test_an_end_waits_for_a_sync(void **state)
{
    (void)state;
    WORLD(w, pair);
    w.move_ns = 50 * MS;
    world_fill(&w, P, 3, 0, 1, 40);
    baton_id_t unread = world_offer(&w, P, "unread", 20, 1, 40, 60000);
    baton_id_t read = world_offer(&w, P, "read", 0, 1, 40, 60000);
    baton_id_t want = world_want(&w, D, "P", "read", 0, 1, 40, 60000);
    run_until_sent(&w, WIRE_GRANT);
    const uint32_t syncs = w.ranks[P].syncs;
    assert_true(syncs > 0); /* the grant was behind one */
    world_lend(&w, P, true);
    world_cancel(&w, P, unread);
    assert_non_null(world_event(&w, P, unread)); /* no other node was told of it */
    world_cancel(&w, P, read);
    world_run(&w, w.now + 10 * MS);
    assert_true(world_event(&w, P, read) == NULL && w.ranks[P].syncs == syncs);
    assert_int_equal(w.sent[WIRE_NACK], 0);
    world_lend(&w, P, false);
    world_run(&w, w.now + 1);
    ENDED(&w, P, read, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    assert_int_equal(w.ranks[P].syncs, syncs + 1);
    world_run(&w, w.now + 500 * MS);
    ENDED(&w, D, want, BATON_STATUS_FAILED, BATON_EGONE);
    world_fini(&w);
}

/* The same of a want's table, by which another node writes. */
static void test_the_end_of_a_push_waits_for_a_sync(void **state)
{
    (void)state;
    WORLD(w, pair);
    w.mode = BATON_MODE_PUSH;
    world_fill(&w, P, 3, 0, 1, 40);
    world_lend(&w, D, true);
    baton_id_t unheard = world_want(&w, D, "P", "key", 0, 1, 40, 60000); /* its producer's card is not read yet */
    world_cancel(&w, D, unheard);
    assert_non_null(world_event(&w, D, unheard));
    world_lend(&w, D, false);
    world_run(&w, w.now + 50 * MS);
    baton_id_t told = world_want(&w, D, "P", "key", 0, 1, 40, 60000);
    run_until_sent(&w, WIRE_WANT);
    assert_true(w.ranks[D].syncs > 0);
    world_cancel(&w, D, told);
    run_until_sent(&w, WIRE_CANCEL);
    world_lend(&w, D, true);
    world_run(&w, w.now + 50 * MS);
    assert_null(world_event(&w, D, told)); /* nor does it hear CLOSED */
    world_lend(&w, D, false);
    world_run(&w, w.now + 50 * MS);
    ENDED(&w, D, told, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    world_fini(&w);
}

/* Calls in lent turns begin what the next other turn goes on with: the card, the tables, the bytes, the proof. */
static void test_a_transfer_goes_on_later(void **state)
{
    (void)state;
    for (uint64_t at = 0; at < 12; at++) { /* when turns begin to be lent, for 5 ms */
        WORLD(w, pair);
        w.mode = world_mode;
        w.settings.grant_blocks = 0; /* tables are read */
        w.asks = at % 2;
        world_fill(&w, P, 3, 0, 1, 40);
        for (uint32_t rank = P; rank <= D && at == 0; rank++)
            world_lend(&w, rank, true);
        baton_id_t offer = world_offer(&w, P, "key", 0, 1, 40, 60000);
        baton_id_t want = world_want(&w, D, "P", "key", 0, 1, 40, 60000);
        world_run(&w, w.now + at * MS / 10);
        for (uint32_t rank = P; rank <= D; rank++)
            world_lend(&w, rank, true);
        world_run(&w, w.now + 5 * MS);
        for (uint32_t rank = P; rank <= D; rank++)
            world_lend(&w, rank, false);
        world_run(&w, w.now + 20 * MS);
        DONE(&w, D, want);
        DONE(&w, P, offer);
        assert_int_equal(world_wrong(&w, D, 3, 0, 1, 40), 0);
        world_fini(&w);
    }
}

/* A want that is cancelled in a lent turn while its bytes are under way ends once these are quiet. */
static void test_a_move_is_given_up(void **state)
{
    (void)state;
    WORLD(w, pair);
    w.move_ns = 5 * MS;
    world_fill(&w, P, 3, 0, 1, 40);
    world_offer(&w, P, "key", 0, 1, 40, 60000);
    baton_id_t want = world_want(&w, D, "P", "key", 0, 1, 40, 60000);
    run_until_sent(&w, WIRE_GRANT);
    world_run(&w, w.now + MS);
    world_lend(&w, D, true);
    world_cancel(&w, D, want);
    world_run(&w, w.now + 20 * MS);
    assert_null(world_event(&w, D, want));
    world_lend(&w, D, false);
    world_run(&w, w.now + 20 * MS);
    ENDED(&w, D, want, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_messages_with_hashes),
        cmocka_unit_test(test_an_end_waits_for_a_sync),
        cmocka_unit_test(test_the_end_of_a_push_waits_for_a_sync),
        cmocka_unit_test(test_a_transfer_goes_on_later),
        cmocka_unit_test(test_a_move_is_given_up),
    };
    const struct CMUnitTest pushed[] = {
        cmocka_unit_test(test_a_transfer_goes_on_later),
    };
    int failed = cmocka_run_group_tests_name("pull", tests, world_pulls, NULL);
    return failed + cmocka_run_group_tests_name("push", pushed, world_pushes, NULL);
}
