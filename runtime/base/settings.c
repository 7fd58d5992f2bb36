/* SPDX-License-Identifier: BSD-3-Clause */
/* settings: see settings.h. */
#include "base/settings.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>

#include "base/error.h"

const struct setting_info settings_table[] = {
#define ROW(field, variable, preset, least, most, meaning) {variable, preset, least, most, meaning},
    SETTINGS_MAP(ROW)
#undef ROW
};

const unsigned settings_count = sizeof settings_table / sizeof settings_table[0];

static const size_t offsets[] = {
#define OFFSET(field, variable, preset, least, most, meaning) offsetof(struct settings, field),
    SETTINGS_MAP(OFFSET)
#undef OFFSET
};

static unsigned suffix_shift(char c)
{
    switch (toupper((unsigned char)c)) {
    case 'K':
        return 10;
    case 'M':
        return 20;
    case 'G':
        return 30;
    default:
        return 0;
    }
}

int settings_number(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    const char *at = text;
    for (; isdigit((unsigned char)*at); at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return BATON_ESETTING;
        value = value * 10 + digit;
    }
    if (at == text)
        return BATON_ESETTING;
    unsigned shift = suffix_shift(*at);
    if (shift != 0)
        at++;
    if (*at != '\0' || value > UINT64_MAX >> shift)
        return BATON_ESETTING;
    *out = value << shift;
    return 0;
}

int settings_read(struct settings *s, char *(*lookup)(const char *variable))
{
    struct settings read;
    for (unsigned i = 0; i < settings_count; i++) {
        const struct setting_info *info = &settings_table[i];
        uint64_t value = info->preset;
        const char *text = lookup(info->variable);
        if (text != NULL && (settings_number(text, &value) != 0 || value < info->least || value > info->most))
            return error_set(BATON_ESETTING, "%s=%.64s is not a number from %" PRIu64 " to %" PRIu64 " (%s)",
                             info->variable, text, info->least, info->most, info->meaning);
        *(uint64_t *)((char *)&read + offsets[i]) = value;
    }
    *s = read;
    return 0;
}
