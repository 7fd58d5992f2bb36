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
#include "base/thread.h"
#include "front/context.h"
#include "with_heard.h"
#include "with_set_clock.h"

#define MS CLOCK_NS_PER_MS
#define QUIET_MS 1000
#define STALL_MS 20000
#define PAUSE_MS (QUIET_MS / 4) /* a quarter of the shorter one of the two */
#define LOOKS_MOST 8

/* The watchdog's next looks: it sleeps for so long, and then a turn is under way that began so long ago; 0: none. */
static const struct look {
    uint64_t slept_ms, inside_ms;
} * looks;
static unsigned num_looks;

/* What they do, and what they were asked. */
static struct {
    unsigned outcomes; /* calls that each give_up finds */
    bool refuses;      /* the engine's ring is full */
    int thread_error;
    bool ends_early; /* the turn ends while its calls are given up */
    uint64_t turn_ns;
    unsigned gave_up, told, stalls, joined, opened;
    struct calls_reason why[2 * LOOKS_MOST];
    char detail[96];
    uint64_t stalled_ns;
    void *(*run)(void *);
    void *arg;
} they;

static struct baton b;

int thread_start(pthread_t *thread, const char *name, const char *cpus, void *(*run)(void *arg), void *arg)
{
    (void)thread, (void)name, (void)cpus;
    they.run = run;
    they.arg = arg;
    return they.thread_error;
}

int pthread_join(pthread_t thread, void **value)
{
    (void)thread, (void)value;
    they.joined++;
    return 0;
}

void latch_open(struct latch *l)
{
    assert_ptr_equal(l, &b.stall.rest);
    they.opened++;
}

bool latch_wait(struct latch *l, uint64_t until_ns)
{
    assert_ptr_equal(l, &b.stall.rest);
    assert_int_equal(until_ns, now_ns + PAUSE_MS * MS);
    if (num_looks == 0)
        return true;
    now_ns += looks->slept_ms * MS;
    they.turn_ns = looks->inside_ms > 0 ? now_ns - looks->inside_ms * MS : 0;
    looks++;
    num_looks--;
    return false;
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
                                         .peer = 3,
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

static int begin(void **state)
{
    (void)state;
    now_ns += 1000 * CLOCK_NS_PER_S;
    memset(&they, 0, sizeof they);
    memset(&heard, 0, sizeof heard);
    memset(&b, 0, sizeof b);
    b.settings.quiet_ms = QUIET_MS;
    b.settings.stall_ms = STALL_MS;
    b.log = (struct logger){.level = LOG_WARN, .sink = hear};
    stall_init(&b.stall);
    assert_int_equal(stall_watch_start(&b), 0);
    assert_ptr_equal(they.arg, &b);
    return 0;
}

static int end(void **state)
{
    (void)state;
    stall_watch_stop(&b);
    assert_true(they.joined == 1 && they.opened == 1);
    stall_watch_stop(&b); /* it has ended */
    assert_true(they.joined == 1 && they.opened == 1);
    return 0;
}

static void watch(const struct look *these, unsigned num)
{
    looks = these;
    num_looks = num;
    assert_null(they.run(they.arg));
}

static void test_turns_that_end(void **state)
{
    (void)state;
    const struct look these[] = {{PAUSE_MS, 0}, {PAUSE_MS, 1}, {PAUSE_MS, PAUSE_MS}, {PAUSE_MS, 0}};
    they.outcomes = 2;
    watch(these, 4);
    assert_int_equal(they.gave_up, 0);
    assert_int_equal(heard.num_lines, 0);
    assert_false(stall_is_on(&b));
    assert_false(stall_take_given_up(&b.stall));
}

/* Calls whose time has been over for BATON_QUIET_MS are given up while a turn lasts. */
static void test_a_turn_that_lasts(void **state)
{
    (void)state;
    const struct look these[] = {{PAUSE_MS, PAUSE_MS + 1}, {PAUSE_MS, STALL_MS}};
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
    assert_non_null(strstr(heard.line, "what=want reason=BATON_ETIMEDOUT key=\"k\" peer=3"));
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
    const struct look these[] = {{PAUSE_MS, STALL_MS + 1}, {PAUSE_MS, STALL_MS + 1 + PAUSE_MS}};
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
    const struct look these[] = {{PAUSE_MS, STALL_MS + 1}, {PAUSE_MS, STALL_MS + 1 + PAUSE_MS}};
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
    const struct look these[] = {{PAUSE_MS, STALL_MS + 1}};
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
    const struct look these[] = {{PAUSE_MS, PAUSE_MS + 1}};
    they.outcomes = 2;
    they.refuses = true;
    watch(these, 1);
    assert_int_equal(they.gave_up, 1);
    assert_int_equal(heard.num_lines, 0);
    assert_false(stall_take_given_up(&b.stall));
}

/* A process that was stopped as a whole finds a turn that seems to last: its reactor was stopped too. */
static void test_a_process_that_was_stopped(void **state)
{
    (void)state;
    const struct look these[] = {{2 * PAUSE_MS, 5 * STALL_MS}, {2 * PAUSE_MS - 1, STALL_MS + 1}};
    watch(these, 1);
    assert_int_equal(they.gave_up, 0);
    watch(these + 1, 1);
    assert_int_equal(they.gave_up, 2);
}

/* What the log left out is written a second later, though no line of that cause comes any more. */
static void test_a_line_that_was_left_out(void **state)
{
    (void)state;
    static const char cause[] = "a cause";
    const struct look these[] = {{999, 0}, {1, 0}};
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
    memset(&they, 0, sizeof they);
    stall_init(&b.stall);
    they.thread_error = EAGAIN;
    assert_int_equal(stall_watch_start(&b), BATON_ESYSTEM);
    stall_watch_stop(&b);
    assert_true(they.joined == 0 && they.opened == 0);
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
        cmocka_unit_test_setup_teardown(test_a_line_that_was_left_out, begin, end),
        cmocka_unit_test(test_no_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
