/* SPDX-License-Identifier: BSD-3-Clause */
/* error: names, messages, and a sentence a thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

struct known {
    int number;
    const char *name, *message;
};

static const struct known known[] = {
#define KNOWN(name, number, message) {BATON_##name, "BATON_" #name, message},
    BATON_ERRNO_MAP(KNOWN)
#undef KNOWN
};

static const size_t known_count = sizeof known / sizeof known[0];

static void every_number_has_its_name_and_message(void **state)
{
    (void)state;
    for (size_t i = 0; i < known_count; i++) {
        assert_true(known[i].number < 0);
        assert_string_equal(baton_errname(known[i].number), known[i].name);
        assert_string_equal(baton_strerror(known[i].number), known[i].message);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(known[i].number, known[j].number);
            assert_string_not_equal(known[i].message, known[j].message);
        }
    }
}

static void numbers_that_are_published_stay(void **state)
{
    (void)state;
    assert_int_equal(BATON_EINVAL, -1);
    assert_int_equal(BATON_ESETTING, -6);
    assert_int_equal(BATON_EPEER, -17);
    assert_int_equal(BATON_EBUSY, -27);
}

static void other_numbers_are_unknown(void **state)
{
    (void)state;
    static const int others[] = {1, 27, -1000, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_string_equal(baton_strerror(others[i]), "unknown error");
        assert_string_equal(baton_errname(others[i]), "BATON_UNKNOWN");
    }
    assert_string_equal(baton_strerror(0), "no error");
    assert_string_equal(baton_errname(0), "BATON_OK");
}

static void version_is_that_of_the_header(void **state)
{
    (void)state;
    char text[64];
    snprintf(text, sizeof text, "%d.%d.%d", BATON_VERSION_MAJOR, BATON_VERSION_MINOR, BATON_VERSION_PATCH);
    assert_string_equal(baton_version(), text);
}

static void sentence_is_kept_and_number_returned(void **state)
{
    (void)state;
    assert_int_equal(error_set(BATON_EBLOCK, "block %d of %s", 7, "key-1"), BATON_EBLOCK);
    assert_string_equal(baton_errmsg(), "block 7 of key-1");
    assert_int_equal(error_set(BATON_EINVAL, "tp is 0"), BATON_EINVAL);
    assert_string_equal(baton_errmsg(), "tp is 0");
}

static void sentence_may_quote_the_former(void **state)
{
    (void)state;
    error_set(BATON_EMPI, "window 3 failed");
    error_set(BATON_EWINDOW, "%s: start gives up after %s", "rank 4", baton_errmsg());
    assert_string_equal(baton_errmsg(), "rank 4: start gives up after window 3 failed");
}

static void long_sentence_is_cut_and_says_so(void **state)
{
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    error_set(BATON_EINVAL, "%s", text);
    assert_int_equal(strlen(baton_errmsg()), 511);
    assert_string_equal(baton_errmsg() + 511 - 4, "x...");

    text[511] = '\0'; /* the longest that fits is not cut */
    error_set(BATON_EINVAL, "%s", text);
    assert_string_equal(baton_errmsg(), text);
}

static void errno_stays(void **state)
{
    (void)state;
    errno = EDOM;
    error_set(BATON_ESYSTEM, "a%20000d", 1); /* long, so that the formatting works hard */
    assert_int_equal(errno, EDOM);
}

static void *speak(void *arg)
{
    char *heard = arg;
    snprintf(heard, 64, "[%s]", baton_errmsg());
    error_set(BATON_EPEER, "the other thread");
    return NULL;
}

static void each_thread_has_its_own_sentence(void **state)
{
    (void)state;
    char heard[64];
    pthread_t thread;
    error_set(BATON_EINVAL, "this thread");
    assert_int_equal(pthread_create(&thread, NULL, speak, heard), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(heard, "[]");
    assert_string_equal(baton_errmsg(), "this thread");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_has_its_name_and_message),
        cmocka_unit_test(numbers_that_are_published_stay),
        cmocka_unit_test(other_numbers_are_unknown),
        cmocka_unit_test(version_is_that_of_the_header),
        cmocka_unit_test(sentence_is_kept_and_number_returned),
        cmocka_unit_test(sentence_may_quote_the_former),
        cmocka_unit_test(long_sentence_is_cut_and_says_so),
        cmocka_unit_test(errno_stays),
        cmocka_unit_test(each_thread_has_its_own_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
