/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_peers: who is alive. A rank that was paused itself blames nobody for the silence; neighbours know of a death for
 * certain; whoever closes finds the lost rank, even one that it had no business with, and all name the same rank.
 */
#include "core/peer.h"
#include "with_probe.h"
#include "with_world.h"

#include <stdlib.h>
#include <string.h>

static struct core *core_of(struct world *w, uint32_t rank)
{
    return w->ranks[rank].core;
}

static void kill_rank(struct world *w, uint32_t rank)
{
    w->ranks[rank].stopped = w->ranks[rank].is_dead = true;
}

/* Of a push, nobody knows whether the lost rank still writes: the want ends only when that is known. */
static void failed_as_lost(struct world *w, uint32_t rank, baton_id_t id)
{
    assert_int_equal(world_stats(w, rank).peers_lost, 1);
    if (w->mode == BATON_MODE_PULL)
        ENDED(w, rank, id, BATON_STATUS_FAILED, BATON_EPEER);
}

/* ---- own pauses -------------------------------------------------------------------------------------------------- */

static const struct world_engine apart[] = {{.name = "P", .tp = 2, .heads_total = 2, .num_blocks = 16},
                                            {.name = "D", .tp = 1, .heads_total = 2, .num_blocks = 16}};

/*
 * Ranks 0 and 1 offer, rank 2 wants. Rank `away` is not stepped for 6 s; then its due timers come before its messages.
 */
static void pause_of(struct world *w, uint32_t away)
{
    w->ranks[away].stopped = true;
    world_run(w, w->now + 6000 * MS);
    w->ranks[away].stopped = false;
}

static void test_a_paused_consumer_fails_nothing(void **state)
{
    (void)state;
    WORLD(w, apart);
    world_fill(&w, 0, 7, 0, 1, 8);
    world_fill(&w, 1, 7, 0, 1, 8);
    baton_id_t d = world_want(&w, 2, "P", "key", 4, 1, 8, 60000);
    world_run(&w, 1000 * MS); /* its wants wait for the offers of both */
    pause_of(&w, 2);
    world_run(&w, w.now + 2000 * MS);
    assert_int_equal(world_stats(&w, 2).peers_lost, 0);
    assert_null(world_event(&w, 2, d));
    world_offer(&w, 0, "key", 0, 1, 8, 60000);
    world_offer(&w, 1, "key", 0, 1, 8, 60000);
    DONE_AFTER(&w, 2, d, w.now + 2000 * MS);
    assert_int_equal(world_wrong(&w, 2, 7, 4, 1, 8), 0);
    world_fini(&w);
}

/*
 * What others sent in the pause is read piece by piece, and each piece is of a later time: that is no time in which the
 * rank looked.
 */
static void test_a_paused_rank_with_much_to_read(void **state)
{
    static const struct world_engine three[] = {{.name = "P", .tp = 1, .heads_total = 1, .num_blocks = 16},
                                                {.name = "D", .tp = 1, .heads_total = 1, .num_blocks = 16},
                                                {.name = "E", .tp = 1, .heads_total = 1, .num_blocks = 16}};
    (void)state;
    WORLD(w, three);
    baton_id_t d = world_want(&w, 1, "P", "key", 4, 1, 8, 60000);
    world_want(&w, 2, "D", "other", 4, 1, 8, 60000); /* it asks for a beat each 500 ms */
    world_run(&w, 1000 * MS);
    w.ranks[0].stopped = true; /* it answers later than by a beat */
    pause_of(&w, 1);
    world_run(&w, w.now + 700 * MS);
    w.ranks[0].stopped = false;
    world_run(&w, w.now + 2000 * MS);
    assert_int_equal(world_stats(&w, 1).peers_lost, 0);
    assert_null(world_event(&w, 1, d));
    world_fini(&w);
}

static void test_a_paused_producer_fails_nothing(void **state)
{
    (void)state;
    NOT_BY_WORDS();
    WORLD(w, apart);
    w.move_ns = 3000 * MS; /* so moving takes a while */
    baton_id_t o = world_offer(&w, 0, "key", 0, 1, 8, 60000);
    world_offer(&w, 1, "key", 0, 1, 8, 60000);
    world_want(&w, 2, "P", "key", 4, 1, 8, 60000);
    world_run(&w, 600 * MS);
    assert_null(world_event(&w, 0, o));
    pause_of(&w, 0);
    world_run(&w, w.now + 20 * MS);
    assert_int_equal(world_stats(&w, 0).peers_lost, 0);
    assert_int_equal(world_stats(&w, 2).peers_lost, 1); /* given up by rank 2, and back now */
    assert_int_equal(world_stats(&w, 2).peers_returned, 1);
    world_run(&w, w.now + 30000 * MS);
    world_fini(&w);
}

static void test_a_deadline_passes_in_a_pause(void **state)
{
    (void)state;
    WORLD(w, apart);
    baton_id_t d = world_want(&w, 2, "P", "key", 4, 1, 8, 3000);
    world_run(&w, 1000 * MS);
    pause_of(&w, 2);
    world_run(&w, w.now + 100 * MS);
    ENDED(&w, 2, d, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    world_fini(&w);
}

/* A peer that is silent all the time gains by this rank's pause only the time in which it was not watched. */
static void test_who_was_silent_too_is_lost(void **state)
{
    (void)state;
    WORLD(w, apart);
    baton_id_t d = world_want(&w, 2, "P", "key", 4, 1, 8, 60000);
    world_run(&w, 1000 * MS);
    w.ranks[1].stopped = true;
    world_run(&w, w.now + 3000 * MS);
    pause_of(&w, 2);
    world_run(&w, w.now + 20 * MS);
    assert_int_equal(world_stats(&w, 2).peers_lost, 0);
    world_run(&w, w.now + 2500 * MS);
    failed_as_lost(&w, 2, d);
    world_fini(&w);
}

/*
 * A peer that was about to be given up answers while this rank is paused: the answer is read before the peer is judged.
 */
static void test_an_answer_that_came_in_the_pause_counts(void **state)
{
    (void)state;
    WORLD(w, apart);
    world_want(&w, 2, "P", "key", 4, 1, 8, 60000);
    world_run(&w, 1000 * MS);
    w.ranks[1].stopped = true;
    world_run(&w, w.now + 4700 * MS);
    w.ranks[2].stopped = true;
    world_run(&w, w.now + 100 * MS);
    w.ranks[1].stopped = false;
    world_run(&w, w.now + 3000 * MS);
    w.ranks[2].stopped = false;
    world_run(&w, w.now + 3000 * MS);
    assert_int_equal(world_stats(&w, 2).peers_lost, 0);
    world_fini(&w);
}

/* An engine that lends its thread calls only every 1.2 s: dead ranks are found all the same. */
static void test_a_rank_that_is_called_seldom_finds_the_lost(void **state)
{
    (void)state;
    WORLD(w, apart);
    world_want(&w, 2, "P", "key", 4, 1, 8, 100000);
    world_run(&w, 1000 * MS);
    for (int i = 0; i < 60; i++) {
        w.ranks[1].stopped |= i == 20;
        w.ranks[2].stopped = true;
        world_run(&w, w.now + 1200 * MS);
        if (i == 20)
            assert_int_equal(world_stats(&w, 2).peers_lost, 0);
        w.ranks[2].stopped = false;
        world_run(&w, w.now + MS);
    }
    assert_int_equal(world_stats(&w, 2).peers_lost, 1);
    assert_true(peer_is_lost(core_of(&w, 2), 1));
    world_fini(&w);
}

/* ---- neighbours -------------------------------------------------------------------------------------------------- */

static const struct world_engine nodes[] = {{.name = "P", .tp = 1, .heads_total = 1, .num_blocks = 16, .node = 1},
                                            {.name = "N", .tp = 2, .heads_total = 2, .num_blocks = 16, .node = 1},
                                            {.name = "D", .tp = 1, .heads_total = 1, .num_blocks = 16, .node = 2},
                                            {.name = "E", .tp = 1, .heads_total = 1, .num_blocks = 16, .node = 2}};

/* Rank 3 wants of rank 0, which dies; ranks 1 and 2 are its neighbours. */
static baton_id_t death(struct world *w)
{
    baton_id_t d = world_want(w, 3, "P", "key", 4, 1, 8, 60000);
    world_run(w, 1000 * MS);
    kill_rank(w, 0);
    return d;
}

static void test_a_neighbour_tells_of_a_death(void **state)
{
    (void)state;
    WORLD(w, nodes);
    baton_id_t d = death(&w);
    world_run(&w, w.now + 1100 * MS); /* a beat's silence is noticed two beats later at most */
    failed_as_lost(&w, 3, d);
    assert_true(peer_is_dead(core_of(&w, 3), 0));
    char name[CORE_NAME_MAX];
    core_rank_name(core_of(&w, 3), 0, name, sizeof name);
    assert_string_equal(name, "rank 0 (engine P, host host1)");
    world_fini(&w);
}

static void test_a_neighbour_that_is_dead_too(void **state)
{
    (void)state;
    WORLD(w, nodes);
    kill_rank(&w, 1);
    baton_id_t d = death(&w);
    world_run(&w, w.now + 1700 * MS);
    failed_as_lost(&w, 3, d);
    assert_true(peer_is_dead(core_of(&w, 3), 0));
    world_fini(&w);
}

static void test_nobody_is_left_to_tell(void **state)
{
    (void)state;
    WORLD(w, nodes);
    kill_rank(&w, 1);
    kill_rank(&w, 2);
    baton_id_t d = death(&w);
    world_run(&w, w.now + 4900 * MS);
    assert_null(world_event(&w, 3, d));
    world_run(&w, w.now + 700 * MS);
    failed_as_lost(&w, 3, d);
    assert_false(peer_is_dead(core_of(&w, 3), 0));
    world_fini(&w);
}

/* A stopped process lives but is silent: it is lost after the usual time, and not dead. */
static void test_a_stopped_process_is_lost_in_the_usual_time(void **state)
{
    (void)state;
    WORLD(w, nodes);
    baton_id_t d = death(&w);
    w.ranks[0].is_dead = false;
    world_run(&w, w.now + 4900 * MS);
    assert_null(world_event(&w, 3, d));
    assert_true(w.sent[WIRE_WITNESS] >= 5);
    assert_true(w.sent[WIRE_INQUIRY] <= 12);
    world_run(&w, w.now + 700 * MS);
    failed_as_lost(&w, 3, d);
    assert_false(peer_is_dead(core_of(&w, 3), 0));
    world_fini(&w);
}

static void say(struct world *w, uint32_t from, uint32_t to, struct wire_message m)
{
    probe_send(core_of(w, from), to, &m);
    world_run(w, w->now + MS);
}

static struct wire_message dead_word(uint32_t subject)
{
    return (struct wire_message){.type = WIRE_WITNESS, .subject = {1000 + subject, WIRE_DEAD}};
}

static void test_only_neighbours_are_believed(void **state)
{
    (void)state;
    WORLD(w, nodes);
    baton_id_t d = world_want(&w, 3, "P", "key", 4, 1, 8, 60000);
    world_run(&w, 100 * MS);
    say(&w, 4, 3, dead_word(0)); /* about a rank of another node */
    say(&w, 0, 3, dead_word(0)); /* about itself */
    say(&w, 4, 3, dead_word(3)); /* about the rank that is told */
    struct wire_message m = dead_word(0);
    m.subject.member ^= UINT64_C(1) << 63; /* another member */
    say(&w, 1, 3, m);
    assert_int_equal(world_stats(&w, 3).messages_bad, 4);
    assert_int_equal(world_stats(&w, 3).peers_lost, 0);
    say(&w, 4, 3, dead_word(4)); /* what this rank sees itself counts more: rank 4 is on its node, and talks */
    assert_int_equal(world_stats(&w, 3).messages_bad, 5);
    say(&w, 3, 4, (struct wire_message){.type = WIRE_INQUIRY, .subject.member = 1000});
    assert_int_equal(world_stats(&w, 4).messages_bad, 1);
    assert_null(world_event(&w, 3, d));
    say(&w, 1, 3, dead_word(0)); /* this one is believed */
    assert_true(peer_is_dead(core_of(&w, 3), 0));
    world_fini(&w);
}

static void test_what_a_rank_sees_counts_more_than_what_it_is_told(void **state)
{
    (void)state;
    WORLD(w, nodes);
    world_want(&w, 2, "P", "key", 4, 1, 8, 60000);
    world_run(&w, 100 * MS);
    say(&w, 1, 2, dead_word(0)); /* all three are on one node, and rank 0 lives */
    assert_false(peer_is_lost(core_of(&w, 2), 0));
    world_fini(&w);
}

/* ---- closing ----------------------------------------------------------------------------------------------------- */

static const struct world_engine six[] = {{.name = "A", .tp = 1, .heads_total = 1, .num_blocks = 16, .node = 1},
                                          {.name = "B", .tp = 1, .heads_total = 1, .num_blocks = 16, .node = 1},
                                          {.name = "C", .tp = 2, .heads_total = 2, .num_blocks = 16, .node = 2},
                                          {.name = "D", .tp = 1, .heads_total = 1, .num_blocks = 16, .node = 3},
                                          {.name = "E", .tp = 1, .heads_total = 1, .num_blocks = 16, .node = 4}};

static void close_rank(struct world *w, uint32_t rank)
{
    core_shut(core_of(w, rank), w->now);
    core_leave(core_of(w, rank), w->now);
}

static void all_name(struct world *w, int64_t lost)
{
    for (uint32_t i = 0; i < w->num_ranks; i++)
        if (!w->ranks[i].stopped)
            assert_int_equal(core_loss(core_of(w, i)), lost);
}

static void test_closing_finds_the_lost(void **state)
{
    (void)state;
    for (uint32_t victim = 0; victim < 6; victim++)
        for (uint32_t before = 0; before < 2; before++) {
            WORLD(w, six); /* no rank has business with any other */
            world_run(&w, 10 * MS);
            if (before)
                kill_rank(&w, victim);
            for (uint32_t i = 0; i < 6; i++)
                if (!w.ranks[i].stopped)
                    close_rank(&w, i);
            if (!before) {
                world_run(&w, w.now + 7000 * MS); /* nothing happens while all are there */
                all_name(&w, -1);
                kill_rank(&w, victim);
            }
            world_run(&w, w.now + (w.settings.peer_ms + 1100) * MS);
            all_name(&w, victim);
            world_fini(&w);
        }
}

static void test_the_host_is_named(void **state)
{
    (void)state;
    char name[CORE_NAME_MAX];
    WORLD(w, six);
    world_run(&w, 10 * MS);
    kill_rank(&w, 4); /* alone on its node */
    for (uint32_t i = 0; i < 6; i++)
        if (i != 4)
            close_rank(&w, i);
    world_run(&w, w.now + (w.settings.peer_ms + 1100) * MS);
    for (uint32_t i = 0; i < 6; i++) {
        core_rank_name(core_of(&w, i), 4, name, sizeof name);
        if (i != 4)
            assert_string_equal(name, "rank 4 (engine D, host host3)");
    }
    world_fini(&w);
}

static void test_neighbours_make_closing_short(void **state)
{
    (void)state;
    WORLD(w, six);
    world_run(&w, 10 * MS);
    for (uint32_t i = 0; i < 6; i++)
        close_rank(&w, i);
    world_run(&w, 1000 * MS);
    kill_rank(&w, 3);
    world_run(&w, w.now + 600 * MS);
    all_name(&w, 3);
    world_fini(&w);
}

/* Rank 0 does not close yet. Ranks that do close still learn of the death, and rank 0 remembers it. */
static void test_rank_0_watches_for_who_closes(void **state)
{
    (void)state;
    WORLD(w, six);
    world_run(&w, 10 * MS);
    close_rank(&w, 2);
    kill_rank(&w, 4);
    world_run(&w, w.now + (w.settings.peer_ms + 1100) * MS);
    assert_int_equal(core_loss(core_of(&w, 2)), 4);
    assert_int_equal(core_loss(core_of(&w, 5)), -1); /* this rank does not close */
    close_rank(&w, 0);
    close_rank(&w, 5);
    world_run(&w, w.now + 10 * MS);
    assert_int_equal(core_loss(core_of(&w, 0)), 4);
    assert_int_equal(core_loss(core_of(&w, 5)), 4);
    world_fini(&w);
}

/* A rank that closed because of a loss is soon gone: ranks that close later name the lost rank, not this one. */
static void test_who_has_left_is_not_named(void **state)
{
    (void)state;
    WORLD(w, six);
    world_run(&w, 10 * MS);
    kill_rank(&w, 3);
    close_rank(&w, 2); /* its neighbour sees at once that it is gone */
    world_run(&w, w.now + 600 * MS);
    assert_int_equal(core_loss(core_of(&w, 2)), 3);
    kill_rank(&w, 2);
    world_run(&w, w.now + 10000 * MS);
    for (uint32_t i = 0; i < 6; i++)
        if (!w.ranks[i].stopped)
            close_rank(&w, i);
    world_run(&w, w.now + 100 * MS);
    all_name(&w, 3);
    world_fini(&w);
}

static int late_word(struct world *w, const struct world_message *m)
{
    (void)w;
    return m->m.type == WIRE_LEAVE && m->from == 2 && m->to == 3 ? 0 : 1;
}

/*
 * A neighbour sees that a rank is gone before it hears why. Then it names the lost rank that rank 0, or that
 * rank, reports.
 */
static void test_the_reason_of_a_rank_that_closed_counts(void **state)
{
    (void)state;
    WORLD(w, six);
    w.rule = late_word;
    world_run(&w, 10 * MS);
    close_rank(&w, 2);
    close_rank(&w, 3);
    kill_rank(&w, 0);
    kill_rank(&w, 1);
    world_run(&w, w.now + (w.settings.peer_ms - 1000) * MS);
    struct wire_message m = {.type = WIRE_LEAVE, .subject.member = 1000};
    w.ranks[2].is_dead = w.ranks[2].stopped = true;
    world_run(&w, w.now + 600 * MS);
    assert_int_equal(core_loss(core_of(&w, 3)), 2); /* as far as it can tell */
    w.rule = NULL;
    probe_send(core_of(&w, 2), 3, &m); /* rank 2 had sent this before it left */
    world_run(&w, w.now + 10 * MS);
    assert_int_equal(core_loss(core_of(&w, 3)), 0);
    world_fini(&w);
}

/* Messages of closing are lost: they are sent again. */
static int every_second(struct world *w, const struct world_message *m)
{
    unsigned *n = w->user;
    return m->m.type == WIRE_LEAVE && ++*n % 2 == 0 ? 0 : 1;
}

static void test_lost_messages_of_closing_are_sent_again(void **state)
{
    (void)state;
    unsigned n = 0;
    WORLD(w, six);
    w.rule = every_second;
    w.user = &n;
    world_run(&w, 10 * MS);
    kill_rank(&w, 5);
    for (uint32_t i = 0; i < 5; i++)
        close_rank(&w, i);
    world_run(&w, w.now + (w.settings.peer_ms + 2100) * MS);
    all_name(&w, 5);
    world_fini(&w);
}

static void test_senseless_messages_of_closing(void **state)
{
    (void)state;
    WORLD(w, six);
    world_run(&w, 10 * MS);
    say(&w, 2, 0, (struct wire_message){.type = WIRE_LEAVE, .subject.member = 1077}); /* nobody */
    assert_int_equal(world_stats(&w, 0).messages_bad, 1);
    close_rank(&w, 0);
    assert_int_equal(core_loss(core_of(&w, 0)), -1);
    world_fini(&w);
}

/* It says so to those that may know it, but for one that has left itself. */
static void test_a_member_leaves_alone(void **state)
{
    (void)state;
    WORLD(w, apart);
    world_offer(&w, 0, "key", 0, 1, 8, 60000);
    world_offer(&w, 1, "key", 0, 1, 8, 60000);
    baton_id_t d = world_want(&w, 2, "P", "key", 4, 1, 8, 60000);
    world_run(&w, w.now + 500 * MS);
    DONE(&w, 2, d);
    core_tell_left(core_of(&w, 0), w.now);
    world_run(&w, w.now + 10 * MS);
    assert_true(peer_has_left(core_of(&w, 2), 0) && !peer_has_left(core_of(&w, 2), 1));
    core_tell_left(core_of(&w, 2), w.now);
    world_run(&w, w.now + 10 * MS);
    assert_true(peer_has_left(core_of(&w, 1), 2) && !peer_has_left(core_of(&w, 0), 2));
    core_leave(core_of(&w, 1), w.now);
    assert_int_equal(core_loss(core_of(&w, 1)), -1); /* nobody is lost by that */
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_paused_consumer_fails_nothing),
        cmocka_unit_test(test_a_paused_rank_with_much_to_read),
        cmocka_unit_test(test_a_paused_producer_fails_nothing),
        cmocka_unit_test(test_a_deadline_passes_in_a_pause),
        cmocka_unit_test(test_who_was_silent_too_is_lost),
        cmocka_unit_test(test_an_answer_that_came_in_the_pause_counts),
        cmocka_unit_test(test_a_rank_that_is_called_seldom_finds_the_lost),
        cmocka_unit_test(test_a_neighbour_tells_of_a_death),
        cmocka_unit_test(test_a_neighbour_that_is_dead_too),
        cmocka_unit_test(test_nobody_is_left_to_tell),
        cmocka_unit_test(test_a_stopped_process_is_lost_in_the_usual_time),
        cmocka_unit_test(test_only_neighbours_are_believed),
        cmocka_unit_test(test_what_a_rank_sees_counts_more_than_what_it_is_told),
        cmocka_unit_test(test_closing_finds_the_lost),
        cmocka_unit_test(test_the_host_is_named),
        cmocka_unit_test(test_neighbours_make_closing_short),
        cmocka_unit_test(test_rank_0_watches_for_who_closes),
        cmocka_unit_test(test_who_has_left_is_not_named),
        cmocka_unit_test(test_the_reason_of_a_rank_that_closed_counts),
        cmocka_unit_test(test_lost_messages_of_closing_are_sent_again),
        cmocka_unit_test(test_senseless_messages_of_closing),
        cmocka_unit_test(test_a_member_leaves_alone),
    };
    return WORLD_ALL_WAYS(tests);
}
