/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * description: reads the file. Each field is checked here. What concerns a rank's whole cache (the number of tensors,
 * overlaps, names that are used twice) is checked by geometry_check.
 */
#include "description.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "option/file.h"

static const char *const direction_words[] = {"layer", "plane", "block", "head", "token", "channel", NULL};

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

static int read_direction(const json_t *value, enum direction *out)
{
    for (unsigned i = 0; direction_words[i] != NULL; i++)
        if (json_is_string(value) && strcmp(json_string_value(value), direction_words[i]) == 0) {
            *out = (enum direction)i;
            return 0;
        }
    return -1;
}

static int read_order(const struct object *o, struct described_kind *k, struct why *why)
{
    static const char demand[] = "each of layer, plane, block, head, token, channel once, outermost first";
    const json_t *list = json_object_get(o->json, "order");
    bool seen[DIRECTIONS] = {false};
    if (list == NULL)
        return 0;
    if (!json_is_array(list) || json_array_size(list) != DIRECTIONS)
        return field_refuse(o, "order", list, demand, why);
    for (unsigned i = 0; i < DIRECTIONS; i++) {
        if (read_direction(json_array_get(list, i), &k->order[i]) != 0 || seen[k->order[i]])
            return field_refuse(o, "order", list, demand, why);
        seen[k->order[i]] = true;
    }
    return 0;
}

static int read_align(const struct object *o, struct described_kind *k, struct why *why)
{
    const json_t *json = json_object_get(o->json, "align");
    struct object align = {.json = json};
    if (json == NULL)
        return 0;
    if (!json_is_object(json))
        return field_refuse(o, "align", json, "an object of bytes by direction", why);
    snprintf(align.where, sizeof align.where, "%.20salign: ", o->where);
    int rc = field_none_else(&align, direction_words, why);
    for (unsigned i = 0; rc == 0 && i < DIRECTIONS; i++)
        rc = field_u32(&align, direction_words[i], false, 1, 1u << 30, &k->align[i], why);
    return rc;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static int read_layer_list(const struct object *o, const json_t *list, uint32_t layers, bool *has, struct why *why)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        json_int_t layer = json_integer_value(value);
        if (!json_is_integer(value) || layer < 0 || layer >= (json_int_t)layers)
            return field_refuse(o, "layers", value, "numbers of the model's layers", why);
        has[layer] = true;
    }
    return 0;
}

static int read_layer_steps(const struct object *o, const json_t *json, uint32_t layers, bool *has, struct why *why)
{
    static const char *const known[] = {"first", "step", "count", NULL};
    struct object steps = {.json = json};
    uint32_t first = 0, step = 1, count = UINT32_MAX;
    snprintf(steps.where, sizeof steps.where, "%.20slayers: ", o->where);
    if (field_none_else(&steps, known, why) != 0 ||
        field_u32(&steps, "first", false, 0, layers - 1, &first, why) != 0 ||
        field_u32(&steps, "step", false, 1, layers, &step, why) != 0 ||
        field_u32(&steps, "count", false, 1, layers, &count, why) != 0)
        return -1;
    for (uint32_t layer = first; layer < layers && count > 0; layer += step, count--)
        has[layer] = true;
    return 0;
}

static int read_layers(const struct object *o, uint32_t layers, struct described_kind *k, struct why *why)
{
    const json_t *json = json_object_get(o->json, "layers");
    if (json == NULL)
        return 0;
    if (!json_is_array(json) && !json_is_object(json))
        return field_refuse(o, "layers", json, "an array of layers, or an object of first, step, count", why);
    k->has_layer = calloc(layers, sizeof *k->has_layer);
    if (k->has_layer == NULL)
        return why_set(why, "no memory for %u layers", layers);
    if (json_is_array(json))
        return read_layer_list(o, json, layers, k->has_layer, why);
    return read_layer_steps(o, json, layers, k->has_layer, why);
}

static void kind_default(struct described_kind *k)
{
    *k = (struct described_kind){.name = "layer.{layer}"};
    for (unsigned i = 0; i < DIRECTIONS; i++) {
        k->order[i] = (enum direction)i;
        k->align[i] = 1;
    }
}

static int read_elem_bytes(const struct object *o, bool must, uint32_t *out, struct why *why)
{
    uint32_t n = 0;
    if (field_u32(o, "elem_bytes", must, 1, 8, &n, why) != 0)
        return -1;
    if ((n & (n - 1)) != 0)
        return field_refuse(o, "elem_bytes", json_object_get(o->json, "elem_bytes"), "1, 2, 4 or 8", why);
    *out = n;
    return 0;
}

/* An element of "tensors"; where there is none, the tensors that all of the cache is. */
static int read_kind(const struct object *o, bool is_listed, struct description *d, struct why *why)
{
    struct described_kind *k = &d->kinds[d->num_kinds++];
    kind_default(k);
    if (is_listed && (field_text(o, "name", true, k->name, sizeof k->name, why) != 0 ||
                      field_u32(o, "group", false, 0, d->num_groups - 1, &k->group, why) != 0 ||
                      field_u32(o, "split", false, 0, d->num_splits - 1, &k->split, why) != 0 ||
                      field_u32(o, "planes", false, 1, 1u << 20, &k->planes, why) != 0 ||
                      field_u32(o, "head_size", false, 1, 1u << 20, &k->head_size, why) != 0 ||
                      read_elem_bytes(o, false, &k->elem_bytes, why) != 0))
        return -1;
    if (read_order(o, k, why) != 0 || read_align(o, k, why) != 0)
        return -1;
    return is_listed ? read_layers(o, d->layers, k, why) : 0;
}

/* ---- groups and splits ------------------------------------------------------------------------------------------- */

static int read_group(const struct object *o, bool is_listed, struct description *d, struct why *why)
{
    static const char *const kinds[] = {"full", "window", "state", NULL};
    baton_group_t *g = &d->groups[d->num_groups++];
    unsigned kind = 0;
    if (is_listed && field_word(o, "kind", true, kinds, &kind, why) != 0)
        return -1;
    *g = (baton_group_t){.kind = (baton_kind_t)kind, .block_tokens = 1};
    const bool state = g->kind == BATON_KIND_STATE, window = g->kind == BATON_KIND_WINDOW;
    if (!window && json_object_get(o->json, "window_tokens") != NULL)
        return why_set(why, "%sfield \"window_tokens\" belongs to a window only", o->where);
    if (field_u32(o, "block_tokens", !state, 1, state ? 1 : 65536, &g->block_tokens, why) != 0 ||
        field_u32(o, "num_blocks", false, 1, 1u << 30, &g->num_blocks, why) != 0)
        return -1;
    return field_u32(o, "window_tokens", window, 1, 1u << 30, &g->window_tokens, why);
}

static int read_split(const struct object *o, bool is_listed, struct description *d, struct why *why)
{
    static const char *const cuts[] = {"tp", "whole", NULL};
    struct described_split *s = &d->splits[d->num_splits++];
    unsigned cut = 0;
    (void)is_listed; /* it has the same fields */
    if (field_u32(o, "heads", true, 1, UINT16_MAX, &s->heads, why) != 0 ||
        field_word(o, "cut", false, cuts, &cut, why) != 0)
        return -1;
    s->whole = cut == 1;
    return 0;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* A list of objects. Where it is absent there is one of these, some of whose fields stand beside it. */
struct list {
    const char *name;
    size_t most;
    const char *const *known, *const *beside; /* fields; both end with NULL */
    int (*read)(const struct object *o, bool is_listed, struct description *d, struct why *why);
};

#define NAMES (const char *const[])
static const struct list group_list = {"groups", BATON_GROUPS_MAX,
                                       NAMES{"kind", "block_tokens", "num_blocks", "window_tokens", NULL},
                                       NAMES{"block_tokens", "num_blocks", NULL}, read_group};
static const struct list split_list = {"splits", BATON_SPLITS_MAX, NAMES{"heads", "cut", NULL},
                                       NAMES{"heads", "cut", NULL}, read_split};
static const struct list tensor_list = {
    "tensors", DESCRIPTION_KINDS_MAX,
    NAMES{"name", "layers", "group", "split", "planes", "head_size", "elem_bytes", "order", "align", NULL},
    NAMES{"order", "align", NULL}, read_kind};

static int read_list(const struct object *o, const struct list *l, struct description *d, struct why *why)
{
    const json_t *list;
    struct object element;
    int rc = field_array(o, l->name, false, l->most, &list, why);
    if (rc == 0 && list == NULL)
        return l->read(o, false, d, why);
    for (unsigned i = 0; rc == 0 && l->beside[i] != NULL; i++)
        if (json_object_get(o->json, l->beside[i]) != NULL)
            rc = why_set(why, "field \"%s\" belongs to each of \"%s\" where they are listed", l->beside[i], l->name);
    for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
        rc = field_element(list, l->name, i, &element, why);
        if (rc == 0)
            rc = field_none_else(&element, l->known, why);
        if (rc == 0)
            rc = l->read(&element, true, d, why);
    }
    return rc;
}

static int read_stages(const struct object *o, struct description *d, struct why *why)
{
    const json_t *list;
    uint64_t sum = 0;
    if (field_array(o, "stage_layers", false, d->layers, &list, why) != 0)
        return -1;
    if (list == NULL)
        return 0;
    d->stage_layers = calloc(json_array_size(list), sizeof *d->stage_layers);
    if (d->stage_layers == NULL)
        return why_set(why, "no memory for the stages");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        json_int_t n = json_integer_value(value);
        if (!json_is_integer(value) || n < 1 || n > (json_int_t)d->layers)
            return field_refuse(o, "stage_layers", value, "the number of layers of each stage", why);
        d->stage_layers[d->num_stages++] = (uint32_t)n;
        sum += (uint64_t)n;
    }
    if (sum != d->layers)
        return why_set(why, "field \"stage_layers\" must add up to the %u of \"layers\", and makes %llu", d->layers,
                       (unsigned long long)sum);
    return 0;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static int read_all(const struct object *o, struct description *d, struct why *why)
{
    static const char *const known[] = {"model",        "dtype",        "elem_bytes", "planes", "head_size", "layers",
                                        "stage_layers", "block_tokens", "num_blocks", "groups", "heads",     "cut",
                                        "splits",       "tensors",      "order",      "align",  NULL};
    if (!json_is_object(o->json))
        return why_set(why, "it must be a JSON object");
    if (field_none_else(o, known, why) != 0 || field_text(o, "model", true, d->model, sizeof d->model, why) != 0 ||
        field_text(o, "dtype", true, d->dtype, sizeof d->dtype, why) != 0 ||
        read_elem_bytes(o, true, &d->elem_bytes, why) != 0 ||
        field_u32(o, "planes", true, 1, 2, &d->planes, why) != 0 ||
        field_u32(o, "head_size", true, 1, 1u << 20, &d->head_size, why) != 0 ||
        field_u32(o, "layers", true, 1, DESCRIPTION_LAYERS_MAX, &d->layers, why) != 0)
        return -1;
    if (read_stages(o, d, why) != 0 || read_list(o, &group_list, d, why) != 0 || read_list(o, &split_list, d, why) != 0)
        return -1;
    return read_list(o, &tensor_list, d, why);
}

int description_parse(struct description *d, const char *text, size_t length, struct why *why)
{
    json_error_t error;
    struct object top = {.json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error)};
    *d = (struct description){0};
    if (top.json == NULL)
        return why_set(why, "it is not JSON: %.100s (line %d)", error.text, error.line);
    int rc = read_all(&top, d, why);
    json_decref((json_t *)top.json);
    if (rc != 0)
        description_fini(d);
    return rc;
}

int description_read(struct description *d, const char *path, struct why *why)
{
    struct why inner;
    size_t length;
    char *text = file_read(path, DESCRIPTION_BYTES_MAX, &length);
    *d = (struct description){0};
    if (text == NULL && errno == EFBIG)
        return why_set(why, "%.100s has more than %d bytes", path, DESCRIPTION_BYTES_MAX);
    if (text == NULL)
        return why_set(why, "%.100s: %s", path, strerror(errno));
    int rc = description_parse(d, text, length, &inner);
    free(text);
    return rc == 0 ? 0 : why_set(why, "%.100s: %.250s", path, inner.text);
}

void description_fini(struct description *d)
{
    for (uint32_t i = 0; i < d->num_kinds; i++)
        free(d->kinds[i].has_layer);
    free(d->stage_layers);
    *d = (struct description){0};
}
