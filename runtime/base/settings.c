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
#include <stddef.h>
#include <string.h>

const struct setting_info settings_table[] = {
#define SETTINGS_INFO(field, variable, preset, least, most, meaning) {variable, preset, least, most, meaning, false},
    SETTINGS_MAP_OF_ENGINES(SETTINGS_INFO)
#undef SETTINGS_INFO
#define SETTINGS_INFO(field, variable, preset, least, most, meaning) {variable, preset, least, most, meaning, true},
        SETTINGS_MAP_OF_TESTS(SETTINGS_INFO)
#undef SETTINGS_INFO
};

const unsigned settings_count = sizeof settings_table / sizeof settings_table[0];

/* Where each row's value lies in struct settings. */
static const size_t offsets[] = {
#define SETTINGS_OFFSET(field, variable, preset, least, most, meaning) offsetof(struct settings, field),
    SETTINGS_MAP(SETTINGS_OFFSET)
#undef SETTINGS_OFFSET
};

static uint64_t *value_at(struct settings *s, unsigned row)
{
    return (uint64_t *)((char *)s + offsets[row]);
}

/* The factor that a suffix stands for; 0: it is not a suffix. */
static uint64_t suffix_factor(const char *suffix)
{
    if (suffix[0] == '\0')
        return 1;
    if (suffix[1] != '\0')
        return 0;
    switch (suffix[0]) {
    case 'K':
        return UINT64_C(1) << 10;
    case 'M':
        return UINT64_C(1) << 20;
    case 'G':
        return UINT64_C(1) << 30;
    default:
        return 0;
    }
}

int settings_number(const char *text, uint64_t *out)
{
    /* Not strtoull: it accepts blanks, signs (-1 becomes 2^64 - 1), and what the locale permits. */
    const char *at = text;
    uint64_t value = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return BATON_ESETTING;
    }
    const uint64_t factor = suffix_factor(at);
    if (at == text || factor == 0 || __builtin_mul_overflow(value, factor, &value))
        return BATON_ESETTING;
    *out = value;
    return 0;
}

static int read_one(const struct setting_info *info, const char *text, uint64_t *out)
{
    uint64_t value;
    if (settings_number(text, &value) != 0)
        return error_set(
            BATON_ESETTING,
            "%s=\"%.64s\" is not a number below 2^64 (digits, which K, M or G may follow); it may be %" PRIu64
            " to %" PRIu64 ": %s",
            info->variable, text, info->least, info->most, info->meaning);
    if (value < info->least || value > info->most)
        return error_set(BATON_ESETTING, "%s=\"%.64s\" is out of range; it may be %" PRIu64 " to %" PRIu64 ": %s",
                         info->variable, text, info->least, info->most, info->meaning);
    *out = value;
    return 0;
}

int settings_check(const struct setting_info *info, const char *text)
{
    uint64_t value;
    return read_one(info, text, &value);
}

/* ---- misspelt names ---------------------------------------------------------------------------------------------- */

/* Variables that are not numbers or not settings: a rank's role, injected faults, what batonrun tells its ranks, the
 * file that the Python package loads, that of the timeline. */
static const char *const words[] = {
    "BATON_ENGINE",         "BATON_ROLE",     "BATON_TP",           "BATON_PP",
    "BATON_TP_RANK",        "BATON_PP_RANK",  "BATON_FAULT",        "BATON_LAYOUT",
    "BATON_LAUNCH_REPORTS", "BATON_TERMINAL", "BATON_REACTOR_CPUS", "BATON_GPU",
    "BATON_LIBRARY",        "BATON_TRACE",    "BATON_METRICS",      "BATON_LAUNCH_METRICS"};
static const unsigned words_count = sizeof words / sizeof words[0];

const char *settings_nearest(const char *entry)
{
    const char *nearest = NULL;
    unsigned least = UINT_MAX;
    const size_t length = strcspn(entry, "=");
    if (strncmp(entry, "BATON_", 6) != 0)
        return NULL;
    for (unsigned i = 0; i < settings_count + words_count; i++) {
        const char *name = i < settings_count ? settings_table[i].variable : words[i - settings_count];
        if (strlen(name) == length && memcmp(name, entry, length) == 0)
            return NULL;
        const unsigned far = spelling_distance(entry, length, name);
        if (far < least) {
            least = far;
            nearest = name;
        }
    }
    return nearest;
}

int settings_read(struct settings *s, char *(*lookup)(const char *variable))
{
    struct settings read;
    for (unsigned row = 0; row < settings_count; row++) {
        const struct setting_info *info = &settings_table[row];
        const char *text = lookup != NULL ? lookup(info->variable) : NULL;
        *value_at(&read, row) = info->preset;
        if (text == NULL)
            continue;
        const int error = read_one(info, text, value_at(&read, row));
        if (error != 0)
            return error;
    }
    *s = read;
    return 0;
}
