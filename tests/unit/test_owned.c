/* SPDX-License-Identifier: BSD-3-Clause */
/* owned: one thread holds it at a time, it says which, and whoever waits for it waits for a bounded time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/owned.h"
#include "base/task.h"

#define MS CLOCK_NS_PER_MS
#define LONG_NS (60 * CLOCK_NS_PER_S)

struct holder {
    struct owned lock;
    sem_t holds, gives;
    uint32_t id;
    uint64_t hold_ns;
};

static void wait_for(sem_t *s)
{
    while (sem_wait(s) != 0)
        continue;
}

static void *hold(void *arg)
{
    struct holder *h = arg;
    h->id = task_id();
    assert_true(owned_try(&h->lock));
    sem_post(&h->holds);
    if (h->hold_ns > 0)
        clock_sleep_until(clock_now_ns() + h->hold_ns);
    else
        wait_for(&h->gives);
    owned_give(&h->lock);
    return NULL;
}

static pthread_t begin(struct holder *h, uint64_t hold_ns)
{
    pthread_t thread;
    owned_init(&h->lock);
    h->hold_ns = hold_ns;
    assert_int_equal(sem_init(&h->holds, 0, 0) | sem_init(&h->gives, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, hold, h), 0);
    wait_for(&h->holds);
    return thread;
}

static void test_who_holds_it(void **state)
{
    (void)state;
    struct owned lock;
    owned_init(&lock);
    assert_int_equal(owned_by(&lock), 0);
    assert_true(owned_try(&lock));
    assert_int_equal(owned_by(&lock), task_id());
    owned_give(&lock);
    assert_int_equal(owned_by(&lock), 0);
    assert_true(owned_take(&lock, 0)); /* what is free is not waited for */
    assert_int_equal(owned_by(&lock), task_id());
    owned_give(&lock);
}

/* Nobody waits longer than it says; the holder is known meanwhile, also while somebody waits. */
static void test_a_wait_in_vain(void **state)
{
    (void)state;
    struct holder h;
    pthread_t thread = begin(&h, 0);
    assert_int_not_equal(h.id, task_id());
    assert_false(owned_try(&h.lock));
    assert_int_equal(owned_by(&h.lock), h.id);
    assert_false(owned_take(&h.lock, 0));
    const uint64_t began = clock_now_ns();
    assert_false(owned_take(&h.lock, began + 5 * MS));
    assert_true(clock_now_ns() >= began + 5 * MS);
    assert_int_equal(owned_by(&h.lock), h.id);
    assert_false(owned_try(&h.lock));
    sem_post(&h.gives);
    pthread_join(thread, NULL);
    assert_int_equal(owned_by(&h.lock), 0);
    assert_true(owned_try(&h.lock));
}

/* Who waits is woken: this would take a minute otherwise, and then fail. */
static void test_a_wait_that_is_answered(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct holder h;
        pthread_t thread = begin(&h, MS);
        assert_true(owned_take(&h.lock, clock_now_ns() + LONG_NS));
        assert_int_equal(owned_by(&h.lock), task_id());
        owned_give(&h.lock);
        pthread_join(thread, NULL);
    }
}

/* Runs its course though it is cancelled: until then it has the lock. */
static void *hold_and_end(void *arg)
{
    struct holder *h = arg;
    const bool tries = h->hold_ns == 0;
    assert_true(tries ? owned_try(&h->lock) : owned_take(&h->lock, clock_now_ns() + LONG_NS));
    pthread_cancel(pthread_self());
    pthread_testcancel();
    h->id = task_id();
    owned_give(&h->lock);
    pthread_testcancel();
    h->id = 0;
    return NULL;
}

static void test_a_holder_that_is_cancelled(void **state)
{
    (void)state;
    for (uint64_t how = 0; how < 2; how++) {
        struct holder h = {.hold_ns = how};
        pthread_t thread;
        void *ended = NULL;
        owned_init(&h.lock);
        assert_int_equal(pthread_create(&thread, NULL, hold_and_end, &h), 0);
        assert_int_equal(pthread_join(thread, &ended), 0);
        assert_ptr_equal(ended, PTHREAD_CANCELED);
        assert_int_not_equal(h.id, 0);
        assert_int_equal(owned_by(&h.lock), 0);
    }
}

enum { THREADS = 4, ROUNDS = 20000 };

static struct {
    struct owned lock;
    unsigned count; /* plain on purpose: the thread sanitizer reports two holders */
    atomic_uint failed;
} shared;

static void *add(void *arg)
{
    const bool tries = arg != NULL;
    for (int i = 0; i < ROUNDS; i++) {
        while (tries && !owned_try(&shared.lock))
            sched_yield();
        if (!tries && !owned_take(&shared.lock, clock_now_ns() + LONG_NS)) {
            atomic_fetch_add(&shared.failed, 1);
            return NULL;
        }
        shared.count++;
        owned_give(&shared.lock);
    }
    return NULL;
}

static void test_one_at_a_time(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    owned_init(&shared.lock);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add, i % 2 ? &shared : NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(shared.failed, 0);
    assert_int_equal(shared.count, THREADS * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_holds_it),
        cmocka_unit_test(test_a_wait_in_vain),
        cmocka_unit_test(test_a_wait_that_is_answered),
        cmocka_unit_test(test_a_holder_that_is_cancelled),
        cmocka_unit_test(test_one_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
