/* SPDX-License-Identifier: BSD-3-Clause */
/* beside: what turns that are lent leave to the net, and what the first turn after them does with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "front/beside.h"
#include "observe/log.h"
#include "with_fakes.h"

enum { PEERS = 3 };

static struct fakes fakes;
static struct logger logger;
static struct beside *b;
static const struct net *net;
static char heard[256];

static void hear(void *user, baton_log_level_t level, const baton_log_source_t *source, const char *line)
{
    (void)user, (void)level, (void)source;
    snprintf(heard, sizeof heard, "%s", line);
}

static int begin(void **state)
{
    (void)state;
    fakes_init(&fakes);
    heard[0] = fakes_call[0] = '\0';
    logger = (struct logger){.level = LOG_WARN, .sink = hear};
    b = beside_create(&fakes.net, PEERS, &logger);
    assert_non_null(b);
    net = beside_net(b);
    return 0;
}

static int end(void **state)
{
    (void)state;
    beside_destroy(b);
    return 0;
}

static int progress(void)
{
    struct port_event events[4];
    return net->path.progress(net->path.self, events, 4);
}

static int send(uint32_t peer, const char *text)
{
    return net->send(net->self, peer, text, (uint32_t)strlen(text));
}

static bool is_busy(void)
{
    return net->path.busy(net->path.self);
}

/* The n-th message that the net was given went to that peer. */
static void sent(unsigned n, uint32_t peer, const char *text)
{
    assert_true(n < fakes.sent);
    assert_int_equal(fakes.message[n].peer, peer);
    assert_int_equal(fakes.message[n].bytes, strlen(text));
    assert_memory_equal(fakes.message[n].data, text, strlen(text));
}

/* ---- turns that are not lent ------------------------------------------------------------------------------------- */

static void test_the_net_is_called_as_it_is(void **state)
{
    (void)state;
    const struct net_move move = {.peer = 2, .tag = 5, .num_runs = 1};
    fakes.says.room = 7;
    fakes.says.net_move = 9;
    fakes.says.park = PATH_PARK_NEVER;
    fakes.says.ended = fakes.says.net_busy = true;
    assert_int_equal(send(1, "a"), 0);
    assert_called("send 1 1");
    assert_int_equal(net->path.read(net->path.self, 1, 2, 3, 4), 0);
    assert_called("read 1 2 3 4");
    assert_int_equal(net->path.board(net->path.self, 1, 2, 3), 0);
    assert_called("board 1 2 3");
    assert_int_equal(net->path.settle(net->path.self, 1, 2), 0);
    assert_called("settle 1 2");
    assert_int_equal(net->room(net->self, 1), 7);
    assert_called("room 1");
    assert_int_equal(net->move(net->self, &move), 9);
    assert_called("net_move 2 5 1 0");
    assert_int_equal(net->path.park(net->path.self, 1, 2), PATH_PARK_NEVER);
    assert_called("park 1 2");
    assert_true(net->path.ended(net->path.self, 1));
    assert_called("ended 1");
    assert_true(is_busy());
    assert_called("net_busy");
    net->sync(net->self);
    assert_called("sync");
    fakes.says.progress = 2;
    assert_int_equal(progress(), 2);
    assert_called("progress 4");
    assert_false(beside_owes(b));
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* Nothing overtakes what was left: of two messages neither is refused, and both go before a later one. */
static void test_messages_are_left_in_order(void **state)
{
    (void)state;
    beside_lend(b, true);
    assert_int_equal(send(1, "first"), 0);
    assert_int_equal(send(2, "other"), 0);
    assert_int_equal(send(1, "second"), 0);
    assert_false(is_busy()); /* a lent turn can do nothing about it */
    assert_int_equal(progress(), 0);
    assert_true(fakes.sent == 0 && fakes.asked.progress == 0);
    beside_lend(b, false);
    assert_true(is_busy());
    assert_int_equal(send(1, "third"), 0); /* by a call, before the turn has asked the net what has come */
    assert_int_equal(fakes.sent, 4);
    sent(0, 1, "first");
    sent(1, 2, "other");
    sent(2, 1, "second");
    sent(3, 1, "third");
    assert_int_equal(progress(), 0);
    assert_int_equal(fakes.asked.progress, 1);
    assert_false(is_busy());
}

static void test_a_turn_delivers_by_itself(void **state)
{
    (void)state;
    beside_lend(b, true);
    assert_int_equal(send(1, "one"), 0);
    beside_lend(b, false);
    progress();
    sent(0, 1, "one");
    progress();
    assert_int_equal(fakes.sent, 1);
}

static uint32_t full; /* the peer that has no credit */

static int send_unless_full(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    struct fakes *f = self;
    if (peer == full)
        return BATON_EAGAIN;
    f->message[f->sent++ % FAKES_KEPT] = (struct fakes_message){.peer = peer, .bytes = bytes};
    memcpy(f->message[(f->sent - 1) % FAKES_KEPT].data, message, bytes);
    return 0;
}

/* A peer without credits waits alone, and its messages keep their order. */
static void test_a_peer_without_credit(void **state)
{
    (void)state;
    fakes.net.send = send_unless_full;
    full = 1;
    beside_lend(b, true);
    assert_int_equal(send(1, "a"), 0);
    assert_int_equal(send(1, "b"), 0);
    assert_int_equal(send(2, "c"), 0);
    beside_lend(b, false);
    progress();
    assert_int_equal(fakes.sent, 1);
    sent(0, 2, "c");
    assert_false(is_busy()); /* what makes room is heard of */
    full = PEERS;
    assert_int_equal(send(0, "d"), 0);
    sent(1, 1, "a");
    sent(2, 1, "b");
    sent(3, 0, "d");
}

/* A message does not overtake those that are left, though there is room for it by now. */
static void test_nothing_overtakes(void **state)
{
    (void)state;
    beside_lend(b, true);
    assert_int_equal(send(1, "a"), 0);
    beside_lend(b, false);
    fakes.no_credit = 1;
    assert_int_equal(send(1, "b"), BATON_EAGAIN);
    assert_int_equal(fakes.sent, 0);
    fakes.no_credit = 1;
    assert_int_equal(send(2, "c"), 0);
    assert_int_equal(send(1, "b"), 0);
    sent(0, 2, "c");
    sent(1, 1, "a");
    sent(2, 1, "b");
}

/* More than a peer has credits for could not leave at once. Another peer has room of its own. */
static void test_the_bound(void **state)
{
    (void)state;
    beside_lend(b, true);
    for (unsigned i = 0; i < BESIDE_LETTERS; i++)
        assert_int_equal(send(1, "m"), 0);
    assert_int_equal(send(1, "m"), BATON_EAGAIN);
    assert_int_equal(send(2, "m"), 0);
    beside_lend(b, false);
    progress();
    assert_int_equal(fakes.sent, BESIDE_LETTERS + 1);
    beside_lend(b, true);
    assert_int_equal(send(1, "m"), 0); /* and is dropped at the end */
}

/* A message that the net refuses for good is told of in the log, and keeps no other from leaving. */
static void test_a_peer_that_is_lost(void **state)
{
    (void)state;
    beside_lend(b, true);
    assert_int_equal(send(1, "m"), 0);
    beside_lend(b, false);
    fakes.says.send = BATON_EPEER;
    progress();
    assert_non_null(strstr(heard, "a message of a lent turn to rank 1: "));
    fakes.says.send = 0;
    assert_int_equal(send(1, "n"), 0);
    assert_int_equal(fakes.sent, 2);
}

/* Another member gets its index: it hears nothing that was for the former one. */
static void test_a_peer_that_is_forgotten(void **state)
{
    (void)state;
    beside_lend(b, true);
    assert_int_equal(send(1, "old"), 0);
    assert_int_equal(send(2, "other"), 0);
    for (unsigned i = 1; i < BESIDE_LETTERS; i++)
        assert_int_equal(send(1, "old"), 0);
    assert_int_equal(send(1, "old"), BATON_EAGAIN);
    beside_forget(b, 1);
    assert_int_equal(send(1, "new"), 0);
    beside_lend(b, false);
    progress();
    assert_int_equal(fakes.sent, 2);
    sent(0, 2, "other");
    sent(1, 1, "new");
}

/* ---- memory of peers --------------------------------------------------------------------------------------------- */

static void test_memory_of_peers_waits(void **state)
{
    (void)state;
    const struct net_move move = {.peer = 2, .tag = 5, .num_runs = 1};
    const struct path *p = &net->path;
    beside_lend(b, true);
    fakes.says.ended = true;
    fakes.says.park = PATH_PARK_LATER;
    assert_int_equal(p->read(p->self, 1, 2, 3, 4), BATON_EAGAIN);
    assert_int_equal(p->board(p->self, 1, 2, 3), BATON_EAGAIN);
    assert_int_equal(p->settle(p->self, 1, 2), BATON_EAGAIN);
    assert_int_equal(net->room(net->self, 1), BATON_EAGAIN);
    assert_int_equal(net->move(net->self, &move), BATON_EAGAIN);
    assert_false(p->ended(p->self, 1));
    assert_called(""); /* nothing of these reaches the net */
    assert_int_equal(p->park(p->self, 1, 2), PATH_PARK_LATER);
    assert_called("park 1 2"); /* which looks */
    beside_lend(b, false);
    assert_true(is_busy()); /* somebody has to go on with them */
    progress();
    assert_false(is_busy());
}

/* Each way of leaving something keeps the next turn awake. */
static void test_each_thing_that_is_left_wakes(void **state)
{
    (void)state;
    const struct net_move move = {.peer = 2};
    for (unsigned i = 0; i < 7; i++) {
        beside_lend(b, true);
        if (i == 0)
            net->path.read(net->path.self, 1, 2, 3, 4);
        else if (i == 1)
            net->path.board(net->path.self, 1, 2, 3);
        else if (i == 2)
            net->path.settle(net->path.self, 1, 2);
        else if (i == 3)
            net->room(net->self, 1);
        else if (i == 4)
            net->move(net->self, &move);
        else if (i == 5)
            send(1, "m");
        else
            net->sync(net->self);
        beside_lend(b, false);
        assert_true(is_busy());
        progress();
        assert_false(is_busy());
    }
}

/* ---- what is visible --------------------------------------------------------------------------------------------- */

static void test_a_sync_is_owed(void **state)
{
    (void)state;
    beside_store(b, true);
    assert_true(fakes.asked.sync == 1 && !beside_owes(b) && !beside_is_lent(b));
    fakes.asked.sync = 0;
    beside_lend(b, true);
    beside_store(b, true);
    assert_true(beside_owes(b) && fakes.asked.sync == 0 && beside_is_lent(b));
    beside_lend(b, false);
    assert_true(beside_owes(b));
    progress();
    assert_false(beside_owes(b));
    assert_int_equal(fakes.asked.sync, 1);
}

/* A peer that hears a message finds what was stored before it; one sync does for all that follow. */
static void test_a_sync_before_messages(void **state)
{
    (void)state;
    send(1, "m");
    assert_int_equal(fakes.asked.sync, 0);
    beside_store(b, false);
    progress();
    assert_int_equal(fakes.asked.sync, 0);
    send(1, "m");
    assert_called("send 1 1");
    assert_int_equal(fakes.asked.sync, 1);
    send(1, "m");
    assert_int_equal(fakes.asked.sync, 1);
    beside_lend(b, true);
    beside_store(b, false);
    send(2, "m");
    assert_true(fakes.asked.sync == 1 && !beside_owes(b));
    beside_lend(b, false);
    progress();
    assert_true(fakes.asked.sync == 2 && fakes.sent == 4);
}

static void test_what_came_is_seen(void **state)
{
    (void)state;
    assert_true(beside_see(b));
    assert_int_equal(fakes.asked.sync, 0);
    fakes.says.progress = 1;
    progress();
    beside_lend(b, true);
    assert_false(beside_see(b));
    assert_int_equal(fakes.asked.sync, 0);
    beside_lend(b, false);
    assert_true(is_busy());
    assert_true(beside_see(b));
    assert_int_equal(fakes.asked.sync, 1);
    assert_true(beside_see(b));
    beside_lend(b, true);
    assert_true(beside_see(b));
    assert_int_equal(fakes.asked.sync, 1);
}

/* ---- looks ------------------------------------------------------------------------------------------------------- */

static unsigned looks;
static bool has_looked;

static void note_look(void *self)
{
    (void)self;
    looks++;
}

static bool say_looked(const void *self)
{
    (void)self;
    return has_looked;
}

/* A look does not end in turns that hear nothing of the net, whatever the net says of it. */
static void test_a_look_waits_for_the_net(void **state)
{
    (void)state;
    const struct path *p = &net->path;
    assert_true(p->has_looked(p->self));
    beside_lend(b, true);
    p->look(p->self);
    progress();
    assert_false(p->has_looked(p->self));
    beside_lend(b, false);
    progress();
    assert_true(p->has_looked(p->self)); /* the net knows no looks: it hands out all that there is */
    fakes.net.path.look = note_look;
    fakes.net.path.has_looked = say_looked;
    p->look(p->self);
    assert_int_equal(looks, 1);
    progress();
    assert_false(p->has_looked(p->self));
    has_looked = true;
    assert_true(p->has_looked(p->self));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_net_is_called_as_it_is, begin, end),
        cmocka_unit_test_setup_teardown(test_messages_are_left_in_order, begin, end),
        cmocka_unit_test_setup_teardown(test_a_turn_delivers_by_itself, begin, end),
        cmocka_unit_test_setup_teardown(test_a_peer_without_credit, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_overtakes, begin, end),
        cmocka_unit_test_setup_teardown(test_the_bound, begin, end),
        cmocka_unit_test_setup_teardown(test_a_peer_that_is_lost, begin, end),
        cmocka_unit_test_setup_teardown(test_a_peer_that_is_forgotten, begin, end),
        cmocka_unit_test_setup_teardown(test_memory_of_peers_waits, begin, end),
        cmocka_unit_test_setup_teardown(test_each_thing_that_is_left_wakes, begin, end),
        cmocka_unit_test_setup_teardown(test_a_sync_is_owed, begin, end),
        cmocka_unit_test_setup_teardown(test_a_sync_before_messages, begin, end),
        cmocka_unit_test_setup_teardown(test_what_came_is_seen, begin, end),
        cmocka_unit_test_setup_teardown(test_a_look_waits_for_the_net, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
