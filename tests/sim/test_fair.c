/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small wants behind big ones, and healthy engines beside stopped ones. Times follow from how long the world's
 * moves take.
 */
#include "core/mover.h"
#include "with_probe.h"
#include "with_world.h"

static const struct world_engine three[] = {{.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 64},
                                            {.name = "Q", .tp = 1, .heads_total = 4, .num_blocks = 64},
                                            {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 64}};

#define BIG 128 /* tokens, of 128 bytes each */

/* Moves, of one unit each, take 1 ms. */
static void slow_moves(struct world *w)
{
    w->settings.chunk_bytes = w->chunk = 64;
    w->settings.peer_ms = 60000;
    w->settings.rma_bytes = 1024;
    w->move_ns = MS;
}

/* Returns when the handshakes are over. */
static void warm(struct world *w)
{
    const char *const names[] = {"P", "Q"};
    for (uint32_t i = 0; i < 2; i++) {
        world_offer(w, i, "warm", 0, 1, 4, 60000);
        baton_id_t id = world_want(w, 2, names[i], "warm", 0, 1, 4, 60000);
        DONE_AFTER(w, 2, id, w->now + 50 * MS);
    }
}

static uint64_t took(struct world *w, const char *engine, const char *key)
{
    uint32_t rank = engine[0] == 'P' ? 0 : 1;
    world_offer(w, rank, key, 60, 1, 4, 60000);
    uint64_t begin = w->now;
    baton_id_t id = world_want(w, 2, engine, key, 60, 1, 4, 60000);
    DONE_AFTER(w, 2, id, begin + 40 * MS);
    return world_event_ns(w, 2, id) - begin;
}

static baton_id_t begin_big(struct world *w, uint32_t rank, const char *engine, const char *key)
{
    world_offer(w, rank, key, 0, 1, BIG, 60000);
    baton_id_t id = world_want(w, 2, engine, key, rank * 20, 1, BIG, 60000);
    world_run(w, w->now + 4 * MS); /* some of it has moved */
    return id;
}

static void test_a_small_want_passes_a_big_one_of_its_peer(void **state)
{
    (void)state;
    WORLD(w, three);
    slow_moves(&w);
    w.slots = 1;
    warm(&w);
    uint64_t alone = took(&w, "P", "alone");
    baton_id_t big = begin_big(&w, 0, "P", "big");
    uint64_t behind = took(&w, "P", "behind");
    assert_true(behind <= 3 * alone);
    assert_true(world_event(&w, 2, big) == NULL || world_event_ns(&w, 2, big) > w.now - 40 * MS + behind);
    DONE_AFTER(&w, 2, big, w.now + 200 * MS);
    world_fini(&w);
}

static void test_a_stopped_engine_holds_up_nobody(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, three);
    slow_moves(&w);
    warm(&w);
    uint64_t alone = took(&w, "Q", "alone");
    baton_id_t big = begin_big(&w, 0, "P", "big");
    w.ranks[0].stopped = true;
    world_run(&w, w.now + 2 * MS);
    assert_true(took(&w, "Q", "first") <= 2 * alone);
    world_run(&w, w.now + w.settings.park_ms * MS);
    if (world_mode == BATON_MODE_PULL) /* a stopped producer does not push */
        assert_true(probe_silent(w.ranks[2].core) > 0);
    assert_int_equal(probe_held(w.ranks[2].core), probe_silent(w.ranks[2].core));
    assert_true(took(&w, "Q", "second") <= alone + MS / 10);
    w.ranks[0].stopped = false;
    DONE_AFTER(&w, 2, big, w.now + 300 * MS);
    assert_int_equal(probe_held(w.ranks[2].core), 0);
    world_fini(&w);
}

/*
 * An engine that answers only for a moment now and then, and takes as much as it may each time, holds up nobody either.
 */
static void test_an_engine_that_runs_in_bursts_holds_up_nobody(void **state)
{
    (void)state;
    WORLD(w, three);
    slow_moves(&w);
    warm(&w);
    uint64_t alone = took(&w, "Q", "alone");
    begin_big(&w, 0, "P", "big");
    for (int i = 0; i < 6; i++) {
        char key[] = "key 0";
        key[4] = (char)('0' + i);
        w.ranks[0].stopped = true;
        world_run(&w, w.now + 210 * MS);
        assert_true(took(&w, "Q", key) <= 2 * alone);
        w.ranks[0].stopped = false;
        world_run(&w, w.now + 2 * MS);
    }
    world_run(&w, w.now + 300 * MS);
    world_fini(&w);
}

/* All moves of an engine take longer than park_ms: it lives, and gets as much at a time as any other. */
static void test_a_slow_engine_is_not_silent(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, three);
    slow_moves(&w);
    warm(&w);
    uint64_t line = 300 * MS, share = w.settings.rma_bytes / 2;
    w.ranks[0].move_extra_ns = w.ranks[2].move_extra_ns = line;
    DONE_AFTER(&w, 2, begin_big(&w, 0, "P", "first"), w.now + 20000 * MS); /* by then the core knows how slow it is */
    world_offer(&w, 0, "slow", 20, 1, BIG, 60000);
    baton_id_t id = world_want(&w, 2, "P", "slow", 20, 1, BIG, 60000);
    const struct core *core = w.ranks[world_mode == BATON_MODE_PULL ? 2 : 0].core;
    uint64_t begin = w.now, turns = (BIG * 128 + share - 1) / share;
    while (world_event(&w, 2, id) == NULL && w.now < begin + 60000 * MS) {
        world_run(&w, w.now + MS);
        assert_int_equal(probe_silent(core), 0);
    }
    DONE(&w, 2, id);
    assert_true(w.now - begin <= (turns + 4) * (line + 10 * MS));
    world_offer(&w, 0, "stopped", 20, 1, BIG, 60000);
    world_want(&w, 2, "P", "stopped", 20, 1, BIG, 60000);
    world_run(&w, w.now + 100 * MS);
    assert_true(probe_held(core) > 0);
    w.ranks[world_mode == BATON_MODE_PULL ? 0 : 2].stopped = true;
    world_run(&w, w.now + 6 * line);
    assert_true(probe_silent(core) > 0);
    assert_int_equal(probe_held(core), probe_silent(core));
    w.ranks[world_mode == BATON_MODE_PULL ? 0 : 2].stopped = false;
    world_run(&w, w.now + 60000 * MS);
    assert_int_equal(probe_held(core), 0);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_small_want_passes_a_big_one_of_its_peer),
        cmocka_unit_test(test_a_stopped_engine_holds_up_nobody),
        cmocka_unit_test(test_an_engine_that_runs_in_bursts_holds_up_nobody),
        cmocka_unit_test(test_a_slow_engine_is_not_silent),
    };
    return WORLD_ALL_WAYS(tests);
}
