/* SPDX-License-Identifier: BSD-3-Clause */
/* settings: the table itself is sound, and every kind of bad value is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/settings.h"

#define ROWS_MAX 256

/* The environment has this variable beside those of others. */
static int read_with(const char *variable, const char *value, struct settings *out)
{
    char path[] = "PATH=/bin", role[] = "BATON_ROLE=decode", set[512];
    char *entries[] = {path, set, role, NULL};
    snprintf(set, sizeof set, "%s=%s", variable, value);
    return settings_read(out, entries);
}

/* A row is set by a variable, or in BATON_TUNE. */
static int read_row_with(const struct setting_info *info, const char *value, struct settings *out)
{
    char text[512];
    setting_spell(info, text);
    const size_t length = strcspn(text, "=");
    snprintf(text + strlen(text), 300, "=%s", value);
    text[length] = '\0';
    return read_with(text, text + length + 1, out);
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

static void rows_are_named_once_and_explained(void **state)
{
    (void)state;
    for (unsigned i = 0; i < settings_count; i++) {
        assert_true(strlen(settings_table[i].name) + sizeof "BATON_TUNE=" <= SETTING_SPELLING_MAX);
        assert_true(strlen(settings_table[i].meaning) > 10);
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(settings_table[i].name, settings_table[j].name);
    }
}

static const struct setting_info *row_named(const char *name)
{
    for (unsigned i = 0; i < settings_count; i++)
        if (strcmp(settings_table[i].name, name) == 0)
            return &settings_table[i];
    fail_msg("no row %s", name);
    return NULL;
}

/* "BATON_RESEND_MS" of resend_ms. */
static void variable_of(const struct setting_info *info, char out[SETTING_SPELLING_MAX])
{
    snprintf(out, SETTING_SPELLING_MAX, "BATON_%s", info->name);
    for (; *out != '\0'; out++)
        *out = (char)toupper(*out);
}

static void rows_are_spelt_by_their_kind(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"start_ms", "BATON_START_MS"},
                                           {"log", "BATON_LOG"},
                                           {"resend_ms", "BATON_TUNE=resend_ms"},
                                           {"fake_nodes", "BATON_FAKE_NODES"},
                                           {"windows", "BATON_TUNE=windows"}};
    char spelling[SETTING_SPELLING_MAX];
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setting_spell(row_named(cases[i][0]), spelling);
        assert_string_equal(spelling, cases[i][1]);
    }
    assert_true(setting_is_of_tests(row_named("windows")) && setting_is_tunable(row_named("windows")));
    assert_true(setting_is_of_tests(row_named("fake_nodes")) && !setting_is_tunable(row_named("fake_nodes")));
    assert_false(setting_is_of_tests(row_named("resend_ms")) || setting_is_of_tests(row_named("log")));
}

/* An operator reads about each of these; what only a measurement needs is a tunable. */
static void few_are_variables(void **state)
{
    (void)state;
    unsigned variables = 1; /* BATON_TUNE */
    for (unsigned i = 0; i < settings_count; i++)
        variables += settings_table[i].kind == SETTING_VARIABLE;
    assert_in_range(variables, 10, 16);
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
    assert_int_equal(read_with("BATON_ENGINE", "e", &s), 0);
    values_of(&s, values);
    for (unsigned i = 0; i < settings_count; i++)
        assert_true(values[i] == settings_table[i].preset);
}

static void fields_have_their_names(void **state)
{
    (void)state;
    struct settings s;
    assert_int_equal(read_with("BATON_TUNE", "chunk_bytes=64K", &s), 0);
    assert_true(s.chunk_bytes == 65536);
    assert_int_equal(read_with("BATON_WANT_MS", "1234", &s), 0);
    assert_true(s.want_ms == 1234);
}

/* Both bounds are allowed, and set their own field only. */
static void each_row_sets_its_own_field(void **state)
{
    (void)state;
    for (unsigned row = 0; row < settings_count; row++) {
        const uint64_t bounds[] = {settings_table[row].least, settings_table[row].most};
        for (int b = 0; b < 2; b++) {
            struct settings s;
            uint64_t values[ROWS_MAX];
            char text[32];
            snprintf(text, sizeof text, "%" PRIu64, bounds[b]);
            assert_int_equal(read_row_with(&settings_table[row], text, &s), 0);
            values_of(&s, values);
            for (unsigned i = 0; i < settings_count; i++)
                assert_true(values[i] == (i == row ? bounds[b] : settings_table[i].preset));
        }
    }
}

/* The sentence names the row, the value and what is allowed; the struct does not change. */
static void expect_refusal(const struct setting_info *info, const char *value)
{
    struct settings s, before;
    char text[64], spelling[SETTING_SPELLING_MAX];
    memset(&s, 0x5a, sizeof s);
    before = s;
    error_set(BATON_EINVAL, "of before");
    assert_int_equal(read_row_with(info, value, &s), BATON_ESETTING);
    assert_memory_equal(&s, &before, sizeof s);
    setting_spell(info, spelling);
    assert_non_null(strstr(baton_errmsg(), spelling));
    assert_non_null(strstr(baton_errmsg(), value));
    snprintf(text, sizeof text, "%" PRIu64 " to %" PRIu64, info->least, info->most);
    assert_non_null(strstr(baton_errmsg(), text));
}

static void bad_values_are_named(void **state)
{
    (void)state;
    for (unsigned row = 0; row < settings_count; row++)
        for (size_t i = 0; i < bad_numbers_count; i++)
            if (!setting_is_tunable(&settings_table[row]) || strchr(bad_numbers[i], ',') == NULL)
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

/* ---- BATON_TUNE -------------------------------------------------------------------------------------------------- */

static void several_tunables_are_taken(void **state)
{
    (void)state;
    struct settings s;
    assert_int_equal(read_with("BATON_TUNE", "resend_ms=100,nice=0,rma_bytes=4M,windows=2", &s), 0);
    assert_true(s.resend_ms == 100 && s.nice == 0 && s.rma_bytes == 4 << 20 && s.windows == 2);
    assert_true(s.beat_ms == row_named("beat_ms")->preset);
}

/* Refused, with a sentence that has both parts, and without a change of the struct. */
static void expect_no_tune(const char *tune, const char *what, const char *more)
{
    struct settings s, before;
    memset(&s, 0x5a, sizeof s);
    before = s;
    assert_int_equal(read_with("BATON_TUNE", tune, &s), BATON_ESETTING);
    assert_memory_equal(&s, &before, sizeof s);
    if (strstr(baton_errmsg(), what) == NULL || strstr(baton_errmsg(), more) == NULL)
        fail_msg("BATON_TUNE=%s: %s", tune, baton_errmsg());
}

static void bad_lists_are_named(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        /* not a list of name=value */
        {"", "BATON_TUNE=\"\" has \"\", which is not name=value", "separate several by commas"},
        {",", "has \"\", which is not name=value", ""},
        {"nice=0,", "has \"\", which is not name=value", ""},
        {",nice=0", "has \"\", which is not name=value", ""},
        {"nice=0,,spin_us=0", "has \"\", which is not name=value", ""},
        {"nice", "has \"nice\", which is not name=value", ""},
        {"spin_us=0,nice", "has \"nice\", which is not name=value", ""},
        {"=", "has \"=\", which is not name=value", ""},
        {"=5", "has \"=5\", which is not name=value", ""},
        {"spin_us=1;nice=0", "BATON_TUNE=spin_us=\"1;nice=0\" is not a number", ""},
        {"resend_ms:100", "has \"resend_ms:100\", which is not name=value", ""},
        /* names */
        {"resnd_ms=100", "names \"resnd_ms\", which is not a tunable; the nearest is BATON_TUNE=resend_ms",
         "baton-info lists"},
        {"nice=0,spinus=1", "names \"spinus\", which is not a tunable; the nearest is BATON_TUNE=spin_us", ""},
        {"RESEND_MS=100", "names \"RESEND_MS\", which is not a tunable; the nearest is BATON_TUNE=resend_ms", ""},
        {" nice=0", "names \" nice\", which is not a tunable; the nearest is BATON_TUNE=nice", ""},
        {"nice =0", "names \"nice \", which is not a tunable; the nearest is BATON_TUNE=nice", ""},
        {"nic=0", "names \"nic\", which is not a tunable; the nearest is BATON_TUNE=nice", ""},
        {"want_ms=5", "names \"want_ms\", which is not a tunable; the nearest is BATON_WANT_MS", ""},
        {"fake_nodes=2", "names \"fake_nodes\", which is not a tunable; the nearest is BATON_FAKE_NODES", ""},
        {"fault=", "names \"fault\", which is not a tunable; the nearest is BATON_FAULT", ""},
        /* twice */
        {"nice=0,nice=0", "names nice twice", "give it one value"},
        {"nice=0,spin_us=1,nice=5", "names nice twice", ""},
        /* values */
        {"nice=", "BATON_TUNE=nice=\"\" is not a number", "it may be 0 to 20: how much the reactor"},
        {"nice=,spin_us=1", "BATON_TUNE=nice=\"\" is not a number", ""},
        {"nice=0=1", "BATON_TUNE=nice=\"0=1\" is not a number", ""},
        {"spin_us=1, nice=0", "names \" nice\"", ""},
        {"spin_us=1 ,nice=0", "BATON_TUNE=spin_us=\"1 \" is not a number", ""},
        {"nice=low", "BATON_TUNE=nice=\"low\" is not a number", ""},
        {"spin_us=1,nice=21", "BATON_TUNE=nice=\"21\" is out of range; it may be 0 to 20", ""},
        {"chunk_bytes=4095", "BATON_TUNE=chunk_bytes=\"4095\" is out of range; it may be 4096 to", ""},
        {"chunk_bytes=5K,rma_bytes=1T", "BATON_TUNE=rma_bytes=\"1T\" is not a number", ""},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_no_tune(cases[i][0], cases[i][1], cases[i][2]);
}

/* The first that is wrong is named, whole, however long all of it is. */
static void a_long_list_is_named(void **state)
{
    (void)state;
    char text[250];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    expect_no_tune(text, "which is not name=value; separate several by commas", "BATON_TUNE=\"aaaa");
    text[200] = '=';
    expect_no_tune(text, "which is not a tunable; the nearest is ", "baton-info lists them");
    memcpy(text, "nice=", 5);
    memset(text + 5, '9', sizeof text - 6);
    expect_no_tune(text, "it may be 0 to 20: how much the reactor's priority is raised", "BATON_TUNE=nice=\"9999");
}

/* The sentence says how the tunable is set. */
static void a_tunable_is_no_variable(void **state)
{
    (void)state;
    for (unsigned row = 0; row < settings_count; row++) {
        const struct setting_info *info = &settings_table[row];
        struct settings s;
        char variable[SETTING_SPELLING_MAX], hint[64];
        if (!setting_is_tunable(info))
            continue;
        variable_of(info, variable);
        snprintf(hint, sizeof hint, "set BATON_TUNE=%s=100;", info->name);
        assert_int_equal(read_with(variable, "100", &s), BATON_ESETTING);
        assert_memory_equal(baton_errmsg(), variable, strlen(variable));
        assert_non_null(strstr(baton_errmsg(), "is not a variable but a tunable"));
        assert_non_null(strstr(baton_errmsg(), hint));
    }
}

static void a_tunables_value_is_found(void **state)
{
    (void)state;
    static const char tune[] = "grant_blocks=1,nice=0,spin_us=";
    assert_ptr_equal(settings_tuned(tune, "grant_blocks"), tune + 13);
    assert_ptr_equal(settings_tuned(tune, "nice"), tune + 20);
    assert_ptr_equal(settings_tuned(tune, "spin_us"), tune + sizeof tune - 1);
    assert_null(settings_tuned(tune, "blocks"));
    assert_null(settings_tuned(tune, "spin"));
    assert_null(settings_tuned("", "nice"));
    assert_null(settings_tuned(NULL, "nice"));
}

static void entries_are_checked(void **state)
{
    (void)state;
    static const char *const good[] = {"BATON_WANT_MS=5", "BATON_FAKE_NODES=2", "BATON_TUNE=nice=0,spin_us=1"};
    static const char *const others[] = {"BATON_ROLE=decode", "BATON_NOSUCH=1", "PATH=/bin", "BATON_=", "",
                                         "BATON_WANT=5"};
    static const char *const bad[][2] = {{"BATON_WANT_MS=0", "BATON_WANT_MS=\"0\" is out of range"},
                                         {"BATON_WANT_MS=", "BATON_WANT_MS=\"\" is not a number"},
                                         {"BATON_TUNE=", "which is not name=value"},
                                         {"BATON_TUNE=nice=0,nice=1", "names nice twice"},
                                         {"BATON_NICE=0", "set BATON_TUNE=nice=0;"}};
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(settings_check(good[i]), 1);
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(settings_check(others[i]), 0);
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(settings_check(bad[i][0]), BATON_ESETTING);
        assert_non_null(strstr(baton_errmsg(), bad[i][1]));
    }
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
                                         "BATON_TUNE=",
                                         "BATON_TERMINAL=1",
                                         "BATON_LAYOUT=x",
                                         "PATH=/bin",
                                         "BATO_REQUESTS=1",
                                         "baton_requests=1",
                                         "",
                                         "=",
                                         "BATON=BATON_REQ=1"};
    char entry[128], name[SETTING_SPELLING_MAX], nearest[SETTING_SPELLING_MAX];
    for (unsigned i = 0; i < settings_count; i++) {
        variable_of(&settings_table[i], name);
        snprintf(entry, sizeof entry, "%s=1", name);
        assert_false(settings_nearest(entry, nearest));
        assert_false(settings_nearest(name, nearest));
    }
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(settings_nearest(others[i], nearest));
}

static void misspelt_names_find_the_nearest(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"BATON_REQUEST=5", "BATON_REQUESTS"},
        {"BATON_REQEUSTS=5", "BATON_REQUESTS"},
        {"BATON_CHEKSUM=1", "BATON_CHECKSUM"},
        {"BATON_COPI_BYTES=1M", "BATON_TUNE=copy_bytes"},
        {"BATON_FAKENODES=2", "BATON_FAKE_NODES"},
        {"BATON_FAKE_NODE=2", "BATON_FAKE_NODES"},
        {"BATON_ENGIN=a", "BATON_ENGINE"},
        {"BATON_TPRANK=1", "BATON_TP_RANK"},
        {"BATON_LOGS", "BATON_LOG"},
        {"BATON_PER_MS=BATON_PEER_MS", "BATON_PEER_MS"},
        {"BATON_STALLMS=100000000000", "BATON_TUNE=stall_ms"},
        {"BATON_TUNES=nice=0", "BATON_TUNE"},
    };
    char nearest[SETTING_SPELLING_MAX];
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(settings_nearest(cases[i][0], nearest));
        assert_string_equal(nearest, cases[i][1]);
    }
}

/* A letter that is added to any name, or replaces one, is found. */
static void every_slip_of_every_name_is_found(void **state)
{
    (void)state;
    for (unsigned row = 0; row < settings_count; row++) {
        char name[SETTING_SPELLING_MAX], spelling[SETTING_SPELLING_MAX], nearest[SETTING_SPELLING_MAX], slip[128];
        variable_of(&settings_table[row], name);
        setting_spell(&settings_table[row], spelling);
        for (size_t at = 6; at < strlen(name); at++) {
            snprintf(slip, sizeof slip, "%.*sQ%s=1", (int)at, name, name + at);
            assert_true(settings_nearest(slip, nearest));
            assert_string_equal(nearest, spelling);
            snprintf(slip, sizeof slip, "%s=1", name);
            slip[at] = 'q';
            assert_true(settings_nearest(slip, nearest));
            assert_string_equal(nearest, spelling);
        }
    }
}

static void names_of_any_length_are_taken(void **state)
{
    (void)state;
    char name[4096], nearest[SETTING_SPELLING_MAX];
    memset(name, 'A', sizeof name);
    memcpy(name, "BATON_", 6);
    name[sizeof name - 1] = '\0';
    assert_true(settings_nearest(name, nearest));
    name[70] = '=';
    assert_true(settings_nearest(name, nearest));
    assert_true(settings_nearest("BATON_", nearest));
    assert_true(settings_nearest("BATON_=", nearest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_lie_within_bounds),
        cmocka_unit_test(all_wants_of_a_rank_may_wait),
        cmocka_unit_test(rows_are_named_once_and_explained),
        cmocka_unit_test(rows_are_spelt_by_their_kind),
        cmocka_unit_test(few_are_variables),
        cmocka_unit_test(good_numbers),
        cmocka_unit_test(bad_numbers_are_refused),
        cmocka_unit_test(unset_variables_give_presets),
        cmocka_unit_test(fields_have_their_names),
        cmocka_unit_test(each_row_sets_its_own_field),
        cmocka_unit_test(bad_values_are_named),
        cmocka_unit_test(values_out_of_range_are_named),
        cmocka_unit_test(long_value_leaves_room_for_the_rest),
        cmocka_unit_test(several_tunables_are_taken),
        cmocka_unit_test(bad_lists_are_named),
        cmocka_unit_test(a_long_list_is_named),
        cmocka_unit_test(a_tunable_is_no_variable),
        cmocka_unit_test(a_tunables_value_is_found),
        cmocka_unit_test(entries_are_checked),
        cmocka_unit_test(known_names_are_not_misspelt),
        cmocka_unit_test(misspelt_names_find_the_nearest),
        cmocka_unit_test(every_slip_of_every_name_is_found),
        cmocka_unit_test(names_of_any_length_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
