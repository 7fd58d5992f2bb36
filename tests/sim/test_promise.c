/* SPDX-License-Identifier: BSD-3-Clause */
/* The promise: each call is answered in time, and its terminal event comes once its blocks are quiet, never before. */
#include "core/ends.h"
#include "with_world.h"

#define TOKENS 32
#define QUIET_MS 300
#define PEER_MS 1000

static const struct world_engine one_to_one[] = {{.name = "P", .tp = 1, .heads_total = 4, .num_blocks = 32},
                                                 {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32}};

static void patient(struct world *w)
{
    w->settings.quiet_ms = QUIET_MS;
    w->settings.peer_ms = PEER_MS;
    world_fill(w, 0, 5, 0, 1, TOKENS);
    world_poison(w, w->num_ranks - 1);
}

/* Makes bytes take long, in many pieces. */
static void slow(struct world *w)
{
    patient(w);
    w->move_ns = 200 * MS;
    w->settings.chunk_bytes = 64;
}

struct calls {
    baton_id_t offer, want;
};

/* Rank 1 wants what rank 0 offers, within time_ms. When this returns, bytes are moving. */
static struct calls moving(struct world *w, uint64_t time_ms)
{
    struct calls c;
    c.offer = world_offer(w, 0, "key", 0, 1, TOKENS, 60000);
    c.want = world_want(w, 1, "P", "key", 0, 1, TOKENS, time_ms);
    world_run(w, 30 * MS);
    return c;
}

static uint64_t given_up_ns(struct world *w, uint32_t rank, baton_id_t id)
{
    const baton_event_t *e = world_given_up(w, rank, id);
    return e != NULL ? w->ranks[rank].event_at[e - w->ranks[rank].events] : 0;
}

/* The call was given up between the two times, for that reason, and has no terminal event yet. */
static void assert_given_up(struct world *w, uint32_t rank, baton_id_t id, int error, uint64_t from, uint64_t to)
{
    const baton_event_t *e = world_given_up(w, rank, id);
    assert_non_null(e);
    assert_int_equal(e->error, error);
    assert_int_not_equal(e->status, BATON_STATUS_DONE);
    assert_in_range(given_up_ns(w, rank, id), from, to);
    assert_null(world_event(w, rank, id));
}

/* The call ended as its GIVEN_UP said. */
static void assert_ended_so(struct world *w, uint32_t rank, baton_id_t id)
{
    const baton_event_t *told = world_given_up(w, rank, id), *e = world_event(w, rank, id);
    assert_true(told != NULL && e != NULL);
    assert_int_equal(e->given_up, 1);
    assert_int_equal(e->status, told->status);
    assert_int_equal(e->error, told->error);
}

/* A producer falls silent while bytes move; much later it goes on. */
static void test_a_silent_producer(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, one_to_one);
    slow(&w);
    struct calls c = moving(&w, 60000);
    w.ranks[0].stopped = true;
    world_run(&w, 20000 * MS);
    uint64_t lost = PEER_MS * MS + w.settings.beat_ms * MS + 30 * MS;
    assert_given_up(&w, 1, c.want, BATON_EPEER, QUIET_MS * MS, lost + QUIET_MS * MS);
    baton_stats_t stats;
    core_stats(w.ranks[1].core, &stats);
    assert_int_equal(stats.given_up, 1);
    assert_int_equal(stats.quarantined, 1);
    assert_true(core_is_given_up(w.ranks[1].core));
    w.ranks[0].stopped = false;
    world_run(&w, 40000 * MS);
    assert_ended_so(&w, 1, c.want);
    core_stats(w.ranks[1].core, &stats);
    assert_int_equal(stats.quarantined, 0);
    world_fini(&w);
}

static const struct world_engine two_to_one[] = {{.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
                                                 {.name = "D", .tp = 1, .heads_total = 4, .num_blocks = 32}};

/*
 * One of two producers falls silent while bytes move from it, and the want is given up. The other one, whose bytes have
 * come or still move, hears of that with the GIVEN_UP, though the terminal event comes much later.
 */
static void test_the_other_producer_of_a_want_that_is_given_up(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    for (int both = 0; both < 2; both++) {
        WORLD(w, two_to_one);
        baton_id_t o[2];
        slow(&w);
        w.move_ns = both ? 200 * MS : MS;
        w.ranks[0].move_extra_ns = 200 * MS;
        w.ranks[2].move_extra_ns = 200 * MS; /* of a push */
        for (uint32_t i = 0; i < 2; i++)
            o[i] = world_offer(&w, i, "key", 0, 1, TOKENS, 60000);
        baton_id_t d = world_want(&w, 2, "P", "key", 0, 1, TOKENS, 60000);
        world_run(&w, 30 * MS);
        w.ranks[0].stopped = true;
        while (world_given_up(&w, 2, d) == NULL && w.now < 10000 * MS)
            world_run(&w, w.now + 10 * MS);
        assert_given_up(&w, 2, d, BATON_EPEER, 0, UINT64_MAX);
        world_run(&w, w.now + 50 * MS);
        ENDED(&w, 1, o[1], BATON_STATUS_FAILED, BATON_EPEER);
        assert_int_equal(world_peer(&w, world_event(&w, 1, o[1])), 2);
        world_run(&w, w.now + 2000 * MS);
        assert_null(world_event(&w, 2, d));
        uint32_t before = w.sent[WIRE_DONE] + w.sent[WIRE_CANCEL] + w.sent[WIRE_RELEASE];
        w.ranks[0].stopped = false;
        world_run(&w, w.now + 20000 * MS);
        assert_ended_so(&w, 2, d);
        assert_non_null(world_event(&w, 0, o[0]));
        assert_true(w.sent[WIRE_DONE] + w.sent[WIRE_CANCEL] + w.sent[WIRE_RELEASE] <= before + 2); /* rank 0 alone */
        assert_int_equal(ends_owed(w.ranks[2].core), 0);
        world_fini(&w);
    }
}

/* The deadline comes before the loss is noticed: the answer still comes in time. */
static void test_a_deadline_while_bytes_move(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, one_to_one);
    slow(&w);
    struct calls c = moving(&w, 500);
    w.ranks[0].stopped = true;
    world_run(&w, (501 + QUIET_MS) * MS - 1); /* the world begins at 1 ms */
    assert_null(world_given_up(&w, 1, c.want));
    world_run(&w, (501 + QUIET_MS) * MS);
    assert_given_up(&w, 1, c.want, BATON_ETIMEDOUT, 0, UINT64_MAX);
    baton_id_t again = world_want(&w, 1, "P", "key", 16, 1, TOKENS, 500); /* its name is free */
    w.ranks[0].stopped = false;
    world_run(&w, 4000 * MS);
    assert_ended_so(&w, 1, c.want);
    assert_non_null(world_event(&w, 1, again));
    assert_int_not_equal(world_event(&w, 1, again)->error, BATON_EEXIST);
    world_fini(&w);
}

/* Quiet in time: nothing is given up. */
static void test_what_is_quiet_in_time_is_not_given_up(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    slow(&w);
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, TOKENS, 60000);
    baton_id_t d = world_want(&w, 1, "P", "key", 0, 1, TOKENS, 100);
    world_run(&w, 5000 * MS);
    ENDED(&w, 1, d, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    assert_int_equal(world_event(&w, 1, d)->given_up, 0);
    assert_non_null(world_event(&w, 0, o));
    assert_null(world_given_up(&w, 0, o));
    world_fini(&w);
}

/* The producer still reads the offer's blocks for what it writes to a consumer that fell silent. */
static void test_a_silent_consumer(void **state)
{
    (void)state;
    if (world_mode == BATON_MODE_PULL)
        return; /* a consumer that reads does so under a generation, which ends with the offer */
    WORLD(w, one_to_one);
    slow(&w);
    struct calls c = moving(&w, 60000);
    w.ranks[1].stopped = true;
    world_run(&w, 80000 * MS);
    uint64_t lost = PEER_MS * MS + w.settings.beat_ms * MS + 30 * MS;
    assert_given_up(&w, 0, c.offer, BATON_EPEER, QUIET_MS * MS, lost + QUIET_MS * MS); /* not at its time to live */
    w.ranks[1].stopped = false;
    world_run(&w, 90000 * MS);
    assert_ended_so(&w, 0, c.offer);
    world_fini(&w);
}

/* ---- what the port cannot account for ---------------------------------------------------------------------------- */

static const struct world_engine replicas[] = {{.name = "P", .tp = 2, .heads_total = 1, .num_blocks = 32},
                                               {.name = "D", .tp = 1, .heads_total = 1, .num_blocks = 64}};

static struct {
    struct port real;
    uint32_t fails; /* moves that are refused from now on */
    uint64_t astray;
} shim;

static int64_t move_fails(void *self, const struct path_leg *leg, uint64_t budget)
{
    if (shim.fails == 0)
        return shim.real.path.move(self, leg, budget);
    shim.fails--;
    shim.astray = leg->tag;
    return BATON_EMPI;
}

static enum path_park never(void *self, uint32_t peer, uint64_t tag)
{
    enum path_park answer = shim.real.path.park(self, peer, tag);
    return tag == shim.astray ? PATH_PARK_NEVER : answer;
}

/* One of several operations of a failed move may still land. It could overwrite a replica's bytes, so none is asked. */
static void test_no_replica_after_a_stray(void **state)
{
    (void)state;
    if (world_mode == BATON_MODE_PUSH)
        return;
    for (uint32_t before = 0; before < 2; before++) {
        WORLD(w, replicas);
        patient(&w);
        world_fill(&w, 1, 5, 0, 1, TOKENS);
        w.settings.chunk_bytes = 64;
        shim.real = w.ranks[2].port;
        shim.fails = 1;
        w.ranks[2].port.path.move = move_fails;
        w.ranks[2].port.path.park = never;
        world_offer(&w, 0, "key", 0, 1, TOKENS, 60000);
        world_offer(&w, 1, "key", 0, 1, TOKENS, 60000);
        baton_id_t d = world_want(&w, 2, "P", "key", 0, 1, TOKENS, 1000);
        world_run(&w, 30000 * MS);
        assert_given_up(&w, 2, d, BATON_EMPI, 0, (1001 + QUIET_MS) * MS);
        baton_stats_t stats;
        core_stats(w.ranks[2].core, &stats);
        assert_int_equal(stats.retries, 0);
        baton_id_t again = world_want(&w, 2, "P", "key", 32, 1, TOKENS, 1000);
        world_run(&w, 32000 * MS);
        if (world_event(&w, 2, again)->status == BATON_STATUS_DONE)
            assert_int_equal(world_wrong(&w, 2, 5, 32, 1, TOKENS), 0);
        assert_null(world_event(&w, 2, d));
        w.ranks[2].is_dead = true; /* it never comes to rest: close reports that */
        world_fini(&w);
    }
}

/* ---- the dead ---------------------------------------------------------------------------------------------------- */

static enum port_alive alive_answer;
static bool ended_answer;

static enum port_alive alive(void *self, uint32_t peer)
{
    (void)self, (void)peer;
    return alive_answer;
}

static bool ended(void *self, uint32_t peer)
{
    (void)self, (void)peer;
    return ended_answer;
}

/* A producer dies while it writes. Its bytes may still be on their way until the transport says that they are not. */
static void test_death_is_not_the_end_of_its_bytes(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, one_to_one);
    slow(&w);
    alive_answer = PORT_ALIVE;
    ended_answer = false;
    w.ranks[1].port.alive = alive;
    w.ranks[1].port.path.ended = ended;
    struct calls c = moving(&w, 60000);
    w.ranks[0].stopped = w.ranks[0].is_dead = true;
    alive_answer = PORT_DEAD;
    world_run(&w, 10000 * MS);
    assert_given_up(&w, 1, c.want, BATON_EPEER, 0, (30 + QUIET_MS + 2 * 500) * MS);
    ended_answer = true;
    world_run(&w, 11000 * MS);
    assert_ended_so(&w, 1, c.want);
    world_fini(&w);
}

static bool is_mute;

static int mute(struct world *w, const struct world_message *m)
{
    (void)w;
    return is_mute && m->from == 0 ? 0 : 1;
}

static enum path_park never_any(void *self, uint32_t peer, uint64_t tag)
{
    shim.real.path.park(self, peer, tag);
    return PATH_PARK_NEVER;
}

static enum port_alive first_alive(void *self, uint32_t peer)
{
    (void)self;
    return peer == 0 ? alive_answer : PORT_ALIVE;
}

/*
 * A read failed, and some of its bytes may still land. Once the connection to its peer has ended they cannot, so the
 * same is read from another rank.
 */
static void test_after_its_connection_ended_another_is_read(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    if (world_mode == BATON_MODE_PUSH)
        return;
    WORLD(w, replicas);
    patient(&w);
    world_fill(&w, 1, 5, 0, 1, TOKENS);
    w.settings.resend_ms = 4000;
    w.settings.peer_ms = 60000;
    w.move_ns = 100 * MS;
    w.rule = mute;
    is_mute = false;
    alive_answer = PORT_ALIVE;
    ended_answer = true;
    shim.real = w.ranks[2].port;
    w.ranks[2].port.path.park = never_any;
    w.ranks[2].port.alive = first_alive;
    w.ranks[2].port.path.ended = ended;
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, TOKENS, 60000);
    world_offer(&w, 1, "key", 0, 1, TOKENS, 60000);
    baton_id_t d = world_want(&w, 2, "P", "key", 0, 1, TOKENS, 60000);
    world_run(&w, 30 * MS);
    is_mute = true;
    world_cancel(&w, 0, o);
    world_run(&w, 3000 * MS);
    assert_null(world_event(&w, 2, d));
    alive_answer = PORT_DEAD;
    w.ranks[0].stopped = w.ranks[0].is_dead = true;
    world_run(&w, 9000 * MS);
    DONE(&w, 2, d);
    assert_int_equal(world_wrong(&w, 2, 5, 0, 1, TOKENS), 0);
    world_fini(&w);
}

/* What was sent to a dead consumer harms nobody: the offer ends at once. */
static void test_a_dead_consumer_frees_what_is_sent(void **state)
{
    (void)state;
    if (world_mode == BATON_MODE_PULL)
        return;
    WORLD(w, one_to_one);
    slow(&w);
    alive_answer = PORT_ALIVE;
    ended_answer = false;
    w.ranks[0].port.alive = alive;
    w.ranks[0].port.path.ended = ended;
    struct calls c = moving(&w, 60000);
    w.ranks[1].stopped = w.ranks[1].is_dead = true;
    alive_answer = PORT_DEAD;
    world_run(&w, 2000 * MS);
    ENDED(&w, 0, c.offer, BATON_STATUS_FAILED, BATON_EPEER);
    assert_null(world_given_up(&w, 0, c.offer));
    world_fini(&w);
}

/* ---- engines ----------------------------------------------------------------------------------------------------- */

/* To the engine, a call that was given up has failed. */
static void test_a_verdict_counts_it_as_failed(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    static const struct world_engine engines[] = {
        {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
        {.name = "D", .tp = 2, .heads_total = 4, .num_blocks = 32, .verdicts = BATON_VERDICTS_ALL}};
    WORLD(w, engines);
    slow(&w);
    for (uint32_t i = 0; i < 2; i++)
        world_offer(&w, i, "key", 0, 1, TOKENS, 60000);
    baton_id_t d[2];
    for (uint32_t i = 0; i < 2; i++)
        d[i] = world_want(&w, 2 + i, "P", "key", 0, 1, TOKENS, 60000);
    world_run(&w, 30 * MS);
    w.ranks[1].stopped = true;
    world_run(&w, 10000 * MS);
    DONE(&w, 2, d[0]);
    assert_given_up(&w, 3, d[1], BATON_EPEER, 0, UINT64_MAX);
    for (uint32_t i = 0; i < 2; i++) {
        const baton_event_t *v = world_verdict(&w, 2 + i, d[i]);
        assert_non_null(v);
        assert_int_equal(v->status, BATON_STATUS_FAILED);
        assert_int_equal(world_peer(&w, v), 3);
    }
    w.ranks[1].stopped = false;
    world_run(&w, 20000 * MS);
    assert_ended_so(&w, 3, d[1]);
    world_fini(&w);
}

/* The watchdog gave a call up: the core ends the call as the watchdog said, and its name is free at once. */
static void test_given_up_from_outside(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    slow(&w);
    struct calls c = moving(&w, 60000);
    core_give_up(w.ranks[1].core, w.now, c.want, BATON_STATUS_FAILED, BATON_ESTALL, "stuck");
    core_give_up(w.ranks[0].core, w.now, c.offer, BATON_STATUS_FAILED, BATON_ESTALL, "stuck");
    core_give_up(w.ranks[0].core, w.now, c.offer, BATON_STATUS_FAILED, BATON_ESTALL, "stuck"); /* does no harm */
    world_run(&w, 2000 * MS);
    ENDED(&w, 1, c.want, BATON_STATUS_FAILED, BATON_ESTALL);
    ENDED(&w, 0, c.offer, BATON_STATUS_FAILED, BATON_ESTALL);
    world_given_up(&w, 0, c.offer);
    world_given_up(&w, 1, c.want);
    world_fini(&w);
}

/* ---- closing ----------------------------------------------------------------------------------------------------- */

static baton_id_t written;

static void is_open(struct world *w, uint32_t from, uint32_t to)
{
    (void)from, (void)to;
    assert_null(world_event(w, 1, written));
}

/* A producer closes while it writes. Its consumer, which asks meanwhile, does not end before the last byte has come. */
static void test_a_producer_closes_while_it_writes(void **state)
{
    (void)state;
    if (world_mode == BATON_MODE_PULL)
        return;
    WORLD(w, one_to_one);
    patient(&w);
    w.move_ns = 900 * MS;
    w.settings.chunk_bytes = 64;
    w.settings.resend_ms = 50;
    w.on_move = is_open;
    world_offer(&w, 0, "key", 0, 1, TOKENS, 60000);
    written = world_want(&w, 1, "P", "key", 0, 1, TOKENS, 60000);
    world_run(&w, 30 * MS);
    core_shut(w.ranks[0].core, w.now);
    world_run(&w, 800 * MS);
    assert_null(world_event(&w, 1, written));
    world_run(&w, 5000 * MS);
    ENDED(&w, 1, written, BATON_STATUS_FAILED, BATON_ECLOSED);
    world_fini(&w);
}

/*
 * A rank that closes gives up calls that failed earlier as soon as those that fail now, however far their
 * deadlines are.
 */
static void test_closing_waits_for_no_deadline(void **state)
{
    (void)state;
    WORLD(w, one_to_one);
    patient(&w);
    w.move_ns = 5000 * MS;
    w.settings.chunk_bytes = 64;
    struct calls c = moving(&w, 60000);
    world_cancel(&w, 1, c.want);
    world_cancel(&w, 0, c.offer);
    world_run(&w, 100 * MS);
    for (uint32_t i = 0; i < 2; i++)
        core_shut(w.ranks[i].core, w.now);
    world_run(&w, (100 + QUIET_MS) * MS);
    assert_given_up(&w, 1, c.want, BATON_ECANCELED, 100 * MS, (100 + QUIET_MS) * MS);
    if (world_mode == BATON_MODE_PUSH)
        assert_given_up(&w, 0, c.offer, BATON_ECANCELED, 100 * MS, (100 + QUIET_MS) * MS);
    for (uint32_t i = 0; i < 2; i++)
        assert_true(core_is_given_up(w.ranks[i].core));
    world_run(&w, 10000 * MS);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_silent_producer),
        cmocka_unit_test(test_the_other_producer_of_a_want_that_is_given_up),
        cmocka_unit_test(test_a_deadline_while_bytes_move),
        cmocka_unit_test(test_what_is_quiet_in_time_is_not_given_up),
        cmocka_unit_test(test_a_silent_consumer),
        cmocka_unit_test(test_no_replica_after_a_stray),
        cmocka_unit_test(test_death_is_not_the_end_of_its_bytes),
        cmocka_unit_test(test_after_its_connection_ended_another_is_read),
        cmocka_unit_test(test_a_dead_consumer_frees_what_is_sent),
        cmocka_unit_test(test_a_verdict_counts_it_as_failed),
        cmocka_unit_test(test_given_up_from_outside),
        cmocka_unit_test(test_a_producer_closes_while_it_writes),
        cmocka_unit_test(test_closing_waits_for_no_deadline),
    };
    return WORLD_ALL_WAYS(tests);
}
