/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * geometry: whether a cache's description is sound, whether two may exchange entries, and the usual layouts. What comes
 * from another rank is hostile: every sum and product is checked for overflow.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "plan/plan.h"

#define BYTES_MOST (UINT64_C(1) << 62)

static int why_set(struct plan_why *why, int error, const char *field, uint64_t value, const char *rule)
{
    snprintf(why->text, sizeof why->text, "%s is %" PRIu64 ": %s", field, value, rule);
    return error;
}

/* ---- one cache --------------------------------------------------------------------------------------------------- */

struct extent {
    uint64_t count;
    int64_t stride;
};

static void extents_of(const baton_geometry_t *g, const baton_strides_t *s, struct extent out[5])
{
    out[0] = (struct extent){g->num_blocks, s->block};
    out[1] = (struct extent){g->planes, s->plane};
    out[2] = (struct extent){g->head_count, s->head};
    out[3] = (struct extent){g->block_tokens, s->token};
    out[4] = (struct extent){g->head_size, s->channel};
}

/* Small arrays: insertion sort, smallest stride first. */
static void sort_extents(struct extent *e, unsigned n)
{
    for (unsigned i = 1; i < n; i++)
        for (unsigned k = i; k > 0 && e[k].stride < e[k - 1].stride; k--) {
            struct extent swap = e[k];
            e[k] = e[k - 1];
            e[k - 1] = swap;
        }
}

/*
 * The bytes from a tensor's first element to behind its last, or 0 where it has no sense: a negative stride, an
 * overflow, or entries that could overlap. Each direction must step over all that lies within it.
 */
static uint64_t span_of(const baton_geometry_t *g, const baton_strides_t *s)
{
    struct extent e[5];
    uint64_t span = g->elem_bytes;
    extents_of(g, s, e);
    sort_extents(e, 5);
    for (unsigned i = 0; i < 5; i++) {
        uint64_t reach;
        if (e[i].count == 1)
            continue;
        if (e[i].stride < 0 || (uint64_t)e[i].stride < span ||
            __builtin_mul_overflow(e[i].count - 1, (uint64_t)e[i].stride, &reach) ||
            __builtin_add_overflow(span, reach, &span) || span > BYTES_MOST)
            return 0;
    }
    return span;
}

/* Copy programs count in 32 bits, and merged loops may count all of one block's elements over all tensors. */
static bool block_is_countable(const baton_geometry_t *g)
{
    uint64_t elements = g->num_tensors;
    const uint32_t counts[] = {g->planes, g->head_count, g->block_tokens, g->head_size};
    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (__builtin_mul_overflow(elements, (uint64_t)counts[i], &elements))
            return false;
    return elements <= UINT32_MAX;
}

static int check_sizes(const baton_geometry_t *g, struct plan_why *why)
{
    if (memchr(g->model, '\0', sizeof g->model) == NULL || memchr(g->dtype, '\0', sizeof g->dtype) == NULL)
        return why_set(why, BATON_EINVAL, "model or dtype", 0, "the name does not end");
    if (g->elem_bytes != 1 && g->elem_bytes != 2 && g->elem_bytes != 4 && g->elem_bytes != 8)
        return why_set(why, BATON_EINVAL, "elem_bytes", g->elem_bytes, "must be 1, 2, 4 or 8");
    if (g->planes != 1 && g->planes != 2)
        return why_set(why, BATON_EINVAL, "planes", g->planes, "must be 1 or 2");
    if (g->block_tokens == 0)
        return why_set(why, BATON_EINVAL, "block_tokens", 0, "must not be 0");
    if (g->head_size == 0)
        return why_set(why, BATON_EINVAL, "head_size", 0, "must not be 0");
    if (g->num_blocks == 0)
        return why_set(why, BATON_EINVAL, "num_blocks", 0, "must not be 0");
    if (g->head_count == 0 || g->head_first > g->heads_total || g->head_count > g->heads_total - g->head_first)
        return why_set(why, BATON_EINVAL, "head_count", g->head_count, "heads must lie within heads_total");
    if (g->layer_count == 0 || g->layer_first > g->layers_total || g->layer_count > g->layers_total - g->layer_first)
        return why_set(why, BATON_EINVAL, "layer_count", g->layer_count, "layers must lie within layers_total");
    if (g->num_tensors == 0 || g->num_tensors > BATON_TENSORS_MAX || g->tensors == NULL)
        return why_set(why, BATON_EINVAL, "num_tensors", g->num_tensors, "must be 1 to 512");
    if (!block_is_countable(g))
        return why_set(why, BATON_EINVAL, "block_tokens", g->block_tokens,
                       "one block of all tensors must have less than 2^32 elements");
    return 0;
}

static int check_tensor(const baton_geometry_t *g, uint32_t i, const uint64_t *region_bytes, uint32_t num_regions,
                        struct plan_why *why)
{
    const baton_tensor_t *t = &g->tensors[i];
    if (t->name[0] == '\0' || memchr(t->name, '\0', sizeof t->name) == NULL)
        return why_set(why, BATON_EINVAL, "tensor", i, "its name is empty or does not end");
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(g->tensors[k].name, t->name) == 0)
            return why_set(why, BATON_EINVAL, "tensor", i, "its name is another's too");
    if (t->layer < g->layer_first || t->layer - g->layer_first >= g->layer_count)
        return why_set(why, BATON_EINVAL, "tensor", i, "its layer is not one that this rank holds");
    if (t->region >= num_regions)
        return why_set(why, BATON_EINVAL, "tensor", i, "its region does not exist");
    uint64_t span = span_of(g, &t->stride);
    if (span == 0)
        return why_set(why, BATON_EINVAL, "tensor", i, "its strides are negative, too large, or let entries overlap");
    if (t->offset > region_bytes[t->region] || span > region_bytes[t->region] - t->offset)
        return why_set(why, BATON_EINVAL, "tensor", i, "its elements reach past its region");
    return 0;
}

int geometry_check(const baton_geometry_t *g, const uint64_t *region_bytes, uint32_t num_regions, struct plan_why *why)
{
    int rc = check_sizes(g, why);
    for (uint32_t i = 0; rc == 0 && i < g->num_tensors; i++)
        rc = check_tensor(g, i, region_bytes, num_regions, why);
    return rc;
}

/* ---- two caches -------------------------------------------------------------------------------------------------- */

int geometry_match(const baton_geometry_t *a, const baton_geometry_t *b, struct plan_why *why)
{
    const struct {
        const char *field;
        uint32_t a, b;
    } numbers[] = {
        {"elem_bytes", a->elem_bytes, b->elem_bytes},       {"planes", a->planes, b->planes},
        {"block_tokens", a->block_tokens, b->block_tokens}, {"head_size", a->head_size, b->head_size},
        {"heads_total", a->heads_total, b->heads_total},    {"layers_total", a->layers_total, b->layers_total},
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
        if (numbers[i].a != numbers[i].b) {
            snprintf(why->text, sizeof why->text, "%s differs: %u and %u", numbers[i].field, numbers[i].a,
                     numbers[i].b);
            return BATON_EGEOMETRY;
        }
    return 0;
}

/* ---- the usual layouts ------------------------------------------------------------------------------------------- */

/* Gives the dimension the stride of what lies within it, and grows that by its count. */
static void nest(int64_t *stride, uint32_t count, uint64_t *bytes, int *overflow)
{
    *stride = (int64_t)*bytes;
    *overflow |= __builtin_mul_overflow(*bytes, (uint64_t)count, bytes) || *bytes > BYTES_MOST;
}

int baton_geometry_layout(baton_geometry_t *g, baton_tensor_t *tensors, unsigned layout)
{
    const unsigned known = BATON_LAYOUT_NHD | BATON_LAYOUT_KV_BLOCK | BATON_LAYOUT_KV_FUSED | BATON_LAYOUT_BLOCK_MAJOR;
    if (g == NULL || tensors == NULL)
        return error_set(BATON_EINVAL, "geometry and tensors must not be NULL");
    unsigned kv = layout & (BATON_LAYOUT_KV_BLOCK | BATON_LAYOUT_KV_FUSED);
    if ((layout & ~known) != 0 || kv == (BATON_LAYOUT_KV_BLOCK | BATON_LAYOUT_KV_FUSED))
        return error_set(BATON_EINVAL, "layout %u has bits that are unknown or exclude each other", layout);
    if (g->elem_bytes == 0 || g->planes == 0 || g->block_tokens == 0 || g->head_size == 0 || g->num_blocks == 0 ||
        g->head_count == 0 || g->layer_count == 0 || g->layer_count > BATON_TENSORS_MAX)
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
        nest(&s.head, g->head_count, &bytes, &overflow);
        nest(&s.token, g->block_tokens, &bytes, &overflow);
    } else {
        nest(&s.token, g->block_tokens, &bytes, &overflow);
        nest(&s.head, g->head_count, &bytes, &overflow);
    }
    if (kv == BATON_LAYOUT_KV_BLOCK)
        nest(&s.plane, g->planes, &bytes, &overflow);
    if (layout & BATON_LAYOUT_BLOCK_MAJOR)
        nest(&layer, g->layer_count, &bytes, &overflow);
    nest(&s.block, g->num_blocks, &bytes, &overflow);
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
    return 0;
}
