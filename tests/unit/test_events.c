/* SPDX-License-Identifier: BSD-3-Clause */
/* events: the descriptor is readable while there are events, once somebody watches it, and nobody sleeps beside one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/call.h"
#include "front/events.h"

enum { PLACES = 64 };

static _Atomic unsigned reads, writes;
typedef void (*hook_fn)(void);
static _Atomic(hook_fn) before_read, before_write, after_write, after_push; /* each runs once */

static void run_once(_Atomic(hook_fn) *what)
{
    hook_fn run = *what != NULL ? atomic_exchange(what, NULL) : NULL;
    if (run != NULL)
        run();
}

ssize_t read(int fd, void *to, size_t bytes)
{
    reads++;
    run_once(&before_read);
    pthread_testcancel(); /* as read and write do */
    return (ssize_t)syscall(SYS_read, fd, to, bytes);
}

ssize_t write(int fd, const void *from, size_t bytes)
{
    writes++;
    run_once(&before_write);
    pthread_testcancel();
    const ssize_t n = (ssize_t)syscall(SYS_write, fd, from, bytes);
    run_once(&after_write);
    return n;
}

bool __wrap_mpmc_push(struct mpmc *r, void *item);
bool __real_mpmc_push(struct mpmc *r, void *item);

bool __wrap_mpmc_push(struct mpmc *r, void *item)
{
    const bool is_pushed = __real_mpmc_push(r, item);
    run_once(&after_push);
    return is_pushed;
}

static void up(struct events *e)
{
    assert_true(events_init(e, PLACES));
    assert_true(events_know_ranks(e, 2));
}

static struct outcome *make(int error)
{
    struct call *call = calloc(1, sizeof *call);
    assert_non_null(call);
    call->end.call = call;
    call->end.event = (baton_event_t){.type = BATON_EVENT_WANT, .error = error};
    call->end.peer = error != 0 ? 1 : -1;
    return &call->end;
}

static bool is_readable(struct events *e, int ms)
{
    struct pollfd fd = {.fd = events_fd(e), .events = POLLIN};
    return poll(&fd, 1, ms) == 1;
}

/* Takes `most` events at most. Their number. */
static unsigned take(struct events *e, unsigned most)
{
    struct outcome *outcome;
    unsigned n = 0;
    while (n < most && (outcome = events_take(e)) != NULL) {
        if (!events_is_engines(e, outcome))
            outcome_free(outcome);
        n++;
    }
    events_poll_end(e, n);
    return n;
}

static void test_a_descriptor_that_is_not_watched(void **state)
{
    (void)state;
    struct events e;
    up(&e);
    assert_true(events_put(&e, make(0)));
    assert_false(is_readable(&e, 0));
    assert_int_equal(events_waiting(&e), 1);
    assert_int_equal(take(&e, 9), 1);
    assert_int_equal(events_waiting(&e), 0);
    events_fini(&e);
}

static void test_a_descriptor_that_is_watched(void **state)
{
    (void)state;
    struct events e;
    up(&e);
    events_watch(&e);
    assert_false(is_readable(&e, 0));
    for (int i = 0; i < 3; i++)
        assert_true(events_put(&e, make(0)));
    assert_true(is_readable(&e, 0));
    assert_int_equal(take(&e, 2), 2);
    assert_true(is_readable(&e, 0)); /* one is left */
    assert_int_equal(take(&e, 2), 1);
    assert_false(is_readable(&e, 0));
    const unsigned before = reads;
    assert_int_equal(take(&e, 2), 0);
    assert_int_equal(reads, before); /* a poll in vain makes no system call */
    assert_true(events_put(&e, make(0)));
    assert_true(is_readable(&e, 0));
    events_watch(&e);
    assert_int_equal(take(&e, 2), 1);
    events_fini(&e);
}

static void test_what_came_before_it_is_watched(void **state)
{
    (void)state;
    struct events e;
    up(&e);
    assert_true(events_put(&e, make(0)));
    events_watch(&e);
    assert_true(is_readable(&e, 0));
    assert_int_equal(take(&e, 2), 1);
    assert_false(is_readable(&e, 0));
    events_fini(&e);
}

/* ---- a poller that comes while an event is put ------------------------------------------------------------------- */

static struct events *here; /* of the hooks */

static void take_one_here(void)
{
    assert_int_equal(take(here, 9), 1);
}

/* Who is woken may run before the put goes on: it takes the event, and the descriptor is quiet then. */
static void test_woken_before_the_put_has_returned(void **state)
{
    (void)state;
    struct events e;
    up(here = &e);
    events_watch(&e);
    for (int i = 0; i < 3; i++) {
        after_write = take_one_here;
        assert_true(events_put(&e, make(0)));
        assert_null(after_write);
        assert_false(is_readable(&e, 0));
    }
    events_fini(&e);
}

/* A poller that was awake has taken the event: nobody need be woken. */
static void test_taken_before_anybody_is_woken(void **state)
{
    (void)state;
    struct events e;
    up(here = &e);
    events_watch(&e);
    after_push = take_one_here;
    const unsigned before = writes;
    assert_true(events_put(&e, make(0)));
    assert_int_equal(writes, before);
    assert_false(is_readable(&e, 0));
    events_fini(&e);
}

/* At the latest moment, it is woken for nothing, but only once. */
static void test_taken_just_before_the_write(void **state)
{
    (void)state;
    struct events e;
    up(here = &e);
    events_watch(&e);
    for (int i = 0; i < 3; i++) {
        before_write = take_one_here;
        assert_true(events_put(&e, make(0)));
        assert_null(before_write);
        assert_true(is_readable(&e, 0));
        assert_int_equal(take(&e, 9), 0);
        assert_false(is_readable(&e, 0));
        const unsigned before = reads;
        assert_int_equal(take(&e, 9), 0);
        assert_int_equal(reads, before);
    }
    events_fini(&e);
}

static void put_one_here(void)
{
    assert_true(events_put(here, make(0)));
}

/* Two puts at once, and a poller that takes both events between their writes: the later write is read too. */
static void put_and_take_here(void)
{
    put_one_here();
    assert_int_equal(take(here, 9), 2);
}

static void test_taken_between_two_writes(void **state)
{
    (void)state;
    struct events e;
    up(here = &e);
    events_watch(&e);
    before_write = put_and_take_here;
    assert_true(events_put(&e, make(0)));
    assert_true(is_readable(&e, 0));
    assert_int_equal(take(&e, 9), 0);
    assert_false(is_readable(&e, 0));
    events_fini(&e);
}

/* An event that comes after a poller found no more is its put's alone to tell of. */
static void test_put_before_a_poll_ends(void **state)
{
    (void)state;
    struct events e;
    up(&e);
    events_watch(&e);
    assert_null(events_take(&e));
    const unsigned before = writes;
    assert_true(events_put(&e, make(0)));
    events_poll_end(&e, 0);
    assert_int_equal(writes, before + 1);
    assert_true(is_readable(&e, 0));
    assert_int_equal(take(&e, 9), 1);
    assert_false(is_readable(&e, 0));
    events_fini(&e);
}

/* Events that come while others are taken are announced, and taken by the same poll: nobody is woken for them. */
static void test_put_while_others_are_taken(void **state)
{
    (void)state;
    struct events e;
    struct outcome *outcome;
    up(&e);
    events_watch(&e);
    assert_true(events_put(&e, make(0)));
    outcome_free(events_take(&e));
    assert_true(events_put(&e, make(0)));
    assert_true(is_readable(&e, 0));
    while ((outcome = events_take(&e)) != NULL)
        outcome_free(outcome);
    events_poll_end(&e, 2);
    assert_false(is_readable(&e, 0));
    assert_true(events_put(&e, make(0)));
    assert_true(is_readable(&e, 0));
    assert_int_equal(take(&e, 9), 1);
    assert_false(is_readable(&e, 0));
    events_fini(&e);
}

static void cancel_here(void)
{
    pthread_cancel(pthread_self());
}

static void *watch_here(void *none)
{
    events_watch(here);
    return none;
}

static void *take_all_here(void *none)
{
    take(here, 9);
    return none;
}

/* The event comes when the poll has found no more, and its write is read with the others'. */
static void put_and_cancel_here(void)
{
    assert_true(events_put(here, make(0)));
    cancel_here();
}

/* A thread that is cancelled where it reads or writes the descriptor: the others do not sleep beside what waits. */
static void test_a_cancelled_thread(void **state)
{
    (void)state;
    struct {
        void *(*run)(void *none);
        _Atomic(hook_fn) *when;
        void (*hook)(void);
        unsigned left;
    } const cases[] = {{watch_here, &before_write, cancel_here, 3},
                       {take_all_here, &before_read, put_and_cancel_here, 1}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct events e;
        pthread_t thread;
        up(here = &e);
        if (cases[i].run != watch_here)
            events_watch(&e);
        for (unsigned n = 0; n < 3; n++)
            assert_true(events_put(&e, make(0)));
        *cases[i].when = cases[i].hook;
        assert_int_equal(pthread_create(&thread, NULL, cases[i].run, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(*cases[i].when == NULL); /* it was there */
        assert_int_equal(events_waiting(&e), cases[i].left);
        assert_true(is_readable(&e, 0));
        assert_int_equal(take(&e, 9), cases[i].left);
        assert_false(is_readable(&e, 0));
        events_fini(&e);
    }
}

static void test_failures_are_counted(void **state)
{
    (void)state;
    struct events e;
    uint64_t all[BATON_REASONS], of[BATON_REASONS];
    up(&e);
    assert_true(events_put(&e, make(BATON_EPEER)));
    assert_true(events_put(&e, make(0)));
    events_reasons(&e, all);
    events_reasons_of(&e, 1, of);
    assert_int_equal(all[-BATON_EPEER], 1);
    assert_int_equal(of[-BATON_EPEER], 1);
    events_reasons_of(&e, 0, of);
    assert_int_equal(of[-BATON_EPEER], 0);
    assert_int_equal(all[0], 0); /* what has not failed is no failure */
    assert_true(events_put(&e, make(-BATON_REASONS)));
    events_reasons(&e, all);
    events_reasons_of(&e, 1, of);
    assert_int_equal(all[0], 1); /* one that only later versions know */
    assert_int_equal(of[0], 1);
    events_fini(&e);
}

/* What finds no place is not there, and has not failed yet. */
static void test_no_place(void **state)
{
    (void)state;
    struct events e;
    uint64_t all[BATON_REASONS];
    struct outcome *late = make(BATON_EPEER);
    up(&e);
    for (int i = 0; i < PLACES; i++)
        assert_true(events_put(&e, make(0)));
    assert_false(events_put(&e, late));
    assert_int_equal(events_waiting(&e), PLACES);
    events_reasons(&e, all);
    assert_int_equal(all[-BATON_EPEER], 0);
    assert_int_equal(take(&e, 1), 1);
    assert_true(events_put(&e, late));
    assert_int_equal(events_waiting(&e), PLACES);
    events_reasons(&e, all);
    assert_int_equal(all[-BATON_EPEER], 1);
    events_fini(&e);
}

/* ---- engines ----------------------------------------------------------------------------------------------------- */

/* Of engines one waits at most. It is taken first, and leaves all places to calls. */
static void test_engines_have_come(void **state)
{
    (void)state;
    struct events e;
    up(&e);
    events_put_engines(&e);
    assert_false(is_readable(&e, 0)); /* nobody watches */
    for (int i = 0; i < PLACES; i++)
        assert_true(events_put(&e, make(0)));
    events_put_engines(&e);
    assert_int_equal(events_waiting(&e), PLACES + 1);
    assert_true(events_is_engines(&e, events_take(&e)));
    for (int i = 0; i < PLACES; i++) {
        struct outcome *outcome = events_take(&e);
        assert_non_null(outcome);
        assert_false(events_is_engines(&e, outcome));
        outcome_free(outcome);
    }
    assert_null(events_take(&e));
    events_poll_end(&e, PLACES + 1);
    assert_int_equal(events_waiting(&e), 0);
    events_put_engines(&e); /* one that nobody takes */
    events_fini(&e);
}

static void test_engines_come_while_somebody_watches(void **state)
{
    (void)state;
    struct events e;
    up(&e);
    events_put_engines(&e);
    events_watch(&e);
    assert_true(is_readable(&e, 0));
    events_put_engines(&e);
    assert_int_equal(take(&e, 9), 1);
    assert_false(is_readable(&e, 0));
    events_put_engines(&e);
    assert_true(is_readable(&e, 0));
    assert_true(events_put(&e, make(0)));
    assert_int_equal(take(&e, 1), 1); /* the engines */
    assert_true(is_readable(&e, 0));
    assert_int_equal(take(&e, 9), 1);
    assert_false(is_readable(&e, 0));
    events_fini(&e);
}

/* ---- two threads ------------------------------------------------------------------------------------------------- */

enum { EVENTS = 50000, ROUNDS = 2000, LONG_MS = 20000 };

static void *put_many(void *arg)
{
    struct events *e = arg;
    for (unsigned i = 0; i < EVENTS; i++) {
        struct outcome *outcome = make(0);
        while (!events_put(e, outcome))
            continue;
    }
    return NULL;
}

/* Who sleeps on the descriptor is woken for each event that it has not taken. */
static void test_nobody_sleeps_beside_an_event(void **state)
{
    (void)state;
    struct events e;
    pthread_t thread;
    up(&e);
    events_watch(&e);
    assert_int_equal(pthread_create(&thread, NULL, put_many, &e), 0);
    for (unsigned taken = 0; taken < EVENTS;) {
        assert_true(is_readable(&e, LONG_MS));
        taken += take(&e, 1 + taken % 3);
    }
    pthread_join(thread, NULL);
    take(&e, 1);
    assert_false(is_readable(&e, 0));
    assert_int_equal(events_waiting(&e), 0); /* the puts that found no place included */
    events_fini(&e);
}

enum { PUTTERS = 2, POLLERS = 2 };

static _Atomic unsigned taken_by_all;

/* Sleeps until all are taken: who takes the last one wakes the next poller by one more, and so on. */
static void *sleep_and_take(void *arg)
{
    struct events *e = arg;
    while (taken_by_all < PUTTERS * EVENTS) {
        if (!is_readable(e, LONG_MS))
            return NULL;
        taken_by_all += take(e, 1 + taken_by_all % 3);
    }
    events_put(e, make(0));
    return e;
}

static void test_nobody_sleeps_beside_an_event_that_others_took(void **state)
{
    (void)state;
    struct events e;
    pthread_t putters[PUTTERS], pollers[POLLERS];
    void *good;
    up(&e);
    events_watch(&e);
    taken_by_all = 0;
    for (int i = 0; i < PUTTERS; i++)
        assert_int_equal(pthread_create(&putters[i], NULL, put_many, &e), 0);
    for (int i = 0; i < POLLERS; i++)
        assert_int_equal(pthread_create(&pollers[i], NULL, sleep_and_take, &e), 0);
    for (int i = 0; i < POLLERS; i++) {
        pthread_join(pollers[i], &good);
        assert_non_null(good);
    }
    for (int i = 0; i < PUTTERS; i++)
        pthread_join(putters[i], NULL);
    take(&e, PLACES);
    assert_false(is_readable(&e, 0));
    assert_int_equal(events_waiting(&e), 0);
    events_fini(&e);
}

static void *put_one(void *arg)
{
    assert_true(events_put(arg, make(0)));
    return NULL;
}

static _Atomic unsigned changed; /* the newest version of the engines */

static void *change_engines(void *arg)
{
    for (unsigned i = 0; i < EVENTS; i++) {
        changed++;
        events_put_engines(arg);
    }
    return NULL;
}

/* Who takes the last one sees the newest version, and nobody sleeps beside a change. */
static void test_engines_change_while_they_are_taken(void **state)
{
    (void)state;
    struct events e;
    struct outcome *taken;
    pthread_t thread;
    up(&e);
    events_watch(&e);
    changed = 0;
    assert_int_equal(pthread_create(&thread, NULL, change_engines, &e), 0);
    for (unsigned seen = 0; seen < EVENTS;) {
        assert_true(is_readable(&e, LONG_MS));
        unsigned n = 0;
        while ((taken = events_take(&e)) != NULL) {
            assert_true(events_is_engines(&e, taken));
            seen = changed;
            n++;
        }
        events_poll_end(&e, n);
    }
    pthread_join(thread, NULL);
    take(&e, 9); /* the last changes, which were seen with an earlier one */
    assert_false(is_readable(&e, 0));
    assert_int_equal(events_waiting(&e), 0);
    events_fini(&e);
}

/* An event that comes while somebody begins to watch. */
static void test_watching_begins_beside_an_event(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct events e;
        pthread_t thread;
        up(&e);
        assert_int_equal(pthread_create(&thread, NULL, put_one, &e), 0);
        for (unsigned spin = 0; spin < i % 64 * 100; spin++)
            __asm__ volatile("");
        events_watch(&e);
        do /* it may be readable while the event is being put: then it becomes so again */
            assert_true(is_readable(&e, LONG_MS));
        while (take(&e, 9) == 0);
        pthread_join(thread, NULL);
        events_fini(&e);
    }
}

/*
 * A poller with little room loses its CPU wherever it is: others who sleep on the descriptor are woken for what is
 * left.
 */
static void test_what_is_left_stays_readable(void **state)
{
    (void)state;
    struct events e;
    up(&e);
    events_watch(&e);
    for (int i = 0; i < 3; i++)
        assert_true(events_put(&e, make(0)));
    for (int i = 0; i < 3; i++) {
        assert_true(is_readable(&e, 0));
        outcome_free(events_take(&e));
        assert_true(is_readable(&e, 0)); /* in the midst of the poll */
        events_poll_end(&e, 1);
    }
    assert_false(is_readable(&e, 0));
    assert_int_equal(take(&e, 9), 0);
    events_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_descriptor_that_is_not_watched),
        cmocka_unit_test(test_a_descriptor_that_is_watched),
        cmocka_unit_test(test_what_came_before_it_is_watched),
        cmocka_unit_test(test_woken_before_the_put_has_returned),
        cmocka_unit_test(test_taken_before_anybody_is_woken),
        cmocka_unit_test(test_taken_just_before_the_write),
        cmocka_unit_test(test_taken_between_two_writes),
        cmocka_unit_test(test_put_while_others_are_taken),
        cmocka_unit_test(test_put_before_a_poll_ends),
        cmocka_unit_test(test_what_is_left_stays_readable),
        cmocka_unit_test(test_a_cancelled_thread),
        cmocka_unit_test(test_failures_are_counted),
        cmocka_unit_test(test_no_place),
        cmocka_unit_test(test_engines_have_come),
        cmocka_unit_test(test_engines_come_while_somebody_watches),
        cmocka_unit_test(test_engines_change_while_they_are_taken),
        cmocka_unit_test(test_nobody_sleeps_beside_an_event),
        cmocka_unit_test(test_nobody_sleeps_beside_an_event_that_others_took),
        cmocka_unit_test(test_watching_begins_beside_an_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
