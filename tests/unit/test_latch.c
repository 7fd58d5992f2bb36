/* SPDX-License-Identifier: BSD-3-Clause */
/* latch: a wait does not end before its deadline unless the latch opens; then all see what was stored before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/latch.h"
#include "with_clock.h"

#define WAITERS 4
#define MS CLOCK_NS_PER_MS

struct room {
    struct latch latch;
    int word; /* plain: the latch orders it */
    int seen[WAITERS];
    uint64_t opened_ns, passed_ns[WAITERS];
};

struct waiter {
    struct room *room;
    int number;
    pthread_t thread;
};

static void a_closed_latch_holds_to_the_deadline(void **state)
{
    (void)state;
    struct latch l;
    latch_init(&l);
    uint64_t before = clock_now_ns();
    assert_false(latch_wait(&l, 0)); /* a deadline long past */
    assert_false(latch_wait(&l, before + 30 * MS));
    assert_true(clock_now_ns() - before >= 30 * MS);
}

static void who_waits_sleeps(void **state)
{
    (void)state;
    struct latch l;
    latch_init(&l);
    const double before = thread_cpu_ms();
    assert_false(latch_wait(&l, clock_now_ns() + 200 * MS));
    assert_true(thread_cpu_ms() - before < 50);
}

static void rings_without_opening_do_not_end_a_wait(void **state)
{
    (void)state;
    struct latch l;
    latch_init(&l);
    bell_ring(&l.bell);
    uint64_t before = clock_now_ns();
    assert_false(latch_wait(&l, before + 10 * MS));
    assert_true(clock_now_ns() - before >= 10 * MS);
}

static void an_open_latch_stays_open(void **state)
{
    (void)state;
    struct latch l;
    latch_init(&l);
    latch_open(&l);
    assert_true(latch_wait(&l, 0));
    assert_true(latch_wait(&l, UINT64_MAX));
}

static void *pass(void *arg)
{
    struct waiter *w = arg;
    if (latch_wait(&w->room->latch, clock_now_ns() + 20000 * MS))
        w->room->seen[w->number] = w->room->word;
    w->room->passed_ns[w->number] = clock_now_ns();
    return NULL;
}

static void opening_lets_all_pass(void **state)
{
    (void)state;
    struct room room = {0};
    struct waiter waiters[WAITERS];
    latch_init(&room.latch);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = (struct waiter){.room = &room, .number = i};
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, pass, &waiters[i]), 0);
    }
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    room.word = 7;
    room.opened_ns = clock_now_ns();
    latch_open(&room.latch);
    for (int i = 0; i < WAITERS; i++) {
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(room.seen[i], 7);
        assert_true(room.passed_ns[i] - room.opened_ns < 10000 * MS); /* woken, not timed out */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_latch_holds_to_the_deadline),
        cmocka_unit_test(who_waits_sleeps),
        cmocka_unit_test(rings_without_opening_do_not_end_a_wait),
        cmocka_unit_test(an_open_latch_stays_open),
        cmocka_unit_test(opening_lets_all_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
