/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * geometry: whether a cache's description is sound, whether two may exchange entries, and the usual layouts. What comes
 * from another rank is hostile: every sum and product is checked for overflow.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sized.h"
#include "plan/plan.h"

#define BYTES_MOST (UINT64_C(1) << 62)

static int why_set(struct plan_why *why, int error, const char *field, uint64_t value, const char *rule)
{
    snprintf(why->text, sizeof why->text, "%s is %" PRIu64 ": %s", field, value, rule);
    return error;
}

struct plan_extent geometry_extent(const baton_geometry_t *g, const baton_tensor_t *t)
{
    return (struct plan_extent){.group = g->groups[t->group],
                                .split = g->splits[t->split],
                                .planes = t->planes > 0 ? t->planes : g->planes,
                                .head_size = t->head_size > 0 ? t->head_size : g->head_size,
                                .elem_bytes = t->elem_bytes > 0 ? t->elem_bytes : g->elem_bytes};
}

/* ---- one cache --------------------------------------------------------------------------------------------------- */

struct direction {
    uint64_t count;
    int64_t stride;
};

/* Small arrays: insertion sort, smallest stride first. */
static void sort_directions(struct direction *d, unsigned n)
{
    for (unsigned i = 1; i < n; i++)
        for (unsigned k = i; k > 0 && d[k].stride < d[k - 1].stride; k--) {
            struct direction swap = d[k];
            d[k] = d[k - 1];
            d[k - 1] = swap;
        }
}

/*
 * The bytes from a tensor's first element to behind its last, or 0 where it has no sense: a negative stride, an
 * overflow, or entries that could overlap. Each direction must step over all that lies within it.
 */
static uint64_t span_of(const struct plan_extent *x, const baton_strides_t *s)
{
    struct direction d[] = {{x->group.num_blocks, s->block},
                            {x->planes, s->plane},
                            {x->split.head_count, s->head},
                            {x->group.block_tokens, s->token},
                            {x->head_size, s->channel}};
    const unsigned n = sizeof d / sizeof d[0];
    uint64_t span = x->elem_bytes;
    sort_directions(d, n);
    for (unsigned i = 0; i < n; i++) {
        uint64_t reach;
        if (d[i].count == 1)
            continue;
        if (d[i].stride < 0 || (uint64_t)d[i].stride < span ||
            __builtin_mul_overflow(d[i].count - 1, (uint64_t)d[i].stride, &reach) ||
            __builtin_add_overflow(span, reach, &span) || span > BYTES_MOST)
            return 0;
    }
    return span;
}

/* Elements of one block. False: more than 64 bits count. */
static bool count_elements(const struct plan_extent *x, uint64_t *out)
{
    const uint32_t counts[] = {x->planes, x->split.head_count, x->group.block_tokens, x->head_size};
    uint64_t elements = 1;
    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (__builtin_mul_overflow(elements, (uint64_t)counts[i], &elements))
            return false;
    *out = elements;
    return true;
}

static bool bytes_are_good(uint32_t elem_bytes)
{
    return elem_bytes == 1 || elem_bytes == 2 || elem_bytes == 4 || elem_bytes == 8;
}

static bool split_is_good(const baton_split_t *s)
{
    return s->head_first <= s->heads_total && s->head_count <= s->heads_total - s->head_first;
}

static int check_splits(const baton_geometry_t *g, struct plan_why *why)
{
    if (g->num_splits == 0 || g->num_splits > BATON_SPLITS_MAX)
        return why_set(why, BATON_EINVAL, "num_splits", g->num_splits, "must be 1 to 4");
    if (g->splits[0].head_count == 0)
        return why_set(why, BATON_EINVAL, "head_count", 0, "must not be 0 in split 0");
    for (uint32_t i = 0; i < g->num_splits; i++) {
        const baton_split_t *s = &g->splits[i];
        if (!split_is_good(s) || (i > 0 && s->heads_total > UINT16_MAX))
            return why_set(why, BATON_EINVAL, "split", i, "heads must lie within heads_total");
    }
    return 0;
}

static int check_groups(const baton_geometry_t *g, struct plan_why *why)
{
    if (g->num_groups == 0 || g->num_groups > BATON_GROUPS_MAX)
        return why_set(why, BATON_EINVAL, "num_groups", g->num_groups, "must be 1 to 8");
    for (uint32_t i = 0; i < g->num_groups; i++) {
        const baton_group_t *x = &g->groups[i];
        if (x->kind < BATON_KIND_FULL || x->kind > BATON_KIND_STATE)
            return why_set(why, BATON_EINVAL, "group", i, "its kind is not known");
        if (x->block_tokens == 0 || x->num_blocks == 0)
            return why_set(why, BATON_EINVAL, "group", i, "block_tokens and num_blocks must not be 0");
        if (x->kind == BATON_KIND_STATE && x->block_tokens != 1)
            return why_set(why, BATON_EINVAL, "group", i, "a state's block_tokens must be 1");
        if ((x->kind == BATON_KIND_WINDOW) != (x->window_tokens > 0))
            return why_set(why, BATON_EINVAL, "group", i, "a window, and nothing else, has window_tokens");
        if (x->blocks_per_id > 1 && (x->kind == BATON_KIND_STATE || x->blocks_per_id > x->num_blocks ||
                                     x->blocks_per_id > UINT32_MAX / x->block_tokens))
            return why_set(why, BATON_EINVAL, "group", i, "blocks_per_id is of a state, or more than there are");
    }
    return 0;
}

static int check_sizes(const baton_geometry_t *g, struct plan_why *why)
{
    if (memchr(g->model, '\0', sizeof g->model) == NULL || memchr(g->dtype, '\0', sizeof g->dtype) == NULL)
        return why_set(why, BATON_EINVAL, "model or dtype", 0, "the name does not end");
    if (!bytes_are_good(g->elem_bytes))
        return why_set(why, BATON_EINVAL, "elem_bytes", g->elem_bytes, "must be 1, 2, 4 or 8");
    if (g->planes != 1 && g->planes != 2)
        return why_set(why, BATON_EINVAL, "planes", g->planes, "must be 1 or 2");
    if (g->head_size == 0)
        return why_set(why, BATON_EINVAL, "head_size", 0, "must not be 0");
    if (g->layer_count == 0 || g->layer_first > g->layers_total || g->layer_count > g->layers_total - g->layer_first)
        return why_set(why, BATON_EINVAL, "layer_count", g->layer_count, "layers must lie within layers_total");
    if (g->num_tensors == 0 || g->num_tensors > BATON_TENSORS_MAX || g->tensors == NULL)
        return why_set(why, BATON_EINVAL, "num_tensors", g->num_tensors, "must be 1 to 512");
    int rc = check_splits(g, why);
    return rc != 0 ? rc : check_groups(g, why);
}

static int check_tensor(const baton_geometry_t *g, uint32_t i, const uint64_t *region_bytes, uint32_t num_regions,
                        uint64_t *elements, struct plan_why *why)
{
    const baton_tensor_t *t = &g->tensors[i];
    uint64_t own;
    if (t->name[0] == '\0' || memchr(t->name, '\0', sizeof t->name) == NULL)
        return why_set(why, BATON_EINVAL, "tensor", i, "its name is empty or does not end");
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(g->tensors[k].name, t->name) == 0)
            return why_set(why, BATON_EINVAL, "tensor", i, "its name is another's too");
    if (t->layer < g->layer_first || t->layer - g->layer_first >= g->layer_count)
        return why_set(why, BATON_EINVAL, "tensor", i, "its layer is not one that this rank holds");
    if (t->region >= num_regions)
        return why_set(why, BATON_EINVAL, "tensor", i, "its region does not exist");
    if (t->group >= g->num_groups || t->split >= g->num_splits)
        return why_set(why, BATON_EINVAL, "tensor", i, "its group or split does not exist");
    struct plan_extent x = geometry_extent(g, t);
    if (!bytes_are_good(x.elem_bytes) || x.split.head_count == 0)
        return why_set(why, BATON_EINVAL, "tensor", i, "its elem_bytes are not 1, 2, 4 or 8, or it has no heads here");
    /* copy programs count in 32 bits, and merged loops may count all of one block's elements over all tensors */
    if (!count_elements(&x, &own) || own > UINT32_MAX || (*elements += own) > UINT32_MAX)
        return why_set(why, BATON_EINVAL, "block_tokens", x.group.block_tokens,
                       "one block of all tensors must have less than 2^32 elements");
    uint64_t span = span_of(&x, &t->stride);
    if (span == 0)
        return why_set(why, BATON_EINVAL, "tensor", i, "its strides are negative, too large, or let entries overlap");
    if (t->offset > region_bytes[t->region] || span > region_bytes[t->region] - t->offset)
        return why_set(why, BATON_EINVAL, "tensor", i, "its elements reach past its region");
    return 0;
}

int geometry_check(const baton_geometry_t *g, const uint64_t *region_bytes, uint32_t num_regions, struct plan_why *why)
{
    uint64_t elements = 0;
    int rc = check_sizes(g, why);
    for (uint32_t i = 0; rc == 0 && i < g->num_tensors; i++)
        rc = check_tensor(g, i, region_bytes, num_regions, &elements, why);
    return rc;
}

/* ---- two caches -------------------------------------------------------------------------------------------------- */

static int differ(struct plan_why *why, const char *field, uint32_t a, uint32_t b)
{
    snprintf(why->text, sizeof why->text, "%s differs: %u and %u", field, a, b);
    return BATON_EGEOMETRY;
}

int geometry_match(const baton_geometry_t *a, const baton_geometry_t *b, struct plan_why *why)
{
    const struct {
        const char *field;
        uint32_t a, b;
    } numbers[] = {
        {"elem_bytes", a->elem_bytes, b->elem_bytes},
        {"planes", a->planes, b->planes},
        {"head_size", a->head_size, b->head_size},
        {"heads_total", a->splits[0].heads_total, b->splits[0].heads_total},
        {"layers_total", a->layers_total, b->layers_total},
        {"num_splits", a->num_splits, b->num_splits},
    };
    if (strcmp(a->model, b->model) != 0) {
        snprintf(why->text, sizeof why->text, "model differs: \"%.40s\" and \"%.40s\"", a->model, b->model);
        return BATON_EGEOMETRY;
    }
    if (strcmp(a->dtype, b->dtype) != 0) {
        snprintf(why->text, sizeof why->text, "dtype differs: \"%s\" and \"%s\"", a->dtype, b->dtype);
        return BATON_EGEOMETRY;
    }
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].a != numbers[i].b)
            return differ(why, numbers[i].field, numbers[i].a, numbers[i].b);
    for (uint32_t i = 1; i < a->num_splits; i++) {
        char field[32];
        snprintf(field, sizeof field, "heads_total of split %u", i);
        if (a->splits[i].heads_total != b->splits[i].heads_total)
            return differ(why, field, a->splits[i].heads_total, b->splits[i].heads_total);
    }
    return 0;
}

/* FNV-1a: a few fields, once a cache. */
static uint32_t mix(uint32_t hash, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * 16777619u;
    return hash;
}

static uint32_t mix_number(uint32_t hash, uint32_t value)
{
    const uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16), (uint8_t)(value >> 24)};
    return mix(hash, bytes, sizeof bytes);
}

uint32_t geometry_model(const baton_geometry_t *g)
{
    const uint32_t numbers[] = {g->elem_bytes,   g->planes,    g->head_size, g->splits[0].heads_total,
                                g->layers_total, g->num_splits};
    uint32_t hash = mix(2166136261u, g->model, strlen(g->model) + 1);
    hash = mix(hash, g->dtype, strlen(g->dtype) + 1);
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        hash = mix_number(hash, numbers[i]);
    for (uint32_t i = 1; i < g->num_splits; i++)
        hash = mix_number(hash, g->splits[i].heads_total);
    return hash != 0 ? hash : 1;
}

/* ---- a request's tokens ------------------------------------------------------------------------------------------ */

void plan_wanted(const baton_group_t *group, uint32_t held, uint32_t tokens, uint32_t *first, uint32_t *end)
{
    *first = held < tokens ? held : tokens;
    *end = tokens;
    if (group->kind == BATON_KIND_STATE) {
        *end = *first < tokens;
        *first = 0;
    } else if (group->kind == BATON_KIND_WINDOW && tokens - *first > group->window_tokens) {
        *first = tokens - group->window_tokens;
    }
}

static int table_lacks(struct plan_why *why, uint32_t tokens, const baton_table_t *t, const baton_group_t *g)
{
    snprintf(why->text, sizeof why->text, "%u tokens do not fit %u blocks of %u", tokens, t->num_blocks,
             g->block_tokens);
    return BATON_ETOKENS;
}

static int table_errs(struct plan_why *why, uint32_t i, const baton_table_t *t, const baton_group_t *g)
{
    snprintf(why->text, sizeof why->text, "blocks[%u] is %u, there are %u", i, t->blocks[i], g->num_blocks);
    return BATON_EBLOCK;
}

int plan_table_check(const baton_group_t *group, const baton_table_t *table, uint32_t first, uint32_t end,
                     struct plan_why *why)
{
    uint64_t reach = (uint64_t)table->num_blocks * group->block_tokens + table->first_token;
    if (table->first_token % group->block_tokens != 0)
        return why_set(why, BATON_EINVAL, "first_token", table->first_token, "it lies within a block");
    if (first >= end)
        return 0;
    if (first < table->first_token)
        return why_set(why, BATON_ETOKENS, "first_token", table->first_token, "earlier tokens are needed");
    if (end > reach)
        return table_lacks(why, end - table->first_token, table, group);
    uint32_t from = (first - table->first_token) / group->block_tokens;
    uint32_t last = (end - 1 - table->first_token) / group->block_tokens;
    for (uint32_t i = from; i <= last; i++)
        if (table->blocks[i] >= group->num_blocks)
            return table_errs(why, i, table, group);
    return 0;
}

#define SLOTS_AT_HAND 4096 /* 16 KiB of stack: for 2,048 blocks */

/* Puts blocks [i, end) into an empty table of 2^bits slots. Returns the place of the first that is there already, or end. */
static uint32_t first_again(const uint32_t *blocks, uint32_t i, uint32_t end, uint32_t *slots, unsigned bits)
{
    for (; i < end; i++) {
        uint32_t at = blocks[i] * 2654435769u >> (32 - bits);
        for (; slots[at] != 0; at = (at + 1) & ((1u << bits) - 1))
            if (slots[at] == blocks[i] + 1)
                return i;
        slots[at] = blocks[i] + 1; /* an id is below num_blocks: this is not 0 */
    }
    return end;
}

int plan_table_once(const baton_group_t *group, const baton_table_t *table, uint32_t first, uint32_t end,
                    struct plan_why *why)
{
    uint32_t few[SLOTS_AT_HAND];
    if (first >= end)
        return 0;
    const uint32_t *blocks = table->blocks;
    uint32_t from = (first - table->first_token) / group->block_tokens, i = from + 1;
    uint32_t behind = (end - table->first_token - 1) / group->block_tokens + 1;
    while (i < behind && blocks[i] > blocks[i - 1])
        i++;
    if (i >= behind)
        return 0; /* rising, as a fresh pool gives them */
    unsigned bits = 6;
    while (bits < 31 && (1u << bits) < 2 * (uint64_t)(behind - from))
        bits++;
    uint32_t *slots = (1u << bits) <= SLOTS_AT_HAND ? few : calloc((size_t)1 << bits, sizeof *slots);
    if (slots == NULL) {
        snprintf(why->text, sizeof why->text, "no memory to look at %u blocks", behind - from);
        return BATON_ENOMEM;
    }
    if (slots == few)
        memset(few, 0, (sizeof *few) << bits);
    uint32_t again = first_again(blocks, from, behind, slots, bits);
    if (slots != few)
        free(slots);
    if (again == behind)
        return 0;
    for (i = from; blocks[i] != blocks[again];)
        i++;
    snprintf(why->text, sizeof why->text, "block %u stands twice, at %u and at %u: both would be written",
             blocks[again], i, again);
    return BATON_EINVAL;
}

/* ---- the usual layouts ------------------------------------------------------------------------------------------- */

/* Gives the dimension the stride of what lies within it, and grows that by its count. */
static void nest(int64_t *stride, uint32_t count, uint64_t *bytes, int *overflow)
{
    *stride = (int64_t)*bytes;
    *overflow |= __builtin_mul_overflow(*bytes, (uint64_t)count, bytes) || *bytes > BYTES_MOST;
}

int baton_geometry_layout(baton_geometry_t *geometry, baton_tensor_t *tensors, unsigned layout)
{
    baton_geometry_t own, *g = &own;
    const unsigned known = BATON_LAYOUT_NHD | BATON_LAYOUT_KV_BLOCK | BATON_LAYOUT_KV_FUSED | BATON_LAYOUT_BLOCK_MAJOR;
    if (geometry == NULL || tensors == NULL)
        return error_set(BATON_EINVAL, "geometry and tensors must not be NULL");
    int rc = sized_take(geometry, "baton_geometry_t", g, sizeof *g);
    if (rc != 0)
        return rc;
    unsigned kv = layout & (BATON_LAYOUT_KV_BLOCK | BATON_LAYOUT_KV_FUSED);
    if ((layout & ~known) != 0 || kv == (BATON_LAYOUT_KV_BLOCK | BATON_LAYOUT_KV_FUSED))
        return error_set(BATON_EINVAL, "layout %u has bits that are unknown or exclude each other", layout);
    if (g->elem_bytes == 0 || g->planes == 0 || g->groups[0].block_tokens == 0 || g->head_size == 0 ||
        g->groups[0].num_blocks == 0 || g->splits[0].head_count == 0 || g->layer_count == 0 ||
        g->layer_count > BATON_TENSORS_MAX)
        return error_set(BATON_EINVAL, "a size is 0, or there are more than %d layers", BATON_TENSORS_MAX);
    if ((layout & BATON_LAYOUT_BLOCK_MAJOR) && kv == BATON_LAYOUT_KV_SEPARATE)
        kv = BATON_LAYOUT_KV_BLOCK;

    baton_strides_t s = {0};
    uint64_t bytes = g->elem_bytes;
    int64_t layer = 0;
    int overflow = 0;
    nest(&s.channel, g->head_size, &bytes, &overflow);
    if (kv == BATON_LAYOUT_KV_FUSED)
        nest(&s.plane, g->planes, &bytes, &overflow);
    if (layout & BATON_LAYOUT_NHD) {
        nest(&s.head, g->splits[0].head_count, &bytes, &overflow);
        nest(&s.token, g->groups[0].block_tokens, &bytes, &overflow);
    } else {
        nest(&s.token, g->groups[0].block_tokens, &bytes, &overflow);
        nest(&s.head, g->splits[0].head_count, &bytes, &overflow);
    }
    if (kv == BATON_LAYOUT_KV_BLOCK)
        nest(&s.plane, g->planes, &bytes, &overflow);
    if (layout & BATON_LAYOUT_BLOCK_MAJOR)
        nest(&layer, g->layer_count, &bytes, &overflow);
    nest(&s.block, g->groups[0].num_blocks, &bytes, &overflow);
    if (kv == BATON_LAYOUT_KV_SEPARATE)
        nest(&s.plane, g->planes, &bytes, &overflow);
    if (!(layout & BATON_LAYOUT_BLOCK_MAJOR))
        nest(&layer, g->layer_count, &bytes, &overflow);
    if (overflow)
        return error_set(BATON_EINVAL, "the cache would have more than 2^62 bytes");

    for (uint32_t i = 0; i < g->layer_count; i++) {
        tensors[i] = (baton_tensor_t){.layer = g->layer_first + i, .offset = (uint64_t)layer * i, .stride = s};
        snprintf(tensors[i].name, sizeof tensors[i].name, "layer.%u", g->layer_first + i);
    }
    g->tensors = tensors;
    g->num_tensors = g->layer_count;
    g->bytes = bytes;
    sized_give_back(g, sizeof *g, geometry);
    return 0;
}
