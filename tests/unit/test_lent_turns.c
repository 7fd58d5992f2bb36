/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lent_turns: who makes turns while the reactor sleeps, for how long, and when bells ring (front/turns.c). The clock,
 * the turns themselves and what they ask of the paths are made up; bells and rings are real.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/task.h"
#include "shm/rings.h"
#include "unit/with_front.h"
#include "with_fakes.h"
#include "with_vicinity.h"
#include "with_set_clock.h"

#define US CLOCK_NS_PER_US
#define INLINE_BYTES 1000
#define SLEEP_US 500
#define SPIN_US 20
#define LONG_NS CLOCK_NS_PER_S /* a time left in which a worker may be asked */

/* What they say, and what they were asked. */
static struct {
    struct bell mine, theirs;
    uint64_t turn_ns, yield_ns;   /* a turn takes so long; a yield so much more than 1 us */
    unsigned active;              /* so many of the next turns do something */
    unsigned stops_polling_after; /* so many turns; 0: never */
    unsigned turns, yields;
    uint64_t last_turn_us; /* so long ago a turn was made */
    uint64_t began;        /* of the last turn */
    bool was_lent, lends;
} they;

static struct baton b;

bool reactor_turn(struct baton *of, uint64_t began)
{
    they.turns++;
    they.began = began;
    they.was_lent = of->loop.turns.is_lent;
    assert_int_equal(they.lends, they.was_lent); /* the paths know */
    now_ns += they.turn_ns;
    if (they.stops_polling_after != 0 && they.turns >= they.stops_polling_after)
        front.says.reactor_must_poll = false;
    if (they.active == 0)
        return false;
    they.active--;
    return true;
}

uint64_t reactor_turned_ns(const struct baton *of)
{
    (void)of;
    return now_ns - they.last_turn_us * US;
}

void paths_lend(struct paths *p, bool is_lent)
{
    (void)p;
    assert_int_equal(they.lends, !is_lent);
    they.lends = is_lent;
}

int sched_yield(void)
{
    they.yields++;
    now_ns += US + they.yield_ns;
    return 0;
}

static struct fakes fakes;
static struct vicinity *vicinity;

/* A reactor that sleeps for a second, in a world where turns are lent. A long time has passed. */
static int begin(void **state)
{
    (void)state;
    now_ns += 1000 * CLOCK_NS_PER_S;
    memset(&they, 0, sizeof they);
    memset(&b, 0, sizeof b);
    fakes_init(&fakes);
    front_init();
    fakes.ground.segment = (uint8_t *)&they.mine;
    b.on = (struct footing){.ground = &fakes.ground, .mode = BATON_PROGRESS_THREAD};
    bell_init(&they.mine);
    bell_init(&they.theirs);
    vicinity = with_vicinity(0, 1, &(uint32_t){0}, 1);
    assert_int_equal(rings_create(vicinity, &front.rings), 0);
    rings_join(front.rings, 0, &they.theirs);
    they.turn_ns = US;
    b.settings.inline_bytes = INLINE_BYTES;
    b.settings.sleep_us = SLEEP_US;
    b.settings.spin_us = SPIN_US;
    mpsc_init(&b.submits, 4);
    b.port = &fakes.port;
    turns_init(&b.loop.turns);
    assert_false(b.loop.turns.can_lend || b.loop.turns.is_open);
    b.loop.is_threaded = true;
    b.loop.turns.can_lend = b.loop.turns.is_open = true;
    b.loop.turns.woken_ns = now_ns + CLOCK_NS_PER_S;
    return 0;
}

static int end(void **state)
{
    (void)state;
    assert_int_equal(owned_by(&b.loop.turns.lock), 0); /* nobody has kept it */
    assert_false(b.loop.turns.is_lent);
    rings_destroy(front.rings);
    vicinity_destroy(vicinity);
    return 0;
}

static uint32_t rung(void)
{
    return bell_read(&they.mine);
}

static uint32_t rung_theirs(void)
{
    return bell_read(&they.theirs);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void test_a_call_makes_turns(void **state)
{
    (void)state;
    const uint64_t began = now_ns;
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(they.turns, 1);
    assert_int_equal(they.began, began);
    assert_true(they.was_lent);
    assert_int_equal(b.loop.turns.count[TURNS_CALL], 1);
    assert_int_equal(b.loop.turns.last_ns, began + US);
    assert_int_equal(rung(), 0);
    assert_int_equal(front.asked.paths_ask, 0);
    they.active = 2; /* as long as more happens by itself */
    fakes.says.busy = true;
    turns_call(&b, now_ns, 1, INLINE_BYTES, LONG_NS);
    assert_int_equal(they.turns, 4);
    assert_int_equal(rung(), 0);
    they.active = 3;
    fakes.says.busy = false; /* the first did all */
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(they.turns, 5);
    assert_int_equal(rung(), 0);
}

static void test_what_goes_on_by_itself(void **state)
{
    (void)state;
    struct mpsc_item call;
    they.active = 1;
    assert_true(mpsc_reserve(&b.submits));
    mpsc_push(&b.submits, &call);
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(they.turns, 2);
    assert_ptr_equal(mpsc_pop(&b.submits), &call);
    they.active = 1;
    b.loop.is_cut = true;
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(they.turns, 4);
    assert_int_equal(rung(), 1); /* what is cut off still is the reactor's */
}

/* A transfer takes four turns: these are made however long they take. More begin for 50 us between two polls. */
static void test_a_call_does_not_last(void **state)
{
    (void)state;
    they.active = 1000;
    fakes.says.busy = true;
    they.turn_ns = 40 * US;
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(they.turns, 4);
    assert_int_equal(rung(), 1); /* the reactor is left more */
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(they.turns, 4);
    assert_int_equal(rung(), 2);
    they.active = 0; /* nothing is left, but this call may not look */
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(they.turns, 4);
    assert_int_equal(rung(), 3);
    assert_false(turns_polled(&b, true)); /* now it may again */
    they.active = 1000;
    they.turn_ns = 5 * US;
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(they.turns, 4 + 10);
    assert_int_equal(rung(), 4);
    turns_call(&b, now_ns, 1, 1, LONG_NS); /* just these 50 us are over */
    assert_int_equal(they.turns, 4 + 10);
}

/* Several calls between two polls have these 50 us together. */
static void test_calls_share_their_time(void **state)
{
    (void)state;
    they.turn_ns = 20 * US;
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(rung(), 0);
    they.active = 1000;
    fakes.says.busy = true;
    they.turn_ns = US;
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(they.turns, 2 + 10);
    assert_int_equal(rung(), 1);
}

/* What is due sooner than the reactor wakes, or is found by polling alone, wakes it. */
static void test_the_reactor_is_needed(void **state)
{
    (void)state;
    front.says.core_next_ns = b.loop.turns.woken_ns;
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(rung(), 0);
    front.says.core_next_ns--;
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(rung(), 1);
    front.says.core_next_ns = UINT64_MAX;
    front.says.reactor_must_poll = true;
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(rung(), 2);
    assert_int_equal(they.turns, 3);
}

static void test_nobody_else_may(void **state)
{
    (void)state;
    b.loop.turns.can_lend = false;
    turns_call(&b, now_ns, 1, 10 * INLINE_BYTES, LONG_NS);
    assert_int_equal(rung(), 1);
    b.loop.turns.can_lend = true;
    b.loop.turns.is_open = false;
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(rung(), 2);
    assert_false(turns_polled(&b, false));
    turns_worker(&b, true);
    assert_int_equal(rung(), 3);
    turns_rung(&b);
    assert_int_equal(rung(), 4);
    b.loop.turns.is_open = true;
    assert_true(owned_try(&b.loop.turns.lock)); /* somebody makes one */
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(rung(), 5);
    bell_ring(&they.mine);
    assert_false(turns_polled(&b, false));
    turns_worker(&b, true);
    turns_rung(&b);
    assert_int_equal(rung(), 8);
    owned_give(&b.loop.turns.lock);
    assert_int_equal(they.turns, 0);
    assert_int_equal(front.asked.paths_ask, 0);
}

/* Polls one after another for so long. */
static void spin(uint64_t ns)
{
    for (const uint64_t until = now_ns + ns; now_ns < until; now_ns += US)
        assert_false(turns_polled(&b, false));
}

/* A thread that the scheduler ranks below the reactor may lose its CPU in a turn, and hold up all others. */
static void test_a_thread_of_low_priority(void **state)
{
    (void)state;
    b.loop.turns.least_rank = task_rank(0);
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(they.turns, 1);
    assert_int_equal(rung(), 0);
    b.loop.turns.least_rank++;
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(rung(), 1);
    assert_false(turns_polled(&b, false));
    turns_worker(&b, true);
    assert_int_equal(they.turns, 1);
    b.loop.turns.woken_ns = now_ns + 150 * US;
    for (unsigned i = 0; i < 200; i++, now_ns += US)
        assert_false(turns_polled(&b, false));
    assert_int_equal(they.mine.attended_ns, 0); /* nor does it look at the bell for others */
    assert_int_equal(b.loop.turns.attended_ns, 0);
    assert_true(they.yields > 0);
}

/* Who does nothing but poll makes a turn 50 us after the last one: rings for what others' words tell are put off. */
static void test_a_poll_that_nobody_rang_for(void **state)
{
    (void)state;
    b.loop.turns.woken_ns = now_ns + TURNS_OWED_NS;
    they.last_turn_us = 51;
    spin(100 * US);
    assert_int_equal(they.turns, 0);
    assert_true(turns_polled(&b, false));
    assert_int_equal(they.turns, 1);
    they.last_turn_us = 50;
    assert_false(turns_polled(&b, false));
    assert_int_equal(they.turns, 1);
}

/* A reactor that should have made a turn 2 ms ago has no CPU: a poll makes its turns until it does. */
static void test_a_reactor_without_a_core(void **state)
{
    (void)state;
    b.loop.turns.woken_ns = now_ns - 2000 * US;
    assert_false(turns_polled(&b, false));
    now_ns++;
    assert_true(turns_polled(&b, false));
    assert_int_equal(they.turns, 1);
    front.says.core_next_ns = now_ns + CLOCK_NS_PER_S;
    assert_true(turns_polled(&b, false));
    assert_int_equal(they.turns, 2);
    b.loop.turns.woken_ns = 0; /* it makes one */
    assert_false(turns_polled(&b, false));
    assert_int_equal(they.turns, 2);
}

/* A call of many blocks is the reactor's, and so is all that comes before it has taken it. */
static void test_a_call_of_many_blocks(void **state)
{
    (void)state;
    turns_call(&b, now_ns, 4096, 1, LONG_NS);
    assert_int_equal(they.turns, 1);
    turns_call(&b, now_ns, 4097, 10 * INLINE_BYTES, LONG_NS);
    assert_int_equal(rung(), 1);
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(rung(), 2);
    assert_false(turns_polled(&b, false));
    turns_worker(&b, true);
    assert_int_equal(they.turns, 1);
    assert_int_equal(front.asked.paths_ask, 0);
    b.loop.turns.has_long = false;
    turns_call(&b, now_ns, 1, 1, LONG_NS);
    assert_int_equal(they.turns, 2);
}

/* More than a caller copies is left to a worker that is free, unless its deadline is near. */
static void test_a_worker_is_asked(void **state)
{
    (void)state;
    front.says.paths_ask = true;
    turns_call(&b, now_ns, 1, INLINE_BYTES + 1, SLEEP_US * US + 1);
    assert_int_equal(front.asked.paths_ask, 1);
    assert_int_equal(they.turns, 0);
    assert_int_equal(rung(), 0);
    turns_call(&b, now_ns, 1, INLINE_BYTES + 1, SLEEP_US * US);
    turns_call(&b, now_ns, 1, INLINE_BYTES, LONG_NS);
    assert_int_equal(front.asked.paths_ask, 1);
    assert_int_equal(they.turns, 2);
    front.says.paths_ask = false;
    turns_call(&b, now_ns, 1, INLINE_BYTES + 1, LONG_NS);
    assert_int_equal(front.asked.paths_ask, 2);
    assert_int_equal(they.turns, 3);
}

/* ---- polls ------------------------------------------------------------------------------------------------------- */

static void test_a_poll_that_heard_a_ring(void **state)
{
    (void)state;
    assert_false(turns_polled(&b, false));
    bell_ring(&they.mine);
    assert_false(turns_polled(&b, true)); /* it found events */
    b.loop.is_threaded = false;
    assert_false(turns_polled(&b, false));
    b.loop.is_threaded = true;
    assert_int_equal(they.turns, 0);
    assert_true(turns_polled(&b, false));
    assert_int_equal(they.turns, 1);
    assert_int_equal(b.loop.turns.count[TURNS_POLL], 1);
    assert_int_equal(rung(), 1);
    assert_false(turns_polled(&b, false)); /* that ring was seen */
    bell_ring(&they.mine);
    assert_int_equal(turns_look(&b), 2);
    assert_false(turns_polled(&b, false));
    bell_ring(&they.mine);
    front.says.reactor_must_poll = true;
    assert_true(turns_polled(&b, false));
    assert_int_equal(rung(), 4); /* it wakes the reactor, which is no news to the next poll */
    assert_false(turns_polled(&b, false));
    assert_int_equal(they.turns, 2);
}

/* Who has polled for 10 us does slices of copies, one a poll: unless a turn is due, or turns are not lent to it. */
static void test_a_thread_that_polls_helps(void **state)
{
    (void)state;
    front.says.paths_help = true;
    spin(10 * US);
    assert_int_equal(front.asked.paths_help, 0);
    assert_true(turns_polled(&b, false));
    assert_int_equal(front.asked.paths_help, 1);
    front.says.paths_help = false;
    assert_false(turns_polled(&b, false));
    assert_int_equal(front.asked.paths_help, 2);
    assert_false(turns_polled(&b, true)); /* it found events */
    bell_ring(&they.mine);
    assert_true(turns_polled(&b, false));
    assert_int_equal(they.turns, 1);
    b.loop.turns.is_open = false;
    assert_false(turns_polled(&b, false));
    b.loop.turns.is_open = true;
    b.loop.abandon = true; /* MPI may free what is copied */
    assert_false(turns_polled(&b, false));
    b.loop.abandon = false;
    b.loop.turns.least_rank = task_rank(0) + 1;
    assert_false(turns_polled(&b, false));
    b.loop.turns.least_rank = 0;
    assert_true(owned_try(&b.loop.turns.lock)); /* somebody makes a turn, which may tell of the end */
    assert_false(turns_polled(&b, false));
    owned_give(&b.loop.turns.lock);
    assert_int_equal(front.asked.paths_help, 2);
    assert_int_equal(b.loop.turns.ringing, 0);
    assert_false(turns_polled(&b, false));
    assert_int_equal(front.asked.paths_help, 3);
    now_ns += 51 * US; /* it did something else meanwhile */
    assert_false(turns_polled(&b, false));
    assert_int_equal(front.asked.paths_help, 3);
}

/* Who has polled for 100 us attends to the bell, if the reactor wakes within 2 ms. Else it is woken first, once. */
static void test_a_thread_that_polls_attends(void **state)
{
    (void)state;
    b.loop.turns.woken_ns = now_ns + 150 * US + TURNS_OWED_NS;
    spin(100 * US);
    assert_int_equal(they.mine.attended_ns, 0);
    assert_int_equal(b.loop.turns.attended_ns, 0);
    assert_false(turns_polled(&b, false));
    assert_int_equal(b.loop.turns.attended_ns, now_ns);
    assert_int_equal(they.mine.attended_ns, 0);
    assert_int_equal(rung(), 1);
    spin(49 * US);
    assert_int_equal(rung(), 1);
    assert_int_equal(they.mine.attended_ns, 0);
    now_ns += US; /* 150 us have passed */
    assert_false(turns_polled(&b, false));
    assert_int_equal(they.mine.attended_ns, now_ns);
    assert_int_equal(rung(), 1);
    assert_int_equal(they.turns, 0);
    b.loop.turns.woken_ns = now_ns + CLOCK_NS_PER_S; /* it slept again, for long */
    assert_false(turns_polled(&b, false));
    assert_int_equal(rung(), 2);
    now_ns += 50 * US; /* polls so far apart follow each other */
    assert_false(turns_polled(&b, false));
    assert_int_equal(b.loop.turns.attended_ns, now_ns);
    const uint64_t last = b.loop.turns.attended_ns;
    now_ns += US;
    bell_ring(&they.mine);
    assert_true(turns_polled(&b, false)); /* one that makes a turn has not found nothing yet */
    b.loop.turns.is_open = false;
    assert_false(turns_polled(&b, false));
    b.loop.turns.is_open = true;
    assert_int_equal(b.loop.turns.attended_ns, last);
    assert_int_equal(they.turns, 1);
    now_ns += 50 * US + 1; /* these do not */
    assert_false(turns_polled(&b, false));
    assert_int_equal(b.loop.turns.attended_ns, last);
    assert_int_equal(they.yields, 0);
}

/* Where another thread makes the turns, a thread that does nothing but poll yields at each poll in vain. */
static void test_a_thread_that_polls_gives_way(void **state)
{
    (void)state;
    b.loop.turns.can_lend = false;
    spin(100 * US);
    assert_int_equal(they.yields, 0);
    assert_false(turns_polled(&b, false));
    assert_int_equal(they.yields, 1);
    they.yield_ns = 3000 * US; /* another thread had the core meanwhile */
    assert_false(turns_polled(&b, false));
    assert_int_equal(they.yields, 2);
    they.yield_ns = 0;
    now_ns += 50 * US; /* it polls on */
    assert_false(turns_polled(&b, false));
    assert_int_equal(they.yields, 3);
    assert_false(turns_polled(&b, true)); /* not in vain */
    b.loop.is_threaded = false;
    assert_false(turns_polled(&b, false)); /* nobody else makes turns */
    b.loop.is_threaded = true;
    assert_int_equal(they.yields, 3);
    b.loop.turns.can_lend = b.loop.turns.has_long = true;
    assert_false(turns_polled(&b, false));
    assert_int_equal(they.yields, 4);
    b.loop.turns.has_long = false;
    assert_true(owned_try(&b.loop.turns.lock));
    assert_false(turns_polled(&b, false));
    owned_give(&b.loop.turns.lock);
    assert_int_equal(they.yields, 5);
    b.loop.turns.can_lend = false;
    now_ns += 50 * US + 1; /* it did something else */
    assert_false(turns_polled(&b, false));
    assert_int_equal(they.yields, 5);
    assert_int_equal(b.loop.turns.attended_ns, 0);
    assert_int_equal(they.turns, 0);
}

/* ---- copy workers and doorbells ---------------------------------------------------------------------------------- */

static void test_a_worker_whose_jobs_run_out(void **state)
{
    (void)state;
    turns_worker(&b, true);
    assert_int_equal(they.turns, 1);
    assert_int_equal(b.loop.turns.count[TURNS_WORKER], 1);
    assert_int_equal(rung(), 0);
    turns_worker(&b, false); /* it has more to do */
    assert_int_equal(they.turns, 1);
    assert_int_equal(rung(), 1);
    front.says.reactor_must_poll = true;
    turns_worker(&b, true);
    assert_int_equal(they.turns, 2);
    assert_int_equal(rung(), 2);
    b.loop.turns.can_lend = false;
    turns_worker(&b, true);
    assert_int_equal(they.turns, 2);
    assert_int_equal(rung(), 3);
    b.loop.abandon = true; /* MPI may free the bell */
    turns_worker(&b, true);
    turns_call(&b, now_ns, 1, 1, CLOCK_NS_PER_S);
    assert_int_equal(rung(), 3);
    b.loop.abandon = false;
    b.on.mode = BATON_PROGRESS_CALLER; /* nobody waits on it */
    turns_worker(&b, true);
    turns_call(&b, now_ns, 1, 1, CLOCK_NS_PER_S);
    assert_int_equal(rung(), 3);
    b.on.mode = BATON_PROGRESS_THREAD;
    assert_true(turns_rest(&b, now_ns));
    b.loop.turns.ringing = 1;
    const uint64_t until = now_ns + 5 * US;
    assert_false(turns_rest(&b, until));
    assert_true(now_ns > until && they.yields == 6);
    b.loop.turns.ringing = 0;
}

/* Turns while anything happens, and for as long after it as the reactor spins. */
static void test_a_ring_from_another_node(void **state)
{
    (void)state;
    b.loop.turns.can_lend = false;
    they.active = 5;
    bell_ring(&they.mine);
    turns_rung(&b);
    assert_int_equal(they.turns, 5 + SPIN_US);
    assert_int_equal(b.loop.turns.count[TURNS_DOORBELL], 5 + SPIN_US);
    assert_false(they.was_lent);
    assert_int_equal(rung(), 2); /* for what comes later */
    assert_int_equal(b.loop.turns.seen, 1);
    assert_int_equal(they.yields, 0);
    front.says.paths_has_driver = true;
    turns_rung(&b);
    assert_int_equal(they.turns, 5 + SPIN_US);
    assert_int_equal(rung(), 3);
}

static void test_what_a_ring_brings_takes_long(void **state)
{
    (void)state;
    front.says.reactor_must_poll = true;
    they.stops_polling_after = 100;
    turns_rung(&b);
    assert_int_equal(they.turns, 100);
    assert_int_equal(they.yields, 99);
    they.stops_polling_after = 0;
    front.says.reactor_must_poll = true;
    they.active = 1000000;
    const uint64_t began = now_ns;
    turns_rung(&b); /* 10 ms, then the reactor goes on */
    assert_int_equal(now_ns - began, 10 * CLOCK_NS_PER_MS);
    front.says.reactor_must_end = true;
    they.turns = 0;
    turns_rung(&b);
    assert_int_equal(they.turns, 0);
}

/* ---- rings that are put off -------------------------------------------------------------------------------------- */

/* At the end of a turn: whether the ring that can wait was put off. */
static bool is_put_off(void)
{
    const uint32_t before = rung_theirs();
    rings_owe(front.rings, 0, RINGS_LATER);
    turns_ring(&b, now_ns);
    const bool is = rung_theirs() == before;
    assert_int_equal(rings_wait(front.rings), is);
    assert_int_equal(b.loop.turns.owed_ns, is ? now_ns : 0);
    turns_ring_all(&b);
    assert_int_equal(rung_theirs(), before + 1);
    assert_int_equal(b.loop.turns.owed_ns, 0);
    return is;
}

static void test_a_lent_turn_puts_rings_off(void **state)
{
    (void)state;
    b.loop.turns.is_lent = true;
    b.loop.turns.last_ns = now_ns;
    b.loop.turns.woken_ns = now_ns + TURNS_OWED_NS - 1;
    assert_true(is_put_off());
    b.loop.turns.woken_ns++;
    assert_false(is_put_off());
    b.loop.turns.woken_ns = now_ns;
    rings_owe(front.rings, 0, RINGS_NOW);
    const uint32_t before = rung_theirs();
    turns_ring(&b, now_ns);
    assert_int_equal(rung_theirs(), before + 1);
    b.loop.turns.is_lent = false;
}

static void test_a_reactor_puts_rings_off(void **state)
{
    (void)state;
    assert_false(is_put_off());
    assert_int_equal(turns_due_ns(&b), UINT64_MAX);
    b.loop.woke_ns = now_ns;
    assert_true(is_put_off());
    assert_int_equal(turns_due_ns(&b), UINT64_MAX);
    now_ns += US;
    rings_owe(front.rings, 0, RINGS_LATER);
    turns_ring(&b, now_ns);
    assert_int_equal(b.loop.turns.owed_ns, now_ns);
    assert_int_equal(turns_due_ns(&b), now_ns - US + TURNS_AWAKE_NS);
    now_ns += TURNS_AWAKE_NS - US - 1;
    const uint32_t before = rung_theirs();
    turns_ring(&b, now_ns);
    assert_int_equal(rung_theirs(), before);
    now_ns++;
    turns_ring(&b, now_ns);
    assert_int_equal(rung_theirs(), before + 1);
    assert_false(is_put_off());
    assert_int_equal(turns_due_ns(&b), UINT64_MAX);
}

/* A reactor that wakes its engine again and again puts a ring off no further. */
static void test_a_ring_is_not_put_off_for_ever(void **state)
{
    (void)state;
    b.loop.woke_ns = now_ns;
    rings_owe(front.rings, 0, RINGS_LATER);
    turns_ring(&b, now_ns);
    const uint64_t owed = now_ns;
    for (; now_ns < owed + TURNS_AWAKE_NS; now_ns += US) {
        b.loop.woke_ns = now_ns;
        turns_ring(&b, now_ns);
        assert_int_equal(rung_theirs(), 0);
        assert_int_equal(turns_due_ns(&b), owed + TURNS_AWAKE_NS);
    }
    b.loop.woke_ns = now_ns;
    turns_ring(&b, now_ns);
    assert_int_equal(rung_theirs(), 1);
}

/* A poll that finds nothing makes them; one that has heard a ring makes its turn first, unless they are old. */
static void test_a_poll_makes_them(void **state)
{
    (void)state;
    b.loop.woke_ns = now_ns;
    rings_owe(front.rings, 0, RINGS_LATER);
    turns_ring(&b, now_ns);
    assert_int_equal(rung_theirs(), 0);
    assert_false(turns_polled(&b, true));
    assert_int_equal(rung_theirs(), 0);
    assert_false(turns_polled(&b, false));
    assert_int_equal(rung_theirs(), 1);
    rings_owe(front.rings, 0, RINGS_LATER);
    turns_ring(&b, now_ns);
    bell_ring(&they.mine);
    now_ns += TURNS_OWED_NS;
    assert_true(turns_polled(&b, false));
    assert_int_equal(rung_theirs(), 1);
    bell_ring(&they.mine);
    assert_true(turns_polled(&b, false));
    assert_int_equal(rung_theirs(), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_call_makes_turns, begin, end),
        cmocka_unit_test_setup_teardown(test_what_goes_on_by_itself, begin, end),
        cmocka_unit_test_setup_teardown(test_a_call_does_not_last, begin, end),
        cmocka_unit_test_setup_teardown(test_calls_share_their_time, begin, end),
        cmocka_unit_test_setup_teardown(test_the_reactor_is_needed, begin, end),
        cmocka_unit_test_setup_teardown(test_nobody_else_may, begin, end),
        cmocka_unit_test_setup_teardown(test_a_thread_of_low_priority, begin, end),
        cmocka_unit_test_setup_teardown(test_a_poll_that_nobody_rang_for, begin, end),
        cmocka_unit_test_setup_teardown(test_a_reactor_without_a_core, begin, end),
        cmocka_unit_test_setup_teardown(test_a_call_of_many_blocks, begin, end),
        cmocka_unit_test_setup_teardown(test_a_worker_is_asked, begin, end),
        cmocka_unit_test_setup_teardown(test_a_poll_that_heard_a_ring, begin, end),
        cmocka_unit_test_setup_teardown(test_a_thread_that_polls_helps, begin, end),
        cmocka_unit_test_setup_teardown(test_a_thread_that_polls_attends, begin, end),
        cmocka_unit_test_setup_teardown(test_a_thread_that_polls_gives_way, begin, end),
        cmocka_unit_test_setup_teardown(test_a_worker_whose_jobs_run_out, begin, end),
        cmocka_unit_test_setup_teardown(test_a_ring_from_another_node, begin, end),
        cmocka_unit_test_setup_teardown(test_what_a_ring_brings_takes_long, begin, end),
        cmocka_unit_test_setup_teardown(test_a_lent_turn_puts_rings_off, begin, end),
        cmocka_unit_test_setup_teardown(test_a_reactor_puts_rings_off, begin, end),
        cmocka_unit_test_setup_teardown(test_a_ring_is_not_put_off_for_ever, begin, end),
        cmocka_unit_test_setup_teardown(test_a_poll_makes_them, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
