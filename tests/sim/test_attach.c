/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes of the engine's own that an offer carries: each want that is done has those of one rank that served it. */
#include "with_world.h"

#include <string.h>

#define TOKENS 8

static const struct world_engine one_to_one[] = {{.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32},
                                                 {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32}};
static const struct world_engine two_to_one[] = {{.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
                                                 {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32}};

static baton_id_t offer(struct world *w, uint32_t rank, const void *bytes, uint32_t num)
{
    w->attach = bytes;
    w->num_attach = num;
    world_fill(w, rank, 7, 0, 1, TOKENS);
    return world_offer(w, rank, "key", 0, 1, TOKENS, 20000);
}

static baton_id_t want(struct world *w, uint32_t rank, uint32_t timeout_ms)
{
    return world_want(w, rank, "P", "key", 16, 1, TOKENS, timeout_ms);
}

static void assert_attached(struct world *w, uint32_t rank, baton_id_t id, const void *bytes, uint32_t num)
{
    const baton_event_t *e = world_event(w, rank, id);
    assert_non_null(e);
    assert_int_equal(e->num_attach, num);
    if (num > 0)
        assert_memory_equal(e->attach, bytes, num);
}

static void bytes_come_with_the_end_of_a_want(void **state)
{
    (void)state;
    static const uint8_t bytes[BATON_ATTACH_MAX] = {1, 2, [BATON_ATTACH_MAX - 1] = 3};
    static const uint32_t sizes[] = {0, 1, 37, BATON_ATTACH_MAX};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        WORLD(w, one_to_one);
        baton_id_t o = offer(&w, 0, bytes, sizes[i]), d = want(&w, 1, 5000);
        DONE_AFTER(&w, 1, d, 1000 * MS);
        DONE(&w, 0, o);
        assert_attached(&w, 1, d, bytes, sizes[i]);
        assert_attached(&w, 0, o, NULL, 0);
        world_fini(&w);
    }
}

/* Whichever rank offers first: those of the first one in its engine that has some. */
static void one_rank_speaks_for_its_engine(void **state)
{
    (void)state;
    for (uint32_t first = 0; first < 2; first++)
        for (uint32_t silent = 0; silent < 3; silent++) { /* 2: neither is */
            WORLD(w, two_to_one);
            const char *said[] = {"rank 0", "rank 1"};
            baton_id_t d = want(&w, 2, 5000);
            offer(&w, first, said[first], first == silent ? 0 : 6);
            world_run(&w, 600 * MS);
            offer(&w, 1 - first, said[1 - first], 1 - first == silent ? 0 : 6);
            DONE_AFTER(&w, 2, d, 3000 * MS);
            assert_attached(&w, 2, d, said[silent == 0 ? 1 : 0], 6);
            world_fini(&w);
        }
}

static int drop_first_grant(struct world *w, const struct world_message *m)
{
    return m->m.type == WIRE_GRANT && w->sent[WIRE_GRANT] == 1 ? 0 : 1;
}

static void a_lost_grant_loses_no_bytes(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    w.rule = drop_first_grant;
    offer(&w, 0, "token", 5);
    baton_id_t d = want(&w, 1, 5000);
    DONE_AFTER(&w, 1, d, 4000 * MS);
    assert_attached(&w, 1, d, "token", 5);
    world_fini(&w);
}

static void a_want_that_fails_has_none(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    w.move_ns = 3000 * MS;
    offer(&w, 0, "token", 5);
    baton_id_t d = want(&w, 1, 500);
    world_run(&w, 8000 * MS);
    assert_int_equal(world_event(&w, 1, d)->status, BATON_STATUS_EXPIRED);
    assert_attached(&w, 1, d, NULL, 0);
    world_fini(&w);
}

/* The producer attached bytes to what it granted, and then fell silent. */
static void an_event_of_a_want_that_is_given_up_has_none(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, one_to_one);
    w.settings.quiet_ms = 300;
    w.settings.peer_ms = 1000;
    w.settings.chunk_bytes = 64;
    w.move_ns = 200 * MS;
    offer(&w, 0, "token", 5);
    baton_id_t d = want(&w, 1, 500);
    world_run(&w, 30 * MS);
    w.ranks[0].stopped = true;
    world_run(&w, 2000 * MS);
    const baton_event_t *e = world_given_up(&w, 1, d);
    assert_non_null(e);
    assert_int_equal(e->num_attach, 0);
    assert_int_equal(e->attach[0], 0);
    w.ranks[0].stopped = false;
    world_run(&w, 40000 * MS);
    assert_attached(&w, 1, d, NULL, 0);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_with_the_end_of_a_want),
        cmocka_unit_test(one_rank_speaks_for_its_engine),
        cmocka_unit_test(a_lost_grant_loses_no_bytes),
        cmocka_unit_test(a_want_that_fails_has_none),
        cmocka_unit_test(an_event_of_a_want_that_is_given_up_has_none),
    };
    return WORLD_ALL_WAYS(tests);
}
