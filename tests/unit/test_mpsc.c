/* SPDX-License-Identifier: BSD-3-Clause */
/* mpsc: bounds and order; with many threads that push, every item comes once and in its thread's order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/mpsc.h"

static bool push(struct mpsc *q, struct mpsc_item *item)
{
    if (!mpsc_reserve(q))
        return false;
    mpsc_push(q, item);
    return true;
}

static void test_bounds_and_order(void **state)
{
    (void)state;
    struct mpsc q;
    struct mpsc_item items[8];
    unsigned pushed = 0, popped = 0, random = 1;
    mpsc_init(&q, 3);
    assert_true(mpsc_is_empty(&q));
    assert_null(mpsc_pop(&q));
    while (popped < 10000) {
        random = random * 1103515245u + 12345u;
        if (random >> 16 & 1) {
            const bool has_place = pushed - popped < 3;
            assert_int_equal(push(&q, &items[pushed % 8]), has_place);
            pushed += has_place;
        } else {
            assert_ptr_equal(mpsc_pop(&q), popped < pushed ? &items[popped % 8] : NULL);
            popped += popped < pushed;
        }
        assert_int_equal(mpsc_is_empty(&q), pushed == popped);
    }
}

/* A thread that is stopped before it has pushed holds its place, and delays nobody. */
static void test_a_thread_that_stops_in_between(void **state)
{
    (void)state;
    struct mpsc q;
    struct mpsc_item first, later[3];
    mpsc_init(&q, 2);
    assert_true(mpsc_reserve(&q));
    for (unsigned i = 0; i < 3; i++) {
        assert_true(push(&q, &later[i]));
        assert_false(mpsc_reserve(&q));
        assert_ptr_equal(mpsc_pop(&q), &later[i]);
        assert_null(mpsc_pop(&q));
    }
    mpsc_push(&q, &first);
    assert_ptr_equal(mpsc_pop(&q), &first);
}

enum { THREADS = 4, EACH = 50000, PLACES = 64 };

struct item {
    struct mpsc_item link;
    unsigned thread, serial; /* plain on purpose: the push orders them */
};

static struct {
    struct mpsc q;
    struct item items[THREADS][EACH];
} many;

static void *produce(void *arg)
{
    const unsigned thread = (unsigned)(uintptr_t)arg;
    for (unsigned i = 0; i < EACH; i++) {
        struct item *item = &many.items[thread][i];
        item->thread = thread;
        item->serial = i;
        while (!push(&many.q, &item->link))
            sched_yield();
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    unsigned next[THREADS] = {0};
    mpsc_init(&many.q, PLACES);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, produce, (void *)(uintptr_t)i), 0);
    for (unsigned n = 0; n < THREADS * EACH;) {
        struct item *item = (struct item *)mpsc_pop(&many.q);
        if (item == NULL) {
            sched_yield();
            continue;
        }
        assert_int_equal(item->serial, next[item->thread]++);
        n++;
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_null(mpsc_pop(&many.q));
    for (unsigned i = 0; i < PLACES; i++) /* all places have come back */
        assert_true(mpsc_reserve(&many.q));
    assert_false(mpsc_reserve(&many.q));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds_and_order),
        cmocka_unit_test(test_a_thread_that_stops_in_between),
        cmocka_unit_test(test_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
