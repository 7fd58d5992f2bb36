/* SPDX-License-Identifier: BSD-3-Clause */
/* spare: what was freed serves again, zeroed and never for two at a time, and no more of it is kept than is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/spare.h"

enum { LARGEST = 4096, THREADS = 4, ROUNDS = 20000, HELD = 8 };

static _Atomic unsigned allocated;

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
    allocated++;
    return __real_calloc(n, bytes);
}

static bool is_zero(const uint8_t *at, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && at[i] == 0)
        i++;
    return i == bytes;
}

static void what_was_freed_serves_again(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes <= LARGEST; bytes = 2 * bytes + 1) {
        uint8_t *first = spare_calloc(bytes);
        assert_true(is_zero(first, bytes));
        memset(first, 0xa5, bytes);
        spare_free(first, bytes);
        const unsigned before = allocated;
        uint8_t *again = spare_calloc(bytes);
        assert_ptr_equal(again, first);
        assert_true(is_zero(again, bytes));
        assert_int_equal(allocated, before);
        spare_free(again, bytes);
    }
    spare_free(NULL, 100);
}

static void what_is_large_is_not_kept(void **state)
{
    (void)state;
    const unsigned before = allocated;
    for (int i = 0; i < 3; i++) {
        uint8_t *large = spare_calloc(LARGEST + 1);
        assert_true(is_zero(large, LARGEST + 1));
        spare_free(large, LARGEST + 1);
    }
    assert_int_equal(allocated, before + 3);
}

static void so_many_are_kept_and_no_more(void **state)
{
    (void)state;
    void *held[2 * SPARE_KEPT];
    for (unsigned i = 0; i < 2 * SPARE_KEPT; i++)
        held[i] = spare_calloc(200);
    for (unsigned i = 0; i < 2 * SPARE_KEPT; i++)
        spare_free(held[i], 200);
    const unsigned before = allocated;
    for (unsigned i = 0; i < 2 * SPARE_KEPT; i++)
        held[i] = spare_calloc(200);
    assert_int_equal(allocated, before + SPARE_KEPT);
    for (unsigned i = 0; i < 2 * SPARE_KEPT; i++)
        spare_free(held[i], 200);
}

static void *take_and_give(void *mark)
{
    uint64_t *held[HELD] = {NULL};
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t **at = &held[round % HELD];
        if (*at != NULL && (*at)[0] != (uintptr_t)mark)
            return mark; /* somebody else had it too */
        spare_free(*at, 64);
        *at = spare_calloc(64);
        if ((*at)[0] != 0)
            return mark;
        (*at)[0] = (uintptr_t)mark;
    }
    for (unsigned i = 0; i < HELD; i++)
        spare_free(held[i], 64);
    return NULL;
}

static void threads_never_have_the_same(void **state)
{
    (void)state;
    static char marks[THREADS];
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, take_and_give, &marks[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *bad;
        assert_int_equal(pthread_join(thread[i], &bad), 0);
        assert_null(bad);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_freed_serves_again),
        cmocka_unit_test(what_is_large_is_not_kept),
        cmocka_unit_test(so_many_are_kept_and_no_more),
        cmocka_unit_test(threads_never_have_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
