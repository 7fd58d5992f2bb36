/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reactor: what a turn does, how long the thread sleeps between two, and how it is stopped (front/reactor.c). The
 * clock, the core, the paths and all other parts of the context are made up.
 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "shm/rings.h"
#include "unit/with_front.h"
#include "with_fakes.h"
#include "with_heard.h"
#include "with_set_clock.h"

#define US CLOCK_NS_PER_US
#define MS CLOCK_NS_PER_MS
#define SPIN_US 20
#define SLEEP_US 100000
#define IDLE_US 2000
#define STATS_MS 1000
#define PEER_MS 5000
#define CLOSE_MS 30000

/* What they say, and what they were asked. */
static struct {
    struct bell bell;
    bool refuses_events, gives_up_in_ring;
    bool is_read; /* a thread reads the snapshot */
    unsigned waits_in_vain, helped, wakes, answers_wake;
    bool was_stalled, never_ends;
    int num_events, steps_to_close, close_rc;
    bool holds; /* the lock is held in a turn: the thread makes it */
    uint64_t took_ns, yield_ns;
    unsigned outcomes;
    /* asked */
    unsigned submitted, declined, stepped, stepped_events, rung_now, turn_rings, snapshots;
    unsigned asked_for_ends, opened, put, given_up, yields, begun, closes, stalls_ended;
    uint64_t turn_of_stall, pause_ns;
    uint64_t step_ns, heard_ns;
    uint64_t looks;        /* begun */
    uint64_t turns_a_look; /* the paths hand out all that was marked in so many turns; 0: in each */
    uint64_t turns_looked;
    bool was_open; /* others could make turns during the first one */
    uint64_t rung_ns;
} they;

static struct fakes fakes;
static struct baton b;

int sched_yield(void)
{
    they.yields++;
    assert_true(b.loop.turns.woken_ns == 0 || b.loop.turns.woken_ns == now_ns); /* it does not mean to sleep */
    now_ns += they.yield_ns;
    return 0;
}

/* The thread of the reactor, where it is awaited: it has come to its end, unless it never does. */
bool latch_wait(struct latch *l, uint64_t until_ns)
{
    assert_ptr_equal(l, &b.loop.ended);
    if (they.pause_ns > 0) { /* the process was paused for so long; then the thread has had no time yet */
        now_ns = until_ns + they.pause_ns;
        they.pause_ns = 0;
        return false;
    }
    if (!they.never_ends)
        return true;
    now_ns = until_ns;
    return false;
}

void latch_open(struct latch *l)
{
    assert_ptr_equal(l, &b.loop.ended);
    they.opened++;
}

void bell_sleep(struct bell *bell, uint32_t seen, uint64_t timeout_ns)
{
    (void)bell, (void)seen;
    assert_int_equal(b.loop.turns.woken_ns, now_ns + timeout_ns);
    now_ns += timeout_ns;
}

void bell_ring(struct bell *bell)
{
    atomic_fetch_add(&bell->rings, 1);
}

void core_submit(struct core *core, uint64_t now, struct call *call)
{
    (void)core, (void)call;
    assert_int_equal(now, now_ns);
    they.submitted++;
}

void core_decline(struct core *core, uint64_t now, struct call *call, int error, const char *detail)
{
    (void)core, (void)now, (void)call, (void)detail;
    assert_int_equal(error, BATON_ESTALL);
    they.declined++;
}

void core_step(struct core *core, uint64_t now, uint64_t heard_ns, const struct port_event *events, int num)
{
    (void)core, (void)events;
    they.step_ns = now;
    they.heard_ns = heard_ns;
    they.stepped++;
    they.stepped_events += (unsigned)num;
}

void core_give_up(struct core *core, uint64_t now, baton_id_t id, baton_status_t status, int error, const char *detail)
{
    (void)core, (void)now, (void)id, (void)status, (void)error, (void)detail;
    assert_int_equal(reactor_turn_ns(&b), now_ns); /* what is left of the turn is not MPI's */
    they.given_up++;
}

bool core_has_outcome(const struct core *core)
{
    (void)core;
    return they.outcomes > 0;
}

struct outcome *core_take(struct core *core)
{
    (void)core;
    assert_true(they.outcomes > 0);
    they.outcomes--;
    struct outcome *outcome = calloc(1, sizeof *outcome);
    return outcome;
}

bool calls_is_given_up(struct calls *c, uint32_t place)
{
    (void)c;
    assert_int_equal(place, 7);
    return they.gives_up_in_ring;
}

/* As many as there is room for, then one, then none. */
uint32_t calls_given_up(struct calls *c, struct calls_end *ends, uint32_t max)
{
    (void)c;
    memset(ends, 0, max * sizeof *ends);
    return (uint32_t[]){max, 1, 0}[they.asked_for_ends++ % 3];
}

bool events_put(struct events *e, struct outcome *outcome)
{
    (void)e;
    if (they.refuses_events)
        return false;
    they.put++;
    free(outcome);
    return true;
}

void closing_begin(struct baton *of, uint64_t now)
{
    (void)now;
    of->closing.begun = true;
    they.begun++;
}

int closing_step(struct baton *of, uint64_t now)
{
    (void)of, (void)now;
    they.closes++;
    return they.steps_to_close-- > 0 ? BATON_EAGAIN : they.close_rc;
}

void rings_ring(struct rings *r, enum rings_when least)
{
    (void)r;
    assert_int_equal(least, RINGS_NOW);
    they.rung_now++;
}

void outcome_free(struct outcome *outcome)
{
    free(outcome);
}

bool snapshot_put(struct snapshot *s, const struct core *core, uint64_t now)
{
    (void)s, (void)core, (void)now;
    they.snapshots += !they.is_read;
    return !they.is_read;
}

void stall_help(struct baton *of, uint64_t now)
{
    assert_ptr_equal(of, &b);
    assert_int_equal(now, now_ns);
    they.helped++;
}

/* The lock, and waits for it that are in vain. */
bool owned_try(struct owned *o)
{
    assert_ptr_equal(o, &b.loop.turns.lock);
    assert_int_equal(o->word, 0);
    o->word = 1;
    return true;
}

bool owned_take(struct owned *o, uint64_t until_ns)
{
    if (they.waits_in_vain == 0)
        return owned_try(o);
    they.waits_in_vain--;
    assert_int_equal(until_ns, now_ns + STALL_LATE_NS / 2);
    now_ns = until_ns;
    return false;
}

void owned_give(struct owned *o)
{
    assert_int_equal(o->word, 1);
    o->word = 0;
}

uint32_t owned_by(const struct owned *o)
{
    return o->word;
}

bool stall_end(struct baton *of)
{
    they.turn_of_stall = reactor_turn_ns(of);
    they.stalls_ended++;
    return they.was_stalled;
}

void turns_init(struct turns *t)
{
    memset(t, 0, sizeof *t);
}

void turns_wake(struct baton *of)
{
    (void)of;
    they.wakes++;
    if (they.wakes == they.answers_wake)
        atomic_fetch_add(&b.loop.snapshots, 1);
}

void turns_ring(struct baton *of, uint64_t at)
{
    (void)of;
    they.rung_ns = at;
    they.turn_rings++;
}

uint64_t turns_due_ns(const struct baton *of)
{
    return of->loop.turns.owed_ns != 0 ? of->loop.turns.owed_ns : UINT64_MAX;
}

static int path_progress(void *self, struct port_event *events, int max)
{
    (void)self, (void)events;
    assert_true(max >= 64);
    assert_true(reactor_turn_ns(&b) != 0);
    assert_int_equal(owned_by(&b.loop.turns.lock) != 0, they.holds);
    if (b.loop.num_turns == 0)
        they.was_open = b.loop.turns.is_open;
    now_ns += they.took_ns;
    return they.num_events;
}

static void path_look(void *self)
{
    (void)self;
    they.looks++;
    they.turns_looked = 0;
}

static bool path_has_looked(const void *self)
{
    (void)self;
    return ++they.turns_looked >= they.turns_a_look;
}

/* A rank of a world on one node, which lends its turns, at rest. */
static int begin(void **state)
{
    (void)state;
    now_ns += 1000 * CLOCK_NS_PER_S;
    memset(&they, 0, sizeof they);
    memset(&heard, 0, sizeof heard);
    memset(&b, 0, sizeof b);
    fakes_init(&fakes);
    fakes.ground.segment = (uint8_t *)&they.bell;
    fakes.port.path.progress = path_progress;
    fakes.port.path.look = path_look;
    fakes.port.path.has_looked = path_has_looked;
    front_init();
    b.on = (struct footing){&fakes.ground, &fakes.net, &fakes.world, BATON_PROGRESS_THREAD};
    they.yield_ns = 10 * MS;
    b.settings.spin_us = SPIN_US;
    b.settings.sleep_us = SLEEP_US;
    b.settings.idle_us = IDLE_US;
    b.settings.stats_ms = STATS_MS;
    b.settings.peer_ms = PEER_MS;
    b.settings.close_ms = CLOSE_MS;
    b.log = (struct logger){.level = LOG_WARN, .sink = hear};
    b.port = &fakes.port;
    b.core = (struct core *)(void *)&b;
    b.state = CONTEXT_STARTED;
    mpsc_init(&b.submits, 128);
    reactor_init(&b.loop);
    assert_false(b.loop.is_threaded || reactor_must_end(&b.loop));
    assert_int_equal(reactor_start(&b), 0);
    assert_true(b.loop.is_threaded && front.run != NULL && front.arg == &b);
    b.loop.snapshot_due_ns = UINT64_MAX;
    return 0;
}

static int end(void **state)
{
    (void)state;
    reactor_fini(&b.loop);
    return 0;
}

/* ---- sleeps ------------------------------------------------------------------------------------------------------ */

static uint64_t rest(uint64_t idle_ns)
{
    return reactor_rest_ns(&b, now_ns - idle_ns);
}

static void test_a_reactor_that_all_ring(void **state)
{
    (void)state;
    assert_int_equal(rest(SPIN_US * US - 1), 0);
    assert_int_equal(b.loop.num_sleeps, 0);
    assert_int_equal(rest(SPIN_US * US), TURNS_OWED_NS); /* rings may be put off soon */
    assert_int_equal(rest(20 * MS - 1), TURNS_OWED_NS);
    assert_int_equal(rest(20 * MS), SLEEP_US * US);
    assert_int_equal(b.loop.num_sleeps, 3);
    b.loop.turns.last_ns = now_ns - 20 * MS + 1; /* turns were lent */
    assert_int_equal(rest(CLOCK_NS_PER_S), TURNS_OWED_NS);
    b.loop.turns.last_ns--;
    assert_int_equal(rest(CLOCK_NS_PER_S), SLEEP_US * US);
    b.loop.turns.attended_ns = now_ns - 20 * MS + 1; /* somebody polls */
    assert_int_equal(rest(CLOCK_NS_PER_S), TURNS_OWED_NS);
    b.loop.turns.attended_ns = 0;
    b.closing.begun = true; /* MPI's own steps ring nobody */
    assert_int_equal(rest(CLOCK_NS_PER_S), IDLE_US * US);
}

static void test_what_keeps_it_awake(void **state)
{
    (void)state;
    front.says.core_is_serving = true;
    assert_int_equal(rest(CLOCK_NS_PER_S), 0);
    front.says.core_is_serving = false;
    fakes.says.busy = true;
    assert_int_equal(rest(CLOCK_NS_PER_S), 0);
    fakes.says.busy = false;
    front.says.core_next_ns = now_ns;
    assert_int_equal(rest(CLOCK_NS_PER_S), 0);
    front.says.core_next_ns = now_ns + 1;
    assert_int_equal(rest(CLOCK_NS_PER_S), 1);
    front.says.core_next_ns = now_ns + TURNS_OWED_NS + 1;
    assert_int_equal(rest(MS), TURNS_OWED_NS);
    front.says.meter_due_ns = now_ns + 5;
    assert_int_equal(rest(MS), 5);
    front.says.meter_due_ns = now_ns;
    assert_int_equal(rest(MS), 1);
    front.says.meter_due_ns = now_ns + TURNS_OWED_NS;
    assert_int_equal(rest(MS), TURNS_OWED_NS);
}

/* It does not spin where its engine may need the CPU, and wakes for a ring that it has put off. */
static void test_a_reactor_that_has_woken_its_engine(void **state)
{
    (void)state;
    b.loop.woke_ns = now_ns;
    assert_int_equal(rest(0), TURNS_OWED_NS);
    b.loop.turns.owed_ns = now_ns + TURNS_AWAKE_NS;
    assert_int_equal(rest(0), TURNS_AWAKE_NS);
    b.loop.turns.owed_ns = now_ns; /* it is due */
    assert_int_equal(rest(0), 0);
    front.says.core_next_ns = now_ns + 7;
    b.loop.turns.owed_ns = now_ns + 9;
    assert_int_equal(rest(0), 7);
}

/* What comes from other nodes is noticed late by a quarter of the time that it took. */
static void test_a_reactor_that_not_all_ring(void **state)
{
    (void)state;
    fakes.net.has_nodes = true;
    assert_int_equal(rest(SPIN_US * US), 20 * US);
    assert_int_equal(rest(84 * US), 21 * US);
    assert_int_equal(rest(4 * IDLE_US * US + 4), IDLE_US * US);
    b.loop.rung_ns = now_ns - 400 * US;
    assert_int_equal(rest(10 * CLOCK_NS_PER_S), 100 * US);
    assert_int_equal(rest(200 * US), 50 * US);
}

/* What a ring of another node tells of comes later than the ring. What happens on this node makes no sleep short. */
static void test_a_reactor_that_other_nodes_ring(void **state)
{
    (void)state;
    fakes.net.has_nodes = true;
    fakes.says.is_rung = true;
    assert_int_equal(rest(SPIN_US * US), SLEEP_US * US);
    assert_int_equal(rest(10 * CLOCK_NS_PER_S), SLEEP_US * US);
    b.loop.rung_ns = now_ns - 400 * US;
    assert_int_equal(rest(10 * CLOCK_NS_PER_S), 100 * US);
    assert_int_equal(rest(200 * US), 100 * US);
    b.closing.begun = true; /* MPI's own steps ring nobody */
    assert_int_equal(rest(200 * US), 50 * US);
    b.closing.begun = false;
    b.loop.is_threaded = false; /* nobody rings a caller's loop */
    assert_int_equal(rest(200 * US), 50 * US);
    b.loop.is_threaded = true;
    b.loop.rung_ns = 0;
    b.loop.turns.can_lend = true; /* rings to it may be put off, where turns were lent of late */
    assert_int_equal(rest(SPIN_US * US), TURNS_OWED_NS);
    assert_int_equal(rest(20 * MS - 1), TURNS_OWED_NS);
    assert_int_equal(rest(10 * CLOCK_NS_PER_S), SLEEP_US * US);
    b.loop.turns.last_ns = now_ns - MS;
    assert_int_equal(rest(10 * CLOCK_NS_PER_S), TURNS_OWED_NS);
}

static void test_statistics_before_a_sleep(void **state)
{
    (void)state;
    assert_true(rest(MS) > 0);
    assert_int_equal(they.snapshots, 0);
    b.loop.snapshot_is_stale = true;
    assert_int_equal(rest(0), 0);
    assert_int_equal(they.snapshots, 0);
    assert_true(rest(MS) > 0);
    assert_true(rest(MS) > 0);
    assert_int_equal(they.snapshots, 1);
    assert_int_equal(b.loop.snapshot_due_ns, now_ns + STATS_MS * MS);
    assert_int_equal(front.asked.meter_take, 1);
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

static bool turn(void)
{
    return reactor_turn(&b, now_ns);
}

static void push(struct call *call)
{
    assert_true(mpsc_reserve(&b.submits));
    mpsc_push(&b.submits, &call->item);
}

static void test_an_idle_turn(void **state)
{
    (void)state;
    they.took_ns = 3 * US;
    const uint64_t began = now_ns;
    assert_false(turn());
    assert_int_equal(they.step_ns, began + 3 * US);
    assert_int_equal(they.rung_ns, began + 3 * US);
    assert_true(they.stepped == 1 && they.turn_rings == 1 && fakes.asked.ring == 1 && front.asked.paths_wake == 1);
    assert_int_equal(reactor_turn_ns(&b), 0);
    assert_int_equal(reactor_judged_ns(&b), began);
    assert_int_equal(reactor_turned_ns(&b), began);
    assert_int_equal(b.loop.num_turns, 1);
    assert_false(b.loop.snapshot_is_stale || b.loop.is_cut);
}

static void test_calls_are_taken(void **state)
{
    (void)state;
    static struct call calls[66];
    for (unsigned i = 0; i < 66; i++) {
        calls[i] = (struct call){.kind = CALL_OFFER, .end = {.place = 7}};
        push(&calls[i]);
    }
    b.loop.turns.has_long = true;
    b.loop.turns.is_lent = true; /* a caller does not do the work of all others */
    assert_true(turn());
    assert_int_equal(they.submitted, 4);
    assert_true(b.loop.turns.has_long);
    b.loop.turns.is_lent = false;
    calls[5].kind = CALL_READY; /* it has no end that could have been given up */
    they.gives_up_in_ring = true;
    assert_true(turn());
    assert_false(b.loop.turns.has_long);
    assert_int_equal(they.submitted, 5);
    assert_int_equal(they.declined, 61);
    assert_true(mpsc_is_empty(&b.submits));
    assert_int_equal(they.rung_now, 0);
    assert_int_equal(front.asked.paths_wake, 2);
    front.says.paths_may_take_long = true;
    push(&calls[5]);
    assert_true(turn());
    assert_int_equal(they.rung_now, 1);
    assert_int_equal(front.asked.paths_wake, 4);
    assert_false(turn());
    assert_int_equal(they.rung_now, 1);
}

static void test_events_of_the_paths(void **state)
{
    (void)state;
    they.num_events = 63;
    assert_true(turn());
    assert_int_equal(they.stepped_events, 63);
    assert_false(b.loop.is_cut);
    assert_true(b.loop.snapshot_is_stale);
    they.num_events = 64;
    assert_true(turn());
    assert_true(b.loop.is_cut);
    they.num_events = 0;
    assert_false(turn());
    assert_false(b.loop.is_cut);
}

static void test_what_the_engine_is_told(void **state)
{
    (void)state;
    they.outcomes = 2;
    assert_true(turn());
    assert_true(they.put == 2 && front.asked.meter_hear == 2 && front.asked.meter_news == 1);
    assert_int_equal(b.loop.woke_ns, 0); /* nobody sleeps on the descriptor */
    assert_true(b.loop.snapshot_is_stale);
    assert_int_equal(they.snapshots, 0);
    they.outcomes = 1;
    front.says.events_are_watched = true;
    assert_true(turn());
    assert_int_equal(b.loop.woke_ns, now_ns);
    assert_false(turn()); /* which is true until something else happens */
    assert_true(b.loop.woke_ns != 0);
    they.num_events = 1;
    assert_true(turn());
    assert_int_equal(b.loop.woke_ns, 0);
    they.outcomes = 1;
    fakes.net.has_nodes = true;
    assert_true(turn());
    assert_int_equal(b.loop.woke_ns, 0);
    assert_int_equal(they.put, 4);
}

/* Where a lent turn ended a lease that other nodes read, its events are those of the next turn that is not lent. */
static void test_events_wait_for_a_sync(void **state)
{
    (void)state;
    they.outcomes = 2;
    front.says.paths_hold_events = b.loop.turns.is_lent = true;
    assert_false(turn());
    assert_true(they.put == 0 && they.outcomes == 2 && front.asked.meter_hear == 0);
    assert_int_equal(fakes.asked.ring, 0); /* of other nodes */
    front.says.paths_hold_events = b.loop.turns.is_lent = false;
    assert_true(turn());
    assert_true(they.put == 2 && fakes.asked.ring == 1);
}

/* An event that finds no room is held, and is the first of the next turn. */
static void test_no_room_for_events(void **state)
{
    (void)state;
    they.outcomes = 2;
    they.refuses_events = true;
    assert_false(turn());
    assert_true(they.put == 0 && front.asked.meter_hear == 1 && they.outcomes == 1);
    assert_true(b.loop.is_cut && b.loop.kept.outcome != NULL);
    assert_int_equal(rest(0), 20 * US); /* it looks again soon, and does not spin: another thread may need the CPU */
    assert_int_equal(rest(CLOCK_NS_PER_S), 1 * MS);
    assert_false(turn());
    assert_int_equal(front.asked.meter_hear, 1);
    they.refuses_events = false;
    assert_true(turn());
    assert_true(they.put == 2 && front.asked.meter_hear == 2 && b.loop.kept.outcome == NULL && !b.loop.is_cut);
    assert_false(turn());
}

/* What has no place, or was told before, is not told. The log has the first of the lost ones. */
static void test_what_is_not_told(void **state)
{
    (void)state;
    they.outcomes = 1;
    front.says.admission_tell = false;
    assert_true(turn());
    assert_int_equal(heard.num_lines, 1);
    they.outcomes = 2;
    assert_true(turn());
    assert_true(they.put == 0 && b.loop.verdicts_lost == 3 && heard.num_lines == 1);
    assert_non_null(strstr(heard.line, "verdicts are lost"));
    front.says.admission_tell = true;
    front.says.calls_pass = CALLS_HELD_BACK;
    they.outcomes = 1;
    assert_true(turn());
    assert_true(they.put == 0 && b.loop.verdicts_lost == 3 && heard.num_lines == 1);
    assert_true(b.loop.kept.outcome == NULL);
}

/* Another thread is about to tell the engine that a call is given up: the call's end waits for that. */
static void test_an_end_that_waits(void **state)
{
    (void)state;
    they.outcomes = 2;
    front.says.calls_pass = CALLS_LATER;
    assert_false(turn());
    assert_false(turn());
    assert_true(they.put == 0 && front.asked.meter_hear == 1 && b.loop.is_cut);
    front.says.calls_pass = CALLS_PASS;
    assert_true(turn());
    assert_true(they.put == 2 && front.asked.meter_hear == 2 && !b.loop.is_cut);
}

/* The watchdog gave up calls during this turn, which has lasted long. */
static void test_calls_that_were_given_up(void **state)
{
    (void)state;
    they.took_ns = CLOCK_NS_PER_S;
    assert_false(turn());
    assert_true(they.given_up == 0 && they.stalls_ended == 0);
    front.says.stall_take_given_up = true;
    assert_false(turn());
    assert_int_equal(they.given_up, 64 + 1);
    assert_int_equal(heard.num_lines, 0);
    they.was_stalled = true;
    const uint64_t began = now_ns;
    assert_false(turn());
    assert_int_equal(they.turn_of_stall, began); /* the turn that the watchdog has seen */
    assert_int_equal(heard.num_lines, 1);
    assert_string_equal(heard.line, "the reactor goes on");
}

static void test_when_statistics_are_taken(void **state)
{
    (void)state;
    b.loop.snapshot_due_ns = now_ns;
    assert_false(turn()); /* nothing is new */
    assert_int_equal(they.snapshots, 0);
    b.loop.snapshot_is_stale = true;
    b.loop.turns.is_lent = true; /* that is short */
    assert_false(turn());
    assert_int_equal(they.snapshots, 0);
    b.loop.turns.is_lent = false;
    assert_false(turn());
    assert_int_equal(they.snapshots, 1);
    assert_int_equal(atomic_load(&b.loop.snapshots), 1);
    b.loop.snapshot_is_stale = true;
    assert_false(turn());
    assert_int_equal(they.snapshots, 1);
    front.says.meter_due_ns = now_ns;
    assert_false(turn());
    assert_int_equal(they.snapshots, 2);
    front.says.meter_due_ns = UINT64_MAX;
    b.loop.snapshot_is_wanted = true;
    assert_false(turn());
    assert_false(turn());
    assert_int_equal(they.snapshots, 3);
    b.loop.snapshot_is_wanted = true;
    they.is_read = true; /* by a thread that has asked for the one before: the next turn takes it */
    assert_false(turn());
    assert_int_equal(they.snapshots, 3);
    they.is_read = false;
    assert_false(turn());
    assert_int_equal(they.snapshots, 4);
}

static void test_a_reader_of_a_snapshot(void **state)
{
    (void)state;
    b.loop.is_threaded = false; /* in caller mode it is for the next turn */
    reactor_refresh(&b);
    assert_true(b.loop.snapshot_is_wanted);
    assert_int_equal(they.wakes, 0);
    b.loop.is_threaded = true;
    they.answers_wake = 1;
    reactor_refresh(&b);
    assert_true(they.wakes == 1 && they.yields == 0);
    they.yield_ns = 500 * US;
    reactor_refresh(&b); /* the turn under way does not end: it waits for 1 ms */
    assert_true(they.wakes == 2 && they.yields == 2);
    b.state = CONTEXT_LEFT;
    reactor_refresh(&b);
    assert_int_equal(they.wakes, 2);
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void run(void)
{
    they.holds = true;
    assert_null(front.run(&b));
    assert_int_equal(owned_by(&b.loop.turns.lock), 0);
    assert_false(b.loop.turns.is_open);
    assert_int_equal(they.opened, 1);
    they.opened = 0;
}

static void test_it_is_stopped(void **state)
{
    (void)state;
    they.steps_to_close = 3;
    assert_int_equal(reactor_stop(&b), 0);
    assert_true(reactor_must_end(&b.loop));
    assert_int_equal(they.bell.rings, 1);
    assert_int_equal(front.asked.pthread_join, 1);
    assert_false(b.loop.is_threaded);
    run();
    assert_true(they.begun == 1 && they.closes == 4 && front.asked.turns_ring_all == 1 && they.snapshots == 1);
    assert_true(b.loop.meter.is_closing);
    assert_false(b.loop.gave_up);
    assert_int_equal(front.asked.core_shut, 0);
    assert_true(they.was_open);
    assert_int_equal(b.loop.rung_ns, 0);
}

static void test_it_stops_without_being_quiet(void **state)
{
    (void)state;
    they.close_rc = BATON_EPEER;
    fakes.says.rings = 5;
    b.loop.stop = true;
    b.state = CONTEXT_FAILED;
    reactor_go(&b);
    run();
    assert_true(b.loop.rings == 5 && b.loop.rung_ns == now_ns);
    assert_true(b.loop.gave_up);
    assert_int_equal(reactor_stop(&b), BATON_EPEER);
    assert_int_equal(front.asked.pthread_join, 1);
}

/* It sleeps between turns: a closing of many steps takes few turns. */
static void test_it_sleeps(void **state)
{
    (void)state;
    const uint64_t began = now_ns;
    they.steps_to_close = 50;
    b.loop.stop = true;
    they.took_ns = US;
    reactor_go(&b);
    run();
    /* 50 turns of 1 us and the last one: the first closes, the second is idle, 19 spin, the others sleep afterwards */
    assert_int_equal(b.loop.num_sleeps, 50 - 1 - 1 - 19);
    assert_true(now_ns - began > 20 * IDLE_US * US);
    assert_int_equal(b.loop.turns.woken_ns, 0);
    assert_int_equal(they.yields, 0);
}

static void test_it_yields_where_it_must_poll(void **state)
{
    (void)state;
    they.steps_to_close = 50;
    front.says.core_is_serving = true;
    b.loop.stop = true;
    they.took_ns = US;
    reactor_go(&b);
    run();
    assert_int_equal(b.loop.num_sleeps, 0);
    assert_true(they.yields > 10);
}

/* A thread of the engine makes a turn and does not go on. One wait in vain may be a pause of the whole process. */
static void test_it_waits_for_a_turn(void **state)
{
    (void)state;
    b.loop.stop = true;
    they.waits_in_vain = 1;
    reactor_go(&b);
    run();
    assert_int_equal(they.helped, 0);
    they.waits_in_vain = 4;
    reactor_go(&b);
    run();
    assert_int_equal(they.helped, 3);
}

static void test_a_thread_that_does_not_end(void **state)
{
    (void)state;
    const uint64_t began = now_ns;
    they.never_ends = true;
    assert_int_equal(reactor_stop(&b), BATON_EPEER);
    assert_in_range(now_ns - began, (CLOSE_MS + 2000) * MS + 1, (CLOSE_MS + 2100) * MS);
    assert_int_equal(front.asked.pthread_join, 0);
}

/* One turn has lasted for BATON_PEER_MS. */
static void test_a_thread_that_is_stuck(void **state)
{
    (void)state;
    const uint64_t began = now_ns;
    they.never_ends = true;
    b.loop.turn_ns = 17;
    assert_int_equal(reactor_stop(&b), BATON_EPEER);
    /* 5.2 s: the first look finds the turn, and more than 50 find it again, 100 ms apart */
    assert_int_equal(now_ns - began, (PEER_MS + 200) * MS);
    assert_int_equal(front.asked.pthread_join, 0);
}

static void test_caches_that_do_not_come(void **state)
{
    (void)state;
    b.core = NULL;
    b.start.is_late = true;
    front.says.late_run = BATON_ESTATE;
    reactor_go(&b);
    assert_null(front.run(&b));
    assert_int_equal(b.loop.num_turns, 0);
    assert_int_equal(front.asked.turns_ring_all, 0);
    assert_int_equal(they.opened, 1);
    they.opened = 0;
    front.says.late_run = 0; /* they do */
    b.loop.stop = true;
    reactor_go(&b);
    run();
    assert_int_equal(b.loop.num_turns, 1);
}

static void test_without_a_thread(void **state)
{
    (void)state;
    b.loop.is_threaded = false;
    front.run = NULL;
    b.on.mode = BATON_PROGRESS_CALLER;
    assert_int_equal(reactor_start(&b), 0);
    assert_null(front.run);
    they.steps_to_close = 2;
    they.close_rc = BATON_EPEER;
    assert_int_equal(reactor_stop(&b), BATON_EPEER);
    assert_true(they.begun == 1 && they.closes == 3 && b.loop.num_turns == 3 && they.yields == 2);
    assert_true(front.asked.turns_ring_all == 1 && they.snapshots == 1);
    b.core = NULL;
    assert_int_equal(reactor_stop(&b), 0);
    assert_int_equal(they.begun, 1);
    b.on.mode = BATON_PROGRESS_THREAD;
    front.says.thread_start = EAGAIN;
    assert_int_equal(reactor_start(&b), BATON_ESYSTEM);
    assert_false(b.loop.is_threaded);
}

/* MPI is being finalised: what is under way ends, for half a second at most. */
static void test_mpi_is_finalised(void **state)
{
    (void)state;
    reactor_abandon(&b);
    assert_int_equal(b.state, CONTEXT_LEFT);
    assert_true(fakes.asked.finalize == 1 && front.asked.pthread_join == 1 && fakes.asked.silence == 1 &&
                front.asked.late_close == 1 && fakes.asked.hurry == 0);
    assert_true(reactor_must_end(&b.loop));
    assert_false(b.loop.is_threaded);
    assert_non_null(strstr(heard.line, "baton_close was not called"));
    assert_int_equal(they.bell.rings, 1);
    const uint64_t began = now_ns;
    front.says.core_is_busy = true;
    run();
    assert_int_equal(front.asked.core_shut, 1);
    assert_true(front.asked.turns_ring_all == 1 && they.snapshots >= 1);
    assert_in_range(now_ns - began, 500 * MS, 510 * MS);
    front.says.core_is_busy = false;
    const uint64_t turns = b.loop.num_turns;
    reactor_go(&b);
    run();
    assert_int_equal(b.loop.num_turns, turns);
    fakes.says.net_busy = true;
    reactor_go(&b);
    run();
    assert_true(b.loop.num_turns > turns);
}

static void test_mpi_is_finalised_and_the_process_is_paused(void **state)
{
    (void)state;
    they.pause_ns = 60 * CLOCK_NS_PER_S;
    reactor_abandon(&b);
    assert_true(front.asked.pthread_join == 1 && front.asked.late_close == 1);
}

static void test_mpi_is_finalised_and_a_thread_stays(void **state)
{
    (void)state;
    they.never_ends = true;
    const uint64_t began = now_ns;
    reactor_abandon(&b);
    assert_int_equal(now_ns - began, 5 * CLOCK_NS_PER_S);
    assert_string_equal(heard.line, "the reactor is inside MPI and could not be stopped");
    assert_true(front.asked.pthread_join == 0 && fakes.asked.silence == 0 && front.asked.late_close == 0 &&
                b.loop.is_threaded);
    they.never_ends = false;
    front.says.turns_rest = false;
    reactor_abandon(&b);
    assert_string_equal(heard.line, "a thread rings the reactor's bell and could not be stopped");
    assert_true(front.asked.pthread_join == 0 && front.asked.late_close == 0);
    b.loop.is_threaded = false;
    reactor_abandon(&b);
    assert_int_equal(fakes.left_ms, CLOSE_MS);
    assert_true(fakes.asked.hurry == 1 && front.asked.late_close == 1 && fakes.asked.finalize == 3 &&
                front.asked.pthread_join == 0);
}

/* ---- looks ------------------------------------------------------------------------------------------------------- */

/* Mostly a turn takes all that had come when it began. */
static void test_a_turn_hears_all(void **state)
{
    (void)state;
    they.took_ns = MS;
    const uint64_t began = now_ns;
    reactor_turn(&b, began);
    assert_int_equal(they.heard_ns, began);
    assert_int_equal(they.step_ns, began + MS);
    reactor_turn(&b, now_ns);
    assert_int_equal(they.heard_ns, began + MS);
    assert_int_equal(they.looks, 2);
}

/* What had come by the beginning of a look is heard when the paths have handed it out; what came later, by the next. */
static void test_a_look_of_several_turns(void **state)
{
    (void)state;
    they.took_ns = MS;
    they.turns_a_look = 3;
    const uint64_t began = now_ns;
    for (unsigned turn = 1; turn <= 6; turn++) {
        reactor_turn(&b, now_ns);
        assert_int_equal(they.heard_ns, turn < 3 ? 0 : turn < 6 ? began : began + 3 * MS);
    }
    assert_int_equal(they.looks, 2);
}

/* Calls that lie in the ring count too: all that did at its beginning, and none that came later. */
static void test_a_look_takes_calls(void **state)
{
    (void)state;
    static struct call calls[200];
    const uint64_t began = now_ns;
    unsigned made = 0;
    for (unsigned i = 0; i < 200; i++)
        calls[i] = (struct call){.kind = CALL_OFFER, .end = {.place = 7}};
    for (; made < 100; made++)
        push(&calls[made]);
    they.took_ns = US;
    reactor_turn(&b, now_ns);
    assert_int_equal(they.heard_ns, 0);
    for (; made < 120; made++)
        push(&calls[made]);
    reactor_turn(&b, now_ns); /* it takes 64: 56 are left for one more */
    assert_true(they.heard_ns == began && mpsc_is_empty(&b.submits));
    for (unsigned turn = 0; turn < 10; turn++) { /* 64 in each, for ever */
        for (unsigned i = 0; i < 64; i++)
            push(&calls[i]);
        reactor_turn(&b, now_ns);
    }
    assert_true(they.heard_ns >= now_ns - 4 * US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_reactor_that_all_ring, begin, end),
        cmocka_unit_test_setup_teardown(test_a_turn_hears_all, begin, end),
        cmocka_unit_test_setup_teardown(test_a_look_of_several_turns, begin, end),
        cmocka_unit_test_setup_teardown(test_a_look_takes_calls, begin, end),
        cmocka_unit_test_setup_teardown(test_what_keeps_it_awake, begin, end),
        cmocka_unit_test_setup_teardown(test_a_reactor_that_has_woken_its_engine, begin, end),
        cmocka_unit_test_setup_teardown(test_a_reactor_that_not_all_ring, begin, end),
        cmocka_unit_test_setup_teardown(test_a_reactor_that_other_nodes_ring, begin, end),
        cmocka_unit_test_setup_teardown(test_statistics_before_a_sleep, begin, end),
        cmocka_unit_test_setup_teardown(test_an_idle_turn, begin, end),
        cmocka_unit_test_setup_teardown(test_calls_are_taken, begin, end),
        cmocka_unit_test_setup_teardown(test_events_of_the_paths, begin, end),
        cmocka_unit_test_setup_teardown(test_what_the_engine_is_told, begin, end),
        cmocka_unit_test_setup_teardown(test_events_wait_for_a_sync, begin, end),
        cmocka_unit_test_setup_teardown(test_no_room_for_events, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_not_told, begin, end),
        cmocka_unit_test_setup_teardown(test_an_end_that_waits, begin, end),
        cmocka_unit_test_setup_teardown(test_calls_that_were_given_up, begin, end),
        cmocka_unit_test_setup_teardown(test_when_statistics_are_taken, begin, end),
        cmocka_unit_test_setup_teardown(test_a_reader_of_a_snapshot, begin, end),
        cmocka_unit_test_setup_teardown(test_it_is_stopped, begin, end),
        cmocka_unit_test_setup_teardown(test_it_stops_without_being_quiet, begin, end),
        cmocka_unit_test_setup_teardown(test_it_sleeps, begin, end),
        cmocka_unit_test_setup_teardown(test_it_yields_where_it_must_poll, begin, end),
        cmocka_unit_test_setup_teardown(test_it_waits_for_a_turn, begin, end),
        cmocka_unit_test_setup_teardown(test_a_thread_that_does_not_end, begin, end),
        cmocka_unit_test_setup_teardown(test_a_thread_that_is_stuck, begin, end),
        cmocka_unit_test_setup_teardown(test_caches_that_do_not_come, begin, end),
        cmocka_unit_test_setup_teardown(test_without_a_thread, begin, end),
        cmocka_unit_test_setup_teardown(test_mpi_is_finalised, begin, end),
        cmocka_unit_test_setup_teardown(test_mpi_is_finalised_and_the_process_is_paused, begin, end),
        cmocka_unit_test_setup_teardown(test_mpi_is_finalised_and_a_thread_stays, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
