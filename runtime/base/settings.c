/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * settings: reads the environment by the table of settings.h. The thread that opens runs it, once. Keeps no state. A
 * value that is not understood is an error, never a guess.
 */
#include "base/settings.h"
#include "base/error.h"
#include "base/spelling.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define TUNE "BATON_TUNE"

const struct setting_info settings_table[] = {
#define SETTINGS_INFO(kind, field, preset, least, most, meaning) {SETTING_##kind, #field, preset, least, most, meaning},
    SETTINGS_MAP(SETTINGS_INFO)
#undef SETTINGS_INFO
};

#define NUM_ROWS (sizeof settings_table / sizeof settings_table[0])
const unsigned settings_count = NUM_ROWS;

_Static_assert(sizeof(struct settings) == NUM_ROWS * sizeof(uint64_t), "a value for each row, in this order");

static uint64_t *value_at(struct settings *s, unsigned row)
{
    return (uint64_t *)s + row;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* The factor that a suffix stands for; 0: it is not a suffix. */
static uint64_t suffix_factor(const char *suffix, size_t length)
{
    static const char suffixes[] = "KMG";
    if (length == 0)
        return 1;
    const char *at = memchr(suffixes, suffix[0], sizeof suffixes - 1);
    return length == 1 && at != NULL ? UINT64_C(1) << (10 * (at - suffixes + 1)) : 0;
}

static int take_number(const char *text, size_t length, uint64_t *out)
{
    /* Not strtoull: it accepts blanks, signs (-1 becomes 2^64 - 1), and what the locale permits. */
    size_t digits = 0;
    uint64_t value = 0;
    for (; digits < length && text[digits] >= '0' && text[digits] <= '9'; digits++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[digits] - '0'), &value))
            return BATON_ESETTING;
    const uint64_t factor = suffix_factor(text + digits, length - digits);
    if (digits == 0 || factor == 0 || __builtin_mul_overflow(value, factor, &value))
        return BATON_ESETTING;
    *out = value;
    return 0;
}

int settings_number(const char *text, uint64_t *out)
{
    return take_number(text, strlen(text), out);
}

static int take_value(unsigned row, const char *text, size_t length, struct settings *s)
{
    const struct setting_info *info = &settings_table[row];
    uint64_t value;
    char name[SETTING_SPELLING_MAX];
    const int shown = length < 64 ? (int)length : 64;
    const bool is_number = take_number(text, length, &value) == 0;
    if (is_number && value >= info->least && value <= info->most) {
        *value_at(s, row) = value;
        return 0;
    }
    setting_spell(info, name);
    return error_set(BATON_ESETTING, "%s=\"%.*s\" is %s; it may be %" PRIu64 " to %" PRIu64 ": %s", name, shown, text,
                     is_number ? "out of range" : "not a number below 2^64 (digits, which K, M or G may follow)",
                     info->least, info->most, info->meaning);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* BATON_START_MS of start_ms. */
static void write_variable(const char *name, size_t length, char out[SETTING_SPELLING_MAX])
{
    snprintf(out, SETTING_SPELLING_MAX, "BATON_%.*s", length < 64 ? (int)length : 64, name);
    for (; *out != '\0'; out++)
        *out = *out >= 'a' && *out <= 'z' ? (char)(*out - 'a' + 'A') : *out;
}

void setting_spell(const struct setting_info *info, char out[SETTING_SPELLING_MAX])
{
    if (setting_is_tunable(info))
        snprintf(out, SETTING_SPELLING_MAX, TUNE "=%s", info->name);
    else
        write_variable(info->name, strlen(info->name), out);
}

static bool is_name(const char *name, const char *text, size_t length)
{
    return strlen(name) == length && memcmp(name, text, length) == 0;
}

/* Variables that are not numbers or not settings: the tunables, a rank's role, injected faults, what batonrun tells its
 * ranks, the file that the Python package loads, that of the timeline. */
static const char *const words[] = {TUNE,
                                    "BATON_ENGINE",
                                    "BATON_ROLE",
                                    "BATON_TP",
                                    "BATON_PP",
                                    "BATON_TP_RANK",
                                    "BATON_PP_RANK",
                                    "BATON_FAULT",
                                    "BATON_LAYOUT",
                                    "BATON_LAUNCH_REPORTS",
                                    "BATON_TERMINAL",
                                    "BATON_REACTOR_CPUS",
                                    "BATON_GPU",
                                    "BATON_LIBRARY",
                                    "BATON_TRACE",
                                    "BATON_METRICS",
                                    "BATON_LAUNCH_METRICS"};

/* The spelling of what has the nearest name, and how far that is. */
static unsigned find_nearest(const char *variable, size_t length, char out[SETTING_SPELLING_MAX])
{
    unsigned least = UINT_MAX;
    char name[SETTING_SPELLING_MAX];
    for (unsigned i = 0; i < settings_count; i++) {
        write_variable(settings_table[i].name, strlen(settings_table[i].name), name);
        const unsigned far = spelling_distance(variable, length, name);
        if (far < least)
            setting_spell(&settings_table[i], out);
        least = far < least ? far : least;
    }
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        const unsigned far = spelling_distance(variable, length, words[i]);
        if (far < least)
            snprintf(out, SETTING_SPELLING_MAX, "%s", words[i]);
        least = far < least ? far : least;
    }
    return least;
}

bool settings_nearest(const char *entry, char out[SETTING_SPELLING_MAX])
{
    return strncmp(entry, "BATON_", 6) == 0 && find_nearest(entry, strcspn(entry, "="), out) > 0;
}

/* The row of that tunable; -1, with a sentence: there is none. */
static int find_tunable(const char *name, size_t length)
{
    char variable[SETTING_SPELLING_MAX], nearest[SETTING_SPELLING_MAX];
    for (unsigned row = 0; row < settings_count; row++)
        if (setting_is_tunable(&settings_table[row]) && is_name(settings_table[row].name, name, length))
            return (int)row;
    write_variable(name, length, variable);
    find_nearest(variable, strlen(variable), nearest);
    error_set(BATON_ESETTING, TUNE " names \"%.*s\", which is not a tunable; the nearest is %s; baton-info lists them",
              length < 64 ? (int)length : 64, name, nearest);
    return -1;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

const char *settings_tuned(const char *tune, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = tune; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
    }
    return NULL;
}

/* Takes the values of all tunables that `tune` names. */
static int take_tune(const char *tune, struct settings *s)
{
    for (const char *at = tune;; at++) {
        const size_t length = strcspn(at, ","), name = strcspn(at, "=,");
        if (name == 0 || name == length)
            return error_set(BATON_ESETTING,
                             TUNE "=\"%.64s\" has \"%.*s\", which is not name=value; separate several by commas", tune,
                             length < 64 ? (int)length : 64, at);
        const int row = find_tunable(at, name);
        if (row < 0)
            return BATON_ESETTING;
        if (settings_tuned(tune, settings_table[row].name) != at + name + 1)
            return error_set(BATON_ESETTING, TUNE " names %s twice: give it one value", settings_table[row].name);
        const int error = take_value((unsigned)row, at + name + 1, length - name - 1, s);
        at += length;
        if (error != 0 || *at == '\0')
            return error;
    }
}

/* Takes what an entry "NAME=value" sets. 1; 0: it sets none of the table's; BATON_ESETTING. */
static int take(const char *entry, struct settings *s)
{
    char variable[SETTING_SPELLING_MAX];
    const size_t length = strcspn(entry, "=");
    const char *text = entry + length + (entry[length] == '=');
    int error = 0;
    if (is_name(TUNE, entry, length)) {
        error = take_tune(text, s);
        return error != 0 ? error : 1;
    }
    for (unsigned row = 0; row < settings_count; row++) {
        const struct setting_info *info = &settings_table[row];
        write_variable(info->name, strlen(info->name), variable);
        if (!is_name(variable, entry, length))
            continue;
        if (setting_is_tunable(info))
            return error_set(BATON_ESETTING,
                             "%s is not a variable but a tunable: set " TUNE "=%s=%.64s; separate several by commas",
                             variable, info->name, text);
        error = take_value(row, text, strlen(text), s);
        return error != 0 ? error : 1;
    }
    return 0;
}

int settings_check(const char *entry)
{
    struct settings s;
    return take(entry, &s);
}

int settings_read(struct settings *s, char *const *entries)
{
    struct settings read;
    for (unsigned row = 0; row < settings_count; row++)
        *value_at(&read, row) = settings_table[row].preset;
    for (; entries != NULL && *entries != NULL; entries++) {
        const int error = take(*entries, &read);
        if (error < 0)
            return error;
    }
    *s = read;
    return 0;
}
