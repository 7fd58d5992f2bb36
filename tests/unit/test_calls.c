/* SPDX-License-Identifier: BSD-3-Clause */
/* calls: each call is given up at most once, by the core or by the watchdog, ends once, and its place comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "front/calls.h"

#define MS CLOCK_NS_PER_MS
#define NOW (5000 * MS)

void *__real_calloc(size_t num, size_t bytes);
void *__wrap_calloc(size_t num, size_t bytes);

static bool has_no_memory;

void *__wrap_calloc(size_t num, size_t bytes)
{
    return has_no_memory ? NULL : __real_calloc(num, bytes);
}

/* It is due so long after it was submitted. */
static void set_timeout(struct call *call, uint32_t ms)
{
    *(call->kind == CALL_OFFER ? &call->offer.ttl_ms : &call->want.timeout_ms) = ms;
}

static struct call make(enum call_kind kind, baton_id_t id)
{
    struct call call = {.kind = kind,
                        .id = id,
                        .user = (void *)(uintptr_t)(id * 16),
                        .submitted_ns = NOW - 1000 * MS,
                        .num_blocks = (uint32_t)id + 3};
    if (kind == CALL_WANT)
        call.want.mode = BATON_MODE_PUSH;
    set_timeout(&call, 500);
    memset(call.key, 'k', sizeof call.key - 1);
    call.key[0] = (char)('a' + id % 26);
    return call;
}

static void end(struct call *call, baton_event_type_t type, baton_status_t status, int error)
{
    call->end.event = (baton_event_t){.type = type, .status = status, .error = error, .id = call->id};
    strcpy(call->end.event.detail, "as the core says");
}

static void end_well(struct call *call)
{
    end(call, call->kind == CALL_OFFER ? BATON_EVENT_OFFER : BATON_EVENT_WANT, BATON_STATUS_DONE, 0);
}

static void give_up(struct call *call)
{
    end(call, BATON_EVENT_GIVEN_UP, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
}

struct given {
    unsigned n;
    baton_event_t events[8];
};

static bool keep(void *arg, struct outcome *outcome)
{
    struct given *g = arg;
    g->events[g->n++ % 8] = outcome->event;
    outcome_free(outcome);
    return true;
}

static uint32_t abandon_as(struct calls *c, struct given *g, uint64_t due_ns, const char *detail)
{
    struct calls_reason why = {0, due_ns, false, BATON_STATUS_FAILED, BATON_ESTALL, detail};
    *g = (struct given){0};
    uint32_t n = calls_give_up(c, NOW, &why, keep, g);
    assert_int_equal(n, g->n);
    return n;
}

static uint32_t abandon(struct calls *c, struct given *g)
{
    return abandon_as(c, g, UINT64_MAX, "stuck");
}

static void enter(struct calls *c, struct call *call)
{
    struct mpsc queue;
    mpsc_init(&queue, 1);
    assert_true(calls_submit(c, call, &queue));
    assert_ptr_equal(mpsc_pop(&queue), &call->item);
}

/* The queue is full. */
static void refused(struct calls *c, struct call *call)
{
    struct mpsc queue;
    mpsc_init(&queue, 0);
    assert_false(calls_submit(c, call, &queue));
}

static bool passes(struct calls *c, struct outcome *outcome)
{
    const enum calls_passing passing = calls_pass(c, outcome);
    assert_int_not_equal(passing, CALLS_LATER); /* no other thread gives anything up */
    return passing == CALLS_PASS;
}

/* The call ends as its GIVEN_UP said. */
static void assert_as_told(const struct call *call, baton_status_t status, int error)
{
    assert_int_equal(call->end.event.type, call->kind == CALL_OFFER ? BATON_EVENT_OFFER : BATON_EVENT_WANT);
    assert_int_equal(call->end.event.status, status);
    assert_int_equal(call->end.event.error, error);
    assert_int_equal(call->end.event.given_up, 1);
    assert_int_equal(call->end.event.id, call->id);
}

/* ---- one thread -------------------------------------------------------------------------------------------------- */

static void test_plain_ends_pass_as_they_are(void **state)
{
    (void)state;
    struct calls *c = calls_create(1);
    struct given g;
    assert_int_equal(abandon(c, &g), 0);
    for (unsigned i = 0; i < 1000; i++) { /* one place serves all of them */
        struct call call = make(i % 2 ? CALL_OFFER : CALL_WANT, i);
        if (i % 3 == 0) {
            refused(c, &call);
        } else {
            enter(c, &call);
            assert_int_equal(call.end.place, 0);
            end_well(&call);
            baton_event_t before = call.end.event;
            assert_true(passes(c, &call.end));
            assert_memory_equal(&call.end.event, &before, sizeof before);
        }
        assert_int_equal(abandon(c, &g), 0);
    }
    calls_destroy(c);
}

static void test_places_are_never_shared_and_all_come_back(void **state)
{
    (void)state;
    enum { MOST = 13 };
    struct calls *c = calls_create(MOST);
    struct call open[MOST];
    unsigned n = 0, was_full = 0;
    srand(5);
    for (unsigned step = 0; step < 20000; step++) {
        if (n < MOST && rand() % 5 < 3) {
            open[n] = make(CALL_WANT, step);
            enter(c, &open[n++]);
        } else if (n > 0) {
            unsigned i = (unsigned)rand() % n;
            end_well(&open[i]);
            assert_true(passes(c, &open[i].end));
            open[i] = open[--n];
        }
        was_full += n == MOST;
        for (unsigned i = 0; i < n; i++) {
            assert_true(open[i].end.place < MOST);
            for (unsigned k = 0; k < i; k++)
                assert_int_not_equal(open[i].end.place, open[k].end.place);
        }
    }
    assert_true(was_full > 0);
    calls_destroy(c);
}

static void test_abandon_tells_each_open_call_once(void **state)
{
    (void)state;
    struct calls *c = calls_create(4);
    struct call gone = make(CALL_WANT, 1), offer = make(CALL_OFFER, 2), want = make(CALL_WANT, 3);
    struct given g;
    enter(c, &gone);
    enter(c, &offer);
    enter(c, &want);
    end_well(&gone);
    assert_true(passes(c, &gone.end));
    assert_int_equal(abandon(c, &g), 2);
    for (unsigned i = 0; i < 2; i++) {
        const baton_event_t *e = &g.events[i];
        const struct call *call = e->id == 2 ? &offer : &want;
        assert_int_equal(e->id, call->id);
        assert_int_equal(e->type, BATON_EVENT_GIVEN_UP);
        assert_int_equal(e->of, call == &offer ? BATON_EVENT_OFFER : BATON_EVENT_WANT);
        assert_int_equal(e->status, BATON_STATUS_FAILED);
        assert_int_equal(e->error, BATON_ESTALL);
        assert_string_equal(e->key, call->key);
        assert_ptr_equal(e->user, call->user);
        assert_int_equal(e->mode, call == &offer ? BATON_MODE_AUTO : BATON_MODE_PUSH);
        assert_int_equal(e->peer, 0);
        assert_int_equal(e->num_blocks, call->num_blocks);
        assert_int_equal(e->total_ns, 1000 * MS);
        assert_string_equal(e->detail, "stuck");
    }
    assert_int_not_equal(g.events[0].id, g.events[1].id);
    assert_int_equal(abandon(c, &g), 0);
    struct call later = make(CALL_OFFER, 4); /* comes in between: the next look finds it alone */
    enter(c, &later);
    assert_int_equal(abandon(c, &g), 1);
    assert_int_equal(g.events[0].id, 4);
    calls_destroy(c);
}

static void test_an_abandoned_call_ends_as_it_was_told(void **state)
{
    (void)state;
    struct calls *c = calls_create(2);
    struct given g;
    for (baton_id_t id = 0; id < 100; id++) {
        struct call call = make(id % 2 ? CALL_OFFER : CALL_WANT, id);
        enter(c, &call);
        assert_int_equal(abandon(c, &g), 1);
        end_well(&call);
        if (id % 3 == 0) {
            call.end.event.status = BATON_STATUS_CANCELLED;
            call.end.event.error = BATON_EPEER;
        }
        assert_true(passes(c, &call.end));
        assert_as_told(&call, BATON_STATUS_FAILED, BATON_ESTALL);
        assert_int_equal(abandon(c, &g), 0);
    }
    struct call fresh = make(CALL_WANT, 100); /* the place keeps nothing of a former call */
    enter(c, &fresh);
    assert_false(calls_is_given_up(c, fresh.end.place));
    end_well(&fresh);
    assert_true(passes(c, &fresh.end));
    assert_int_equal(fresh.end.event.type, BATON_EVENT_WANT);
    assert_int_equal(fresh.end.event.status, BATON_STATUS_DONE);
    assert_int_equal(fresh.end.event.given_up, 0);
    calls_destroy(c);
}

static void test_the_core_gives_up_too(void **state)
{
    (void)state;
    struct calls *c = calls_create(1);
    struct given g;
    for (int round = 0; round < 2; round++) {
        struct call call = make(CALL_WANT, 7);
        enter(c, &call);
        assert_int_equal(abandon(c, &g), 1);
        give_up(&call); /* the watchdog was first: the core's event is dropped, and the call is still open */
        assert_false(passes(c, &call.end));
        assert_int_equal(abandon(c, &g), 0);
        end_well(&call);
        assert_true(passes(c, &call.end));
        assert_as_told(&call, BATON_STATUS_FAILED, BATON_ESTALL);

        call = make(CALL_WANT, 8);
        enter(c, &call);
        give_up(&call); /* the core is first: its event goes out, and the watchdog has nothing to give up */
        assert_true(passes(c, &call.end));
        assert_int_equal(call.end.event.status, BATON_STATUS_EXPIRED);
        assert_int_equal(call.end.event.error, BATON_ETIMEDOUT);
        assert_int_equal(abandon(c, &g), 0);
        assert_int_equal(calls_given_up(c, &(struct calls_end){0}, 1), 0); /* the core knows it already */
        end(&call, BATON_EVENT_WANT, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
        assert_true(passes(c, &call.end));
        assert_as_told(&call, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    }
    calls_destroy(c);
}

/* Only overdue calls are given up. The core may put off the time at which a call is due. */
static void test_only_calls_whose_time_is_over(void **state)
{
    (void)state;
    struct calls *c = calls_create(3);
    struct call early = make(CALL_WANT, 1), late = make(CALL_WANT, 2), moved = make(CALL_OFFER, 3);
    struct given g;
    set_timeout(&late, 1001);
    assert_int_equal(calls_next_due_ns(c, 0), UINT64_MAX);
    enter(c, &early);
    enter(c, &late);
    enter(c, &moved);
    call_set_due(&moved, NOW + 2 * MS);
    assert_int_equal(calls_next_due_ns(c, 0), NOW - 500 * MS);
    assert_int_equal(calls_next_due_ns(c, NOW - 500 * MS), NOW + MS);
    assert_int_equal(abandon_as(c, &g, NOW - 500 * MS - 1, "stuck"), 0);
    assert_int_equal(abandon_as(c, &g, NOW, "stuck"), 1);
    assert_int_equal(g.events[0].id, 1);
    assert_int_equal(calls_next_due_ns(c, 0), NOW + MS); /* one that is given up is not due */
    assert_int_equal(abandon_as(c, &g, NOW + MS, "stuck"), 1);
    assert_int_equal(g.events[0].id, 2);
    assert_int_equal(abandon(c, &g), 1);
    assert_int_equal(g.events[0].id, 3);
    assert_int_equal(calls_next_due_ns(c, 0), UINT64_MAX);
    calls_destroy(c);
}

/* What was due by the time that the last turn began, the core has judged itself. */
static void test_only_calls_that_nobody_has_judged(void **state)
{
    (void)state;
    struct calls *c = calls_create(3);
    struct call judged = make(CALL_WANT, 1), unjudged = make(CALL_WANT, 2);
    struct call offer = make(CALL_OFFER, 3); /* its time may have moved on */
    struct calls_reason why = {NOW - 500 * MS, UINT64_MAX, false, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT, "late"};
    struct given g = {0};
    set_timeout(&unjudged, 501);
    set_timeout(&offer, 501);
    enter(c, &offer);
    why.wants_only = true;
    enter(c, &judged);
    enter(c, &unjudged);
    assert_int_equal(calls_give_up(c, NOW, &why, keep, &g), 1);
    assert_int_equal(g.events[0].id, 2);
    assert_int_equal(calls_give_up(c, NOW, &why, keep, &g), 0);
    why.wants_only = false;
    assert_int_equal(calls_give_up(c, NOW, &why, keep, &g), 1);
    calls_destroy(c);
}

struct between {
    struct calls *calls;
    struct call *call;
    bool takes;
    unsigned later;
};

/* In the midst of giving a call up, the core hands out what it says of it. */
static bool meet(void *arg, struct outcome *outcome)
{
    struct between *m = arg;
    assert_false(calls_is_given_up(m->calls, m->call->end.place));
    m->later += calls_pass(m->calls, &m->call->end) == CALLS_LATER;
    if (m->takes)
        outcome_free(outcome);
    return m->takes;
}

/* The end of a call waits until its GIVEN_UP was told. Where that could not be told, the end is as the core says. */
static void test_an_end_in_the_midst_of_giving_up(void **state)
{
    (void)state;
    struct calls *c = calls_create(1);
    struct calls_reason why = {0, UINT64_MAX, false, BATON_STATUS_FAILED, BATON_ESTALL, "stuck"};
    for (int round = 0; round < 4; round++) {
        struct call call = make(CALL_WANT, 7);
        struct between m = {.calls = c, .call = &call, .takes = round % 2 == 0};
        enter(c, &call);
        if (round < 2)
            end_well(&call);
        else
            give_up(&call);
        assert_int_equal(calls_give_up(c, NOW, &why, meet, &m), m.takes);
        assert_int_equal(m.later, 1);
        if (round >= 2) {
            assert_int_equal(passes(c, &call.end), !m.takes);
            end_well(&call);
        }
        assert_true(passes(c, &call.end));
        assert_int_equal(call.end.event.given_up, m.takes || round >= 2);
        assert_int_equal(call.end.event.error, m.takes ? BATON_ESTALL : round >= 2 ? BATON_ETIMEDOUT : 0);
    }
    calls_destroy(c);
}

static bool refuse(void *arg, struct outcome *outcome)
{
    (void)arg, (void)outcome;
    return false;
}

/* While there is no place for its event, a call is not given up. */
static void test_what_cannot_be_told_is_not_given_up(void **state)
{
    (void)state;
    struct calls *c = calls_create(1);
    struct call call = make(CALL_WANT, 1);
    struct calls_reason why = {0, UINT64_MAX, false, BATON_STATUS_FAILED, BATON_ESTALL, "stuck"};
    struct given g;
    enter(c, &call);
    assert_int_equal(calls_give_up(c, NOW, &why, refuse, NULL), 0);
    assert_false(calls_is_given_up(c, call.end.place));
    assert_int_equal(abandon(c, &g), 1);
    calls_destroy(c);
}

/* The next look finds them again. */
static void test_no_memory_to_tell_of_them(void **state)
{
    (void)state;
    struct calls *c = calls_create(2);
    struct call call = make(CALL_WANT, 7);
    struct given g;
    enter(c, &call);
    has_no_memory = true;
    assert_int_equal(abandon(c, &g), 0);
    has_no_memory = false;
    assert_int_equal(abandon(c, &g), 1);
    end_well(&call);
    assert_true(passes(c, &call.end));
    assert_as_told(&call, BATON_STATUS_FAILED, BATON_ESTALL);
    calls_destroy(c);
}

/* The system has not run for as long as a call may be overdue. */
static void test_nothing_is_overdue_before_the_clock_began(void **state)
{
    (void)state;
    struct calls *c = calls_create(1);
    struct call call = make(CALL_WANT, 1);
    struct given g;
    enter(c, &call);
    assert_int_equal(abandon_as(c, &g, clock_before(NOW, 2 * NOW), "stuck"), 0);
    calls_destroy(c);
}

/* The watchdog read the clock, then a call was made, then the watchdog looked at the calls. */
static void test_calls_younger_than_the_look(void **state)
{
    (void)state;
    struct calls *c = calls_create(1);
    struct call call = make(CALL_WANT, 1);
    struct given g;
    call.submitted_ns = NOW + 1;
    enter(c, &call);
    assert_int_equal(abandon(c, &g), 1);
    assert_int_equal(g.events[0].total_ns, 0);
    calls_destroy(c);
}

static void test_long_details_are_cut(void **state)
{
    (void)state;
    struct calls *c = calls_create(1);
    struct call call = make(CALL_OFFER, 1);
    struct given g = {0};
    char detail[500];
    memset(detail, 'x', sizeof detail - 1);
    detail[sizeof detail - 1] = '\0';
    enter(c, &call);
    assert_int_equal(abandon_as(c, &g, UINT64_MAX, detail), 1);
    assert_int_equal(strlen(g.events[0].detail), sizeof g.events[0].detail - 1);
    calls_destroy(c);
}

/* ---- two threads ------------------------------------------------------------------------------------------------- */

enum { ROUNDS = 20000, AT_ONCE = 8, IDS = ROUNDS * AT_ONCE };

struct race {
    struct calls *calls;
    _Atomic bool over;
    _Atomic unsigned turns;                        /* of the watchdog */
    uint8_t abandoned[IDS];                        /* the watchdog's */
    uint8_t ended[IDS], given_up[IDS], after[IDS]; /* the reactor's; after: calls that ended after they were given up */
    unsigned overtaken;                            /* of these, how many ended before the GIVEN_UP was told */
};

static bool note(void *arg, struct outcome *outcome)
{
    struct race *r = arg;
    sched_yield(); /* so that the reactor can end the call meanwhile */
    r->abandoned[outcome->event.id]++;
    outcome_free(outcome);
    return true;
}

static void *watch(void *arg)
{
    struct race *r = arg;
    struct calls_reason why = {0, UINT64_MAX, true, BATON_STATUS_FAILED, BATON_ESTALL, "stuck"}; /* all are wants */
    while (!r->over) {
        calls_next_due_ns(r->calls, 0);
        calls_give_up(r->calls, NOW, &why, note, r);
        r->turns++;
        sched_yield();
    }
    return NULL;
}

static void pass(struct race *r, struct call *call)
{
    enum calls_passing passing;
    while ((passing = calls_pass(r->calls, &call->end)) == CALLS_LATER)
        sched_yield();
    if (passing == CALLS_HELD_BACK)
        return;
    uint8_t *count = call->end.event.type == BATON_EVENT_GIVEN_UP ? r->given_up
                     : call->end.event.given_up                   ? r->after
                                                                  : r->ended;
    count[call->id]++;
    r->overtaken += count == r->after && r->abandoned[call->id] + r->given_up[call->id] == 0;
}

/* On a busy machine the watchdog may not run in any other round: calls that are open now, it finds. */
static void await_watchdog(struct race *r)
{
    const unsigned turn = r->turns;
    while (r->turns - turn < 2) /* the first one may have begun before */
        sched_yield();
}

static void test_each_call_ends_once_under_a_race(void **state)
{
    (void)state;
    struct race *r = calloc(1, sizeof *r);
    struct call call[AT_ONCE];
    pthread_t watchdog;
    r->calls = calls_create(AT_ONCE);
    assert_int_equal(pthread_create(&watchdog, NULL, watch, r), 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < AT_ONCE; i++) {
            call[i] = make(CALL_WANT, round * AT_ONCE + i);
            enter(r->calls, &call[i]);
        }
        if (round % 256 == 0)
            await_watchdog(r);
        else if (round % 16 == 0)
            sched_yield();
        for (unsigned i = 0; i < AT_ONCE; i++) {
            bool early = (round + i) % 2;
            if (early) {
                give_up(&call[i]);
                pass(r, &call[i]);
            }
            end_well(&call[i]);
            pass(r, &call[i]);
        }
    }
    r->over = true;
    pthread_join(watchdog, NULL);
    unsigned abandoned = 0, ended = 0, early = 0;
    for (unsigned id = 0; id < IDS; id++) {
        assert_int_equal(r->abandoned[id] + r->ended[id] + r->given_up[id], 1);
        assert_int_equal(r->after[id], r->abandoned[id] + r->given_up[id]);
        abandoned += r->abandoned[id];
        ended += r->ended[id];
        early += r->given_up[id];
    }
    assert_true(abandoned > 0 && ended > 0 && early > 0);
    assert_int_equal(r->overtaken, 0);
    calls_destroy(r->calls);
    free(r);
}

/* Each call that was given up is named once, so that the core ends it; a call that has ended since is not named. */
static void test_calls_given_up_are_named_once(void **state)
{
    (void)state;
    struct calls *c = calls_create(4);
    struct call call[3];
    struct given g;
    struct calls_end ends[4];
    for (unsigned i = 0; i < 3; i++) {
        call[i] = make(CALL_WANT, 10 + i);
        enter(c, &call[i]);
    }
    assert_int_equal(calls_given_up(c, ends, 4), 0);
    assert_int_equal(abandon(c, &g), 3);
    assert_true(calls_is_given_up(c, call[0].end.place));
    end_well(&call[1]);
    assert_true(passes(c, &call[1].end));
    assert_as_told(&call[1], BATON_STATUS_FAILED, BATON_ESTALL);
    assert_int_equal(calls_given_up(c, ends, 1), 1);
    assert_int_equal(ends[0].id, 10);
    assert_int_equal(ends[0].status, BATON_STATUS_FAILED);
    assert_int_equal(ends[0].error, BATON_ESTALL);
    assert_int_equal(calls_given_up(c, ends, 4), 1);
    assert_int_equal(ends[0].id, 12);
    assert_int_equal(calls_given_up(c, ends, 4), 0);
    assert_true(calls_is_given_up(c, call[0].end.place)); /* its record may still be in the ring */
    calls_destroy(c);
}

/* The core completes a want in the very turn in which the watchdog gave it up: its engine was told that it failed. */
static void test_a_want_that_was_given_up_has_no_attached_bytes(void **state)
{
    (void)state;
    struct calls *c = calls_create(2);
    struct call call = make(CALL_WANT, 1);
    struct given g;
    enter(c, &call);
    assert_int_equal(abandon(c, &g), 1);
    end_well(&call);
    call.end.event.num_attach = 5;
    memcpy(call.end.event.attach, "token", 5);
    assert_true(passes(c, &call.end));
    assert_int_equal(call.end.event.status, BATON_STATUS_FAILED);
    assert_int_equal(call.end.event.num_attach, 0);
    assert_int_equal(call.end.event.attach[0], 0);
    calls_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_ends_pass_as_they_are),
        cmocka_unit_test(test_places_are_never_shared_and_all_come_back),
        cmocka_unit_test(test_abandon_tells_each_open_call_once),
        cmocka_unit_test(test_an_abandoned_call_ends_as_it_was_told),
        cmocka_unit_test(test_a_want_that_was_given_up_has_no_attached_bytes),
        cmocka_unit_test(test_the_core_gives_up_too),
        cmocka_unit_test(test_only_calls_whose_time_is_over),
        cmocka_unit_test(test_only_calls_that_nobody_has_judged),
        cmocka_unit_test(test_an_end_in_the_midst_of_giving_up),
        cmocka_unit_test(test_what_cannot_be_told_is_not_given_up),
        cmocka_unit_test(test_no_memory_to_tell_of_them),
        cmocka_unit_test(test_nothing_is_overdue_before_the_clock_began),
        cmocka_unit_test(test_calls_younger_than_the_look),
        cmocka_unit_test(test_long_details_are_cut),
        cmocka_unit_test(test_calls_given_up_are_named_once),
        cmocka_unit_test(test_each_call_ends_once_under_a_race),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
