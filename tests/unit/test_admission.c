/* SPDX-License-Identifier: BSD-3-Clause */
/* admission: there is a place for every event that an accepted call may still have, and every place comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "front/admission.h"

enum { REQUESTS = 5, LEASES = 3 };

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static void assert_refused(struct admission *a, bool leased, const char *variable)
{
    uint64_t before = admission_refused(a);
    assert_int_equal(admission_take(a, leased), BATON_EAGAIN);
    assert_non_null(strstr(baton_errmsg(), variable));
    assert_int_equal(admission_refused(a), before + 1);
}

/* Requires that exactly so many more calls are accepted. */
static void assert_room_for(struct admission *a, unsigned calls, unsigned leased)
{
    for (unsigned i = 0; i < calls; i++)
        assert_int_equal(admission_take(a, i < leased), 0);
    assert_refused(a, false, "BATON_REQUESTS");
    for (unsigned i = 0; i < calls; i++)
        admission_undo(a, i < leased);
}

static void test_as_many_calls_as_requests(void **state)
{
    (void)state;
    for (int hears = 0; hears < 2; hears++) {
        struct admission a;
        admission_init(&a, REQUESTS, LEASES, hears);
        assert_room_for(&a, REQUESTS, LEASES);
        assert_room_for(&a, REQUESTS, 0); /* a call that was undone leaves nothing */
    }
}

static void test_ids_count_up(void **state)
{
    (void)state;
    struct admission a;
    admission_init(&a, REQUESTS, LEASES, false);
    assert_false(admission_gave(&a, 0));
    assert_false(admission_gave(&a, 1));
    for (baton_id_t id = 1; id <= 3; id++) {
        assert_int_equal(admission_id(&a), id);
        assert_true(admission_gave(&a, id));
        assert_false(admission_gave(&a, id + 1));
    }
    assert_true(admission_gave(&a, 1));
    assert_false(admission_gave(&a, 0));
}

static void test_as_many_leases_as_there_are(void **state)
{
    (void)state;
    struct admission a;
    admission_init(&a, REQUESTS, LEASES, false);
    for (unsigned i = 0; i < LEASES; i++)
        assert_int_equal(admission_take(&a, true), 0);
    assert_refused(&a, true, "BATON_LEASES");
    for (unsigned i = LEASES; i < REQUESTS; i++) /* the refusal took no other place */
        assert_int_equal(admission_take(&a, false), 0);
    baton_event_t end = {.type = BATON_EVENT_WANT, .mode = BATON_MODE_PUSH, .id = 1};
    assert_true(admission_tell(&a, &end));
    assert_refused(&a, true, "BATON_REQUESTS"); /* its lease is free; its place is free only when its event is polled */
    admission_polled(&a, &end);
    assert_int_equal(admission_take(&a, true), 0);
}

static void test_leases_of_ends(void **state)
{
    (void)state;
    static const struct {
        baton_event_t event;
        bool gives;
    } cases[] = {{{.type = BATON_EVENT_OFFER, .id = 1}, true},
                 {{.type = BATON_EVENT_WANT, .id = 1, .mode = BATON_MODE_PUSH}, true},
                 {{.type = BATON_EVENT_WANT, .id = 1, .mode = BATON_MODE_PULL}, false},
                 {{.type = BATON_EVENT_GIVEN_UP, .id = 1, .of = BATON_EVENT_OFFER}, false},
                 {{.type = BATON_EVENT_GIVEN_UP, .id = 1, .mode = BATON_MODE_PUSH}, false},
                 {{.type = BATON_EVENT_VERDICT, .id = 1, .mode = BATON_MODE_PUSH}, false}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct admission a;
        admission_init(&a, REQUESTS, 1, true);
        assert_int_equal(admission_take(&a, true), 0);
        assert_true(admission_tell(&a, &cases[i].event));
        assert_int_equal(admission_take(&a, true), cases[i].gives ? 0 : BATON_EAGAIN);
    }
}

/* ---- the invariant ----------------------------------------------------------------------------------------------- */

enum { CALLS_MOST = 3 * REQUESTS, EVENTS_MOST = 4 * REQUESTS };

/* One accepted call, as seen from outside, without places. */
struct seen_call {
    bool leased, given_up, verdict, ended; /* events that were told so far */
    bool verdict_follows;                  /* its end said that a verdict follows */
};

struct history {
    struct admission a;
    bool hears;
    struct seen_call calls[CALLS_MOST]; /* by id - 1 */
    bool is_open[CALLS_MOST];           /* an event may still come */
    baton_event_t queue[EVENTS_MOST];   /* polled from its front */
    unsigned num_queued, num_open, num_leased, most_open, refused, lost;
};

/* Events that open calls may still have. */
static unsigned to_come(const struct history *h)
{
    unsigned n = 0;
    for (unsigned i = 0; i < CALLS_MOST; i++) {
        const struct seen_call *w = &h->calls[i];
        if (h->is_open[i] && w->ended)
            n += w->verdict_follows && !w->verdict;
        else if (h->is_open[i])
            n += 1u + !w->given_up + (h->hears && !w->verdict);
    }
    return n;
}

static unsigned foreign(const struct history *h)
{
    unsigned n = 0;
    for (unsigned i = 0; i < h->num_queued; i++)
        n += h->queue[i].id == 0;
    return n;
}

static void assert_invariant(const struct history *h)
{
    unsigned places = (h->hears ? 3 : 2) * REQUESTS;
    assert_true(h->num_queued - foreign(h) + to_come(h) <= places);
    assert_true(h->num_queued + to_come(h) <= admission_most_events(&h->a));
    assert_true(h->num_open <= admission_most_calls(&h->a));
    assert_true(h->num_leased <= LEASES);
}

static void tell(struct history *h, baton_event_t event)
{
    if (!admission_tell(&h->a, &event)) {
        assert_int_equal(event.id, 0); /* no event of a call is ever lost */
        assert_int_equal(foreign(h), REQUESTS);
        h->lost++;
        return;
    }
    assert_true(h->num_queued < admission_most_events(&h->a));
    h->queue[h->num_queued++] = event;
}

static void poll_one(struct history *h)
{
    if (h->num_queued == 0)
        return;
    admission_polled(&h->a, &h->queue[0]);
    memmove(h->queue, h->queue + 1, --h->num_queued * sizeof h->queue[0]);
}

static void accept_one(struct history *h)
{
    bool leased = rand() % 2;
    unsigned i = 0;
    if (admission_take(&h->a, leased) != 0) {
        h->refused++;
        return;
    }
    if (rand() % 8 == 0) {
        admission_undo(&h->a, leased);
        return;
    }
    while (i < CALLS_MOST && h->is_open[i])
        i++;
    assert_true(i < CALLS_MOST);
    h->is_open[i] = true;
    h->calls[i] = (struct seen_call){.leased = leased};
    h->num_open++;
    h->num_leased += leased;
    h->most_open = h->num_open > h->most_open ? h->num_open : h->most_open;
}

/* Lets one of the events happen that a call may have next. */
static void go_on(struct history *h, unsigned i)
{
    struct seen_call *w = &h->calls[i];
    unsigned what = (unsigned)rand() % 3;
    if (!h->is_open[i])
        return;
    if (what == 0 && !w->given_up && !w->ended) {
        w->given_up = true;
        tell(h, (baton_event_t){.type = BATON_EVENT_GIVEN_UP, .id = i + 1});
    } else if (what == 1 && h->hears && !w->verdict) {
        w->verdict = true;
        tell(h, (baton_event_t){.type = BATON_EVENT_VERDICT, .id = i + 1});
        if (w->ended)
            h->is_open[i] = false;
    } else if (what == 2 && !w->ended) {
        w->ended = true;
        w->verdict_follows = h->hears && !w->verdict && rand() % 4 > 0;
        h->num_open--;
        h->num_leased -= w->leased;
        tell(h, (baton_event_t){.type = w->leased ? BATON_EVENT_OFFER : BATON_EVENT_WANT,
                                .mode = w->leased ? BATON_MODE_AUTO : BATON_MODE_PULL,
                                .id = i + 1,
                                .given_up = w->given_up,
                                .verdict = w->verdict           ? BATON_VERDICT_CAME
                                           : w->verdict_follows ? BATON_VERDICT_FOLLOWS
                                                                : BATON_VERDICT_NONE});
        if (!w->verdict_follows)
            h->is_open[i] = false;
    }
}

static void drain(struct history *h)
{
    bool any = true;
    while (any) {
        any = h->num_queued > 0;
        poll_one(h);
        for (unsigned i = 0; i < CALLS_MOST; i++) {
            any |= h->is_open[i];
            go_on(h, i);
        }
        assert_invariant(h);
    }
}

static void test_whatever_a_call_may_tell_has_its_place(void **state)
{
    (void)state;
    for (int hears = 0; hears < 2; hears++) {
        struct history h = {.hears = hears};
        srand(11);
        admission_init(&h.a, REQUESTS, LEASES, hears);
        for (unsigned step = 0; step < 400000; step++) {
            unsigned polls = step / 100 % 3; /* at times nobody polls */
            unsigned what = (unsigned)rand() % (4 + polls);
            if (what == 0)
                accept_one(&h);
            else if (what == 1 && hears)
                tell(&h, (baton_event_t){.type = BATON_EVENT_VERDICT});
            else if (what <= 3)
                go_on(&h, (unsigned)rand() % CALLS_MOST);
            else
                poll_one(&h);
            assert_invariant(&h);
        }
        assert_true(h.refused > 0 && h.most_open > REQUESTS); /* both bounds were met */
        assert_int_equal(h.lost > 0, hears);
        drain(&h);
        assert_room_for(&h.a, REQUESTS, LEASES); /* every place came back once */
    }
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

struct race {
    struct admission a;
    _Atomic int open, leased;
    _Atomic unsigned wrong; /* how often a limit was exceeded */
};

static void *callers(void *arg)
{
    struct race *r = arg;
    for (unsigned i = 0; i < 100000; i++) {
        bool offer = i % 2;
        if (admission_take(&r->a, offer) != 0)
            continue;
        r->wrong += atomic_fetch_add(&r->open, 1) >= REQUESTS;
        r->wrong += offer && atomic_fetch_add(&r->leased, 1) >= LEASES;
        baton_event_t end = {.type = offer ? BATON_EVENT_OFFER : BATON_EVENT_WANT, .id = 1};
        atomic_fetch_sub(&r->leased, offer);
        admission_tell(&r->a, &end);
        atomic_fetch_sub(&r->open, 1);
        admission_polled(&r->a, &end);
    }
    return NULL;
}

static void test_the_limits_hold_among_threads(void **state)
{
    (void)state;
    struct race r = {0};
    pthread_t threads[2 * REQUESTS];
    admission_init(&r.a, REQUESTS, LEASES, true);
    for (unsigned i = 0; i < 2 * REQUESTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, callers, &r), 0);
    for (unsigned i = 0; i < 2 * REQUESTS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(r.wrong, 0);
    assert_room_for(&r.a, REQUESTS, LEASES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_many_calls_as_requests),
        cmocka_unit_test(test_ids_count_up),
        cmocka_unit_test(test_as_many_leases_as_there_are),
        cmocka_unit_test(test_leases_of_ends),
        cmocka_unit_test(test_whatever_a_call_may_tell_has_its_place),
        cmocka_unit_test(test_the_limits_hold_among_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
