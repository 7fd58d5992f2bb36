/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths that have done what is asked of them when the call returns (`answer` in core/path.h): the core goes on within
 * the same step, and hears of errors there as it would later.
 */
#include "core_inside.h"
#include "with_probe.h"
#include "with_world.h"

static const struct world_engine one_to_one[] = {
    {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32, .node = 1},
    {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32, .node = 1},
};
static const struct world_engine two_to_one[] = {
    {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32, .node = 1},
    {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32, .node = 1},
};

#define TOKENS 18

/* From here on calls of the rank need no handshake. */
static void warm(struct world *w, uint32_t rank, uint32_t producers)
{
    for (uint32_t p = 0; p < producers; p++)
        world_offer(w, p, "warm", 0, 1, 4, 1000);
    world_want(w, rank, "P", "warm", 0, 1, 4, 1000);
    world_run(w, w->now + 50 * MS);
    w->at_once = true;
}

static void a_want_is_done_in_the_step_that_takes_it(void **state)
{
    (void)state;
    WORLD(w, two_to_one);
    warm(&w, 2, 2);
    world_fill(&w, 0, 7, 3, 1, TOKENS);
    world_fill(&w, 1, 7, 3, 1, TOKENS);
    world_poison(&w, 2);
    baton_id_t o = world_offer(&w, 0, "key", 3, 1, TOKENS, 1000);
    world_offer(&w, 1, "key", 3, 1, TOKENS, 1000);
    baton_id_t d = world_want(&w, 2, "P", "key", 1, 2, TOKENS, 1000);
    DONE(&w, 2, d); /* no time has passed */
    assert_int_equal(world_wrong(&w, 2, 7, 1, 2, TOKENS), 0);
    world_run(&w, w.now + 5 * MS);
    DONE(&w, 0, o);
    world_fini(&w);
}

/* What the path took within the step is a part of the call's time. */
static void the_time_of_answers_counts(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    warm(&w, 1, 1);
    w.chunk = UINT64_MAX;
    w.answer_ns = MS; /* the table, then the bytes with the generation */
    world_offer(&w, 0, "key", 3, 1, TOKENS, 1000);
    baton_id_t d = world_want(&w, 1, "P", "key", 1, 2, TOKENS, 1000);
    DONE(&w, 1, d);
    assert_int_equal(world_event(&w, 1, d)->wait_ns, 0);
    assert_int_equal(world_event(&w, 1, d)->total_ns, 2 * MS);
    world_run(&w, w.now + 5 * MS);
    world_fini(&w);
}

/* A path takes pieces, and none reads the generation behind the last one: each answer leads to the next question. */
static void many_pieces_move_in_one_step(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    warm(&w, 1, 1);
    w.chunk = 64;
    w.asks = true;
    const uint32_t boards = w.boards;
    world_fill(&w, 0, 7, 3, 1, TOKENS);
    world_poison(&w, 1);
    world_offer(&w, 0, "key", 3, 1, TOKENS, 1000);
    baton_id_t d = world_want(&w, 1, "P", "key", 1, 2, TOKENS, 1000);
    DONE(&w, 1, d);
    assert_int_equal(world_wrong(&w, 1, 7, 1, 2, TOKENS), 0);
    assert_int_equal(w.boards, boards + 1);
    assert_in_range(w.ranks[0].moves, 10, UINT32_MAX);
    world_run(&w, w.now + 5 * MS);
    world_fini(&w);
}

static void a_push_is_settled_in_one_step(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    warm(&w, 1, 1);
    w.mode = BATON_MODE_PUSH;
    world_offer(&w, 0, "first", 0, 1, 4, 1000); /* the producer learns of its reader's card */
    world_want(&w, 1, "P", "first", 0, 1, 4, 1000);
    world_run(&w, w.now + 50 * MS);
    world_fill(&w, 0, 7, 3, 1, TOKENS);
    world_poison(&w, 1);
    world_offer(&w, 0, "key", 3, 1, TOKENS, 1000);
    baton_id_t d = world_want(&w, 1, "P", "key", 1, 2, TOKENS, 1000);
    const uint32_t before = w.sent[WIRE_WRITTEN];
    world_run(&w, w.now + w.message_ns); /* WANT has come: the bytes are written, settled, and that is said */
    assert_int_equal(w.sent[WIRE_WRITTEN], before + 1);
    world_run(&w, w.now + 5 * MS);
    DONE(&w, 1, d);
    assert_int_equal(world_wrong(&w, 1, 7, 1, 2, TOKENS), 0);
    world_fini(&w);
}

/* The offer is cancelled while its bytes move, within the consumer's step. */
static baton_id_t ends;
static void end_it(struct world *w, uint32_t from, uint32_t to)
{
    (void)to;
    w->on_move = NULL;
    world_cancel(w, from, ends);
}

static void a_generation_that_has_changed_is_heard_of(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    warm(&w, 1, 1);
    ends = world_offer(&w, 0, "key", 3, 1, TOKENS, 1000);
    w.on_move = end_it;
    baton_id_t d = world_want(&w, 1, "P", "key", 1, 2, TOKENS, 1000);
    assert_int_equal(world_stats(&w, 1).stale, 1);
    assert_int_equal(world_event(&w, 1, d)->status, BATON_STATUS_FAILED);
    assert_int_equal(world_event(&w, 1, d)->error, BATON_EGONE);
    world_run(&w, w.now + 50 * MS);
    assert_int_equal(world_event(&w, 0, ends)->status, BATON_STATUS_CANCELLED);
    world_fini(&w);
}

int main(void)
{
    world_words = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_want_is_done_in_the_step_that_takes_it),
        cmocka_unit_test(the_time_of_answers_counts),
        cmocka_unit_test(many_pieces_move_in_one_step),
        cmocka_unit_test(a_push_is_settled_in_one_step),
        cmocka_unit_test(a_generation_that_has_changed_is_heard_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
