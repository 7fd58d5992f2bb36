/* SPDX-License-Identifier: BSD-3-Clause */
/* distances: see distances.h. */
#include "replay/distances.h"

#include <math.h>
#include <stdlib.h>

/* An element of a list: {"engine": "decode0", "distance": 2.0}. */
static int read_near(const json_t *near, const char *prefill, const struct roster *roster, double *of, struct why *why)
{
    const char *name = json_string_value(json_object_get(near, "engine"));
    const json_t *distance = json_object_get(near, "distance");
    if (name == NULL)
        return why_set(why, "\"%s\" has a decode engine without a name in \"engine\"", prefill);
    if (!json_is_number(distance) || json_number_value(distance) < 0)
        return why_set(why, "the \"distance\" of \"%s\" and \"%.64s\" must be a number that is not negative", prefill,
                       name);
    const uint32_t d = roster_find(roster, SIDE_DECODE, name);
    if (d == roster->num[SIDE_DECODE])
        return why_set(why, "\"%s\" is paired with \"%.64s\", and there is no such decode engine", prefill, name);
    of[d] = json_number_value(distance);
    return 0;
}

static int read_engine(const json_t *table, const char *prefill, const struct roster *roster, double *of,
                       struct why *why)
{
    const json_t *list = json_object_get(json_object_get(table, prefill), "decode");
    const size_t count = json_array_size(list);
    if (count == 0)
        return why_set(why, "\"%s\" must have a list \"decode\" of at least one engine", prefill);
    for (uint32_t d = 0; d < roster->num[SIDE_DECODE]; d++)
        of[d] = HUGE_VAL;
    for (size_t i = 0; i < count; i++)
        if (read_near(json_array_get(list, i), prefill, roster, of, why) != 0)
            return -1;
    return 0;
}

int distances_parse(const json_t *table, const struct roster *roster, struct distances *out, struct why *why)
{
    const uint32_t prefills = roster->num[SIDE_PREFILL], decodes = roster->num[SIDE_DECODE];
    *out = (struct distances){0};
    double *of = calloc((size_t)prefills * decodes + 1, sizeof *of);
    if (of == NULL)
        return why_set(why, "no memory for the distances of %u and %u engines", prefills, decodes);
    for (uint32_t p = 0; p < prefills; p++)
        if (read_engine(table, roster->engines[SIDE_PREFILL][p].name, roster, of + (size_t)p * decodes, why) != 0) {
            free(of);
            return -1;
        }
    *out = (struct distances){.prefills = prefills, .decodes = decodes, .of = of};
    return 0;
}

int distances_open(const char *path, const struct roster *roster, struct distances *out, struct why *why)
{
    struct why inner;
    json_error_t error;
    json_t *table = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (table == NULL)
        return why_set(why, "--pairs %s: %.100s", path, error.text);
    const int rc = distances_parse(table, roster, out, &inner);
    json_decref(table);
    return rc == 0 ? 0 : why_set(why, "--pairs %s: %s", path, inner.text);
}

void distances_fini(struct distances *d)
{
    free(d->of);
    *d = (struct distances){0};
}
