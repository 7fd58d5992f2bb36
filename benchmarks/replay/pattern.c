/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pattern: see pattern.h. A row is the channels of one (tensor, plane, head, token). It is contiguous in every layout.
 * One 64-bit mix a row gives start and (odd) step of an arithmetic sequence modulo the element's size. So two channels
 * of a row differ, unless the row is longer than an element has values. Two rows have a channel in common with a
 * probability of 2^-15 at worst.
 */
#include "replay/pattern.h"

#include <stdbool.h>
#include <string.h>

#include "model/model.h"
#include "replay/random.h"
#include "replay/row.h"

/* Checks that the tensor's rows can be walked: channels follow each other, and each element is aligned to its size. */
static int check_tensor(const baton_tensor_t *t, uint32_t elem_bytes, struct why *why)
{
    const baton_strides_t *s = &t->stride;
    if (elem_bytes != 1 && elem_bytes != 2 && elem_bytes != 4)
        return why_set(why, "elements of %u bytes have no pattern: 1, 2 or 4", elem_bytes);
    if (s->channel != elem_bytes)
        return why_set(why, "the channels of %s do not follow each other", t->name);
    if ((t->offset | (uint64_t)s->block | (uint64_t)s->plane | (uint64_t)s->head | (uint64_t)s->token) % elem_bytes)
        return why_set(why, "the elements of %s are not aligned to their size", t->name);
    return 0;
}

int pattern_init(struct pattern *p, const baton_geometry_t *g, void *base, uint64_t seed, struct why *why)
{
    for (uint32_t i = 0; i < g->num_tensors; i++)
        if (check_tensor(&g->tensors[i], model_extent(g, &g->tensors[i]).elem_bytes, why) != 0)
            return -1;
    *p = (struct pattern){.geometry = g, .base = base, .seed = seed};
    return 0;
}

uint32_t pattern_part(const char *name)
{
    const char *dot = strchr(name, '.');
    dot = dot != NULL ? strchr(dot + 1, '.') : NULL;
    uint32_t part = 0; /* FNV-1a, but 0 for none */
    for (; dot != NULL && *dot != '\0'; dot++)
        part = (part ^ (unsigned char)*dot) * UINT32_C(16777619) + 1;
    return part;
}

static const baton_tensor_t *find_tensor(const baton_geometry_t *g, const struct pattern_place *at, bool any_layer)
{
    for (uint32_t i = 0; i < g->num_tensors; i++)
        if ((any_layer || g->tensors[i].layer == at->layer) && pattern_part(g->tensors[i].name) == at->part)
            return &g->tensors[i];
    return NULL;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static uint64_t mix_request(const struct pattern *p, uint64_t request, uint32_t part)
{
    return random_mix(random_mix(random_mix(p->seed) + request) + part);
}

static struct row_code code_of(uint64_t request_mix, const struct pattern_place *at)
{
    /* Layers stay below 2^12, planes and heads below 2^12 and 2^15, tokens below 2^25: no two rows share a number. */
    const uint64_t number =
        ((uint64_t)at->layer << 52) | ((uint64_t)at->plane << 40) | ((uint64_t)at->head << 25) | at->token;
    const uint64_t mixed = random_mix(request_mix ^ number);
    return (struct row_code){.start = (uint32_t)mixed, .step = (uint32_t)(mixed >> 32) | 1};
}

uint32_t pattern_value(const struct pattern *p, uint64_t request, const struct pattern_place *at)
{
    const baton_tensor_t *t = find_tensor(p->geometry, at, true);
    const uint32_t elem_bytes = t != NULL ? model_extent(p->geometry, t).elem_bytes : p->geometry->elem_bytes;
    return row_value(code_of(mix_request(p, request, at->part), at), at->channel, elem_bytes);
}

void *pattern_address(const struct pattern *p, const struct pattern_table *t, const struct pattern_place *at)
{
    const baton_tensor_t *tensor = find_tensor(p->geometry, at, false);
    if (tensor == NULL)
        return NULL;
    const struct model_extent x = model_extent(p->geometry, tensor);
    const baton_table_t *table = &t->group[tensor->group];
    const baton_strides_t *s = &tensor->stride;
    const uint32_t token = at->token - table->first_token;
    return p->base + tensor->offset + (int64_t)table->blocks[token / x.group.block_tokens] * s->block +
           (int64_t)at->plane * s->plane + (int64_t)(at->head - x.split.head_first) * s->head +
           (int64_t)(token % x.group.block_tokens) * s->token + (int64_t)at->channel * s->channel;
}

/* ---- the walk over rows ------------------------------------------------------------------------------------------ */

/* A walk over some tokens of the tensors, one tensor after another. */
struct walk {
    const struct pattern *pattern;
    const struct pattern_table *table;
    /* Returns which tokens of the group's table are walked. */
    struct model_span (*span)(const struct walk *w, const baton_group_t *group, const baton_table_t *table);
    void (*row)(struct walk *w, unsigned char *row, const struct pattern_place *at);
    uint32_t token_first, token_end; /* for span */
    struct model_span layers;        /* {0, 0}: all */
    uint32_t as_head;                /* fill_head: whose values */
    unsigned char poison;
    struct pattern_result *result;

    /* Of the tensor that is walked. */
    const baton_tensor_t *tensor;
    struct model_extent extent;
    uint64_t request_mix;
    uint32_t head_first, head_end;
};

/* All rows of one plane of one block, in their order in memory: the inner loop is over head or token, whichever has the
   smaller stride. `start` is the address of the plane's first head and token; tokens are numbers within the block. */
static void walk_plane(struct walk *w, unsigned char *start, struct model_span tokens, struct pattern_place at)
{
    const baton_strides_t *s = &w->tensor->stride;
    const uint32_t token0 = at.token, heads = w->head_end - w->head_first, num_tokens = tokens.end - tokens.first;
    const bool heads_inside = s->head < s->token;
    const uint32_t outer = heads_inside ? num_tokens : heads, inner = heads_inside ? heads : num_tokens;
    for (uint32_t o = 0; o < outer; o++) {
        for (uint32_t i = 0; i < inner; i++) {
            const uint32_t h = w->head_first + (heads_inside ? i : o), t = tokens.first + (heads_inside ? o : i);
            at.head = h;
            at.token = token0 + t;
            w->row(w, start + (int64_t)(h - w->extent.split.head_first) * s->head + (int64_t)t * s->token, &at);
        }
    }
}

/* Tokens [first, end) of the tensor. Its table has all of them. */
static void walk_tokens(struct walk *w, struct model_span tokens)
{
    const baton_tensor_t *t = w->tensor;
    const baton_table_t *table = &w->table->group[t->group];
    const uint32_t block_tokens = w->extent.group.block_tokens, part = pattern_part(t->name);
    for (uint32_t plane = 0; plane < w->extent.planes; plane++) {
        for (uint32_t token = tokens.first; token < tokens.end;) {
            const uint32_t index = (token - table->first_token) / block_tokens;
            const uint32_t token0 = table->first_token + index * block_tokens, left = tokens.end - token0;
            const struct model_span inside = {token - token0, left < block_tokens ? left : block_tokens};
            const struct pattern_place at = {.layer = t->layer, .plane = plane, .token = token0, .part = part};
            walk_plane(w,
                       w->pattern->base + t->offset + (int64_t)table->blocks[index] * t->stride.block +
                           (int64_t)plane * t->stride.plane,
                       inside, at);
            token = token0 + inside.end;
        }
    }
}

static void begin_tensor(struct walk *w, const baton_tensor_t *t)
{
    w->tensor = t;
    w->extent = model_extent(w->pattern->geometry, t);
    w->request_mix = mix_request(w->pattern, w->table->request, pattern_part(t->name));
    w->head_first = w->extent.split.head_first;
    w->head_end = w->head_first + w->extent.split.head_count;
}

static bool is_outside(struct model_span span, uint32_t number)
{
    return span.end > 0 && (number < span.first || number >= span.end);
}

static void walk_rows(struct walk *w)
{
    const baton_geometry_t *g = w->pattern->geometry;
    for (uint32_t i = 0; i < g->num_tensors; i++) {
        const uint32_t layer = g->tensors[i].layer;
        if (is_outside(w->layers, layer) || is_outside(w->table->only.layers, layer))
            continue;
        begin_tensor(w, &g->tensors[i]);
        walk_tokens(w, w->span(w, &w->extent.group, &w->table->group[w->tensor->group]));
    }
}

/* ---- which tokens ------------------------------------------------------------------------------------------------ */

static uint32_t table_end(const baton_group_t *group, const baton_table_t *table)
{
    return table->first_token + table->num_blocks * group->block_tokens;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The tokens of the table, and of the piece that is walked, that are within [first, end). */
static struct model_span within(const struct walk *w, const baton_group_t *group, const baton_table_t *table,
                                struct model_span s)
{
    const struct model_span only = w->table->only.tokens;
    s.first = most(s.first, most(only.first, table->first_token));
    s.end = least(s.end, table_end(group, table));
    s.end = only.end > 0 ? least(s.end, only.end) : s.end;
    return s;
}

static struct model_span span_all(const struct walk *w, const baton_group_t *group, const baton_table_t *table)
{
    return within(w, group, table, (struct model_span){0, UINT32_MAX});
}

static struct model_span span_filled(const struct walk *w, const baton_group_t *group, const baton_table_t *table)
{
    const uint32_t all = w->table->num_tokens;
    if (group->kind == BATON_KIND_STATE)
        return within(w, group, table, (struct model_span){0, w->token_end >= all});
    return within(w, group, table, (struct model_span){w->token_first, least(w->token_end, all)});
}

static struct model_span span_wanted(const struct walk *w, const baton_group_t *group, const baton_table_t *table)
{
    return within(w, group, table, model_wanted(group, w->table->held, w->table->num_tokens));
}

static struct model_span span_before(const struct walk *w, const baton_group_t *group, const baton_table_t *table)
{
    const struct model_span wanted = model_wanted(group, w->table->held, w->table->num_tokens);
    return within(w, group, table, (struct model_span){0, wanted.first});
}

static struct model_span span_behind(const struct walk *w, const baton_group_t *group, const baton_table_t *table)
{
    const struct model_span wanted = model_wanted(group, w->table->held, w->table->num_tokens);
    return within(w, group, table, (struct model_span){wanted.end, UINT32_MAX});
}

static struct model_span span_given(const struct walk *w, const baton_group_t *group, const baton_table_t *table)
{
    if (group->kind == BATON_KIND_STATE)
        return within(w, group, table, (struct model_span){w->token_first < w->table->num_tokens ? 0 : 1, 1});
    return within(w, group, table, (struct model_span){w->token_first, w->token_end});
}

/* ---- fill and poison --------------------------------------------------------------------------------------------- */

static void row_to_fill(struct walk *w, unsigned char *row, const struct pattern_place *at)
{
    row_fill(row, w->extent.head_size, w->extent.elem_bytes, code_of(w->request_mix, at));
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
    memset(row, w->poison, (size_t)w->extent.head_size * w->extent.elem_bytes);
}

void pattern_fill(const struct pattern *p, const struct pattern_table *t)
{
    pattern_fill_some(p, t, (struct model_span){0, UINT32_MAX}, (struct model_span){0, t->num_tokens});
}

void pattern_fill_some(const struct pattern *p, const struct pattern_table *t, struct model_span layers,
                       struct model_span tokens)
{
    struct walk w = {.pattern = p,
                     .table = t,
                     .span = span_filled,
                     .row = row_to_fill,
                     .token_first = tokens.first,
                     .token_end = tokens.end,
                     .layers = layers};
    walk_rows(&w);
}

void pattern_fill_head(const struct pattern *p, const struct pattern_table *t, uint32_t tensor, uint32_t head,
                       uint32_t as, uint32_t token_first, uint32_t token_end)
{
    struct walk w = {.pattern = p,
                     .table = t,
                     .row = row_to_fill_as,
                     .as_head = as,
                     .token_first = token_first,
                     .token_end = token_end};
    begin_tensor(&w, &p->geometry->tensors[tensor]);
    w.head_first = head;
    w.head_end = head + 1;
    walk_tokens(&w, span_given(&w, &w.extent.group, &t->group[w.tensor->group]));
}

void pattern_poison(const struct pattern *p, const struct pattern_table *t, uint32_t token_first, unsigned char poison)
{
    struct walk w = {.pattern = p,
                     .table = t,
                     .span = token_first == 0 ? span_all : span_given,
                     .row = row_to_poison,
                     .token_first = token_first,
                     .token_end = UINT32_MAX,
                     .poison = poison};
    walk_rows(&w);
}

/* ---- verify ------------------------------------------------------------------------------------------------------ */

static void note_miss(struct walk *w, const struct pattern_place *at, uint32_t channel, uint32_t expected,
                      uint32_t found)
{
    const baton_table_t *table = &w->table->group[w->tensor->group];
    if (w->result->mismatches++ > 0)
        return;
    w->result->first =
        (struct pattern_miss){.place = *at,
                              .tensor = w->tensor,
                              .block = table->blocks[(at->token - table->first_token) / w->extent.group.block_tokens],
                              .expected = expected,
                              .found = found};
    w->result->first.place.channel = channel;
}

static void row_to_verify(struct walk *w, unsigned char *row, const struct pattern_place *at)
{
    const uint32_t elem_bytes = w->extent.elem_bytes;
    const struct row_code code = code_of(w->request_mix, at);
    if (row_matches(row, w->extent.head_size, elem_bytes, code))
        return;
    for (uint32_t c = 0; c < w->extent.head_size; c++) {
        uint32_t expected = row_value(code, c, elem_bytes), found = row_read(row, c, elem_bytes);
        if (expected != found)
            note_miss(w, at, c, expected, found);
    }
}

static void row_to_verify_poison(struct walk *w, unsigned char *row, const struct pattern_place *at)
{
    const uint32_t elem_bytes = w->extent.elem_bytes;
    const size_t bytes = (size_t)w->extent.head_size * elem_bytes;
    const uint32_t expected = row_repeat(w->poison, elem_bytes);
    if (row[0] == w->poison && memcmp(row, row + 1, bytes - 1) == 0)
        return;
    for (uint32_t c = 0; c < w->extent.head_size; c++) {
        uint32_t found = row_read(row, c, elem_bytes);
        if (expected != found)
            note_miss(w, at, c, expected, found);
    }
}

void pattern_verify(const struct pattern *p, const struct pattern_table *t, struct pattern_result *out)
{
    struct walk w = {.pattern = p, .table = t, .span = span_wanted, .row = row_to_verify, .result = out};
    walk_rows(&w);
}

void pattern_verify_rest(const struct pattern *p, const struct pattern_table *t, unsigned char poison,
                         struct pattern_result *out)
{
    struct walk w = {.pattern = p, .table = t, .row = row_to_verify_poison, .poison = poison, .result = out};
    w.span = span_before;
    walk_rows(&w);
    w.span = span_behind;
    walk_rows(&w);
}

void pattern_verify_poison(const struct pattern *p, const struct pattern_table *t, unsigned char poison,
                           struct pattern_result *out)
{
    struct walk w = {
        .pattern = p, .table = t, .span = span_all, .row = row_to_verify_poison, .poison = poison, .result = out};
    walk_rows(&w);
}
