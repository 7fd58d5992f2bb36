/* SPDX-License-Identifier: BSD-3-Clause */
/* versions: each reader keeps what it took; what nobody reads is freed; no more old ones wait than there are places. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/versions.h"

#define WORDS 32
#define POISON UINT64_MAX
#define THREADS 4
#define PERIOD_NS                                                                                                      \
    UINT64_C(500000) /* between two versions: 2,000 a second, and at least half of that where CPUs are few */
#define CHANGES 1500
#define LATE_NS UINT64_C(60000000000)

struct page {
    struct version version;
    uint64_t words[WORDS]; /* plain on purpose: a free while one reads is a race that the thread sanitizer reports */
};

static unsigned alive; /* the writer's */

static void page_free(struct version *version)
{
    struct page *page = (struct page *)version;
    memset(page->words, 0xff, sizeof page->words);
    alive--;
    free(page);
}

static void publish(struct versions *v, uint64_t number)
{
    struct page *page = malloc(sizeof *page);
    assert_non_null(page);
    for (unsigned i = 0; i < WORDS; i++)
        page->words[i] = number;
    alive++;
    versions_publish(v, &page->version);
}

static uint64_t number_of(const struct version *version)
{
    return ((const struct page *)version)->words[0];
}

/* ---- one thread -------------------------------------------------------------------------------------------------- */

static void test_there_is_none_at_first(void **state)
{
    (void)state;
    struct versions v;
    unsigned place;
    versions_init(&v, page_free);
    assert_null(versions_take(&v, &place));
    assert_null(versions_newest(&v));
    versions_sweep(&v);
    versions_fini(&v);
}

static void test_a_version_stays_while_it_is_read(void **state)
{
    (void)state;
    struct versions v;
    unsigned first, again, second;
    versions_init(&v, page_free);
    publish(&v, 1);
    const struct version *one = versions_take(&v, &first);
    assert_ptr_equal(versions_take(&v, &again), one);
    assert_int_not_equal(first, again);
    publish(&v, 2);
    publish(&v, 3); /* nobody has read the second one */
    assert_int_equal(alive, 2);
    assert_int_equal(number_of(one), 1);
    const struct version *three = versions_take(&v, &second);
    assert_int_equal(number_of(three), 3);
    assert_ptr_equal(versions_newest(&v), three);
    versions_give(&v, first);
    versions_sweep(&v);
    assert_int_equal(alive, 2);
    assert_int_equal(number_of(one), 1);
    versions_give(&v, again);
    versions_sweep(&v);
    assert_int_equal(alive, 1);
    versions_give(&v, second);
    publish(&v, 4);
    assert_int_equal(alive, 1);
    versions_fini(&v);
    assert_int_equal(alive, 0);
}

static void test_no_more_wait_than_places(void **state)
{
    (void)state;
    struct versions v;
    unsigned place[VERSIONS_READERS];
    const struct version *reads[VERSIONS_READERS];
    versions_init(&v, page_free);
    for (unsigned i = 0; i < VERSIONS_READERS; i++) {
        publish(&v, i);
        reads[i] = versions_take(&v, &place[i]);
    }
    for (unsigned i = 0; i < 3 * VERSIONS_READERS; i++)
        publish(&v, 1000);
    assert_int_equal(alive, VERSIONS_READERS + 1);
    for (unsigned i = 0; i < VERSIONS_READERS; i++)
        assert_int_equal(number_of(reads[i]), i);
    for (unsigned i = 0; i < VERSIONS_READERS; i += 2)
        versions_give(&v, place[i]);
    versions_sweep(&v);
    assert_int_equal(alive, VERSIONS_READERS / 2 + 1);
    for (unsigned i = 1; i < VERSIONS_READERS; i += 2) {
        assert_int_equal(number_of(reads[i]), i);
        versions_give(&v, place[i]);
    }
    versions_fini(&v);
    assert_int_equal(alive, 0);
}

/* ---- many threads ------------------------------------------------------------------------------------------------ */

struct stage {
    struct versions v;
    _Atomic uint64_t newest; /* number of a version that was published */
    _Atomic bool is_over;
    _Atomic unsigned wrong;
    _Atomic uint64_t reads;
};

static bool is_whole(const struct page *page)
{
    unsigned i = 0;
    while (i < WORDS && page->words[i] == page->words[0] && page->words[i] != POISON)
        i++;
    return i == WORDS;
}

static void *read_always(void *arg)
{
    struct stage *s = arg;
    while (!atomic_load(&s->is_over)) {
        unsigned place;
        const uint64_t least = atomic_load(&s->newest);
        const struct version *version = versions_take(&s->v, &place);
        if (!is_whole((const struct page *)version) || number_of(version) < least)
            atomic_fetch_add(&s->wrong, 1);
        if (atomic_fetch_add(&s->reads, 1) % 64 == 0)
            sched_yield(); /* in the midst of a read */
        if (!is_whole((const struct page *)version))
            atomic_fetch_add(&s->wrong, 1);
        versions_give(&s->v, place);
    }
    return NULL;
}

static void test_readers_while_versions_change(void **state)
{
    (void)state;
    struct stage s = {.newest = 1};
    pthread_t threads[THREADS];
    versions_init(&s.v, page_free);
    publish(&s.v, 1);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_always, &s), 0);
    const uint64_t late = clock_now_ns() + LATE_NS;
    uint64_t next = clock_now_ns();
    for (uint64_t n = 2; n < CHANGES && clock_now_ns() < late; n++, next += PERIOD_NS) {
        while (clock_now_ns() < next)
            sched_yield();
        publish(&s.v, n);
        atomic_store(&s.newest, n);
        assert_in_range(alive, 1, THREADS + 1);
    }
    atomic_store(&s.is_over, true);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&s.newest), CHANGES - 1);
    assert_int_equal(atomic_load(&s.wrong), 0);
    assert_true(atomic_load(&s.reads) > 0);
    versions_sweep(&s.v);
    assert_int_equal(alive, 1);
    versions_fini(&s.v);
}

/* More threads than places: some find none, and yield. */
static void test_more_readers_than_places(void **state)
{
    (void)state;
    struct stage s = {.newest = 1};
    unsigned place[VERSIONS_READERS - 1];
    pthread_t threads[THREADS];
    versions_init(&s.v, page_free);
    publish(&s.v, 1);
    for (unsigned i = 0; i < VERSIONS_READERS - 1; i++)
        assert_non_null(versions_take(&s.v, &place[i]));
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_always, &s), 0);
    const uint64_t late = clock_now_ns() + LATE_NS;
    while (atomic_load(&s.reads) < 1000 && clock_now_ns() < late)
        sched_yield();
    for (uint64_t n = 2; n < 100; n++) {
        publish(&s.v, n);
        sched_yield();
    }
    atomic_store(&s.is_over, true);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(atomic_load(&s.reads) >= 1000);
    assert_int_equal(atomic_load(&s.wrong), 0);
    versions_sweep(&s.v);
    assert_int_equal(alive, 2); /* the first one still stands in the places that are held */
    for (unsigned i = 0; i < VERSIONS_READERS - 1; i++)
        versions_give(&s.v, place[i]);
    versions_fini(&s.v);
    assert_int_equal(alive, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_is_none_at_first),   cmocka_unit_test(test_a_version_stays_while_it_is_read),
        cmocka_unit_test(test_no_more_wait_than_places), cmocka_unit_test(test_readers_while_versions_change),
        cmocka_unit_test(test_more_readers_than_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
