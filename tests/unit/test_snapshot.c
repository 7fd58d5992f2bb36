/* SPDX-License-Identifier: BSD-3-Clause */
/* snapshot: what was put last is read whole, whoever puts meanwhile. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/core.h"
#include "front/snapshot.h"

#define ROUNDS 20000

static _Atomic int fill; /* what the core, which is a fake, says in each byte; so many handshakes are under way */

int core_pending(const struct core *core, uint64_t now, baton_pending_t *out, int max)
{
    const int byte = atomic_load(&fill);
    (void)core;
    (void)now;
    assert_int_equal(max, SNAPSHOT_PENDING);
    memset(out, byte, (size_t)byte * sizeof *out);
    return byte;
}

static void put(struct snapshot *s, int byte)
{
    char why[SNAPSHOT_WHY + 10];
    memset(why, byte, sizeof why); /* longer than there is room for */
    why[sizeof why - 1] = '\0';
    atomic_store(&fill, byte);
    while (!snapshot_put(s, NULL, 1)) /* another thread reads or puts */
        sched_yield();
    snapshot_put_why(s, why);
}

/* All bytes are alike. Returns them. */
static int same(const void *at, size_t bytes)
{
    const uint8_t *b = at;
    for (size_t i = 1; i < bytes; i++)
        assert_int_equal(b[i], b[0]);
    return b[0];
}

static void look(struct snapshot *s)
{
    baton_pending_t pending[SNAPSHOT_PENDING];
    char why[SNAPSHOT_WHY];
    uint32_t n = snapshot_pending(s, pending, SNAPSHOT_PENDING);
    assert_in_range(n, 1, 3);
    assert_int_equal(same(pending, (size_t)n * sizeof pending[0]), n);
    snapshot_why(s, why);
    assert_int_equal(why[sizeof why - 1], '\0');
    same(why, sizeof why - 1);
}

static void test_empty(void **state)
{
    (void)state;
    struct snapshot s;
    baton_pending_t pending[SNAPSHOT_PENDING];
    char why[SNAPSHOT_WHY] = "left";
    memset(&s, 0xff, sizeof s);
    snapshot_init(&s);
    assert_int_equal(snapshot_pending(&s, pending, SNAPSHOT_PENDING), 0);
    snapshot_why(&s, why);
    assert_string_equal(why, "");
    snapshot_fini(&s);
}

static void test_last(void **state)
{
    (void)state;
    struct snapshot s;
    baton_pending_t pending[SNAPSHOT_PENDING];
    char why[SNAPSHOT_WHY];
    snapshot_init(&s);
    for (int byte = 1; byte <= 3; byte++) {
        put(&s, byte);
        look(&s);
        assert_int_equal(snapshot_pending(&s, pending, SNAPSHOT_PENDING), byte);
    }
    snapshot_put_why(&s, "engine b is lost");
    snapshot_why(&s, why);
    assert_string_equal(why, "engine b is lost");
    snapshot_fini(&s);
}

/* Whoever makes turns does not wait for a reader. */
static void test_a_reader_does_not_hold_it_up(void **state)
{
    (void)state;
    struct snapshot s;
    baton_pending_t pending[SNAPSHOT_PENDING];
    snapshot_init(&s);
    put(&s, 1);
    pthread_mutex_lock(&s.lock);
    atomic_store(&fill, 2);
    assert_false(snapshot_put(&s, NULL, 1));
    pthread_mutex_unlock(&s.lock);
    assert_int_equal(snapshot_pending(&s, pending, SNAPSHOT_PENDING), 1);
    assert_true(snapshot_put(&s, NULL, 1));
    assert_int_equal(snapshot_pending(&s, pending, SNAPSHOT_PENDING), 2);
    snapshot_fini(&s);
}

static _Atomic int stops;

static void *put_again(void *arg)
{
    for (int i = 0; !atomic_load(&stops); i++)
        put(arg, 1 + i % 3);
    return NULL;
}

static void test_whole(void **state)
{
    (void)state;
    struct snapshot s;
    pthread_t threads[2];
    snapshot_init(&s);
    put(&s, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_again, &s), 0);
    for (int i = 0; i < ROUNDS; i++)
        look(&s);
    atomic_store(&stops, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    snapshot_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_last),
        cmocka_unit_test(test_a_reader_does_not_hold_it_up),
        cmocka_unit_test(test_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
