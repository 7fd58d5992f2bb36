/* SPDX-License-Identifier: BSD-3-Clause */
/* await: wants for an engine that is not there wait for the first whole one of its name, until their deadline. */
#include <stdlib.h>
#include <string.h>

#include "with_world.h"

enum { FIRST, SECOND }; /* ranks, in the order in which they come */

static const struct world_engine prefill = {.name = "prefill", .tp = 1, .heads_total = 2, .num_blocks = 16};
static const struct world_engine decode = {.name = "decode", .tp = 1, .heads_total = 2, .num_blocks = 16};
static const struct world_engine other = {.name = "other", .tp = 1, .heads_total = 2, .num_blocks = 16};

static baton_id_t want(struct world *w, const char *key, uint32_t timeout_ms)
{
    return world_want(w, FIRST, "prefill", key, 3, 1, 10, timeout_ms);
}

/* The producer's rank offers what the first one wants, which gets it. */
static void serve(struct world *w, uint32_t producer, const char *key, baton_id_t wanted, uint32_t seed)
{
    world_fill(w, producer, seed, 0, 1, 10);
    world_poison(w, FIRST);
    const baton_id_t offer = world_offer(w, producer, key, 0, 1, 10, 1000);
    world_run(w, w->now + 100 * MS);
    DONE(w, FIRST, wanted);
    DONE(w, producer, offer);
    assert_int_equal(world_wrong(w, FIRST, seed, 3, 1, 10), 0);
}

static void it_goes_on_when_the_engine_comes(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){decode}));
    const baton_id_t wanted = want(&w, "r", 60000);
    world_run(&w, w.now + 5000 * MS);
    world_join(&w, &other); /* not that one */
    world_run(&w, w.now + 1000 * MS);
    assert_null(world_event(&w, FIRST, wanted));
    assert_int_equal(world_stats(&w, FIRST).wants_live, 1);
    serve(&w, world_join(&w, &prefill), "r", wanted, 1);
    serve(&w, 2, "now at once", want(&w, "now at once", 1000), 2);
    world_fini(&w);
}

static uint32_t said;

static int expect_whole(struct world *w, const struct world_message *m)
{
    said += m->from == FIRST;
    assert_int_equal(w->directory->engines[w->directory->engine_of[m->to]]->state, DIRECTORY_WHOLE);
    return 1;
}

/* Nobody is asked for anything before all ranks are there. */
static void it_waits_for_all_ranks(void **state)
{
    (void)state;
    struct world_engine two = prefill;
    two.tp = 2;
    WORLD(w, ((struct world_engine[]){decode}));
    const baton_id_t wanted = want(&w, "r", 60000);
    w.rule = expect_whole;
    said = 0;
    const uint32_t first = world_join(&w, &two);
    baton_id_t offers[2];
    for (uint32_t i = 0; i < 2; i++) {
        world_fill(&w, first + i, 7, 0, 1, 10);
        offers[i] = world_offer(&w, first + i, "r", 0, 1, 10, 1000);
    }
    world_run(&w, w.now + 100 * MS);
    assert_true(said > 0);
    DONE(&w, FIRST, wanted);
    for (uint32_t i = 0; i < 2; i++)
        DONE(&w, first + i, offers[i]);
    assert_int_equal(world_wrong(&w, FIRST, 7, 3, 1, 10), 0);
    world_fini(&w);
}

static void it_ends_though_nobody_comes(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){decode}));
    const baton_id_t late = want(&w, "late", 1000), cancelled = want(&w, "cancelled", 60000);
    const uint64_t since = w.now;
    world_cancel(&w, FIRST, cancelled);
    ENDED(&w, FIRST, cancelled, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    world_run(&w, since + 999 * MS);
    assert_null(world_event(&w, FIRST, late));
    world_run(&w, since + 1001 * MS);
    ENDED(&w, FIRST, late, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    assert_string_equal(world_event(&w, FIRST, late)->detail,
                        "its deadline passed before an engine of the producer's name was whole");
    const baton_id_t open = want(&w, "open", 60000);
    core_shut(w.ranks[FIRST].core, w.now);
    world_run(&w, w.now + 1 * MS);
    ENDED(&w, FIRST, open, BATON_STATUS_FAILED, BATON_ECLOSED);
    ENDED(&w, FIRST, want(&w, "closed", 1000), BATON_STATUS_FAILED, BATON_ECLOSED);
    world_fini(&w);
}

/* A former life of the name is not waited for, nor met; wants that were open with it end. */
static void the_next_life_is_awaited(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){decode, prefill}));
    const baton_id_t before = want(&w, "r", 60000);
    world_run(&w, w.now + 100 * MS);
    world_leave(&w, SECOND, true, true);
    ENDED(&w, FIRST, before, BATON_STATUS_FAILED, BATON_EPEER);
    const baton_id_t after = want(&w, "r", 60000);
    world_run(&w, w.now + 10 * MS);
    assert_null(world_event(&w, FIRST, after));
    serve(&w, world_join(&w, &prefill), "r", after, 3);
    world_fini(&w);
}

/* Two of one key are told apart only when their engine is known. */
static void a_key_is_wanted_once(void **state)
{
    (void)state;
    WORLD(w, ((struct world_engine[]){decode}));
    const baton_id_t one = want(&w, "r", 60000), two = want(&w, "r", 60000);
    const baton_id_t elsewhere = world_want(&w, FIRST, "other", "r", 3, 1, 10, 200);
    world_run(&w, w.now + 10 * MS);
    assert_null(world_event(&w, FIRST, two));
    const uint32_t producer = world_join(&w, &prefill);
    world_run(&w, w.now + 1 * MS);
    ENDED(&w, FIRST, two, BATON_STATUS_FAILED, BATON_EEXIST);
    serve(&w, producer, "r", one, 4);
    world_run(&w, w.now + 200 * MS);
    ENDED(&w, FIRST, elsewhere, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    world_fini(&w);
}

/* Both ranks of the consumer's engine wait in vain: its first rank gathers that as it does other ends. */
static void a_verdict_comes_without_a_producer(void **state)
{
    (void)state;
    struct world_engine two = decode;
    two.tp = 2;
    two.verdicts = BATON_VERDICTS_ALL;
    WORLD(w, ((struct world_engine[]){two}));
    baton_id_t wanted[2];
    for (uint32_t i = 0; i < 2; i++)
        wanted[i] = world_want(&w, i, "prefill", "r", 3, 1, 10, 100);
    world_run(&w, w.now + 2000 * MS);
    for (uint32_t i = 0; i < 2; i++) {
        ENDED(&w, i, wanted[i], BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
        assert_non_null(world_verdict(&w, i, wanted[i]));
        assert_int_equal(world_verdict(&w, i, wanted[i])->status, BATON_STATUS_EXPIRED);
        assert_int_equal(world_stats(&w, i).messages_bad, 0);
    }
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_goes_on_when_the_engine_comes),
        cmocka_unit_test(it_waits_for_all_ranks),
        cmocka_unit_test(it_ends_though_nobody_comes),
        cmocka_unit_test(the_next_life_is_awaited),
        cmocka_unit_test(a_key_is_wanted_once),
        cmocka_unit_test(a_verdict_comes_without_a_producer),
    };
    return cmocka_run_group_tests_name("pull", tests, world_pulls, NULL) +
           cmocka_run_group_tests_name("push", tests, world_pushes, NULL);
}
