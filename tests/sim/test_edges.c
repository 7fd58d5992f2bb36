/* SPDX-License-Identifier: BSD-3-Clause */
/* What happens at the edges: limits that are reached, messages that cross, peers that die between two steps. */
#include "core_inside.h"
#include "with_probe.h"
#include "with_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int verdicts_told(struct world *w, uint32_t rank, const char *key)
{
    int n = 0;
    for (int i = 0; i < w->ranks[rank].num_events; i++)
        n += w->ranks[rank].events[i].type == BATON_EVENT_VERDICT && strcmp(w->ranks[rank].events[i].key, key) == 0;
    return n;
}

/*
 * A rank hashes for others even if its own legs that compare hashes fill BATON_REQUESTS. Else two such engines would
 * wait for each other.
 */
static void test_engines_that_serve_each_other_hash_for_each_other(void **state)
{
    (void)state;
    static const struct world_engine engines[] = {
        {.name = "P", .tp = 1, .heads_total = 2, .num_blocks = 32, .one_layer_each = true}, /* 2 stages, all heads */
        {.name = "D", .tp = 2, .heads_total = 2, .num_blocks = 32}, /* all layers, a head each */
    };
    WORLD(w, engines);
    w.settings.checksum = 1;
    w.settings.requests = 4; /* each rank has four calls open: two offers, two wants of two legs each */
    baton_id_t want[4][2];
    /* the handshakes come first, so that all is in step, as in a running engine */
    for (uint32_t r = 0; r < 4; r++) {
        world_want(&w, r, r < 2 ? "D" : "P", "warm", 0, 1, 8, 5);
    }
    world_run(&w, 50 * MS);
    for (uint32_t r = 0; r < 4; r++)
        for (uint32_t k = 0; k < 2; k++) {
            char key[16];
            snprintf(key, sizeof key, "%c%u", r < 2 ? 'p' : 'd', k);
            world_offer(&w, r, key, 2 * k, 1, 8, 60000);
        }
    for (uint32_t r = 0; r < 4; r++)
        for (uint32_t k = 0; k < 2; k++) {
            char key[16];
            snprintf(key, sizeof key, "%c%u", r < 2 ? 'd' : 'p', k);
            want[r][k] = world_want(&w, r, r < 2 ? "D" : "P", key, 10 + 2 * k, 1, 8, 30000);
        }
    world_run(&w, 29000 * MS);
    for (uint32_t r = 0; r < 4; r++)
        world_run(&w, 40000 * MS);
    int done = 0;
    for (uint32_t r = 0; r < 4; r++)
        for (uint32_t k = 0; k < 2; k++) {
            const baton_event_t *e = world_event(&w, r, want[r][k]);
            done += e != NULL && e->status == BATON_STATUS_DONE;
        }
    assert_int_equal(done, 8);
    world_fini(&w);
}

/* A producer that reads a consumer's card for a CHECK stops reading once the consumer is lost. */
static void test_the_card_of_a_lost_peer_is_read_no_more(void **state)
{
    (void)state;
    static const struct world_engine engines[] = {{.name = "P", .tp = 1, .heads_total = 1, .num_blocks = 8},
                                                  {.name = "D", .tp = 1, .heads_total = 1, .num_blocks = 8}};
    WORLD(w, engines);
    w.settings.checksum = 1;
    w.ranks[1].card_delay_ns = 20 * MS; /* so reading it takes a while */
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 8, 60000);
    world_want(&w, 1, "P", "key", 0, 1, 8, 2000);
    world_run(&w, 10 * MS); /* the CHECK has come, and the card is being read */
    assert_true(w.sent[WIRE_CHECK] >= 1);
    w.ranks[1].stopped = true; /* now the consumer is gone */
    world_run(&w, 100000 * MS);
    const baton_event_t *e = world_event(&w, 0, o);
    assert_non_null(e);
    assert_true(world_stats(&w, 0).peers_lost > 0);
    uint64_t before = world_stats(&w, 0).handshake_retries;
    world_run(&w, 700000 * MS);
    uint64_t after = world_stats(&w, 0).handshake_retries;
    assert_int_equal(after, before);
    world_fini(&w);
}

static const struct world_engine two_to_two[] = {
    {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
    {.name = "D", .tp = 2, .heads_total = 4, .num_blocks = 32, .verdicts = BATON_VERDICTS_ALL},
};
static const struct world_engine led[] = {
    {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
    {.name = "D", .tp = 2, .heads_total = 4, .num_blocks = 32, .verdicts = BATON_VERDICTS_LEADER},
};

/* A round that ended early to make room stays over: a late report of it does not open it anew. */
static void test_a_round_that_made_room_stays_over(void **state)
{
    (void)state;
    WORLD(w, two_to_two);
    w.settings.requests = 2; /* 4 rounds */
    w.settings.verdict_ms = 1000;
    baton_id_t a[5], b = 0;
    for (uint32_t i = 0; i < 5; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%u", i);
        a[i] = world_want(&w, 2, "P", key, 0, 1, 0, 5000);
        if (i == 0)
            b = world_want(&w, 3, "P", key, 0, 1, 8, 20); /* open: ends a little later */
        world_run(&w, w.now + MS);
    }
    (void)b;
    assert_non_null(world_verdict(&w, 2, a[0])); /* EAGAIN */
    world_run(&w, 10000 * MS);
    assert_int_equal(verdicts_told(&w, 2, "k0"), 1);
    assert_int_equal(verdicts_told(&w, 3, "k0"), 1);
    world_fini(&w);
}

/* A REPORT that is repeated after its round was closed and forgotten opens no round. */
static int lose_first_verdict_of_k0(struct world *w, const struct world_message *m)
{
    if (m->m.type == WIRE_VERDICT && strcmp(m->m.verdict.name.key, "k0") == 0 && w->user == NULL) {
        w->user = w;
        return 0;
    }
    return 1;
}
static void test_a_report_sent_again_opens_no_round(void **state)
{
    (void)state;
    WORLD(w, two_to_two);
    w.settings.requests = 2; /* 4 rounds */
    w.settings.verdict_ms = 2000;
    w.rule = lose_first_verdict_of_k0;
    baton_id_t id[6][2];
    for (uint32_t i = 0; i < 6; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%u", i);
        for (uint32_t r = 0; r < 2; r++)
            id[i][r] = world_want(&w, 2 + r, "P", key, 0, 1, 0, 5000);
        world_run(&w, w.now + 5 * MS);
    }
    world_run(&w, 20000 * MS);
    const baton_event_t *x = world_verdict(&w, 2, id[0][0]), *y = world_verdict(&w, 3, id[0][1]);
    assert_non_null(x);
    assert_non_null(y);
    assert_int_equal(verdicts_told(&w, 2, "k0"), 1);
    assert_int_equal(x->status, BATON_STATUS_DONE);
    assert_int_equal(verdicts_told(&w, 3, "k0"), 1);
    assert_int_equal(y->error, BATON_ETIMEDOUT); /* its verdict was lost, and its round is forgotten */
    world_fini(&w);
}

/* The late rank's REPORT crosses the VERDICT: that rank hears one verdict, not two. */
static void test_a_report_that_crosses_its_verdict(void **state)
{
    (void)state;
    WORLD(w, two_to_two);
    w.settings.verdict_ms = 1000;
    world_want(&w, 2, "P", "key", 0, 1, 0, 5000); /* reports now, at 1 ms: the round is over at 1001 ms */
    world_run(&w, 1001 * MS - MS / 20);
    world_want(&w, 3, "P", "key", 0, 1, 0, 5000); /* its REPORT and the VERDICT cross */
    world_run(&w, 3000 * MS);
    assert_int_equal(verdicts_told(&w, 3, "key"), 1);
    world_fini(&w);
}

/* Reports of ranks that hear no verdicts are bounded too. */
static void test_reports_are_bounded(void **state)
{
    (void)state;
    WORLD(w, led);
    w.settings.requests = 4;
    w.settings.peer_ms = 1000000; /* as on one node: a silent rank is slow, never lost */
    w.ranks[2].stopped = true;
    for (uint32_t i = 0; i < 40; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%u", i);
        world_want(&w, 3, "P", key, 0, 1, 0, 5000); /* each ends at once, and is polled */
        w.ranks[3].num_events = 0;
        world_run(&w, w.now + MS);
    }
    assert_in_range(HASH_COUNT(verdicts_of(w.ranks[3].core)->reports), 0, 3 * w.settings.requests);
    world_fini(&w);
}

/* A push that cannot be settled ends once its peer is found dead, and so does its offer. */
static enum port_alive alive_answer = PORT_UNKNOWN;
static enum port_alive alive(void *self, uint32_t peer)
{
    (void)self;
    return peer == 1 ? alive_answer : PORT_UNKNOWN;
}
static int settle_epeer(void *self, uint32_t peer, uint64_t tag)
{
    (void)self, (void)peer, (void)tag;
    return BATON_EPEER;
}
static void test_a_push_that_cannot_be_settled_ends_with_its_peer(void **state)
{
    (void)state;
    static const struct world_engine engines[] = {{.name = "P", .tp = 1, .heads_total = 1, .num_blocks = 8},
                                                  {.name = "D", .tp = 1, .heads_total = 1, .num_blocks = 8}};
    WORLD(w, engines);
    w.mode = BATON_MODE_PUSH;
    alive_answer = PORT_UNKNOWN;
    w.ranks[0].port.alive = alive;
    w.ranks[0].port.path.settle = settle_epeer; /* the peer's window is poisoned */
    w.move_ns = MS;
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 32, 60000);
    world_want(&w, 1, "P", "key", 0, 1, 32, 60000);
    world_run(&w, 30 * MS); /* all is written; it cannot be settled */
    w.ranks[1].stopped = true;
    world_run(&w, 1000 * MS);
    assert_null(world_event(&w, 0, o));
    w.ranks[1].is_dead = true;
    alive_answer = PORT_DEAD; /* now the system says that its process is gone */
    world_run(&w, 600000 * MS);
    assert_non_null(world_event(&w, 0, o));
    world_fini(&w);
}

static void give(struct world *w, uint32_t from, uint32_t to, struct wire_message *m)
{
    uint8_t data[WIRE_MESSAGE_MAX];
    m->from = 1000 + from;
    m->to = 1000 + to;
    m->number = probe_number(w->ranks[from].core, to);
    uint32_t bytes = wire_encode(m, data);
    struct port_event e = {.kind = PORT_MESSAGE, .peer = from, .data = data, .bytes = bytes};
    core_step(w->ranks[to].core, w->now, w->now, &e, 1);
}

/* The reason that a peer sends (here EAGAIN) does not decide whether the other producers are told. */
static void test_a_peers_reason_is_only_a_reason(void **state)
{
    (void)state;
    static const struct world_engine engines[] = {{.name = "P", .tp = 2, .heads_total = 2, .num_blocks = 8},
                                                  {.name = "D", .tp = 1, .heads_total = 2, .num_blocks = 8}};
    WORLD(w, engines);
    baton_id_t o = world_offer(&w, 1, "key", 0, 1, 8, 60000);
    baton_id_t d = world_want(&w, 2, "P", "key", 0, 1, 8, 30000); /* rank 1 grants; rank 0 has no offer yet */
    world_run(&w, 50 * MS);
    assert_null(world_event(&w, 1, o));
    struct wire_message m = {.type = WIRE_NACK, .want_id = d, .nack = {.asks = 1, .error = BATON_EAGAIN}};
    give(&w, 0, 2, &m);
    world_run(&w, 5000 * MS);
    const baton_event_t *e = world_event(&w, 2, d);
    assert_non_null(e);
    assert_non_null(world_event(&w, 1, o));
    world_fini(&w);
}

/* NACK EBUSY does not make a leg ask again that is over. */
static void test_a_refusal_starts_no_leg_that_is_over(void **state)
{
    (void)state;
    static const struct world_engine engines[] = {{.name = "P", .tp = 2, .heads_total = 2, .num_blocks = 8},
                                                  {.name = "D", .tp = 1, .heads_total = 2, .num_blocks = 8}};
    WORLD(w, engines);
    world_offer(&w, 0, "key", 0, 1, 8, 60000);
    baton_id_t d = world_want(&w, 2, "P", "key", 0, 1, 8, 30000);
    world_run(&w, 50 * MS); /* leg to 0 is fenced, leg to 1 asks */
    struct want *want;
    HASH_FIND(by_id, w.ranks[2].core->wants->by_id, &d, sizeof d, want);
    assert_non_null(want);
    assert_int_equal(want->legs[0].state, LEG_FENCED);
    uint32_t asks = want->legs[0].asks;
    struct wire_message m = {.type = WIRE_NACK, .want_id = d, .nack = {.asks = asks, .error = BATON_EBUSY}};
    give(&w, 0, 2, &m);
    world_run(&w, 3000 * MS);
    assert_int_equal(want->legs[0].asks, asks);
    world_fini(&w);
}

/* One key is wanted from two engines: no verdict says DONE of a want that failed at another rank. */
static void test_one_key_of_two_engines(void **state)
{
    (void)state;
    static const struct world_engine engines[] = {
        {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
        {.name = "Q", .tp = 2, .heads_total = 4, .num_blocks = 32},
        {.name = "D", .tp = 2, .heads_total = 4, .num_blocks = 32, .verdicts = BATON_VERDICTS_ALL},
    };
    WORLD(w, engines);
    world_offer(&w, 0, "key", 0, 1, 8, 60000); /* P: its second rank offers nothing */
    world_offer(&w, 3, "key", 0, 1, 8, 60000); /* Q: its first rank offers nothing */
    baton_id_t p[2], q[2];
    for (uint32_t i = 0; i < 2; i++) {
        p[i] = world_want(&w, 4 + i, "P", "key", 0, 1, 8, 300);
        q[i] = world_want(&w, 4 + i, "Q", "key", 8, 1, 8, 300);
    }
    world_run(&w, 2000 * MS);
    assert_int_equal(world_event(&w, 4, p[0])->status, BATON_STATUS_DONE);
    assert_int_equal(world_event(&w, 5, p[1])->status, BATON_STATUS_EXPIRED);
    assert_non_null(world_verdict(&w, 4, p[0]));
    assert_int_not_equal(world_verdict(&w, 4, p[0])->status, BATON_STATUS_DONE); /* rank 5 got nothing of P */
    (void)q;
    world_fini(&w);
}

/* Messages kept for a peer without credits do not take every place: another peer's DONE still gets through. */
static void test_one_deaf_peer_costs_others_nothing(void **state)
{
    (void)state;
    static const struct world_engine engines[] = {{.name = "A", .tp = 1, .heads_total = 1, .num_blocks = 500},
                                                  {.name = "B", .tp = 1, .heads_total = 1, .num_blocks = 500},
                                                  {.name = "C", .tp = 1, .heads_total = 1, .num_blocks = 500}};
    for (uint32_t with = 0; with < 2; with++) {
        WORLD(w, engines);
        w.settings.requests = 4;
        w.settings.peer_ms = 1000000;
        w.ranks[1].deaf = with;
        if (with) /* 20 wants, each with a WANT and a DONE, end at their own deadlines: never more than 2 at once */
            for (uint32_t i = 0; i < 10; i++) {
                char key[8];
                snprintf(key, sizeof key, "k%u", i);
                world_want(&w, 0, "B", key, 0, 1, 8, 20);
                world_run(&w, w.now + 100 * MS);
            }
        baton_id_t o = world_offer(&w, 2, "key", 0, 1, 8, 30000);
        world_want(&w, 0, "C", "key", 0, 1, 8, 5000);
        while (wants_legs(w.ranks[0].core) == 0 || w.ranks[0].core->wants->by_id->legs[0].state != LEG_MOVING)
            world_run(&w, w.now + MS / 100);
        w.ranks[2].deaf = true; /* for a moment */
        world_run(&w, w.now + 5 * MS);
        w.ranks[2].deaf = false;
        world_run(&w, w.now + 40000 * MS);
        assert_int_equal(world_event(&w, 2, o)->status, BATON_STATUS_DONE);
        world_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_engines_that_serve_each_other_hash_for_each_other),
        cmocka_unit_test(test_the_card_of_a_lost_peer_is_read_no_more),
        cmocka_unit_test(test_a_round_that_made_room_stays_over),
        cmocka_unit_test(test_a_report_sent_again_opens_no_round),
        cmocka_unit_test(test_a_report_that_crosses_its_verdict),
        cmocka_unit_test(test_reports_are_bounded),
        cmocka_unit_test(test_a_push_that_cannot_be_settled_ends_with_its_peer),
        cmocka_unit_test(test_a_peers_reason_is_only_a_reason),
        cmocka_unit_test(test_a_refusal_starts_no_leg_that_is_over),
        cmocka_unit_test(test_one_key_of_two_engines),
        cmocka_unit_test(test_one_deaf_peer_costs_others_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
