/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pattern_explain: what the bytes of a mismatch look like. A reader who is told "this is head 3 of the same token" or
 * "the producer's poison" knows which end to look at first. It is slow, and only called if something is wrong.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "model/model.h"
#include "replay/pattern.h"
#include "replay/row.h"

/* What the row with the wrong element may be compared with. */
struct suspect {
    const struct pattern *pattern;
    const struct pattern_table *table;
    const struct pattern_place *at;
    struct model_extent extent;
};

/* Whether the row with the wrong element holds the values of another place or request. One channel alone may agree by
   chance if it has 2^8 values; a row does not. */
static bool row_is(const struct suspect *s, uint64_t request, struct pattern_place other)
{
    struct pattern_place here = *s->at;
    for (uint32_t c = 0; c < s->extent.head_size; c++) {
        uint32_t found = 0;
        here.channel = other.channel = c;
        memcpy(&found, pattern_address(s->pattern, s->table, &here), s->extent.elem_bytes);
        if (found != pattern_value(s->pattern, request, &other))
            return false;
    }
    return true;
}

static bool explain_head(const struct suspect *s, char *text, size_t size)
{
    struct pattern_place other = *s->at;
    for (other.head = 0; other.head < s->extent.split.heads_total; other.head++)
        if (row_is(s, s->table->request, other)) {
            snprintf(text, size, "this is head %u of the same token", other.head);
            return true;
        }
    return false;
}

static bool explain_plane_or_layer(const struct suspect *s, char *text, size_t size)
{
    struct pattern_place other = *s->at;
    for (other.layer = 0; other.layer < s->pattern->geometry->layers_total; other.layer++)
        for (other.plane = 0; other.plane < s->extent.planes; other.plane++)
            if (row_is(s, s->table->request, other)) {
                snprintf(text, size, "this is layer %u, plane %u of the same token", other.layer, other.plane);
                return true;
            }
    return false;
}

static bool explain_token(const struct suspect *s, char *text, size_t size)
{
    struct pattern_place other = *s->at;
    for (other.token = 0; other.token < s->table->num_tokens; other.token++)
        if (row_is(s, s->table->request, other)) {
            snprintf(text, size, "this is token %u of the same head", other.token);
            return true;
        }
    return false;
}

static bool explain_request(const struct suspect *s, uint64_t others, uint64_t num_others, char *text, size_t size)
{
    for (uint64_t r = 0; r < num_others; r++)
        if (row_is(s, others + r, *s->at)) {
            snprintf(text, size, "this is what request %llu has there", (unsigned long long)r);
            return true;
        }
    return false;
}

void pattern_explain(const struct pattern *p, const struct pattern_table *t, const struct pattern_miss *miss,
                     uint64_t others, uint64_t num_others, char *text, size_t size)
{
    const struct suspect s = {p, t, &miss->place, model_extent(p->geometry, miss->tensor)};
    const uint32_t differs = miss->expected ^ miss->found;
    text[0] = '\0';
    if (miss->found == row_repeat(PATTERN_POISON_PRODUCER, s.extent.elem_bytes))
        snprintf(text, size, "this is the producer's poison: never filled, or read after it was freed");
    else if (miss->found == row_repeat(PATTERN_POISON_CONSUMER, s.extent.elem_bytes))
        snprintf(text, size, "this is the consumer's poison: never written");
    else if (!explain_head(&s, text, size) && !explain_plane_or_layer(&s, text, size) &&
             !explain_token(&s, text, size) && !explain_request(&s, others, num_others, text, size) && differs != 0 &&
             (differs & (differs - 1)) == 0)
        snprintf(text, size, "one bit differs");
}
