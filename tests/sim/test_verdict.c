/* SPDX-License-Identifier: BSD-3-Clause */
/* Verdicts: what the ranks of an engine hear of a request as a whole. */
#include "core_inside.h"
#include "with_world.h"

#include <stdio.h>
#include <string.h>

static const struct world_engine two_to_two[] = {
    {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32, .verdicts = BATON_VERDICTS_ALL},
    {.name = "D", .tp = 2, .heads_total = 4, .num_blocks = 32, .verdicts = BATON_VERDICTS_ALL},
};
static const struct world_engine led[] = {
    {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
    {.name = "D", .tp = 2, .heads_total = 4, .num_blocks = 32, .verdicts = BATON_VERDICTS_LEADER},
};

#define VERDICT(w, rank, id, wanted_status, wanted_error, wanted_peer)                                                 \
    do {                                                                                                               \
        const baton_event_t *verdict_ = world_verdict(w, rank, id);                                                    \
        assert_non_null(verdict_);                                                                                     \
        assert_int_equal(verdict_->status, wanted_status);                                                             \
        assert_int_equal(verdict_->error, wanted_error);                                                               \
        assert_int_equal(world_peer(w, verdict_), wanted_peer);                                                        \
    } while (0)

static void offers(struct world *w, const char *key, baton_id_t id[2])
{
    for (uint32_t i = 0; i < 2; i++)
        id[i] = world_offer(w, i, key, 0, 1, 8, 60000);
}

static void test_done_when_all_are_done(void **state)
{
    (void)state;
    WORLD(w, two_to_two);
    baton_id_t o[2], d[2];
    offers(&w, "key", o);
    d[0] = world_want(&w, 2, "P", "key", 0, 1, 8, 5000);
    world_run(&w, 100 * MS);
    assert_int_equal(world_event(&w, 2, d[0])->status, BATON_STATUS_DONE);
    assert_int_equal(world_event(&w, 2, d[0])->verdict, BATON_VERDICT_FOLLOWS);
    assert_null(world_verdict(&w, 2, d[0]));
    d[1] = world_want(&w, 3, "P", "key", 0, 1, 8, 5000);
    world_run(&w, 200 * MS);
    for (uint32_t i = 0; i < 2; i++) {
        VERDICT(&w, 2 + i, d[i], BATON_STATUS_DONE, 0, -1);
        VERDICT(&w, i, o[i], BATON_STATUS_DONE, 0, -1);
        assert_int_equal(world_verdict(&w, 2 + i, d[i])->of, BATON_EVENT_WANT);
        assert_int_equal(world_verdict(&w, i, o[i])->of, BATON_EVENT_OFFER);
        assert_string_equal(world_verdict(&w, i, o[i])->key, "key");
        assert_int_equal(HASH_COUNT(verdicts_of(w.ranks[i].core)->reports), 0);
        assert_int_equal(HASH_COUNT(verdicts_of(w.ranks[2 + i].core)->reports), 0);
    }
    world_fini(&w);
}

static void test_the_worst_is_told_with_its_rank(void **state)
{
    (void)state;
    WORLD(w, two_to_two);
    baton_id_t o[2], d[2];
    offers(&w, "key", o);
    for (uint32_t i = 0; i < 2; i++)
        d[i] = world_want(&w, 2 + i, "P", "key", 0, 1, i == 1 ? 9 : 8, 5000); /* one more than offered */
    world_run(&w, 100 * MS);
    for (uint32_t i = 0; i < 2; i++) {
        VERDICT(&w, 2 + i, d[i], BATON_STATUS_FAILED, BATON_ETOKENS, 3);
        assert_string_equal(world_verdict(&w, 2 + i, d[i])->detail, "9 tokens wanted, 8 offered");
    }
    world_fini(&w);
}

/* A verdict comes at the moment the call ends: it names that call, not an unknown one. */
static void test_a_verdict_of_a_call_that_just_ended(void **state)
{
    (void)state;
    WORLD(w, two_to_two);
    struct core *core = w.ranks[3].core;
    struct wire_message m = {.type = WIRE_VERDICT,
                             .verdict = {.verb = CALL_WANT,
                                         .producer = core->c.directory->rows[0].number,
                                         .status = BATON_STATUS_FAILED,
                                         .error = BATON_ETIMEDOUT,
                                         .member = core->c.directory->rows[3].number,
                                         .name.key = "key"}};
    baton_id_t d = world_want(&w, 3, "P", "key", 0, 1, 8, 5000);
    world_run(&w, 100 * MS);
    assert_true(want_cancel(core, d));
    assert_non_null(core->outcomes.news.first);
    core->above.hooks->message(core, 2, &m);
    world_run(&w, 130000 * MS);
    for (int i = 0; i < w.ranks[3].num_events; i++)
        assert_int_equal(w.ranks[3].events[i].id, d);
    assert_non_null(world_verdict(&w, 3, d));
    world_fini(&w);
}

/* A verdict names nobody, or a member of the engine. */
static void test_a_verdict_that_names_a_stranger(void **state)
{
    (void)state;
    WORLD(w, two_to_two);
    struct core *core = w.ranks[3].core;
    const struct directory_row *rows = core->c.directory->rows;
    const uint64_t members[] = {UINT64_MAX, rows[0].number, rows[2].number};
    for (uint32_t i = 0; i < 3; i++) {
        struct wire_message m = {.type = WIRE_VERDICT,
                                 .verdict = {.verb = CALL_WANT,
                                             .producer = rows[0].number,
                                             .status = BATON_STATUS_FAILED,
                                             .error = BATON_ETIMEDOUT,
                                             .member = members[i],
                                             .name.key = "key"}};
        core->above.hooks->message(core, 2, &m);
        assert_int_equal(world_stats(&w, 3).messages_bad, i < 2 ? i + 1 : 2);
    }
    world_run(&w, 100 * MS);
    VERDICT(&w, 3, 0, BATON_STATUS_FAILED, BATON_ETIMEDOUT, 2);
    world_fini(&w);
}

/* Cancelled at one rank and expired at another: the worse of the two is told. */
static void test_expired_is_worse_than_cancelled(void **state)
{
    (void)state;
    WORLD(w, two_to_two);
    baton_id_t d[2];
    for (uint32_t i = 0; i < 2; i++)
        d[i] = world_want(&w, 2 + i, "P", "key", 0, 1, 8, 50);
    world_run(&w, 20 * MS);
    world_cancel(&w, 2, d[0]);
    world_run(&w, 30 * MS);
    assert_null(world_verdict(&w, 2, d[0]));
    world_run(&w, 100 * MS);
    for (uint32_t i = 0; i < 2; i++)
        VERDICT(&w, 2 + i, d[i], BATON_STATUS_EXPIRED, BATON_ETIMEDOUT, 3);
    world_fini(&w);
}

static int all_twice(struct world *w, const struct world_message *m)
{
    (void)w, (void)m;
    return 2;
}

/* A report that one rank repeats counts once. */
static void test_identity_not_counting(void **state)
{
    (void)state;
    WORLD(w, two_to_two);
    baton_id_t o[2];
    offers(&w, "key", o);
    w.rule = all_twice;
    baton_id_t d = world_want(&w, 3, "P", "key", 0, 1, 8, 5000);
    world_run(&w, 8000 * MS); /* the report is sent again meanwhile */
    assert_true(w.sent[WIRE_REPORT] > 3);
    assert_int_equal(verdicts_of(w.ranks[2].core)->num_rounds, 1);
    assert_null(world_verdict(&w, 3, d));
    baton_id_t first = world_want(&w, 2, "P", "key", 0, 1, 8, 5000);
    world_run(&w, 9000 * MS);
    VERDICT(&w, 3, d, BATON_STATUS_DONE, 0, -1);
    VERDICT(&w, 2, first, BATON_STATUS_DONE, 0, -1);
    world_fini(&w);
}

/* A rank retries before the other has ended its first attempt: rounds do not mix. */
static void test_attempts_do_not_mix(void **state)
{
    (void)state;
    WORLD(w, two_to_two);
    baton_id_t a[2], b[2], o[2];
    a[0] = world_want(&w, 2, "P", "key", 0, 1, 8, 10);
    a[1] = world_want(&w, 3, "P", "key", 0, 1, 8, 200);
    world_run(&w, 50 * MS);
    b[0] = world_want(&w, 2, "P", "key", 0, 1, 8, 5000);
    world_run(&w, 60 * MS);
    offers(&w, "key", o);
    world_run(&w, 100 * MS);
    VERDICT(&w, 2, a[0], BATON_STATUS_EXPIRED, BATON_ETIMEDOUT, 2);
    VERDICT(&w, 3, a[1], BATON_STATUS_EXPIRED, BATON_ETIMEDOUT, 2); /* though its own want is done */
    assert_null(world_verdict(&w, 2, b[0]));
    b[1] = world_want(&w, 3, "P", "key", 0, 1, 0, 5000); /* it holds all tokens and needs nothing */
    world_run(&w, 200 * MS);
    for (uint32_t i = 0; i < 2; i++)
        VERDICT(&w, 2 + i, b[i], BATON_STATUS_DONE, 0, -1);
    world_fini(&w);
}

static void test_a_silent_rank_is_named(void **state)
{
    (void)state;
    WORLD(w, two_to_two);
    w.settings.verdict_ms = 1000;
    baton_id_t o[2];
    offers(&w, "key", o);
    baton_id_t d = world_want(&w, 2, "P", "key", 0, 1, 8, 5000);
    world_run(&w, 2000 * MS);
    VERDICT(&w, 2, d, BATON_STATUS_FAILED, BATON_ETIMEDOUT, 3);
    assert_string_equal(world_verdict(&w, 2, d)->detail, "1 silent: it has no such want open");
    VERDICT(&w, 3, 0, BATON_STATUS_FAILED, BATON_ETIMEDOUT, 3); /* it hears so too, without a call of its own */
    baton_id_t late = world_want(&w, 3, "P", "key", 0, 1, 8, 5000);
    world_run(&w, 3000 * MS);
    VERDICT(&w, 3, late, BATON_STATUS_FAILED, BATON_ETIMEDOUT, 3);
    world_fini(&w);
}

/* The silent rank waits for a handshake: the others hear that. */
static void test_a_pending_handshake_is_visible(void **state)
{
    (void)state;
    static const struct world_engine engines[] = {
        {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
        {.name = "D", .tp = 2, .heads_total = 4, .num_blocks = 32, .verdicts = BATON_VERDICTS_ALL}};
    WORLD(w, engines);
    w.settings.verdict_ms = 1000;
    w.ranks[1].card_delay_ns = 60000 * MS;
    world_offer(&w, 0, "key", 0, 1, 8, 60000);
    baton_id_t d = world_want(&w, 2, "P", "key", 0, 1, 8, 5000), slow = world_want(&w, 3, "P", "key", 0, 1, 8, 20000);
    world_run(&w, 1500 * MS);
    VERDICT(&w, 2, d, BATON_STATUS_FAILED, BATON_ETIMEDOUT, 3);
    const char *detail = world_verdict(&w, 2, d)->detail;
    assert_non_null(strstr(detail, "1 silent: its handshake with engine P has 0 of 1 ranks after"));
    VERDICT(&w, 3, slow, BATON_STATUS_FAILED, BATON_ETIMEDOUT, 3); /* before its own end */
    assert_null(world_event(&w, 3, slow));
    world_cancel(&w, 3, slow);
    world_run(&w, 1600 * MS);
    assert_int_equal(world_event(&w, 3, slow)->verdict, BATON_VERDICT_CAME);
    world_run(&w, 30000 * MS);
    assert_non_null(world_verdict(&w, 3, slow)); /* still one */
    world_fini(&w);
}

static void test_a_rank_that_does_not_answer_is_named(void **state)
{
    (void)state;
    WORLD(w, two_to_two);
    w.settings.verdict_ms = 1000;
    w.settings.peer_ms = 60000;
    baton_id_t o[2];
    offers(&w, "key", o);
    baton_id_t d = world_want(&w, 2, "P", "key", 0, 1, 8, 5000);
    w.ranks[3].stopped = true;
    world_run(&w, 2000 * MS);
    VERDICT(&w, 2, d, BATON_STATUS_FAILED, BATON_ETIMEDOUT, 3);
    assert_string_equal(world_verdict(&w, 2, d)->detail, "1 silent: it does not answer");
    w.ranks[3].stopped = false;
    world_run(&w, 3000 * MS);
    world_fini(&w);
}

static void test_a_lost_rank_ends_the_round_at_once(void **state)
{
    (void)state;
    WORLD(w, two_to_two);
    w.settings.peer_ms = 1500;
    baton_id_t o[2];
    offers(&w, "key", o);
    baton_id_t d = world_want(&w, 2, "P", "key", 0, 1, 8, 5000);
    w.ranks[3].stopped = true;
    world_run(&w, 4000 * MS);
    VERDICT(&w, 2, d, BATON_STATUS_FAILED, BATON_EPEER, 3);
    w.ranks[3].stopped = false;
    world_run(&w, 9000 * MS);
    world_fini(&w);
}

/* If the first rank is lost, which tells verdicts, the others find that themselves. */
static void test_a_lost_leader_is_named(void **state)
{
    (void)state;
    WORLD(w, two_to_two);
    w.settings.peer_ms = 1500;
    baton_id_t o[2];
    offers(&w, "key", o);
    w.ranks[2].stopped = true;
    baton_id_t d = world_want(&w, 3, "P", "key", 0, 1, 8, 5000);
    world_run(&w, 4000 * MS);
    assert_int_equal(world_event(&w, 3, d)->status, BATON_STATUS_DONE);
    VERDICT(&w, 3, d, BATON_STATUS_FAILED, BATON_EPEER, 2);
    w.ranks[2].stopped = false;
    world_run(&w, 9000 * MS);
    world_fini(&w);
}

static void test_the_leader_alone(void **state)
{
    (void)state;
    WORLD(w, led);
    baton_id_t o[2], d[2];
    offers(&w, "key", o);
    for (uint32_t i = 0; i < 2; i++)
        d[i] = world_want(&w, 2 + i, "P", "key", 0, 1, 8, 5000);
    world_run(&w, 100 * MS);
    VERDICT(&w, 2, d[0], BATON_STATUS_DONE, 0, -1);
    assert_null(world_verdict(&w, 3, d[1]));
    assert_int_equal(world_event(&w, 3, d[1])->verdict, BATON_VERDICT_NONE);
    assert_int_equal(world_event(&w, 0, o[0])->verdict, BATON_VERDICT_NONE);
    assert_int_equal(HASH_COUNT(verdicts_of(w.ranks[3].core)->reports), 0);
    world_fini(&w);
}

/* A rank without a cache makes no calls, but hears verdicts all the same. */
static void test_bare_ranks_hear(void **state)
{
    (void)state;
    static const struct world_engine engines[] = {
        {.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 8},
        {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 8, .bare_first = true, .verdicts = BATON_VERDICTS_ALL}};
    WORLD(w, engines);
    world_offer(&w, 0, "key", 0, 1, 8, 60000);
    baton_id_t d = world_want(&w, 2, "P", "key", 0, 1, 8, 5000);
    world_run(&w, 100 * MS);
    VERDICT(&w, 2, d, BATON_STATUS_DONE, 0, -1);
    VERDICT(&w, 1, 0, BATON_STATUS_DONE, 0, -1);
    assert_string_equal(world_verdict(&w, 1, 0)->key, "key");
    world_fini(&w);
}

/* More rounds than there is room for: the oldest ends, and says why. */
static void test_rounds_are_bounded(void **state)
{
    (void)state;
    WORLD(w, two_to_two);
    w.settings.requests = 4;
    baton_id_t d[10];
    for (uint32_t i = 0; i < 10; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%u", i);
        d[i] = world_want(&w, 2, "P", key, 0, 1, 0, 5000);
        world_run(&w, w.now + 5 * MS);
    }
    assert_int_equal(verdicts_of(w.ranks[2].core)->num_rounds - verdicts_of(w.ranks[2].core)->num_closed, 8);
    for (uint32_t i = 0; i < 2; i++)
        VERDICT(&w, 2, d[i], BATON_STATUS_FAILED, BATON_EAGAIN, 3);
    assert_null(world_verdict(&w, 2, d[2]));
    world_fini(&w);
}

static int no_verdicts(struct world *w, const struct world_message *m)
{
    (void)w;
    return m->m.type == WIRE_VERDICT ? 0 : 1;
}

static void test_a_verdict_that_never_comes(void **state)
{
    (void)state;
    WORLD(w, two_to_two);
    w.settings.verdict_ms = 1000;
    w.rule = no_verdicts;
    baton_id_t o[2], d[2];
    offers(&w, "key", o);
    for (uint32_t i = 0; i < 2; i++)
        d[i] = world_want(&w, 2 + i, "P", "key", 0, 1, 8, 5000);
    world_run(&w, 2500 * MS);
    VERDICT(&w, 2, d[0], BATON_STATUS_DONE, 0, -1);
    VERDICT(&w, 3, d[1], BATON_STATUS_FAILED, BATON_ETIMEDOUT, 2);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_done_when_all_are_done),
        cmocka_unit_test(test_the_worst_is_told_with_its_rank),
        cmocka_unit_test(test_a_verdict_of_a_call_that_just_ended),
        cmocka_unit_test(test_a_verdict_that_names_a_stranger),
        cmocka_unit_test(test_expired_is_worse_than_cancelled),
        cmocka_unit_test(test_identity_not_counting),
        cmocka_unit_test(test_attempts_do_not_mix),
        cmocka_unit_test(test_a_silent_rank_is_named),
        cmocka_unit_test(test_a_pending_handshake_is_visible),
        cmocka_unit_test(test_a_rank_that_does_not_answer_is_named),
        cmocka_unit_test(test_a_lost_rank_ends_the_round_at_once),
        cmocka_unit_test(test_a_lost_leader_is_named),
        cmocka_unit_test(test_the_leader_alone),
        cmocka_unit_test(test_bare_ranks_hear),
        cmocka_unit_test(test_rounds_are_bounded),
        cmocka_unit_test(test_a_verdict_that_never_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
