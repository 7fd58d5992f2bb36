/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When the producer rank of a pull's leg fails, the leg turns to another rank that holds the same, where that is safe.
 */
#include "core/mover.h"
#include "core/want.h"
#include "with_probe.h"
#include "with_world.h"

#include <stdio.h>
#include <string.h>

static const struct world_engine replicas[] = {
    /* all three hold the one head */
    {.name = "P", .tp = 3, .heads_total = 1, .num_blocks = 32},
    {.name = "D", .tp = 1, .heads_total = 1, .num_blocks = 32},
};

/* Each replica has bytes of its own, so that the test sees whose came. */
static void offers(struct world *w, baton_id_t id[3])
{
    for (uint32_t i = 0; i < 3; i++) {
        world_fill(w, i, 10 + i, 0, 1, 32);
        id[i] = world_offer(w, i, "key", 0, 1, 32, 60000);
    }
}

static void slowly(struct world *w)
{
    w->settings.chunk_bytes = w->chunk = 64;
    w->settings.rma_bytes = w->settings.copy_bytes = 128;
    w->move_ns = MS;
}

static uint64_t retries(const struct world *w)
{
    baton_stats_t s;
    core_stats(w->ranks[3].core, &s);
    return s.retries;
}

static void until_retries(struct world *w, uint64_t n)
{
    while (retries(w) < n) {
        assert_true(wants_open(w->ranks[3].core) > 0);
        world_run(w, w->now + MS);
    }
}

/* One rank's lease ends while its bytes move: the next one serves all of them. */
static void test_a_stale_read_turns_to_a_replica(void **state)
{
    (void)state;
    WORLD(w, replicas);
    slowly(&w);
    baton_id_t o[3];
    offers(&w, o);
    baton_id_t d = world_want(&w, 3, "P", "key", 4, 1, 32, 60000);
    world_run(&w, 8 * MS);
    uint32_t first = probe_asked(w.ranks[3].core);
    world_cancel(&w, first, o[first]);
    until_retries(&w, 1);
    uint32_t second = probe_asked(w.ranks[3].core);
    assert_int_not_equal(first, second);
    world_run(&w, 1000 * MS);
    DONE(&w, 3, d);
    assert_int_equal(world_wrong(&w, 3, 10 + second, 4, 1, 32), 0);
    assert_int_equal(retries(&w), 1);
    for (uint32_t i = 0; i < 3; i++)
        if (i == first)
            ENDED(&w, i, o[i], BATON_STATUS_CANCELLED, BATON_ECANCELED);
        else
            DONE(&w, i, o[i]);
    world_fini(&w);
}

/* A rank is lost before it granted anything. When it is back, its offer ends well: what it offered has arrived. */
static void test_a_lost_rank_is_replaced(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, replicas);
    w.settings.peer_ms = 1500;
    baton_id_t o[3], warm[3];
    for (uint32_t i = 0; i < 3; i++)
        warm[i] = world_offer(&w, i, "warm", 0, 1, 4, 60000);
    baton_id_t d = world_want(&w, 3, "P", "warm", 20, 1, 4, 5000);
    world_run(&w, 100 * MS);
    DONE(&w, 3, d);
    for (uint32_t i = 0; i < 3; i++)
        DONE(&w, i, warm[i]);
    offers(&w, o);
    d = world_want(&w, 3, "P", "key", 4, 1, 32, 60000);
    uint32_t first = probe_asked(w.ranks[3].core);
    w.ranks[first].stopped = true;
    world_run(&w, 4000 * MS);
    DONE(&w, 3, d);
    assert_int_equal(retries(&w), 1);
    w.ranks[first].stopped = false;
    world_run(&w, 5000 * MS);
    for (uint32_t i = 0; i < 3; i++)
        DONE(&w, i, o[i]);
    world_fini(&w);
}

/* What a silent rank may still send into the blocks keeps others from writing there. */
static void test_no_retry_before_it_is_quiet(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, replicas);
    slowly(&w);
    w.settings.peer_ms = 1500;
    baton_id_t o[3];
    offers(&w, o);
    baton_id_t d = world_want(&w, 3, "P", "key", 4, 1, 32, 60000);
    world_run(&w, 8 * MS);
    uint32_t first = probe_asked(w.ranks[3].core);
    w.ranks[first].stopped = true;
    world_run(&w, 6000 * MS);
    assert_null(world_event(&w, 3, d));
    assert_int_equal(retries(&w), 0);
    w.ranks[first].stopped = false;
    world_run(&w, 8000 * MS);
    DONE(&w, 3, d);
    assert_int_equal(retries(&w), 1);
    for (uint32_t i = 0; i < 3;
         i++) /* also the one that was stopped: it was paused itself, and blames nobody for the silence */
        DONE(&w, i, o[i]);
    world_fini(&w);
}

/* The replicas fail one after the other. When none is left, the reason is told. */
static void test_when_none_is_left(void **state)
{
    (void)state;
    WORLD(w, replicas);
    slowly(&w);
    baton_id_t o[3];
    offers(&w, o);
    baton_id_t d = world_want(&w, 3, "P", "key", 4, 1, 32, 60000);
    for (uint32_t i = 0; i < 3; i++) {
        until_retries(&w, i);
        world_run(&w, w.now + 8 * MS);
        uint32_t now = probe_asked(w.ranks[3].core);
        world_cancel(&w, now, o[now]);
    }
    world_run(&w, 1000 * MS);
    ENDED(&w, 3, d, BATON_STATUS_FAILED, BATON_EGONE);
    assert_int_equal(retries(&w), 2);
    world_fini(&w);
}

/*
 * There is no second try in a push, which the producers run, nor where hashes are compared: the reason is told at once.
 */
static void test_where_it_is_not_safe(void **state)
{
    (void)state;
    for (uint32_t checks = 0; checks < 2; checks++) {
        WORLD(w, replicas);
        slowly(&w);
        w.settings.checksum = checks;
        w.mode = checks ? BATON_MODE_PULL : BATON_MODE_PUSH;
        baton_id_t o[3];
        offers(&w, o);
        baton_id_t d = world_want(&w, 3, "P", "key", 4, 1, 32, 60000);
        world_run(&w, 8 * MS);
        uint32_t first = probe_asked(w.ranks[3].core);
        world_cancel(&w, first, o[first]);
        world_run(&w, 1000 * MS);
        assert_int_equal(world_event(&w, 3, d)->status, BATON_STATUS_FAILED);
        assert_int_equal(retries(&w), 0);
        world_fini(&w);
    }
}

/* The want is cancelled at every moment of a retry. */
static void test_cancel_while_turning(void **state)
{
    (void)state;
    unsigned turned = 0;
    for (uint64_t at = 0; at < 60 * MS; at += MS / 2) {
        WORLD(w, replicas);
        slowly(&w);
        baton_id_t o[3];
        offers(&w, o);
        baton_id_t d = world_want(&w, 3, "P", "key", 4, 1, 32, 60000);
        world_run(&w, 8 * MS);
        uint32_t first = probe_asked(w.ranks[3].core);
        world_cancel(&w, first, o[first]);
        world_run(&w, w.now + at);
        turned += retries(&w) > 0;
        world_cancel(&w, 3, d);
        world_run(&w, w.now + 200 * MS);
        assert_non_null(world_event(&w, 3, d));
        for (uint32_t i = 0; i < 3; i++)
            assert_non_null(world_event(&w, i, o[i]));
        assert_int_equal(probe_held(w.ranks[3].core), 0);
        assert_int_equal(wants_legs(w.ranks[3].core), 0);
        world_fini(&w);
    }
    assert_true(turned > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stale_read_turns_to_a_replica),
        cmocka_unit_test(test_a_lost_rank_is_replaced),
        cmocka_unit_test(test_no_retry_before_it_is_quiet),
        cmocka_unit_test(test_when_none_is_left),
        cmocka_unit_test(test_where_it_is_not_safe),
        cmocka_unit_test(test_cancel_while_turning),
    };
    return cmocka_run_group_tests_name("pull", tests, world_pulls, NULL) +
           cmocka_run_group_tests_name("words", tests, world_takes, NULL);
}
