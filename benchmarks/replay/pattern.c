/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pattern: see pattern.h. A row is the channels of one (layer, plane, head, token): contiguous, in every layout. One
 * 64-bit mix a row gives start and (odd) step of an arithmetic sequence modulo the element's size; so two channels of a
 * row differ, as long as it is not longer than an element has values, and two rows differ in every channel but by a
 * chance of 2^-15 at worst.
 */
#include "replay/pattern.h"

#include <stdbool.h>
#include <string.h>

#include "replay/random.h"
#include "replay/row.h"

int pattern_init(struct pattern *p, const baton_geometry_t *g, void *base, uint64_t seed, struct why *why)
{
    if (g->elem_bytes != 1 && g->elem_bytes != 2 && g->elem_bytes != 4)
        return why_set(why, "elements of %u bytes have no pattern: 1, 2 or 4", g->elem_bytes);
    for (uint32_t i = 0; i < g->num_tensors; i++) {
        const baton_strides_t *s = &g->tensors[i].stride;
        if (s->channel != g->elem_bytes)
            return why_set(why, "the channels of %s do not follow each other", g->tensors[i].name);
        if ((g->tensors[i].offset | (uint64_t)s->block | (uint64_t)s->plane | (uint64_t)s->head | (uint64_t)s->token) %
            g->elem_bytes)
            return why_set(why, "the elements of %s are not aligned to their size", g->tensors[i].name);
    }
    *p = (struct pattern){.geometry = g, .base = base, .seed = seed};
    return 0;
}

static uint64_t mix_request(const struct pattern *p, uint64_t request)
{
    return random_mix(random_mix(p->seed) + request);
}

/* ---- the walk over rows ------------------------------------------------------------------------------------------ */

/* A part of the request: layers, heads and tokens. */
struct box {
    uint32_t layer_first, layer_end, head_first, head_end, token_first, token_end;
};

struct walk {
    const struct pattern *pattern;
    const struct pattern_table *table;
    void (*row)(struct walk *w, unsigned char *row, const struct pattern_place *at);
    uint64_t request_mix;
    uint32_t as_head; /* fill_head: whose values */
    unsigned char poison;
    struct pattern_result *result;
};

/* The tokens of box that block `index` of the table holds, as numbers within it. */
struct span {
    uint32_t first, end;
};

static struct span block_span(const struct box *box, uint32_t index, uint32_t block_tokens)
{
    const uint64_t start = (uint64_t)index * block_tokens, stop = start + block_tokens;
    return (struct span){.first = box->token_first > start ? (uint32_t)(box->token_first - start) : 0,
                         .end = box->token_end < stop ? (uint32_t)(box->token_end - start) : block_tokens};
}

/* All rows of one plane of one block, in the order they lie in memory: whichever of head and token strides less is the
   inner loop. `start` is the address of the plane's first head and token. */
static void walk_plane(struct walk *w, const baton_strides_t *s, unsigned char *start, struct span span,
                       const struct box *box, struct pattern_place at)
{
    const baton_geometry_t *g = w->pattern->geometry;
    const uint32_t token0 = at.token;
    const bool heads_inside = s->head < s->token;
    const uint32_t heads = box->head_end - box->head_first, tokens = span.end - span.first;
    const uint32_t outer = heads_inside ? tokens : heads, inner = heads_inside ? heads : tokens;
    for (uint32_t o = 0; o < outer; o++) {
        for (uint32_t i = 0; i < inner; i++) {
            const uint32_t h = box->head_first + (heads_inside ? i : o), t = span.first + (heads_inside ? o : i);
            at.head = h;
            at.token = token0 + t;
            w->row(w, start + (int64_t)(h - g->head_first) * s->head + (int64_t)t * s->token, &at);
        }
    }
}

static void walk_tensor(struct walk *w, const baton_tensor_t *t, const struct box *box)
{
    const baton_geometry_t *g = w->pattern->geometry;
    const uint32_t first = box->token_first / g->block_tokens;
    for (uint32_t plane = 0; plane < g->planes; plane++) {
        for (uint32_t i = first; (uint64_t)i * g->block_tokens < box->token_end; i++) {
            unsigned char *start = w->pattern->base + t->offset + (int64_t)w->table->blocks[i] * t->stride.block +
                                   (int64_t)plane * t->stride.plane;
            const struct pattern_place at = {.layer = t->layer, .plane = plane, .token = i * g->block_tokens};
            walk_plane(w, &t->stride, start, block_span(box, i, g->block_tokens), box, at);
        }
    }
}

static void walk_rows(struct walk *w, const struct box *box)
{
    const baton_geometry_t *g = w->pattern->geometry;
    if (box->token_first >= box->token_end)
        return;
    w->request_mix = mix_request(w->pattern, w->table->request);
    for (uint32_t i = 0; i < g->num_tensors; i++)
        if (g->tensors[i].layer >= box->layer_first && g->tensors[i].layer < box->layer_end)
            walk_tensor(w, &g->tensors[i], box);
}

static struct box box_of_tokens(const struct pattern *p, uint32_t token_first, uint32_t token_end)
{
    const baton_geometry_t *g = p->geometry;
    return (struct box){g->layer_first, g->layer_first + g->layer_count,
                        g->head_first,  g->head_first + g->head_count,
                        token_first,    token_end};
}

static uint32_t table_end(const struct pattern *p, const struct pattern_table *t)
{
    return t->num_blocks * p->geometry->block_tokens;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static struct row_code code_of(uint64_t request_mix, const struct pattern_place *at)
{
    /* Layers and heads stay far below these widths, and tokens below 2^25, so that no two rows share a number. */
    const uint64_t number = (((uint64_t)at->layer * 2 + at->plane) << 40) | ((uint64_t)at->head << 25) | at->token;
    const uint64_t mixed = random_mix(request_mix ^ number);
    return (struct row_code){.start = (uint32_t)mixed, .step = (uint32_t)(mixed >> 32) | 1};
}

uint32_t pattern_value(const struct pattern *p, uint64_t request, const struct pattern_place *at)
{
    return row_value(code_of(mix_request(p, request), at), at->channel, p->geometry->elem_bytes);
}

void *pattern_address(const struct pattern *p, const struct pattern_table *t, const struct pattern_place *at)
{
    const baton_geometry_t *g = p->geometry;
    for (uint32_t i = 0; i < g->num_tensors; i++) {
        const baton_strides_t *s = &g->tensors[i].stride;
        if (g->tensors[i].layer == at->layer)
            return p->base + g->tensors[i].offset + (int64_t)t->blocks[at->token / g->block_tokens] * s->block +
                   (int64_t)at->plane * s->plane + (int64_t)(at->head - g->head_first) * s->head +
                   (int64_t)(at->token % g->block_tokens) * s->token + (int64_t)at->channel * s->channel;
    }
    return NULL;
}

/* ---- fill and poison --------------------------------------------------------------------------------------------- */

static void row_to_fill(struct walk *w, unsigned char *row, const struct pattern_place *at)
{
    const baton_geometry_t *g = w->pattern->geometry;
    row_fill(row, g->head_size, g->elem_bytes, code_of(w->request_mix, at));
}

static void row_to_fill_as(struct walk *w, unsigned char *row, const struct pattern_place *at)
{
    struct pattern_place other = *at;
    other.head = w->as_head;
    row_to_fill(w, row, &other);
}

static void row_to_poison(struct walk *w, unsigned char *row, const struct pattern_place *at)
{
    (void)at;
    memset(row, w->poison, (size_t)w->pattern->geometry->head_size * w->pattern->geometry->elem_bytes);
}

void pattern_fill(const struct pattern *p, const struct pattern_table *t)
{
    struct walk w = {.pattern = p, .table = t, .row = row_to_fill};
    const struct box box = box_of_tokens(p, 0, t->num_tokens);
    walk_rows(&w, &box);
}

void pattern_fill_head(const struct pattern *p, const struct pattern_table *t, uint32_t layer, uint32_t head,
                       uint32_t as, uint32_t token_first, uint32_t token_end)
{
    struct walk w = {.pattern = p, .table = t, .row = row_to_fill_as, .as_head = as};
    const struct box box = {layer, layer + 1, head, head + 1, token_first, token_end};
    walk_rows(&w, &box);
}

void pattern_poison(const struct pattern *p, const struct pattern_table *t, uint32_t token_first, unsigned char poison)
{
    struct walk w = {.pattern = p, .table = t, .row = row_to_poison, .poison = poison};
    const struct box box = box_of_tokens(p, token_first, table_end(p, t));
    walk_rows(&w, &box);
}

/* ---- verify ------------------------------------------------------------------------------------------------------ */

static void note_miss(struct walk *w, const struct pattern_place *at, uint32_t channel, uint32_t expected,
                      uint32_t found)
{
    if (w->result->mismatches++ > 0)
        return;
    w->result->first = (struct pattern_miss){.place = *at,
                                             .block = w->table->blocks[at->token / w->pattern->geometry->block_tokens],
                                             .expected = expected,
                                             .found = found};
    w->result->first.place.channel = channel;
}

static void row_to_verify(struct walk *w, unsigned char *row, const struct pattern_place *at)
{
    const baton_geometry_t *g = w->pattern->geometry;
    const struct row_code code = code_of(w->request_mix, at);
    if (row_matches(row, g->head_size, g->elem_bytes, code))
        return;
    for (uint32_t c = 0; c < g->head_size; c++) {
        uint32_t expected = row_value(code, c, g->elem_bytes), found = row_read(row, c, g->elem_bytes);
        if (expected != found)
            note_miss(w, at, c, expected, found);
    }
}

static void row_to_verify_poison(struct walk *w, unsigned char *row, const struct pattern_place *at)
{
    const baton_geometry_t *g = w->pattern->geometry;
    const size_t bytes = (size_t)g->head_size * g->elem_bytes;
    const uint32_t expected = row_repeat(w->poison, g->elem_bytes);
    if (row[0] == w->poison && memcmp(row, row + 1, bytes - 1) == 0)
        return;
    for (uint32_t c = 0; c < g->head_size; c++) {
        uint32_t found = row_read(row, c, g->elem_bytes);
        if (expected != found)
            note_miss(w, at, c, expected, found);
    }
}

void pattern_verify(const struct pattern *p, const struct pattern_table *t, struct pattern_result *out)
{
    struct walk w = {.pattern = p, .table = t, .row = row_to_verify, .result = out};
    const struct box box = box_of_tokens(p, 0, t->num_tokens);
    walk_rows(&w, &box);
}

void pattern_verify_poison(const struct pattern *p, const struct pattern_table *t, uint32_t token_first,
                           unsigned char poison, struct pattern_result *out)
{
    struct walk w = {.pattern = p, .table = t, .row = row_to_verify_poison, .poison = poison, .result = out};
    const struct box box = box_of_tokens(p, token_first, table_end(p, t));
    walk_rows(&w, &box);
}
