/* SPDX-License-Identifier: BSD-3-Clause */
/* description_cache: applies a description's rules to one rank. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "description.h"

#define BYTES_MOST (UINT64_C(1) << 62)

struct own {
    baton_geometry_t geometry;
    baton_tensor_t *tensors;
};

static void own_fini(void *own)
{
    free(((struct own *)own)->tensors);
    free(own);
}

/* ---- cuts -------------------------------------------------------------------------------------------------------- */

static int cut_layers(const struct description *d, const struct model_seat *seat, baton_geometry_t *g, struct why *why)
{
    if (d->num_stages == 0 && seat->pp > d->layers)
        return why_set(why, "pipeline parallelism %u leaves ranks without a layer: \"layers\" is %u", seat->pp,
                       d->layers);
    if (d->num_stages != 0 && seat->pp != d->num_stages)
        return why_set(why, "\"stage_layers\" has %u stages, and pipeline parallelism is %u", d->num_stages, seat->pp);
    g->layers_total = d->layers;
    if (d->num_stages == 0) {
        g->layer_first = (uint32_t)((uint64_t)d->layers * seat->pp_rank / seat->pp);
        g->layer_count = (uint32_t)((uint64_t)d->layers * (seat->pp_rank + 1) / seat->pp) - g->layer_first;
        return 0;
    }
    for (uint32_t i = 0; i < seat->pp_rank; i++)
        g->layer_first += d->stage_layers[i];
    g->layer_count = d->stage_layers[seat->pp_rank];
    return 0;
}

/* As engines do: contiguous heads, and with more ranks than heads, neighbours hold the same one. */
static baton_split_t cut_heads(const struct described_split *s, const struct model_seat *seat)
{
    uint64_t first = (uint64_t)s->heads * seat->tp_rank / seat->tp,
             end = (uint64_t)s->heads * (seat->tp_rank + 1) / seat->tp;
    if (s->whole)
        return (baton_split_t){s->heads, 0, s->heads};
    return (baton_split_t){s->heads, (uint32_t)first, seat->tp > s->heads ? 1 : (uint32_t)(end - first)};
}

static baton_group_t group_for(const baton_group_t *described, uint32_t tokens)
{
    baton_group_t g = *described;
    if (g.num_blocks == 0)
        g.num_blocks = g.kind == BATON_KIND_STATE ? 1 : tokens / g.block_tokens + (tokens % g.block_tokens != 0);
    return g;
}

/* ---- strides ----------------------------------------------------------------------------------------------------- */

/* Sets the strides of the kind, and the bytes of all its tensors on this rank. False: more than 2^62. */
static bool lay_out(const struct described_kind *k, const uint64_t count[DIRECTIONS], uint64_t elem_bytes,
                    uint64_t stride[DIRECTIONS], uint64_t *bytes)
{
    uint64_t n = elem_bytes;
    for (unsigned i = DIRECTIONS; i-- > 0;) {
        enum direction d = k->order[i];
        n = (n + k->align[d] - 1) / k->align[d] * k->align[d];
        stride[d] = n;
        if (__builtin_mul_overflow(n, count[d], &n) || n > BYTES_MOST)
            return false;
    }
    *bytes = n;
    return true;
}

/* The name with the layer in place of "{layer}"; false: too long. */
static bool tensor_name(const char *pattern, uint32_t layer, char out[BATON_NAME_MAX])
{
    const char *gap = strstr(pattern, "{layer}");
    int n = gap == NULL ? snprintf(out, BATON_NAME_MAX, "%s", pattern)
                        : snprintf(out, BATON_NAME_MAX, "%.*s%u%s", (int)(gap - pattern), pattern, layer,
                                   gap + strlen("{layer}"));
    return n >= 0 && n < BATON_NAME_MAX;
}

static bool has_layer(const struct described_kind *k, uint32_t layer)
{
    return k->has_layer == NULL || k->has_layer[layer];
}

static int add_kind(const struct description *d, const struct described_kind *k, struct own *own, struct why *why)
{
    baton_geometry_t *g = &own->geometry;
    const baton_group_t *group = &own->geometry.groups[k->group];
    const uint64_t elem_bytes = k->elem_bytes > 0 ? k->elem_bytes : d->elem_bytes;
    uint64_t count[DIRECTIONS] = {[BY_PLANE] = k->planes > 0 ? k->planes : d->planes,
                                  [BY_BLOCK] = group->num_blocks,
                                  [BY_HEAD] = own->geometry.splits[k->split].head_count,
                                  [BY_TOKEN] = group->block_tokens,
                                  [BY_CHANNEL] = k->head_size > 0 ? k->head_size : d->head_size};
    uint64_t stride[DIRECTIONS], bytes, at = 0;
    for (uint32_t layer = g->layer_first; layer < g->layer_first + g->layer_count; layer++)
        count[BY_LAYER] += has_layer(k, layer);
    if (!lay_out(k, count, elem_bytes, stride, &bytes) || bytes > BYTES_MOST - g->bytes)
        return why_set(why, "the cache would have more than 2^62 bytes");
    for (uint32_t layer = g->layer_first; layer < g->layer_first + g->layer_count; layer++) {
        if (!has_layer(k, layer))
            continue;
        baton_tensor_t *t = &own->tensors[g->num_tensors];
        if (g->num_tensors++ == BATON_TENSORS_MAX)
            return why_set(why, "a rank has more than %d tensors", BATON_TENSORS_MAX);
        *t = (baton_tensor_t){.layer = layer,
                              .offset = g->bytes + at++ * stride[BY_LAYER],
                              .stride = {(int64_t)stride[BY_BLOCK], (int64_t)stride[BY_PLANE], (int64_t)stride[BY_HEAD],
                                         (int64_t)stride[BY_TOKEN], (int64_t)stride[BY_CHANNEL]},
                              .group = k->group,
                              .split = k->split,
                              .planes = k->planes,
                              .head_size = k->head_size,
                              .elem_bytes = k->elem_bytes};
        if (!tensor_name(k->name, layer, t->name))
            return why_set(why, "the name \"%s\" is too long for layer %u", k->name, layer);
    }
    g->bytes += bytes;
    return 0;
}

/* ---- one rank ---------------------------------------------------------------------------------------------------- */

static void fill(const struct description *d, const struct model_seat *seat, uint32_t tokens, struct own *own)
{
    baton_geometry_t *g = &own->geometry;
    for (uint32_t i = 0; i < d->num_groups; i++)
        own->geometry.groups[i] = group_for(&d->groups[i], tokens);
    for (uint32_t i = 0; i < d->num_splits; i++)
        own->geometry.splits[i] = cut_heads(&d->splits[i], seat);
    memcpy(g->model, d->model, sizeof g->model);
    memcpy(g->dtype, d->dtype, sizeof g->dtype);
    g->elem_bytes = d->elem_bytes;
    g->planes = d->planes;
    g->head_size = d->head_size;
    g->num_groups = d->num_groups;
    g->num_splits = d->num_splits;
    g->tensors = own->tensors;
}

int description_cache(const struct description *d, const struct model_seat *seat, uint32_t tokens, struct cache *out,
                      struct why *why)
{
    struct own *own = calloc(1, sizeof *own);
    if (own == NULL)
        return why_set(why, "no memory for a cache");
    int rc = cut_layers(d, seat, &own->geometry, why);
    uint64_t most = (uint64_t)d->num_kinds * own->geometry.layer_count;
    if (rc == 0) {
        own->tensors = calloc(most < BATON_TENSORS_MAX ? most : BATON_TENSORS_MAX, sizeof *own->tensors);
        rc = own->tensors != NULL ? 0 : why_set(why, "no memory for a cache");
    }
    if (rc == 0)
        fill(d, seat, tokens, own);
    for (uint32_t i = 0; rc == 0 && i < d->num_kinds; i++)
        rc = add_kind(d, &d->kinds[i], own, why);
    if (rc != 0) {
        own_fini(own);
        return rc;
    }
    *out = (struct cache){.geometry = &own->geometry, .own = own, .own_fini = own_fini};
    return 0;
}
