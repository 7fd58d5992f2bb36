/* SPDX-License-Identifier: BSD-3-Clause */
/* settings: the table itself is sound, and every kind of bad value is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/settings.h"

#define ROWS_MAX 256

/* The environment of the test: one variable that is set, or none. */
static const char *set_variable;
static char set_value[256];

static char *lookup(const char *variable)
{
    return set_variable != NULL && strcmp(variable, set_variable) == 0 ? set_value : NULL;
}

static int read_with(const char *variable, const char *value, struct settings *out)
{
    set_variable = variable;
    snprintf(set_value, sizeof set_value, "%s", value);
    return settings_read(out, lookup);
}

/* The rows of the table and the fields of the struct come from one list, in one order. */
static void values_of(const struct settings *s, uint64_t values[ROWS_MAX])
{
    assert_int_equal(sizeof *s, settings_count * sizeof(uint64_t));
    assert_true(settings_count <= ROWS_MAX);
    memcpy(values, s, sizeof *s);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void presets_lie_within_bounds(void **state)
{
    (void)state;
    assert_true(settings_count > 0);
    for (unsigned i = 0; i < settings_count; i++) {
        const struct setting_info *info = &settings_table[i];
        assert_in_range(info->preset, info->least, info->most);
        assert_true(info->least < info->most);
    }
}

/* A quarter of the places is one rank's: its wants that come before their offers need not ask again and again. */
static void all_wants_of_a_rank_may_wait(void **state)
{
    (void)state;
    struct settings s;
    assert_int_equal(settings_read(&s, NULL), 0);
    assert_true(s.waiting / 4 >= s.requests);
}

static void variables_are_named_once_and_explained(void **state)
{
    (void)state;
    for (unsigned i = 0; i < settings_count; i++) {
        assert_memory_equal(settings_table[i].variable, "BATON_", 6);
        assert_true(strlen(settings_table[i].meaning) > 10);
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(settings_table[i].variable, settings_table[j].variable);
    }
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static void good_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {
        {"0", 0},
        {"7", 7},
        {"0064", 64},
        {"0G", 0},
        {"3K", 3 << 10},
        {"8M", 8 << 20},
        {"2G", UINT64_C(2) << 30},
        {"18446744073709551615", UINT64_MAX},
        {"18014398509481983K", UINT64_MAX - 1023},
        {"17179869183G", UINT64_MAX - ((UINT64_C(1) << 30) - 1)},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t value = 12345;
        assert_int_equal(settings_number(good[i].text, &value), 0);
        assert_true(value == good[i].value);
    }
}

static const char *const bad_numbers[] = {
    "",
    " ",
    "abc",
    "K",
    "-1",
    "+1",
    " 1",
    "1 ",
    "1\n",
    "0x10",
    "1.5",
    "1e3",
    "1,0",
    "5KK",
    "5K1",
    "5KB",
    "5T",
    "5k",
    "5 K",
    "--5",
    "1_0",
    "\xd9\xa1",                      /* a digit of another script */
    "18446744073709551616",          /* 2^64 */
    "99999999999999999999999999999", /* far too large */
    "18014398509481984K",            /* 2^54 * 2^10 */
    "17592186044416M",               /* 2^44 * 2^20 */
    "17179869184G",                  /* 2^34 * 2^30 */
    "18446744073709551615G",
};
static const size_t bad_numbers_count = sizeof bad_numbers / sizeof bad_numbers[0];

static void bad_numbers_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < bad_numbers_count; i++) {
        uint64_t value = 12345;
        assert_int_equal(settings_number(bad_numbers[i], &value), BATON_ESETTING);
        assert_true(value == 12345);
    }
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void unset_variables_give_presets(void **state)
{
    (void)state;
    struct settings s;
    uint64_t values[ROWS_MAX];
    assert_int_equal(read_with(NULL, "", &s), 0);
    values_of(&s, values);
    for (unsigned i = 0; i < settings_count; i++)
        assert_true(values[i] == settings_table[i].preset);
}

static void fields_have_their_names(void **state)
{
    (void)state;
    struct settings s;
    assert_int_equal(read_with("BATON_CHUNK_BYTES", "64K", &s), 0);
    assert_true(s.chunk_bytes == 65536);
    assert_int_equal(read_with("BATON_WANT_MS", "1234", &s), 0);
    assert_true(s.want_ms == 1234);
}

/* Both bounds are allowed, and set their own field only. */
static void each_variable_sets_its_own_field(void **state)
{
    (void)state;
    for (unsigned row = 0; row < settings_count; row++) {
        const uint64_t bounds[] = {settings_table[row].least, settings_table[row].most};
        for (int b = 0; b < 2; b++) {
            struct settings s;
            uint64_t values[ROWS_MAX];
            char text[32];
            snprintf(text, sizeof text, "%" PRIu64, bounds[b]);
            assert_int_equal(read_with(settings_table[row].variable, text, &s), 0);
            values_of(&s, values);
            for (unsigned i = 0; i < settings_count; i++)
                assert_true(values[i] == (i == row ? bounds[b] : settings_table[i].preset));
        }
    }
}

/* The sentence names the variable, the value and what is allowed; the struct does not change. */
static void expect_refusal(const struct setting_info *info, const char *value)
{
    struct settings s, before;
    char text[64];
    memset(&s, 0x5a, sizeof s);
    before = s;
    error_set(BATON_EINVAL, "of before");
    assert_int_equal(read_with(info->variable, value, &s), BATON_ESETTING);
    assert_memory_equal(&s, &before, sizeof s);
    assert_non_null(strstr(baton_errmsg(), info->variable));
    assert_non_null(strstr(baton_errmsg(), value));
    snprintf(text, sizeof text, "%" PRIu64 " to %" PRIu64, info->least, info->most);
    assert_non_null(strstr(baton_errmsg(), text));
}

static void bad_values_are_named(void **state)
{
    (void)state;
    for (unsigned row = 0; row < settings_count; row++)
        for (size_t i = 0; i < bad_numbers_count; i++)
            expect_refusal(&settings_table[row], bad_numbers[i]);
}

static void values_out_of_range_are_named(void **state)
{
    (void)state;
    for (unsigned row = 0; row < settings_count; row++) {
        const struct setting_info *info = &settings_table[row];
        char text[32];
        snprintf(text, sizeof text, "%" PRIu64, info->most + 1);
        expect_refusal(info, text);
        expect_refusal(info, "18446744073709551615");
        if (info->least == 0)
            continue;
        snprintf(text, sizeof text, "%" PRIu64, info->least - 1);
        expect_refusal(info, text);
    }
}

static void long_value_leaves_room_for_the_rest(void **state)
{
    (void)state;
    char text[256];
    struct settings s;
    memset(text, '9', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(read_with("BATON_LEASES", text, &s), BATON_ESETTING);
    assert_non_null(strstr(baton_errmsg(), "BATON_LEASES"));
    assert_non_null(strstr(baton_errmsg(), "1 to 65536"));
    assert_null(strstr(baton_errmsg(), "..."));
}

/* ---- misspelt names ---------------------------------------------------------------------------------------------- */

static void known_names_are_not_misspelt(void **state)
{
    (void)state;
    static const char *const others[] = {"BATON_ENGINE=a",
                                         "BATON_ROLE=prefill",
                                         "BATON_TP=2",
                                         "BATON_PP_RANK=0",
                                         "BATON_FAULT=",
                                         "BATON_TERMINAL=1",
                                         "BATON_LAYOUT=x",
                                         "PATH=/bin",
                                         "BATO_REQUESTS=1",
                                         "baton_requests=1",
                                         "",
                                         "=",
                                         "BATON=BATON_REQ=1"};
    char entry[128];
    for (unsigned i = 0; i < settings_count; i++) {
        snprintf(entry, sizeof entry, "%s=1", settings_table[i].variable);
        assert_null(settings_nearest(entry));
        assert_null(settings_nearest(settings_table[i].variable));
    }
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_null(settings_nearest(others[i]));
}

static void misspelt_names_find_the_nearest(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"BATON_REQUEST=5", "BATON_REQUESTS"},
        {"BATON_REQEUSTS=5", "BATON_REQUESTS"},
        {"BATON_CHEKSUM=1", "BATON_CHECKSUM"},
        {"BATON_COPI_BYTES=1M", "BATON_COPY_BYTES"},
        {"BATON_FAKENODES=2", "BATON_FAKE_NODES"},
        {"BATON_FAKE_NODE=2", "BATON_FAKE_NODES"},
        {"BATON_ENGIN=a", "BATON_ENGINE"},
        {"BATON_TPRANK=1", "BATON_TP_RANK"},
        {"BATON_LOGS", "BATON_LOG"},
        {"BATON_PER_MS=BATON_PEER_MS", "BATON_PEER_MS"},
        {"BATON_STALLMS=100000000000", "BATON_STALL_MS"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_non_null(settings_nearest(cases[i][0]));
        assert_string_equal(settings_nearest(cases[i][0]), cases[i][1]);
    }
}

/* A letter that is added to any name, or replaces one, is found. */
static void every_slip_of_every_name_is_found(void **state)
{
    (void)state;
    for (unsigned row = 0; row < settings_count; row++) {
        const char *name = settings_table[row].variable;
        const size_t length = strlen(name);
        char slip[128];
        for (size_t at = 6; at < length; at++) {
            snprintf(slip, sizeof slip, "%.*sQ%s=1", (int)at, name, name + at);
            assert_string_equal(settings_nearest(slip), name);
            snprintf(slip, sizeof slip, "%s=1", name);
            slip[at] = 'q';
            assert_string_equal(settings_nearest(slip), name);
        }
    }
}

static void names_of_any_length_are_taken(void **state)
{
    (void)state;
    char name[4096];
    memset(name, 'A', sizeof name);
    memcpy(name, "BATON_", 6);
    name[sizeof name - 1] = '\0';
    assert_non_null(settings_nearest(name));
    name[70] = '=';
    assert_non_null(settings_nearest(name));
    assert_non_null(settings_nearest("BATON_"));
    assert_non_null(settings_nearest("BATON_="));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_lie_within_bounds),
        cmocka_unit_test(all_wants_of_a_rank_may_wait),
        cmocka_unit_test(variables_are_named_once_and_explained),
        cmocka_unit_test(good_numbers),
        cmocka_unit_test(bad_numbers_are_refused),
        cmocka_unit_test(unset_variables_give_presets),
        cmocka_unit_test(fields_have_their_names),
        cmocka_unit_test(each_variable_sets_its_own_field),
        cmocka_unit_test(bad_values_are_named),
        cmocka_unit_test(values_out_of_range_are_named),
        cmocka_unit_test(long_value_leaves_room_for_the_rest),
        cmocka_unit_test(known_names_are_not_misspelt),
        cmocka_unit_test(misspelt_names_find_the_nearest),
        cmocka_unit_test(every_slip_of_every_name_is_found),
        cmocka_unit_test(names_of_any_length_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
