/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults by rule and seed, over a port that keeps what reaches it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fault/fault.h"
#include "with_fakes.h"
#include "with_messages.h"

#define MS CLOCK_NS_PER_MS
#define RANKS 4

static struct fakes below;

static struct faults *make_on(const char *text, uint32_t rank)
{
    struct faults *f;
    fakes_init(&below);
    if (faults_create(text, rank, &below.port, RANKS, NULL, false, &f) != 0)
        fail_msg("\"%s\": %s", text, baton_errmsg());
    return f;
}

static struct faults *make(const char *text)
{
    return make_on(text, 0);
}

static const char *const types[] = {"WANT",   "GRANT",   "NACK",    "DONE", "CANCEL",
                                    "CLOSED", "RELEASE", "WRITTEN", "BEAT", "*"};

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static uint32_t message(enum wire_type type, uint32_t number, uint8_t *out)
{
    struct wire_message m = specimen_of(type, LEAST, WIRE_VERSION), back;
    m.number = number;
    uint32_t bytes = wire_encode(&m, out);
    if (wire_decode(out, bytes, &back) != 0)
        abort();
    return bytes;
}

static int send_to(struct faults *f, uint32_t peer, enum wire_type type, uint32_t number)
{
    uint8_t data[WIRE_MESSAGE_MAX];
    uint32_t bytes = message(type, number, data);
    return faults_port(f)->send(faults_port(f)->self, peer, data, bytes);
}

/* How many messages reach the port when one is sent. */
static unsigned reach(struct faults *f, enum wire_type type)
{
    unsigned before = below.sent;
    assert_int_equal(send_to(f, 1, type, 1), 0);
    return below.sent - before;
}

static void assert_sent(unsigned at, uint32_t peer, uint32_t number)
{
    struct wire_message m;
    assert_true(at < below.sent);
    assert_int_equal(below.message[at].peer, peer);
    assert_int_equal(wire_decode(below.message[at].data, below.message[at].bytes, &m), 0);
    assert_int_equal(m.number, number);
}

static int take(struct faults *f, enum wire_type type)
{
    uint8_t data[WIRE_MESSAGE_MAX];
    struct port_event e = {.kind = PORT_MESSAGE, .data = data, .bytes = message(type, 1, data)};
    return faults_filter(f, 0, &e, 1);
}

/* How many bytes differ. All must differ by the same bit. */
static unsigned changes(const uint8_t *a, const uint8_t *b, size_t n)
{
    unsigned different = 0;
    for (size_t i = 0; i < n; i++)
        different += (a[i] ^ b[i]) == 0x20 ? 1 : a[i] != b[i] ? 1000 : 0;
    return different;
}

/* ---- what they do ------------------------------------------------------------------------------------------------ */

static void test_rules_are_for_their_type_number_and_rank(void **state)
{
    (void)state;
    for (unsigned t = 0; t < 10; t++) {
        char text[64];
        snprintf(text, sizeof text, "drop@send.%s,drop@take.%s", types[t], types[t]);
        struct faults *f = make(text);
        for (unsigned type = WIRE_WANT; type <= WIRE_BEAT; type++) {
            assert_int_equal(reach(f, type), !(t == 9 || type == t + 1));
            assert_int_equal(take(f, type), !(t == 9 || type == t + 1));
        }
        assert_int_equal(faults_port(f)->send(faults_port(f)->self, 1, "what", 4), 0); /* no type: only * fits */
        assert_int_equal(below.sent > 0 && below.message[(below.sent - 1) % FAKES_KEPT].bytes == 4, t != 9);
        faults_destroy(f);
    }
    struct faults *f = make("drop@send.WANT#3,double@send.WANT#5");
    for (unsigned i = 1; i <= 10; i++) {
        assert_int_equal(reach(f, WIRE_GRANT), 1); /* not counted */
        assert_int_equal(reach(f, WIRE_WANT), i == 3 ? 0 : i == 5 ? 2 : 1);
    }
    faults_destroy(f);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        f = make_on("drop@send.*/2,drop@take.*/2,kill@send.*/3,double@send.WANT/1", rank);
        assert_int_equal(take(f, WIRE_WANT), rank != 2);
        if (rank != 3)
            assert_int_equal(reach(f, WIRE_WANT), rank == 2 ? 0 : rank == 1 ? 2 : 1);
        faults_destroy(f);
    }
}

static void test_drop_leaves_the_rest_in_order(void **state)
{
    (void)state;
    uint8_t want[WIRE_MESSAGE_MAX], done[WIRE_MESSAGE_MAX];
    uint32_t want_bytes = message(WIRE_WANT, 1, want), done_bytes = message(WIRE_DONE, 2, done);
    struct port_event events[] = {{.kind = PORT_MOVED, .tag = 1},
                                  {.kind = PORT_MESSAGE, .data = want, .bytes = want_bytes, .tag = 2},
                                  {.kind = PORT_MESSAGE, .data = done, .bytes = done_bytes, .tag = 3},
                                  {.kind = PORT_MESSAGE, .data = want, .bytes = want_bytes, .tag = 4},
                                  {.kind = PORT_READ, .error = BATON_EMPI, .tag = 5}};
    struct faults *f = make("drop@take.WANT,corrupt@card,corrupt@table");
    assert_int_equal(faults_filter(f, 0, events, 5), 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(events[i].tag, 2 * i + 1);
    assert_int_equal(faults_filter(f, 0, NULL, 0), 0);
    faults_destroy(f);
}

static void test_delay_holds_back_what_is_behind(void **state)
{
    (void)state;
    struct faults *f = make("delay@send.WANT#1+50,double@send.DONE");
    uint64_t before = clock_now_ns();
    assert_int_equal(send_to(f, 1, WIRE_WANT, 1), 0);
    uint64_t after = clock_now_ns();
    assert_int_equal(send_to(f, 1, WIRE_GRANT, 2), 0);
    assert_int_equal(send_to(f, 1, WIRE_DONE, 3), 0);
    assert_int_equal(send_to(f, 2, WIRE_GRANT, 4), 0); /* to another rank: not held back */
    assert_int_equal(faults_filter(f, before + 50 * MS - 1, NULL, 0), 0);
    assert_int_equal(below.sent, 1);
    assert_sent(0, 2, 4);
    assert_true(faults_pending(f));
    below.no_credit = 1; /* due, but the port has no credit: nothing overtakes it */
    faults_filter(f, after + 50 * MS, NULL, 0);
    assert_int_equal(below.sent, 1);
    assert_true(faults_pending(f));
    faults_filter(f, after + 50 * MS, NULL, 0);
    assert_int_equal(below.sent, 5);
    assert_sent(1, 1, 1);
    assert_sent(2, 1, 2);
    assert_sent(3, 1, 3);
    assert_sent(4, 1, 3); /* still doubled */
    assert_false(faults_pending(f));
    assert_int_equal(reach(f, WIRE_WANT), 1); /* nothing has changed */
    faults_destroy(f);
    f = make("delay@send.*+1000");
    assert_int_equal(reach(f, WIRE_WANT), 0);
    faults_destroy(f); /* with the messages that it holds */
}

static void test_corrupt_changes_one_byte(void **state)
{
    (void)state;
    uint8_t data[WIRE_MESSAGE_MAX], whole[WIRE_MESSAGE_MAX], places[WIRE_MESSAGE_MAX] = {0};
    struct faults *f = make("corrupt@send.WANT,corrupt@take.WANT,corrupt@card");
    uint32_t bytes = message(WIRE_WANT, 1, whole);
    unsigned seen = 0;
    for (unsigned i = 0; i < 50; i++) {
        memcpy(data, whole, bytes);
        assert_int_equal(faults_port(f)->send(faults_port(f)->self, 1, data, bytes), 0);
        assert_memory_equal(data, whole, bytes); /* the sender's own bytes do not change */
        assert_int_equal(changes(below.message[i].data, whole, bytes), 1);
        for (uint32_t k = 0; k < bytes; k++)
            places[k] |= below.message[i].data[k] != whole[k];
        struct port_event e = {.kind = PORT_MESSAGE, .data = data, .bytes = bytes};
        assert_int_equal(faults_filter(f, 0, &e, 1), 1);
        assert_int_equal(changes(data, whole, bytes), 1);
    }
    for (uint32_t k = 0; k < bytes; k++)
        seen += places[k];
    assert_true(seen > 10);
    for (int card = 0; card < 2; card++) {
        uint8_t read[40] = {card ? 'B' : 'T', card ? 'C' : 'B'}, old[40];
        memcpy(old, read, sizeof old);
        struct port_event e = {.kind = PORT_READ, .data = read, .bytes = sizeof read};
        assert_int_equal(faults_filter(f, 0, &e, 1), 1);
        assert_int_equal(changes(read, old, sizeof old), card);
    }
    faults_destroy(f);
}

/* ---- by chance --------------------------------------------------------------------------------------------------- */

#define TRIES 10000

/*
 * Which of 10,000 messages were dropped. Each first finds no credit `waits` times, and is sent again, as the core does.
 */
static unsigned drops(unsigned chance, unsigned seed, uint32_t rank, unsigned waits, bool dropped[TRIES])
{
    char text[64];
    unsigned n = 0;
    snprintf(text, sizeof text, "drop@send.*~%u:%u", chance, seed);
    struct faults *f = make_on(text, rank);
    for (unsigned i = 0; i < TRIES; i++) {
        unsigned before = below.sent;
        below.no_credit = waits;
        while (send_to(f, i % RANKS, WIRE_WANT, i) != 0)
            ;
        n += dropped[i] = below.sent == before;
    }
    faults_destroy(f);
    return n;
}

static void test_chance_is_by_seed_and_keeps_its_share(void **state)
{
    (void)state;
    static bool one[TRIES], two[TRIES];
    for (unsigned seed = 0; seed < 20; seed++) {
        assert_int_equal(drops(0, seed, 0, 0, one), 0);
        assert_int_equal(drops(1000, seed, 0, 0, one), TRIES);
        assert_in_range(drops(20, seed, 0, 0, one), 130, 270); /* five standard deviations */
        assert_in_range(drops(500, seed, 0, 0, one), 4750, 5250);
        drops(500, seed, 0, 0, two);
        assert_memory_equal(one, two, sizeof one);
        drops(500, seed + 1, 0, 0, two);
        assert_memory_not_equal(one, two, sizeof one);
        drops(500, seed, 1, 0, two);
        assert_memory_not_equal(one, two, sizeof one);
    }
    drops(20, 3, 0, 0, one);
    drops(20, 3, 0, 30, two); /* chance decides once for a message that waits for credit, not at each try */
    assert_memory_equal(one, two, sizeof one);
}

static void test_a_message_is_counted_once_however_often_it_is_tried(void **state)
{
    (void)state;
    struct faults *f = make("double@send.WANT#2,drop@send.WANT#3");
    below.no_credit = 5;
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(send_to(f, 1, WIRE_WANT, 1), BATON_EAGAIN);
    assert_int_equal(reach(f, WIRE_WANT), 1);
    below.no_credit = 1;
    assert_int_equal(send_to(f, 1, WIRE_WANT, 2), BATON_EAGAIN);
    assert_int_equal(reach(f, WIRE_WANT), 2);
    assert_int_equal(reach(f, WIRE_WANT), 0);
    assert_int_equal(reach(f, WIRE_WANT), 1);
    faults_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_are_for_their_type_number_and_rank),
        cmocka_unit_test(test_drop_leaves_the_rest_in_order),
        cmocka_unit_test(test_delay_holds_back_what_is_behind),
        cmocka_unit_test(test_corrupt_changes_one_byte),
        cmocka_unit_test(test_chance_is_by_seed_and_keeps_its_share),
        cmocka_unit_test(test_a_message_is_counted_once_however_often_it_is_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
