/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_control: the message channels of two ranks over an MPI in this process that refuses sends and receives, does
 * them late or lets them fail. What is sent comes once and in order, or the channel reports it as lost. The clock is
 * the test's own: each turn moves it by the same time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "fake_mpi.h"
#include "mpi/control.h"
#include "mpi/rma.h"
#include "wire/envelope.h"
#include "wire/message.h"
#include "shim.h"
#include "with_heard.h"
#include "with_set_clock.h"

#define RANKS 64 /* only two of them exist */
#define PEER_MS 400
#define LATE (40 * CLOCK_NS_PER_MS)

struct end {
    struct world world;
    struct windows windows;
    struct windows_segment segments[RANKS];
    struct control control;
    uint32_t got[4096], got_from[16], num_got;
};

static struct logger logger = {.level = LOG_ERROR};
static struct end ends[2];

static int begin(void **state)
{
    (void)state;
    memset(ends, 0, sizeof ends);
    shim_set(NULL);
    shim_clock = NULL;
    for (int i = 0; i < 2; i++) {
        struct end *e = &ends[i];
        assert_int_equal(settings_read(&e->world.settings, NULL), 0);
        e->world.settings.peer_ms = PEER_MS;
        e->world.rank = i;
        e->world.size = RANKS;
        e->world.log = &logger;
        e->windows.segments = e->segments;
        assert_int_equal(control_begin(&e->control, &e->world, &e->windows, fake_comm(i)), 0);
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    shim_set(NULL);
    for (int i = 0; i < 2; i++)
        control_end(&ends[i].control);
    fake_reset();
    return 0;
}

static int say(int from, uint32_t number)
{
    return control_send(&ends[from].control, (uint32_t)!from, &number, sizeof number);
}

static void turn(int at)
{
    struct port_event events[8];
    struct end *e = &ends[at];
    now_ns += 50 * CLOCK_NS_PER_US;
    control_release(&e->control);
    int n = control_progress(&e->control, events, 8);
    assert_true(n >= 0);
    for (int i = 0; i < n; i++) {
        assert_int_equal(events[i].kind, PORT_MESSAGE);
        if (e->num_got < 16)
            e->got_from[e->num_got] = events[i].peer;
        assert_true(events[i].peer == !at || events[i].peer >= 5); /* others are forwarded */
        assert_int_equal(events[i].bytes, 4);
        memcpy(&e->got[e->num_got++], events[i].data, 4);
    }
}

static void turns(uint64_t ms)
{
    uint64_t until = clock_now_ns() + ms * CLOCK_NS_PER_MS;
    do {
        turn(0);
        turn(1);
    } while (clock_now_ns() < until);
}

/* Sends the numbers first .. first + n - 1 from rank 0 to rank 1, as fast as they are taken, for so long at most. */
static void send_all(uint32_t first, uint32_t n, uint64_t ms)
{
    uint64_t until = clock_now_ns() + ms * CLOCK_NS_PER_MS;
    for (uint32_t i = 0; i < n && clock_now_ns() < until;) {
        int rc = say(0, first + i);
        assert_true(rc == 0 || rc == BATON_EAGAIN);
        i += rc == 0;
        turn(0);
        turn(1);
    }
}

static void all_came_in_order(uint32_t n)
{
    for (int i = 0; i < 200 && ends[1].num_got < n; i++)
        turns(5);
    assert_int_equal(ends[1].num_got, n);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(ends[1].got[i], i);
}

static void rule(enum shim_call call, enum shim_fault fault, uint32_t nth, uint32_t times)
{
    shim_set(&(struct shim_rule){.call = call, .fault = fault, .nth = nth, .times = times, .late_ns = LATE});
}

/* ---- sends ------------------------------------------------------------------------------------------------------- */

/* Each of the first 20 sends is refused, late, lost with an error, or arrives with one: all come, in order, once. */
static void test_one_send_goes_wrong(void **state)
{
    static const enum shim_fault faults[] = {SHIM_FAIL, SHIM_LATE, SHIM_SWAP};
    for (int f = 0; f < 3; f++)
        for (uint32_t nth = 1; nth <= 20; nth++) {
            rule(SHIM_ISEND, faults[f], nth, 1);
            send_all(0, 60, 2000);
            all_came_in_order(60);
            assert_int_equal(shim_met(), 1);
            assert_false(ends[0].control.has_failed || ends[1].control.has_failed);
            end(state);
            begin(state);
        }
}

/*
 * A send is lost with an error while others are under way behind it: those that come are in order, and the pair goes
 * on.
 */
static void test_a_send_is_lost_among_others(void **state)
{
    for (uint32_t nth = 1; nth <= 20; nth++) {
        rule(SHIM_ISEND, SHIM_BREAK, nth, 1);
        send_all(0, 60, 2000);
        turns(100);
        assert_int_equal(shim_met(), 1);
        assert_true(ends[1].num_got >= 59);
        for (uint32_t i = 1; i < ends[1].num_got; i++)
            assert_true(ends[1].got[i] > ends[1].got[i - 1]);
        assert_int_equal(ends[1].got[ends[1].num_got - 1], 59);
        end(state);
        begin(state);
    }
}

/* A send that is alone on its way fails: it is sent again, and nothing is lost. */
static void test_a_lone_send_fails(void **state)
{
    (void)state;
    rule(SHIM_ISEND, SHIM_BREAK, 1, 3);
    assert_int_equal(say(0, 0), 0);
    turns(150);
    assert_int_equal(shim_met(), 3);
    shim_set(NULL);
    send_all(1, 5, 1000);
    all_came_in_order(6);
}

/* Several are lost on their way together: they go again in the order in which they were said. */
static void test_sends_are_lost_together(void **state)
{
    for (uint32_t n = 2; n <= 4; n++) {
        rule(SHIM_ISEND, SHIM_BREAK, 1, n);
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(say(0, i), 0);
        turns(150);
        assert_int_equal(shim_met(), n);
        all_came_in_order(n);
        end(state);
        begin(state);
    }
}

/* Several refusals in a row, for less than the peer's time: nothing new overtakes what waits. */
static void test_sends_fail_for_a_while(void **state)
{
    (void)state;
    rule(SHIM_ISEND, SHIM_FAIL, 3, 5);
    send_all(0, 30, 2000);
    all_came_in_order(30);
    assert_int_equal(shim_met(), 5);
}

static void test_lost_after_its_time_and_back_by_a_send(void **state)
{
    (void)state;
    send_all(0, 3, 1000);
    rule(SHIM_ISEND, SHIM_FAIL, 1, 1000000);
    assert_int_equal(say(0, 77), 0); /* taken, and then waits to be sent again */
    assert_int_equal(say(0, 78), BATON_EAGAIN);
    turns(PEER_MS / 2);
    assert_int_equal(say(0, 78), BATON_EAGAIN);
    turns(PEER_MS);
    assert_int_equal(say(0, 78), BATON_EPEER);
    assert_false(control_busy(&ends[0].control));
    for (int i = 0; i < 100; i++) { /* refused sends cost no credit */
        assert_int_equal(say(0, 78), BATON_EPEER);
        turns(2);
    }
    assert_int_equal(ends[1].num_got, 3);
    shim_set(NULL);
    uint64_t until = clock_now_ns() + 2 * PEER_MS * CLOCK_NS_PER_MS;
    int rc = BATON_EPEER;
    while ((rc = say(0, 3)) == BATON_EPEER && clock_now_ns() < until)
        turns(1);
    assert_int_equal(rc, 0);
    send_all(4, 60, 1000);
    all_came_in_order(64);
}

static void test_back_by_a_message_of_its_own(void **state)
{
    (void)state;
    rule(SHIM_ISEND, SHIM_FAIL, 1, 1000000);
    assert_int_equal(say(0, 77), 0);
    turns(2 * PEER_MS);
    assert_int_equal(say(0, 78), BATON_EPEER);
    shim_set(NULL);
    assert_int_equal(say(1, 1), 0);
    turns(5);
    assert_int_equal(ends[0].num_got, 1);
    send_all(0, 40, 1000);
    all_came_in_order(40);
}

/* From now on no send comes through: the rank is lost after its time, and not before. */
static void lost_after_its_time(void)
{
    rule(SHIM_ISEND, SHIM_FAIL, 1, 1000000);
    assert_int_equal(say(0, 79), 0);
    turns(5);
    assert_int_equal(say(0, 80), BATON_EAGAIN);
    turns(PEER_MS / 2);
    assert_int_equal(say(0, 80), BATON_EAGAIN);
    turns(PEER_MS);
    assert_int_equal(say(0, 80), BATON_EPEER);
}

/* A rank that is back has all its time again, if not one send to it has come through since. */
static void test_back_and_lost_again(void **state)
{
    (void)state;
    lost_after_its_time();
    shim_set(NULL);
    assert_int_equal(say(1, 1), 0);
    turns(5);
    assert_int_equal(ends[0].num_got, 1);
    lost_after_its_time();
    shim_set(NULL);
    assert_int_equal(say(1, 2), 0);
    turns(5);
    send_all(0, 40, 1000);
    all_came_in_order(40);
}

/* A message has all its time, though a confirmation failed long before and no send has come through since. */
static void test_lost_by_messages_alone(void **state)
{
    (void)state;
    rule(SHIM_ISEND, SHIM_FAIL, ENVELOPE_CONFIRM + 1, 1000000);
    for (uint32_t i = 0; i < ENVELOPE_CONFIRM; i++)
        assert_int_equal(say(1, i), 0);
    turns(2 * PEER_MS);
    assert_true(shim_met() > 5); /* it is owed still */
    lost_after_its_time();
    shim_set(NULL);
    assert_int_equal(say(1, ENVELOPE_CONFIRM), 0);
    turns(5);
    send_all(0, 40, 1000);
    all_came_in_order(40);
}

/* The rank is lost again and again while messages wait: their credits come back. */
static void test_lost_many_times(void **state)
{
    (void)state;
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 2; i++)
            ends[i].world.settings.peer_ms = 20;
        rule(SHIM_ISEND, round % 2 ? SHIM_BREAK : SHIM_FAIL, 1, 1000000);
        for (int i = 0; i < 8; i++)
            say(0, 77);
        turns(80);
        assert_int_equal(say(0, 77), BATON_EPEER);
        shim_set(NULL);
        assert_int_equal(say(1, 1), 0);
        turns(20);
    }
    for (int i = 0; i < 2; i++)
        ends[i].world.settings.peer_ms = PEER_MS;
    turns(60);
    ends[1].num_got = 0; /* some came that had been reported as failed */
    send_all(0, 60, 2000);
    all_came_in_order(60);
}

/* A message that MPI took and then reported as failed keeps its memory until the rank is back. */
static void test_memory_that_may_still_be_read(void **state)
{
    (void)state;
    rule(SHIM_ISEND, SHIM_BREAK, 1, 1000000);
    assert_int_equal(say(0, 77), 0);
    turns(2 * PEER_MS);
    assert_int_equal(say(0, 78), BATON_EPEER);
    const struct slot *held = ends[0].control.outbox.by_rank[1]->held;
    assert_non_null(held);
    for (const struct slot *s = ends[0].control.outbox.slots.free; s; s = s->next)
        assert_ptr_not_equal(s, held);
    shim_set(NULL);
    assert_int_equal(say(1, 1), 0);
    turns(50);
    assert_int_equal(say(0, 79), 0);
    turns(5);
    assert_null(ends[0].control.outbox.by_rank[1]->held);
}

static unsigned slots_made(int at)
{
    unsigned n = 0;
    for (const struct slot *s = ends[at].control.outbox.slots.all; s; s = s->next_made)
        n++;
    return n;
}

/* Every send from the nth on is lost, and MPI reports that so many milliseconds later. */
static void lose_sends(uint32_t nth, uint64_t after_ms)
{
    shim_set(&(struct shim_rule){.call = SHIM_ISEND,
                                 .fault = SHIM_BREAK,
                                 .nth = nth,
                                 .times = 1000000,
                                 .late_ns = 16 * after_ms * CLOCK_NS_PER_MS}); /* the shim tells at a 16th of it */
}

/* A failure is reported at once, after the next envelope alone would be due, or when several would be. */
static const uint64_t reported_after_ms[] = {2, PEER_MS / 8 + 10, PEER_MS / 2};

/* While a rank is lost, and every attempt fails after MPI took it, the memory that MPI may still read is bounded. */
static void test_a_lost_rank_takes_no_more_memory(void **state)
{
    for (int a = 0; a < 3; a++) {
        send_all(0, 3, 1000);
        lose_sends(1, reported_after_ms[a]);
        assert_int_equal(say(0, 77), 0);
        turns(4 * PEER_MS);
        assert_int_equal(say(0, 78), BATON_EPEER);
        unsigned made = slots_made(0);
        uint32_t met = shim_met();
        for (int i = 0; i < 400; i++) {
            assert_int_equal(say(0, 78), BATON_EPEER);
            turns(PEER_MS / 8 + 1);
        }
        assert_true(shim_met() - met >= 50);
        assert_true(slots_made(0) <= made + 1);
        shim_set(NULL);
        while (say(0, 3) == BATON_EPEER)
            turns(1);
        send_all(4, 60, 1000);
        all_came_in_order(64);
        end(state);
        begin(state);
    }
}

/* The same where only confirmations are sent. */
static void test_what_is_owed_takes_no_more_memory(void **state)
{
    for (int a = 0; a < 3; a++) {
        lose_sends(ENVELOPE_CONFIRM + 1, reported_after_ms[a]);
        for (uint32_t i = 0; i < ENVELOPE_CONFIRM; i++) {
            assert_int_equal(say(1, i), 0);
            turn(0);
        }
        turns(100 * PEER_MS);
        assert_true(shim_met() > 100);
        assert_true(slots_made(0) <= 2);
        shim_set(NULL);
        turns(PEER_MS);
        for (uint32_t i = 0; i < 4 * ENVELOPE_CREDITS; i++) {
            assert_int_equal(say(1, i), 0);
            turns(1);
        }
        assert_int_equal(ends[0].num_got, ENVELOPE_CONFIRM + 4 * ENVELOPE_CREDITS);
        end(state);
        begin(state);
    }
}

/* Many silent ranks have as many messages under way as they may: the next rank gets a place nevertheless. */
static void test_silent_ranks_keep_no_place_of_others(void **state)
{
    uint32_t word = 0, rank = 2;
    (void)state;
    shim_set(&(struct shim_rule){
        .call = SHIM_ISEND, .fault = SHIM_LATE, .nth = 1, .times = 1000000, .late_ns = 60 * CLOCK_NS_PER_S});
    for (unsigned n = 0; n < 32 * SLOTS_OF_PEER; rank++)
        while (n < 32 * SLOTS_OF_PEER && control_send(&ends[0].control, rank, &word, sizeof word) == 0)
            n++;
    assert_int_equal(shim_late(), 32 * SLOTS_OF_PEER);
    shim_set(NULL);
    for (; rank < RANKS; rank++)
        assert_int_equal(control_send(&ends[0].control, rank, &word, sizeof word), 0);
    send_all(0, 60, 1000);
    all_came_in_order(60);
    assert_int_equal(control_send(&ends[0].control, 2, &word, sizeof word), BATON_EAGAIN);
    now_ns += 60 * CLOCK_NS_PER_S;
    turns(10);
    assert_int_equal(ends[0].control.outbox.num_sending, 0);
    assert_int_equal(ends[0].control.outbox.slots.num_places, 0);
}

/* ---- receives ---------------------------------------------------------------------------------------------------- */

/* Each of the first 20 receives that are posted again is refused or late. */
static void test_one_receive_goes_wrong(void **state)
{
    static const enum shim_fault faults[] = {SHIM_FAIL, SHIM_LATE};
    for (int f = 0; f < 2; f++)
        for (uint32_t nth = 1; nth <= 20; nth++) {
            rule(SHIM_IRECV, faults[f], nth, 1);
            send_all(0, 200, 3000);
            all_came_in_order(200);
            assert_int_equal(shim_met(), 1);
            end(state);
            begin(state);
        }
}

#ifdef OMPI_HAVE_MPI_EXT_FTMPI
/* Processes are lost, again and again: the receives go on, and no message is lost or counted as damaged. */
static void test_receives_are_interrupted(void **state)
{
    (void)state;
    for (uint32_t sent = 0; sent < 400; sent += 20) {
        fake_interrupt(1);
        turns(2);
        send_all(sent, 20, 1000);
    }
    all_came_in_order(400);
    assert_int_equal(ends[1].control.bad, 0);
    fake_interrupt(1);
    turns(3 * PEER_MS);
    assert_false(ends[1].control.has_failed);
}
#endif

/* A receive that fails is a damaged message: it is counted, and those behind it come. */
static void test_a_receive_fails(void **state)
{
    (void)state;
    rule(SHIM_IRECV, SHIM_BREAK, 5, 1);
    send_all(0, 200, 3000);
    for (int i = 0; i < 200 && ends[1].num_got < 199; i++)
        turns(5);
    assert_int_equal(ends[1].num_got, 199);
    assert_int_equal(ends[1].got[198], 199);
    assert_true(ends[1].control.bad >= 1);
    assert_false(ends[1].control.has_failed);
}

/* What is longer than a message can be is refused with the reason, and those behind it come. */
static void test_a_message_is_too_long(void **state)
{
    (void)state;
    static const uint8_t bytes[WIRE_MESSAGE_MAX + ENVELOPE_BYTES + 1];
    MPI_Request request;
    logger = (struct logger){.level = LOG_WARN, .sink = hear};
    assert_int_equal(MPI_Isend(bytes, sizeof bytes, MPI_BYTE, 1, 0, fake_comm(0), &request), MPI_SUCCESS);
    turns(1);
    assert_int_equal(heard.num_lines, 1);
    assert_string_equal(heard.line, "a bad message came from rank 0: it is too long");
    logger = (struct logger){.level = LOG_ERROR};
    assert_int_equal(ends[1].control.bad, 1);
    send_all(0, 60, 1000);
    all_came_in_order(60);
}

/* Rank 0 brings a packet, whoever speaks in it. */
static void hand_over(struct envelope_route route, struct envelope_counts *counts)
{
    static uint8_t packets[8][ENVELOPE_BYTES + 4];
    static unsigned next;
    MPI_Request request;
    uint8_t *packet = packets[next++ % 8];
    const uint32_t number = 1000 + counts->sent;
    memcpy(packet + ENVELOPE_BYTES, &number, sizeof number);
    envelope_seal(counts, route, packet, sizeof number);
    envelope_sent(counts, false);
    assert_int_equal(MPI_Isend(packet, ENVELOPE_BYTES + 4, MPI_BYTE, 1, 0, fake_comm(0), &request), MPI_SUCCESS);
    turns(1);
}

/* What is for another rank, or from none, is refused with the reason, and changes nothing of those behind it. */
static void test_routes_that_lead_nowhere(void **state)
{
    (void)state;
    static const struct {
        struct envelope_route route;
        const char *line;
    } cases[] = {{{0, 0}, "a bad message came from rank 0: it is for another rank"},
                 {{0, UINT32_MAX}, "a bad message came from rank 0: it is for another rank"},
                 {{RANKS, 1},
                  "a bad message came from rank 0: nobody has the number of its sender, or there is no "
                  "memory for its state"},
                 {{UINT32_MAX, 1},
                  "a bad message came from rank 0: nobody has the number of its sender, or there is "
                  "no memory for its state"}};
    for (uint32_t i = 0; i < 4; i++) {
        struct envelope_counts counts = {0};
        heard.num_lines = 0;
        logger = (struct logger){.level = LOG_WARN, .sink = hear};
        hand_over(cases[i].route, &counts);
        logger = (struct logger){.level = LOG_ERROR};
        assert_int_equal(heard.num_lines, 1);
        assert_string_equal(heard.line, cases[i].line);
        assert_int_equal(ends[1].control.bad, i + 1);
        assert_int_equal(ends[1].num_got, 0);
    }
    send_all(0, 60, 1000);
    all_came_in_order(60);
}

/* Who speaks stands in the envelope, not who brought it: each has counts of its own. */
static void test_one_rank_brings_what_others_say(void **state)
{
    (void)state;
    struct envelope_counts counts[3] = {{0}};
    struct end *e = &ends[1];
    for (uint32_t i = 0; i < 6; i++)
        hand_over((struct envelope_route){5 + i % 3, 1}, &counts[i % 3]);
    assert_int_equal(e->control.bad, 0);
    assert_int_equal(e->num_got, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(e->got_from[i], 5 + i % 3);
        assert_int_equal(e->got[i], 1000 + i / 3);
    }
}

/* No receive can be posted: the channel fails after BATON_PEER_MS, and then refuses sends. */
static void test_no_receive_can_be_posted(void **state)
{
    (void)state;
    logger.level = LOG_NONE;
    rule(SHIM_IRECV, SHIM_FAIL, 1, 1000000);
    send_all(0, 60, 200);
    turns(2 * PEER_MS);
    assert_true(ends[1].control.has_failed);
    assert_int_equal(say(1, 0), BATON_EPEER);
    assert_false(control_busy(&ends[1].control));
    logger.level = LOG_ERROR;
}

/* A turn takes 8 messages here: a look at the inbox ends with the turn that finds none left. */
static void test_a_look_takes_all_messages(void **state)
{
    (void)state;
    enum { MESSAGES = 20 };
    struct end *e = &ends[1];
    for (uint32_t i = 0; i < MESSAGES; i++)
        assert_int_equal(say(0, i), 0);
    turn(0);
    control_look(&e->control);
    for (unsigned left = MESSAGES; left > 0; left = MESSAGES - e->num_got) {
        assert_false(control_has_looked(&e->control));
        turn(1);
    }
    assert_true(control_has_looked(&e->control));
    all_came_in_order(MESSAGES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_look_takes_all_messages, begin, end),
        cmocka_unit_test_setup_teardown(test_one_send_goes_wrong, begin, end),
        cmocka_unit_test_setup_teardown(test_a_send_is_lost_among_others, begin, end),
        cmocka_unit_test_setup_teardown(test_a_lone_send_fails, begin, end),
        cmocka_unit_test_setup_teardown(test_sends_are_lost_together, begin, end),
        cmocka_unit_test_setup_teardown(test_sends_fail_for_a_while, begin, end),
        cmocka_unit_test_setup_teardown(test_lost_after_its_time_and_back_by_a_send, begin, end),
        cmocka_unit_test_setup_teardown(test_back_by_a_message_of_its_own, begin, end),
        cmocka_unit_test_setup_teardown(test_back_and_lost_again, begin, end),
        cmocka_unit_test_setup_teardown(test_lost_by_messages_alone, begin, end),
        cmocka_unit_test_setup_teardown(test_lost_many_times, begin, end),
        cmocka_unit_test_setup_teardown(test_memory_that_may_still_be_read, begin, end),
        cmocka_unit_test_setup_teardown(test_a_lost_rank_takes_no_more_memory, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_owed_takes_no_more_memory, begin, end),
        cmocka_unit_test_setup_teardown(test_silent_ranks_keep_no_place_of_others, begin, end),
        cmocka_unit_test_setup_teardown(test_one_receive_goes_wrong, begin, end),
        cmocka_unit_test_setup_teardown(test_a_receive_fails, begin, end),
#ifdef OMPI_HAVE_MPI_EXT_FTMPI
        cmocka_unit_test_setup_teardown(test_receives_are_interrupted, begin, end),
#endif
        cmocka_unit_test_setup_teardown(test_a_message_is_too_long, begin, end),
        cmocka_unit_test_setup_teardown(test_routes_that_lead_nowhere, begin, end),
        cmocka_unit_test_setup_teardown(test_one_rank_brings_what_others_say, begin, end),
        cmocka_unit_test_setup_teardown(test_no_receive_can_be_posted, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
