/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stall: when the watchdog gives up calls of a reactor whose turn does not end (front/stall.c). The clock, the thread,
 * the turns and the calls are made up.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/task.h"
#include "unit/with_front.h"
#include "with_heard.h"
#include "with_set_clock.h"

#define MS CLOCK_NS_PER_MS
#define QUIET_MS 1000
#define STALL_MS 20000
#define PAUSE_MS (QUIET_MS / 4) /* a quarter of the shorter one of the two */
#define LOOKS_MOST 8
#define TID 77
#define LATE_MS (STALL_LATE_NS / MS)
#define AGAIN_MS (LATE_MS / 2)

/* The watchdog's next looks: it sleeps for so long, and then a turn is under way that began so long ago; 0: none. */
static const struct look {
    uint64_t slept_ms, inside_ms;
    uint64_t ran_ms;   /* its thread has run for so long in all */
    uint64_t due_ms;   /* a call is due so long ago that no turn has judged; 0: none is */
    uint64_t woken_ms; /* without a turn: the reactor should have made one so long ago; 0: it sleeps */
    bool is_awake;     /* without a turn: it does not sleep either */
    bool is_lent;      /* the turn is a thread's of the engine */
    uint64_t asked_ms; /* how long it meant to sleep; 0: a pause */
} * looks;
#define LOOK(slept, inside)                                                                                            \
    {                                                                                                                  \
        .slept_ms = (slept), .inside_ms = (inside)                                                                     \
    }
static unsigned num_looks;

/* What they do, and what they were asked. */
static struct {
    unsigned outcomes; /* calls that each give_up finds */
    bool refuses;      /* the engine's ring is full */
    bool ends_early;   /* the turn ends while its calls are given up */
    uint64_t turn_ns;
    uint64_t ran_ns, due_ns, judged_ns;
    unsigned gave_up, told, stalls;
    struct calls_reason why[2 * LOOKS_MOST];
    char detail[112];
    uint64_t stalled_ns;
} they;

static struct baton b;

void bell_sleep(struct bell *bell, uint32_t seen, uint64_t timeout_ns)
{
    assert_ptr_equal(bell, &b.stall.bell);
    assert_int_equal(seen, bell->rings);
    if (num_looks == 0) { /* it is rung to end */
        b.stall.must_end = true;
        return;
    }
    assert_int_equal(timeout_ns, (looks->asked_ms > 0 ? looks->asked_ms : PAUSE_MS) * MS);
    assert_int_equal(b.stall.looks_ns, now_ns + timeout_ns);
    now_ns += looks->slept_ms * MS;
    they.turn_ns = looks->inside_ms > 0 ? now_ns - looks->inside_ms * MS : 0;
    they.ran_ns = looks->ran_ms * MS;
    they.due_ns = looks->due_ms > 0 ? now_ns - looks->due_ms * MS : UINT64_MAX;
    b.loop.turns.is_lent = looks->is_lent;
    b.loop.turns.lock.word = looks->is_lent || looks->inside_ms > 0 ? TID : 0;
    b.loop.turns.woken_ns = looks->woken_ms > 0 ? now_ns - looks->woken_ms * MS : 0;
    if (looks->woken_ms == 0 && looks->inside_ms == 0 && !looks->is_awake)
        b.loop.turns.woken_ns = now_ns + CLOCK_NS_PER_S;
    looks++;
    num_looks--;
}

void bell_ring(struct bell *bell)
{
    atomic_fetch_add(&bell->rings, 1);
}

uint64_t task_ran_ns(uint32_t thread)
{
    assert_int_equal(thread, TID);
    return they.ran_ns;
}

uint64_t calls_next_due_ns(struct calls *c, uint64_t after_ns)
{
    (void)c;
    assert_int_equal(after_ns, they.judged_ns);
    return they.due_ns;
}

uint64_t reactor_judged_ns(const struct baton *of)
{
    (void)of;
    return they.judged_ns;
}

uint64_t reactor_turned_ns(const struct baton *of)
{
    (void)of;
    return they.judged_ns;
}

uint32_t owned_by(const struct owned *o)
{
    return o->word;
}

uint64_t reactor_turn_ns(const struct baton *of)
{
    (void)of;
    return they.turn_ns;
}

uint32_t calls_give_up(struct calls *c, uint64_t now, const struct calls_reason *why, calls_tell_fn tell, void *arg)
{
    uint32_t n = 0;
    (void)c;
    assert_int_equal(now, now_ns);
    they.why[they.gave_up] = *why;
    snprintf(they.detail, sizeof they.detail, "%s", why->detail);
    they.why[they.gave_up++].detail = NULL;
    for (unsigned i = 0; i < they.outcomes; i++) {
        struct outcome *outcome = calloc(1, sizeof *outcome);
        outcome->event = (baton_event_t){.type = BATON_EVENT_GIVEN_UP,
                                         .of = i == 0 ? BATON_EVENT_OFFER : BATON_EVENT_WANT,
                                         .error = why->error,
                                         .peer_rank = 3,
                                         .peer_engine = "prefill0",
                                         .total_ns = 7 * MS};
        strcpy(outcome->event.key, "k");
        if (tell(arg, outcome))
            n++;
        else
            outcome_free(outcome);
    }
    if (they.ends_early)
        they.turn_ns = 0;
    return n;
}

bool events_put(struct events *e, struct outcome *outcome)
{
    assert_ptr_equal(e, &b.events);
    if (they.refuses)
        return false;
    they.told++;
    outcome_free(outcome);
    return true;
}

void meter_stall(struct meter *m, uint64_t inside_ns)
{
    assert_ptr_equal(m, &b.loop.meter);
    they.stalls++;
    they.stalled_ns = inside_ns;
}

static const struct net net = {.name = "MPI"};

static int begin(void **state)
{
    (void)state;
    now_ns += 1000 * CLOCK_NS_PER_S;
    memset(&they, 0, sizeof they);
    memset(&heard, 0, sizeof heard);
    memset(&b, 0, sizeof b);
    front_init();
    b.on.net = &net;
    b.settings.quiet_ms = QUIET_MS;
    b.settings.stall_ms = STALL_MS;
    they.due_ns = UINT64_MAX;
    they.judged_ns = 5;
    b.loop.is_threaded = true;
    b.log = (struct logger){.level = LOG_WARN, .sink = hear};
    stall_init(&b.stall);
    assert_int_equal(stall_watch_start(&b), 0);
    assert_ptr_equal(front.arg, &b);
    return 0;
}

static int end(void **state)
{
    (void)state;
    latch_open(&b.stall.ended);
    assert_true(stall_watch_stop(&b));
    assert_true(front.asked.pthread_join == 1 && b.stall.must_end);
    assert_true(stall_watch_stop(&b)); /* it has ended */
    assert_int_equal(front.asked.pthread_join, 1);
    return 0;
}

static void watch(const struct look *these, unsigned num)
{
    looks = these;
    num_looks = num;
    b.stall.must_end = false;
    assert_null(front.run(front.arg));
}

static void test_turns_that_end(void **state)
{
    (void)state;
    const struct look these[] = {LOOK(PAUSE_MS, 0), LOOK(PAUSE_MS, 1), LOOK(PAUSE_MS, PAUSE_MS), LOOK(PAUSE_MS, 0)};
    they.outcomes = 2;
    watch(these, 4);
    assert_int_equal(they.gave_up, 0);
    assert_int_equal(heard.num_lines, 0);
    assert_false(stall_is_on(&b));
    assert_false(stall_take_given_up(&b.stall));
}

/* Calls whose time has been over for quiet_ms are given up while a turn lasts. */
static void test_a_turn_that_lasts(void **state)
{
    (void)state;
    const struct look these[] = {LOOK(PAUSE_MS, PAUSE_MS + 1), LOOK(PAUSE_MS, STALL_MS)};
    they.outcomes = 2;
    watch(these, 2);
    assert_int_equal(they.gave_up, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(they.why[i].due_ns, now_ns - (uint64_t)(1 - i) * PAUSE_MS * MS - QUIET_MS * MS);
        assert_int_equal(they.why[i].status, BATON_STATUS_EXPIRED);
        assert_int_equal(they.why[i].error, BATON_ETIMEDOUT);
    }
    assert_string_equal(they.detail, "the reactor has been inside MPI for 20000 ms");
    assert_int_equal(they.told, 4);
    assert_int_equal(heard.num_lines, 2 * 3); /* how many, and each of them */
    assert_non_null(strstr(heard.line, "what=want reason=BATON_ETIMEDOUT key=\"k\" peer=prefill0:3"));
    assert_non_null(strstr(heard.line, "age_ms=7"));
    assert_int_equal(they.stalls, 0);
    assert_false(stall_is_on(&b));
    assert_true(stall_take_given_up(&b.stall)); /* once */
    assert_false(stall_take_given_up(&b.stall));
    assert_false(stall_end(&b));
    they.turn_ns = 0;
    assert_false(stall_is_on(&b));
}

/* One that has lasted too long: all calls are given up, and the engine's are refused until it ends. */
static void test_a_turn_that_lasts_too_long(void **state)
{
    (void)state;
    const struct look these[] = {LOOK(PAUSE_MS, STALL_MS + 1), LOOK(PAUSE_MS, STALL_MS + 1 + PAUSE_MS)};
    they.outcomes = 1;
    watch(these, 1);
    assert_int_equal(they.gave_up, 2);
    assert_int_equal(they.why[0].due_ns, now_ns - QUIET_MS * MS);
    assert_int_equal(they.why[1].due_ns, UINT64_MAX);
    assert_int_equal(they.why[1].status, BATON_STATUS_FAILED);
    assert_int_equal(they.why[1].error, BATON_ESTALL);
    assert_non_null(strstr(heard.line, "what=offer reason=BATON_ESTALL"));
    assert_int_equal(they.stalls, 1);
    assert_int_equal(they.stalled_ns, (STALL_MS + 1) * MS);
    assert_true(stall_take_given_up(&b.stall));
    assert_true(stall_is_on(&b));
    watch(these + 1, 1); /* the same turn: it is one stall */
    assert_int_equal(they.stalls, 1);
    assert_int_equal(they.gave_up, 4);
    assert_true(stall_is_on(&b));
    assert_true(stall_end(&b)); /* the reactor goes on in it */
    assert_false(stall_is_on(&b));
    watch(these, 1); /* and another one */
    assert_int_equal(they.stalls, 2);
    assert_true(stall_is_on(&b));
    they.turn_ns = 0; /* it is over: the watchdog need not have looked */
    assert_false(stall_is_on(&b));
    assert_false(stall_end(&b));
    assert_false(stall_is_on(&b));
}

/* The log tells of a stall once, where there are no calls to be given up. */
static void test_a_stall_without_calls(void **state)
{
    (void)state;
    const struct look these[] = {LOOK(PAUSE_MS, STALL_MS + 1), LOOK(PAUSE_MS, STALL_MS + 1 + PAUSE_MS)};
    watch(these, 2);
    assert_int_equal(they.gave_up, 4);
    assert_int_equal(heard.num_lines, 1);
    assert_string_equal(heard.line, "the reactor has been inside MPI for 20001 ms");
    assert_false(stall_take_given_up(&b.stall));
}

/* The turn ends just then: its calls are not given up for a stall. */
static void test_a_stall_that_is_over(void **state)
{
    (void)state;
    const struct look these[] = {LOOK(PAUSE_MS, STALL_MS + 1)};
    they.ends_early = true;
    watch(these, 1);
    assert_int_equal(they.gave_up, 1);
    assert_int_equal(they.stalls, 0);
    assert_false(stall_is_on(&b));
}

/* What the engine cannot be told now is not given up: the next look tries again. */
static void test_a_full_ring_of_events(void **state)
{
    (void)state;
    const struct look these[] = {LOOK(PAUSE_MS, PAUSE_MS + 1)};
    they.outcomes = 2;
    they.refuses = true;
    watch(these, 1);
    assert_int_equal(they.gave_up, 1);
    assert_int_equal(heard.num_lines, 0);
    assert_false(stall_take_given_up(&b.stall));
}

/*
 * A process that was stopped as a whole finds a turn that seems to last: its reactor was stopped too, and has a pause
 * to end it. A watchdog that is late again, but less than by a pause, does look: the machine is busy.
 */
static void test_a_process_that_was_stopped(void **state)
{
    (void)state;
    const struct look these[] = {{.slept_ms = PAUSE_MS + LATE_MS + 1, .inside_ms = 5 * STALL_MS},
                                 {.slept_ms = PAUSE_MS, .inside_ms = 0}};
    const struct look busy[] = {{.slept_ms = PAUSE_MS + LATE_MS, .inside_ms = STALL_MS + 1},
                                {.slept_ms = PAUSE_MS + LATE_MS + 1, .inside_ms = STALL_MS + 1},
                                {.slept_ms = 2 * PAUSE_MS, .inside_ms = STALL_MS + 1}};
    watch(these, 2);
    assert_int_equal(they.gave_up, 0);
    watch(busy, 1);
    assert_int_equal(they.gave_up, 2);
    watch(busy + 1, 1);
    assert_int_equal(they.gave_up, 2);
    watch(busy + 2, 1);
    assert_int_equal(they.gave_up, 4);
}

/* A turn that began before the process was stopped goes on for long after: the stop does not count. */
static void test_a_turn_around_a_stop(void **state)
{
    (void)state;
    const struct look these[] = {{.slept_ms = PAUSE_MS + STALL_MS, .inside_ms = STALL_MS + 1},
                                 {.slept_ms = PAUSE_MS, .inside_ms = STALL_MS + 1 + PAUSE_MS}};
    watch(these, 2);
    assert_int_equal(they.stalls, 0);
    assert_false(stall_is_on(&b));
    for (unsigned i = 0; i < they.gave_up; i++)
        assert_int_not_equal(they.why[i].due_ns, UINT64_MAX);
    they.turn_ns = 0;
}

/* A turn that began after the process had been stopped, and before the watchdog saw that, has no excuse. */
static void test_a_turn_after_a_stop(void **state)
{
    (void)state;
    struct look these[LOOKS_MOST] = {{.slept_ms = PAUSE_MS + STALL_MS, .inside_ms = 1}};
    for (unsigned i = 1; i < LOOKS_MOST; i++)
        these[i] = (struct look)LOOK(PAUSE_MS, 1 + i * PAUSE_MS);
    b.settings.stall_ms = (LOOKS_MOST - 2) * PAUSE_MS;
    watch(these, LOOKS_MOST);
    b.settings.stall_ms = STALL_MS;
    assert_int_equal(they.stalls, 1);
    they.turn_ns = 0;
}

/* Nor has a reactor that loses its CPU long after stops in its sleep. */
static void test_stops_in_a_sleep(void **state)
{
    (void)state;
    struct look these[LOOKS_MOST] = {{.slept_ms = PAUSE_MS + 5 * STALL_MS}};
    for (unsigned i = 1; i < LOOKS_MOST - 1; i++)
        these[i].slept_ms = i % 2 == 0 ? 3 * PAUSE_MS : PAUSE_MS;
    these[LOOKS_MOST - 1] = (struct look){.slept_ms = PAUSE_MS, .woken_ms = 2 * PAUSE_MS};
    they.outcomes = 1;
    watch(these, LOOKS_MOST);
    assert_true(they.gave_up > 0);
    assert_int_equal(they.why[they.gave_up - 1].due_ns, now_ns - QUIET_MS * MS);
}

/* Between two turns the reactor lost its CPU: no turn is under way, and it does not sleep. */
static void test_a_reactor_between_two_turns(void **state)
{
    (void)state;
    they.outcomes = 1;
    they.judged_ns = now_ns - 5 * MS; /* which is also when the last turn that ended began */
    watch((const struct look[]){{.slept_ms = PAUSE_MS, .is_awake = true}, {.slept_ms = PAUSE_MS, .is_awake = true}}, 2);
    assert_true(they.gave_up > 0);
    assert_int_equal(they.why[they.gave_up - 1].due_ns, now_ns - QUIET_MS * MS);
}

/* ---- threads without a CPU -------------------------------------------------------------------------------------- */

static void assert_late(unsigned i)
{
    assert_int_equal(they.why[i].judged_ns, they.judged_ns);
    assert_true(they.why[i].wants_only);
    assert_int_equal(they.why[i].due_ns, now_ns - STALL_LATE_NS);
    assert_int_equal(they.why[i].status, BATON_STATUS_EXPIRED);
    assert_int_equal(they.why[i].error, BATON_ETIMEDOUT);
}

/*
 * What is due in the midst of a pause is looked at soon after. A thread of the engine makes the turn, or is about to.
 */
static void test_a_thread_of_the_engine_without_a_core(void **state)
{
    (void)state;
    they.outcomes = 1;
    they.due_ns = now_ns + 30 * MS - STALL_LATE_NS;
    watch((const struct look[]){{.slept_ms = 30, .asked_ms = 30, .is_lent = true, .inside_ms = 30, .due_ms = LATE_MS}},
          1);
    assert_int_equal(they.gave_up, 1);
    assert_late(0);
    assert_string_equal(they.detail, "thread 77, which makes Baton's turn, has been without a CPU for 30 ms");
    assert_true(stall_take_given_up(&b.stall));
    they.due_ns = now_ns;
    watch(
        (const struct look[]){
            {.slept_ms = LATE_MS, .asked_ms = LATE_MS, .is_lent = true, .woken_ms = 40, .due_ms = LATE_MS}},
        1);
    assert_int_equal(they.gave_up, 2);
    assert_string_equal(they.detail, "thread 77, which makes Baton's turn, has been without a CPU for 40 ms");
}

/* It should have made a turn some time ago, and has not. */
static void test_a_reactor_that_does_not_wake(void **state)
{
    (void)state;
    they.outcomes = 1;
    they.due_ns = now_ns + 20 * MS;
    watch((const struct look[]){{.slept_ms = 30, .asked_ms = 30, .woken_ms = 10, .due_ms = LATE_MS}}, 1);
    assert_int_equal(they.gave_up, 1);
    assert_late(0);
    assert_string_equal(they.detail, "the reactor has been without a CPU for 10 ms");
}

/*
 * In a turn of Baton's own it may be inside MPI, or without a CPU: its processor time says which, at the second look.
 */
static void test_a_reactor_in_a_turn(void **state)
{
    (void)state;
    const struct look off[] = {
        {.slept_ms = 30, .asked_ms = 30, .inside_ms = 30, .ran_ms = 100, .due_ms = LATE_MS},
        {.slept_ms = AGAIN_MS, .asked_ms = AGAIN_MS, .inside_ms = 30 + AGAIN_MS, .ran_ms = 100, .due_ms = LATE_MS}};
    const struct look inside[] = {
        {.slept_ms = 30, .asked_ms = 30, .inside_ms = 30, .ran_ms = 200, .due_ms = LATE_MS},
        {.slept_ms = AGAIN_MS, .asked_ms = AGAIN_MS, .inside_ms = 30 + AGAIN_MS, .ran_ms = 201, .due_ms = LATE_MS}};
    they.outcomes = 1;
    they.due_ns = now_ns + 20 * MS;
    watch(off, 2);
    assert_int_equal(they.gave_up, 1);
    assert_late(0);
    assert_string_equal(they.detail, "the reactor has stood still for 35 ms: it sleeps inside MPI, or has no CPU");
    they.due_ns = now_ns + 20 * MS;
    watch(inside, 2);
    assert_int_equal(they.gave_up, 1);
}

/* A look for what is late does not judge turns: after a pause of the process it may come soon. */
static void test_a_look_in_between(void **state)
{
    (void)state;
    they.due_ns = now_ns + 20 * MS;
    watch((const struct look[]){{.slept_ms = 30, .asked_ms = 30, .inside_ms = STALL_MS + 1, .due_ms = LATE_MS}}, 1);
    assert_int_equal(they.gave_up, 0);
    assert_false(stall_is_on(&b));
    they.due_ns = UINT64_MAX;
    watch((const struct look[]){LOOK(PAUSE_MS, STALL_MS + 1)}, 1);
    assert_int_equal(they.gave_up, 2);
    assert_true(stall_is_on(&b));
    they.turn_ns = 0;
}

/* A call that is due before the next look makes it come sooner. */
static void test_a_call_that_is_due_soon(void **state)
{
    (void)state;
    b.stall.looks_ns = now_ns + 100 * MS;
    stall_expect(&b, now_ns + 100 * MS - STALL_LATE_NS);
    assert_int_equal(b.stall.bell.rings, 0);
    stall_expect(&b, now_ns + 100 * MS - STALL_LATE_NS - 1);
    assert_int_equal(b.stall.bell.rings, 1);
}

/* The reactor waits for another thread's turn, and gives up what is late. */
static void test_a_thread_that_helps(void **state)
{
    (void)state;
    they.turn_ns = now_ns - STALL_LATE_NS;
    b.loop.turns.lock.word = TID;
    stall_help(&b, now_ns); /* the reactor's own turn is for the watchdog to judge */
    assert_int_equal(they.gave_up, 0);
    b.loop.turns.is_lent = true;
    stall_help(&b, now_ns - 1);
    assert_int_equal(they.gave_up, 0);
    stall_help(&b, now_ns);
    assert_int_equal(they.gave_up, 1);
    assert_late(0);
    they.turn_ns = 0; /* the reactor sleeps */
    now_ns += CLOCK_NS_PER_S;
    b.loop.turns.woken_ns = now_ns + 1;
    stall_help(&b, now_ns);
    assert_int_equal(they.gave_up, 1);
    b.loop.turns.is_lent = false;
    b.loop.turns.lock.word = 0;
}

/* What the log left out is written a second later, though no line of that cause comes any more. */
static void test_a_line_that_was_left_out(void **state)
{
    (void)state;
    static const char cause[] = "a cause";
    const struct look these[] = {LOOK(999, 0), LOOK(PAUSE_MS, 0)};
    b.log.limits = log_limits_create();
    assert_non_null(b.log.limits);
    for (int i = 0; i < 2; i++)
        log_line_of(&b.log, cause, LOG_WARN, "line %d", i);
    watch(these, 1);
    assert_int_equal(heard.num_lines, 1);
    watch(these + 1, 1);
    assert_int_equal(heard.num_lines, 2);
    assert_string_equal(heard.line, "line 1");
    log_limits_destroy(b.log.limits);
}

static void test_no_thread(void **state)
{
    (void)state;
    front_init();
    stall_init(&b.stall);
    front.says.thread_start = EAGAIN;
    assert_int_equal(stall_watch_start(&b), BATON_ESYSTEM);
    assert_true(stall_watch_stop(&b));
    assert_int_equal(front.asked.pthread_join, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_turns_that_end, begin, end),
        cmocka_unit_test_setup_teardown(test_a_turn_that_lasts, begin, end),
        cmocka_unit_test_setup_teardown(test_a_turn_that_lasts_too_long, begin, end),
        cmocka_unit_test_setup_teardown(test_a_stall_without_calls, begin, end),
        cmocka_unit_test_setup_teardown(test_a_stall_that_is_over, begin, end),
        cmocka_unit_test_setup_teardown(test_a_full_ring_of_events, begin, end),
        cmocka_unit_test_setup_teardown(test_a_process_that_was_stopped, begin, end),
        cmocka_unit_test_setup_teardown(test_a_thread_of_the_engine_without_a_core, begin, end),
        cmocka_unit_test_setup_teardown(test_a_reactor_that_does_not_wake, begin, end),
        cmocka_unit_test_setup_teardown(test_a_reactor_in_a_turn, begin, end),
        cmocka_unit_test_setup_teardown(test_a_turn_around_a_stop, begin, end),
        cmocka_unit_test_setup_teardown(test_a_turn_after_a_stop, begin, end),
        cmocka_unit_test_setup_teardown(test_stops_in_a_sleep, begin, end),
        cmocka_unit_test_setup_teardown(test_a_reactor_between_two_turns, begin, end),
        cmocka_unit_test_setup_teardown(test_a_look_in_between, begin, end),
        cmocka_unit_test_setup_teardown(test_a_call_that_is_due_soon, begin, end),
        cmocka_unit_test_setup_teardown(test_a_thread_that_helps, begin, end),
        cmocka_unit_test_setup_teardown(test_a_line_that_was_left_out, begin, end),
        cmocka_unit_test(test_no_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
