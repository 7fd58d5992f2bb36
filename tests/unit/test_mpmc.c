/* SPDX-License-Identifier: BSD-3-Clause */
/* mpmc: bounds and order in one thread; and with many threads, every item comes once and in its producer's order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mpmc.h"

#define DEADLINE_NS UINT64_C(100000000000) /* on a machine that has little time for it; ctest ends it after 120 s */

/* ---- one thread -------------------------------------------------------------------------------------------------- */

static int marks[4096]; /* only their addresses count */

static size_t fill(struct mpmc *r)
{
    size_t pushed = 0;
    while (pushed < 4096 && mpmc_push(r, &marks[pushed]))
        pushed++;
    return pushed;
}

static void capacity_is_rounded_up_and_exact(void **state)
{
    (void)state;
    static const size_t asked[] = {0, 1, 2, 3, 4, 5, 64, 65, 1000};
    static const size_t given[] = {2, 2, 2, 4, 4, 8, 64, 128, 1024};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        struct mpmc *r = mpmc_create(asked[i]);
        assert_non_null(r);
        assert_int_equal(fill(r), given[i]);
        mpmc_destroy(r);
    }
}

static void impossible_capacity_is_refused(void **state)
{
    (void)state;
    assert_null(mpmc_create(SIZE_MAX));
    assert_null(mpmc_create(SIZE_MAX / 2 + 2));
    assert_null(mpmc_create(SIZE_MAX / 16));
}

static void empty_gives_nothing(void **state)
{
    (void)state;
    struct mpmc *r = mpmc_create(4);
    assert_non_null(r);
    assert_true(mpmc_is_empty(r));
    assert_null(mpmc_pop(r));
    assert_true(mpmc_push(r, &marks[0]));
    assert_false(mpmc_is_empty(r));
    assert_ptr_equal(mpmc_pop(r), &marks[0]);
    assert_true(mpmc_is_empty(r));
    assert_null(mpmc_pop(r));
    mpmc_destroy(r);
}

static void full_takes_one_for_each_taken(void **state)
{
    (void)state;
    struct mpmc *r = mpmc_create(8);
    assert_non_null(r);
    assert_int_equal(fill(r), 8);
    for (size_t i = 8; i < 1000; i++) {
        assert_false(mpmc_push(r, &marks[i]));
        assert_ptr_equal(mpmc_pop(r), &marks[i - 8]);
        assert_true(mpmc_push(r, &marks[i]));
    }
    mpmc_destroy(r);
}

static void order_holds_over_many_laps(void **state)
{
    (void)state;
    struct mpmc *r = mpmc_create(16);
    assert_non_null(r);
    size_t pushed = 0, popped = 0;
    unsigned random = 1;
    while (popped < 100000) {
        random = random * 1103515245u + 12345u;
        size_t steps = (random >> 16) % 20; /* sometimes more than the capacity */
        for (size_t i = 0; i < steps; i++) {
            const bool room = pushed - popped < 16;
            assert_int_equal(mpmc_push(r, &marks[pushed % 4096]), room);
            pushed += room;
        }
        random = random * 1103515245u + 12345u;
        steps = (random >> 16) % 20;
        for (size_t i = 0; i < steps; i++) {
            void *expected = popped < pushed ? &marks[popped % 4096] : NULL;
            assert_ptr_equal(mpmc_pop(r), expected);
            popped += expected != NULL;
        }
    }
    mpmc_destroy(r);
}

/* ---- many threads ------------------------------------------------------------------------------------------------ */

#define THREADS_MAX 4
#define ITEMS_EACH 50000

struct item {
    unsigned producer, serial;
    unsigned taken; /* plain on purpose: two consumers of one item are a race that the thread sanitizer reports */
};

struct stage {
    struct mpmc *queue;
    unsigned producers, consumers;
    uint64_t deadline_ns;
    _Atomic unsigned taken;
    _Atomic unsigned disorders;
    struct item items[THREADS_MAX][ITEMS_EACH];
};

struct actor {
    struct stage *stage;
    unsigned index;
    pthread_t thread;
};

static bool is_late(const struct stage *s)
{
    return clock_now_ns() > s->deadline_ns;
}

static void *produce(void *arg)
{
    struct actor *a = arg;
    for (unsigned i = 0; i < ITEMS_EACH; i++) {
        struct item *item = &a->stage->items[a->index][i];
        *item = (struct item){.producer = a->index, .serial = i};
        while (!mpmc_push(a->stage->queue, item)) {
            if (is_late(a->stage))
                return NULL;
            sched_yield();
        }
    }
    return NULL;
}

static void *consume(void *arg)
{
    struct actor *a = arg;
    struct stage *s = a->stage;
    unsigned next[THREADS_MAX] = {0}; /* the least serial that may still come from each producer */
    while (atomic_load(&s->taken) < s->producers * ITEMS_EACH && !is_late(s)) {
        struct item *item = mpmc_pop(s->queue);
        if (item == NULL) {
            sched_yield();
            continue;
        }
        if (item->producer >= s->producers || item->serial < next[item->producer])
            atomic_fetch_add(&s->disorders, 1);
        else
            next[item->producer] = item->serial + 1;
        item->taken++;
        atomic_fetch_add(&s->taken, 1);
    }
    return NULL;
}

static void run_stage(struct stage *s)
{
    struct actor actors[2 * THREADS_MAX];
    const unsigned count = s->producers + s->consumers;
    for (unsigned i = 0; i < count; i++) {
        const bool producer = i < s->producers;
        actors[i].stage = s;
        actors[i].index = producer ? i : i - s->producers;
        assert_int_equal(pthread_create(&actors[i].thread, NULL, producer ? produce : consume, &actors[i]), 0);
    }
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(pthread_join(actors[i].thread, NULL), 0);
}

static void contend(unsigned producers, unsigned consumers, size_t capacity)
{
    struct stage *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->queue = mpmc_create(capacity);
    assert_non_null(s->queue);
    s->producers = producers;
    s->consumers = consumers;
    s->deadline_ns = clock_now_ns() + DEADLINE_NS;
    run_stage(s);

    assert_int_equal(atomic_load(&s->taken), producers * ITEMS_EACH);
    assert_int_equal(atomic_load(&s->disorders), 0);
    for (unsigned p = 0; p < producers; p++)
        for (unsigned i = 0; i < ITEMS_EACH; i++)
            assert_int_equal(s->items[p][i].taken, 1);
    assert_true(mpmc_is_empty(s->queue));
    assert_null(mpmc_pop(s->queue));
    mpmc_destroy(s->queue);
    free(s);
}

static void one_to_one(void **state)
{
    (void)state;
    contend(1, 1, 2);
}

static void many_to_one(void **state)
{
    (void)state;
    contend(4, 1, 64);
}

static void one_to_many(void **state)
{
    (void)state;
    contend(1, 4, 64);
}

static void many_to_many_through_a_narrow_queue(void **state)
{
    (void)state;
    contend(3, 3, 2);
}

static void many_to_many_through_a_wide_queue(void **state)
{
    (void)state;
    contend(4, 4, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capacity_is_rounded_up_and_exact),
        cmocka_unit_test(impossible_capacity_is_refused),
        cmocka_unit_test(empty_gives_nothing),
        cmocka_unit_test(full_takes_one_for_each_taken),
        cmocka_unit_test(order_holds_over_many_laps),
        cmocka_unit_test(one_to_one),
        cmocka_unit_test(many_to_one),
        cmocka_unit_test(one_to_many),
        cmocka_unit_test(many_to_many_through_a_narrow_queue),
        cmocka_unit_test(many_to_many_through_a_wide_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
