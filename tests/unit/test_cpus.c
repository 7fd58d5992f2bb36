/* SPDX-License-Identifier: BSD-3-Clause */
/* cpus: lists of hardware threads, and threads that are started on them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpus.h"
#include "base/thread.h"

static void test_lists(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"0", "0"},         {"3,1,2", "1-3"},   {"0-7,32-39", "0-7,32-39"}, {"5-5", "5"},
        {"1,3,5", "1,3,5"}, {"0-3,2-6", "0-6"}, {"65535", "65535"},         {"65534-65535,0", "0,65534-65535"}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cpus c;
        char list[64];
        assert_true(cpus_init(&c));
        assert_true(cpus_read(&c, cases[i][0]));
        assert_true(cpus_write(&c, list, sizeof list));
        assert_string_equal(list, cases[i][1]);
        cpus_fini(&c);
    }
}

static void test_malformed(void **state)
{
    (void)state;
    static const char *const bad[] = {"",      "a",       "1-",         "-1",  "3-2", "1,,2", "1,",
                                      "65536", "0-65536", "0-99999999", "1 2", " 1",  "0x1"};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct cpus c;
        assert_true(cpus_init(&c));
        assert_false(cpus_read(&c, bad[i]));
        cpus_fini(&c);
    }
}

static void test_numbers(void **state)
{
    (void)state;
    static const uint32_t numbers[] = {0, 1, 2, 8, 32, 33};
    char list[16];
    assert_true(cpus_write_numbers(numbers, 6, list, sizeof list));
    assert_string_equal(list, "0-2,8,32-33");
    assert_true(cpus_write_numbers(numbers, 0, list, sizeof list));
    assert_string_equal(list, "");
    assert_false(cpus_write_numbers(numbers, 6, list, 11));
    assert_string_equal(list, "0-2,8");
}

static void test_short_of_room(void **state)
{
    (void)state;
    struct cpus c;
    char list[6];
    assert_true(cpus_init(&c));
    assert_true(cpus_write(&c, list, sizeof list));
    assert_string_equal(list, "");
    assert_true(cpus_read(&c, "1,3,5"));
    assert_true(cpus_write(&c, list, sizeof list));
    assert_string_equal(list, "1,3,5");
    assert_true(cpus_read(&c, "1,3,5,7"));
    assert_false(cpus_write(&c, list, sizeof list));
    assert_string_equal(list, "1,3,5");
    assert_false(cpus_write(&c, list, 0));
    assert_false(cpus_write_numbers(&(const uint32_t){7}, 1, list, 0));
    thread_cpus(pthread_self(), list, 0);
    assert_string_equal(list, "1,3,5"); /* nothing is written where there is no room at all */
    cpus_fini(&c);
}

static void *report(void *list)
{
    thread_cpus(pthread_self(), list, 256);
    return NULL;
}

static void start_on(const char *cpus, char found[256])
{
    pthread_t thread;
    assert_int_equal(thread_start(&thread, "test", cpus, report, found), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Where the system refuses, the thread starts all the same. */
static void test_threads(void **state)
{
    (void)state;
    char own[256], last[16], found[256];
    thread_cpus(pthread_self(), own, sizeof own);
    assert_true(own[0] != '\0');
    const char *at = strpbrk(own, ",-") != NULL ? own + strlen(own) : own;
    while (at > own && at[-1] >= '0' && at[-1] <= '9')
        at--;
    snprintf(last, sizeof last, "%.8s", at);
    start_on(last, found);
    assert_string_equal(found, last);
    static const char *const refused[] = {NULL, "65535", "x", ""};
    for (unsigned i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        start_on(refused[i], found);
        assert_string_equal(found, own);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),         cmocka_unit_test(test_malformed), cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_short_of_room), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
