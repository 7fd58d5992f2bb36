/* SPDX-License-Identifier: BSD-3-Clause */
/* field: see field.h. */
#include "field.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_MAX 40 /* bytes of a bad value or name that an error repeats */

int field_refuse(const struct object *o, const char *name, const json_t *value, const char *demand, struct why *why)
{
    char shown[SHOWN_MAX + 1] = {0}; /* jansson writes only the pieces that fit, and no NUL behind them */
    if (value == NULL)
        return why_set(why, "%sfield \"%s\" is missing", o->where, name);
    size_t length = json_dumpb(value, shown, SHOWN_MAX, JSON_ENCODE_ANY | JSON_COMPACT);
    return why_set(why, "%sfield \"%s\" must be %s, and is %s%s", o->where, name, demand, shown,
                   length > SHOWN_MAX ? "..." : "");
}

int field_element(const json_t *array, const char *name, size_t i, struct object *out, struct why *why)
{
    *out = (struct object){.json = json_array_get(array, i)};
    snprintf(out->where, sizeof out->where, "%s[%zu]: ", name, i);
    if (json_is_object(out->json))
        return 0;
    return why_set(why, "%s[%zu] must be an object", name, i);
}

int field_none_else(const struct object *o, const char *const *known, struct why *why)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)o->json, name, value)
    {
        unsigned i = 0;
        while (known[i] != NULL && strcmp(known[i], name) != 0)
            i++;
        if (known[i] == NULL)
            return why_set(why, "%sfield \"%.*s\" is not known", o->where, SHOWN_MAX, name);
    }
    return 0;
}

int field_u32(const struct object *o, const char *name, bool must, uint32_t least, uint32_t most, uint32_t *out,
              struct why *why)
{
    const json_t *value = json_object_get(o->json, name);
    char demand[64];
    if (value == NULL && !must)
        return 0;
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < (json_int_t)least || number > (json_int_t)most) {
        snprintf(demand, sizeof demand, "a whole number from %u to %u", least, most);
        return field_refuse(o, name, value, demand, why);
    }
    *out = (uint32_t)number;
    return 0;
}

static bool is_plain(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    return true;
}

int field_text(const struct object *o, const char *name, bool must, char *out, size_t size, struct why *why)
{
    const json_t *value = json_object_get(o->json, name);
    size_t length = json_string_length(value);
    char demand[64];
    if (value == NULL && !must)
        return 0;
    if (!json_is_string(value) || length == 0 || length >= size || !is_plain(json_string_value(value), length)) {
        snprintf(demand, sizeof demand, "a printable text of 1 to %zu bytes", size - 1);
        return field_refuse(o, name, value, demand, why);
    }
    memcpy(out, json_string_value(value), length + 1);
    return 0;
}

int field_word(const struct object *o, const char *name, bool must, const char *const *words, unsigned *out,
               struct why *why)
{
    const json_t *value = json_object_get(o->json, name);
    char demand[96] = "one of";
    if (value == NULL && !must)
        return 0;
    for (unsigned i = 0; words[i] != NULL; i++) {
        if (json_is_string(value) && strcmp(json_string_value(value), words[i]) == 0) {
            *out = i;
            return 0;
        }
        size_t used = strlen(demand);
        snprintf(demand + used, sizeof demand - used, "%s %s", i ? "," : "", words[i]);
    }
    return field_refuse(o, name, value, demand, why);
}

int field_array(const struct object *o, const char *name, bool must, size_t most, const json_t **out, struct why *why)
{
    const json_t *value = json_object_get(o->json, name);
    char demand[64];
    *out = NULL;
    if (value == NULL && !must)
        return 0;
    if (!json_is_array(value) || json_array_size(value) == 0 || json_array_size(value) > most) {
        snprintf(demand, sizeof demand, "an array of 1 to %zu elements", most);
        return field_refuse(o, name, value, demand, why);
    }
    *out = value;
    return 0;
}
