/* SPDX-License-Identifier: BSD-3-Clause */
/* field: reads one field of a JSON object and refuses what is missing, ill-typed, out of range or unknown, by name. */
#ifndef PLAN_TOOL_FIELD_H
#define PLAN_TOOL_FIELD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "option/why.h"

/** An object, and what an error calls it: "" or "groups[1]: ". */
struct object {
    const json_t *json;
    char where[32];
};

/** Element `i` of an array called `array`; -1 with *why where it is no object. */
int field_element(const json_t *array, const char *name, size_t i, struct object *out, struct why *why);

/** Every field of the object is one of `known` (ends with NULL). 0, or -1 with *why. */
int field_none_else(const struct object *o, const char *const *known, struct why *why);

/* Each returns 0, or -1 with *why. A field that is absent leaves *out as it is where `must` is false. */
int field_u32(const struct object *o, const char *name, bool must, uint32_t least, uint32_t most, uint32_t *out,
              struct why *why);
/** A string of 1 to size - 1 bytes without control characters, copied with its NUL. */
int field_text(const struct object *o, const char *name, bool must, char *out, size_t size, struct why *why);
/** One of `words` (ends with NULL), by its place. */
int field_word(const struct object *o, const char *name, bool must, const char *const *words, unsigned *out,
               struct why *why);
/** An array of 1 to `most` elements; *out NULL where it is absent. */
int field_array(const struct object *o, const char *name, bool must, size_t most, const json_t **out, struct why *why);

/** "... field "x" must be DEMAND, and is VALUE". Returns -1. */
int field_refuse(const struct object *o, const char *name, const json_t *value, const char *demand, struct why *why);

#endif
