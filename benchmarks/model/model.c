/* SPDX-License-Identifier: BSD-3-Clause */
/* model: see model.h. */
#include "model/model.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REGION_ALIGN 256 /* of each group, and of a Mamba layer's part of a block */
#define STATE_BYTES 4    /* an element of a Mamba state: fp32 */

/* ---- presets ----------------------------------------------------------------------------------------------------- */

/* From the configuration that each model is published with. */
static const struct model models[] = {
    /* meta-llama/Llama-3.1-8B and -70B: num_hidden_layers, num_key_value_heads, head_dim, hidden_size */
    {.name = "llama3-8b", .layers = 32, .heads = 8, .head_size = 128, .planes = 2, .hidden = 4096},
    {.name = "llama3-70b", .layers = 80, .heads = 8, .head_size = 128, .planes = 2, .hidden = 8192},
    /* Qwen/Qwen3-32B */
    {.name = "qwen3-32b", .layers = 64, .heads = 8, .head_size = 128, .planes = 2, .hidden = 5120},
    /* deepseek-ai/DeepSeek-V3: kv_lora_rank 512 and qk_rope_head_dim 64, one latent for all heads. Without the
       indexer's keys, which V3.2 added. */
    {.name = "deepseek-v3", .layers = 61, .heads = 1, .head_size = 512 + 64, .planes = 1, .hidden = 7168},
    /* openai/gpt-oss-120b: layer_types alternate, sliding_attention first; sliding_window */
    {.name = "gpt-oss-120b",
     .layers = 36,
     .heads = 8,
     .head_size = 64,
     .planes = 2,
     .hidden = 2880,
     .pattern = "w*",
     .window_tokens = 128},
    /* nvidia/Nemotron-H-8B-Base-8K: hybrid_override_pattern, mamba_num_heads, mamba_head_dim, n_groups, ssm_state_size,
       conv_kernel 4. Its state in fp32, as by vLLM's mamba_ssm_cache_dtype float32. */
    {.name = "nemotron-h-8b",
     .layers = 52,
     .heads = 8,
     .head_size = 128,
     .planes = 2,
     .hidden = 4096,
     .pattern = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
     .mamba = {.heads = 128, .head_size = 64, .groups = 8, .state_size = 128, .positions = 4 - 1}},
};

static const struct model_dtype dtypes[] = {
    {"bf16", 2},
    {"fp8", 1},
    {"fp32", 4},
};

const struct model *model_find(const char *name)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

const char *model_names(void)
{
    return "llama3-8b, llama3-70b, qwen3-32b, deepseek-v3, gpt-oss-120b, nemotron-h-8b";
}

const struct model_dtype *model_dtype_find(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return &dtypes[i];
    return NULL;
}

static char layer_kind(const struct model *m, uint32_t layer)
{
    return m->pattern == NULL ? MODEL_LAYER_FULL : m->pattern[layer % strlen(m->pattern)];
}

static uint32_t first_of_kind(const struct model *m, char kind)
{
    uint32_t layer = 0;
    while (layer < m->layers && layer_kind(m, layer) != kind)
        layer++;
    return layer;
}

static bool has_kind(const struct model *m, char kind)
{
    return first_of_kind(m, kind) < m->layers;
}

uint32_t model_least_layers(const struct model *m)
{
    static const char kinds[] = {MODEL_LAYER_FULL, MODEL_LAYER_WINDOW, MODEL_LAYER_MAMBA};
    uint32_t least = 1;
    for (size_t i = 0; i < sizeof kinds; i++)
        if (has_kind(m, kinds[i]) && first_of_kind(m, kinds[i]) + 1 > least)
            least = first_of_kind(m, kinds[i]) + 1;
    return least;
}

/* ---- groups and splits ------------------------------------------------------------------------------------------- */

static uint32_t blocks_of_group(const struct model_cut *cut, uint32_t group, uint32_t num_blocks)
{
    return group == 0 || cut->group_blocks[group] == 0 ? num_blocks : cut->group_blocks[group];
}

uint32_t model_groups(const struct model_cut *cut, uint32_t num_blocks, baton_group_t out[BATON_GROUPS_MAX])
{
    uint32_t n = 0;
    out[n++] = (baton_group_t){.kind = BATON_KIND_FULL, .block_tokens = cut->block_tokens, .num_blocks = num_blocks};
    if (has_kind(cut->model, MODEL_LAYER_WINDOW)) {
        out[n] = (baton_group_t){.kind = BATON_KIND_WINDOW,
                                 .block_tokens = cut->block_tokens,
                                 .num_blocks = blocks_of_group(cut, n, num_blocks),
                                 .window_tokens = cut->model->window_tokens};
        n++;
    }
    if (has_kind(cut->model, MODEL_LAYER_MAMBA)) {
        out[n] = (baton_group_t){
            .kind = BATON_KIND_STATE, .block_tokens = 1, .num_blocks = blocks_of_group(cut, n, num_blocks)};
        n++;
    }
    return n;
}

/* The share of `count` that part `part` of `parts` has. If there are fewer than parts, it is one. */
static void share_out(uint32_t count, uint32_t parts, uint32_t part, uint32_t *first, uint32_t *own)
{
    *first = (uint32_t)((uint64_t)part * count / parts);
    *own = parts > count ? 1 : (uint32_t)((uint64_t)(part + 1) * count / parts) - *first;
}

static baton_split_t split_heads(uint32_t heads, const struct model_seat *seat)
{
    baton_split_t s = {.heads_total = heads};
    share_out(heads, seat->tp, seat->tp_rank, &s.head_first, &s.head_count);
    return s;
}

enum split { SPLIT_KV, SPLIT_MAMBA_HEADS, SPLIT_MAMBA_GROUPS, SPLITS };

struct model_extent model_extent(const baton_geometry_t *g, const baton_tensor_t *t)
{
    return (struct model_extent){.group = g->groups[t->group],
                                 .split = g->splits[t->split],
                                 .planes = t->planes > 0 ? t->planes : g->planes,
                                 .head_size = t->head_size > 0 ? t->head_size : g->head_size,
                                 .elem_bytes = t->elem_bytes > 0 ? t->elem_bytes : g->elem_bytes};
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static uint64_t align(uint64_t bytes)
{
    return (bytes + REGION_ALIGN - 1) / REGION_ALIGN * REGION_ALIGN;
}

static uint32_t count_layers(const struct model_cache *c, const struct model *m, char kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->geometry.layer_count; i++)
        n += layer_kind(m, c->geometry.layer_first + i) == kind;
    return n;
}

/* Adds all attention layers of one kind, behind what is there already. -1: there is no such layout. */
static int add_attention(struct model_cache *c, const struct model_cut *cut, char kind, uint32_t group)
{
    baton_geometry_t *g = &c->geometry, part = *g;
    baton_tensor_t *first = c->tensors + g->num_tensors, *t = first;
    part.layer_count = count_layers(c, cut->model, kind);
    part.groups[0].num_blocks = c->geometry.groups[group].num_blocks;
    if (part.layer_count == 0)
        return 0;
    if (baton_geometry_layout(&part, first, cut->layout) != 0)
        return -1;
    const uint64_t base = align(g->bytes);
    for (uint32_t layer = g->layer_first; layer < g->layer_first + g->layer_count; layer++) {
        if (layer_kind(cut->model, layer) != kind)
            continue;
        snprintf(t->name, sizeof t->name, "layer.%u", layer);
        t->layer = layer;
        t->group = group;
        t->offset += base;
        t++;
    }
    g->num_tensors += part.layer_count;
    g->bytes = base + part.bytes;
    return 0;
}

/* One layer's part of a state block: for each position x of all heads, B of all groups, C of all groups; then the state
   of all heads. */
struct mamba_block {
    uint64_t x, group; /* bytes of one position's x, and of its B or C */
    uint64_t ssm;      /* where the state begins */
    uint64_t bytes;
};

static struct mamba_block mamba_block(const struct model_cache *c, const struct model *m, uint32_t elem_bytes)
{
    const uint32_t heads = c->geometry.splits[SPLIT_MAMBA_HEADS].head_count,
                   groups = c->geometry.splits[SPLIT_MAMBA_GROUPS].head_count;
    struct mamba_block b = {.x = (uint64_t)heads * m->mamba.head_size * elem_bytes,
                            .group = (uint64_t)groups * m->mamba.state_size * elem_bytes};
    b.ssm = align(m->mamba.positions * (b.x + 2 * b.group));
    b.bytes = align(b.ssm + (uint64_t)heads * m->mamba.head_size * m->mamba.state_size * STATE_BYTES);
    return b;
}

static void add_part(struct model_cache *c, const char *part, baton_tensor_t t)
{
    baton_tensor_t *added = &c->tensors[c->geometry.num_tensors++];
    *added = t;
    snprintf(added->name, sizeof added->name, "layer.%u.%s", t.layer, part);
}

static void add_mamba_layer(struct model_cache *c, const struct model_cut *cut, const struct mamba_block *b,
                            baton_tensor_t t)
{
    const struct model_mamba *m = &cut->model->mamba;
    const uint64_t base = t.offset;
    t.split = SPLIT_MAMBA_HEADS;
    t.planes = m->positions;
    t.head_size = m->head_size;
    t.elem_bytes = cut->dtype->bytes;
    t.stride.plane = (int64_t)(b->x + 2 * b->group);
    t.stride.head = (int64_t)m->head_size * cut->dtype->bytes;
    t.stride.channel = cut->dtype->bytes;
    add_part(c, "x", t);
    t.split = SPLIT_MAMBA_GROUPS;
    t.head_size = m->state_size;
    t.stride.head = (int64_t)m->state_size * cut->dtype->bytes;
    t.offset = base + b->x;
    add_part(c, "B", t);
    t.offset += b->group;
    add_part(c, "C", t);
    t.split = SPLIT_MAMBA_HEADS;
    t.planes = 1;
    t.head_size = m->head_size * m->state_size;
    t.elem_bytes = STATE_BYTES;
    t.stride.plane = 0;
    t.stride.head = (int64_t)t.head_size * STATE_BYTES;
    t.stride.channel = STATE_BYTES;
    t.offset = base + b->ssm;
    add_part(c, "ssm", t);
}

static void add_mamba(struct model_cache *c, const struct model_cut *cut, uint32_t group)
{
    baton_geometry_t *g = &c->geometry;
    const uint32_t layers = count_layers(c, cut->model, MODEL_LAYER_MAMBA),
                   blocks = c->geometry.groups[group].num_blocks;
    if (layers == 0)
        return;
    const struct mamba_block b = mamba_block(c, cut->model, cut->dtype->bytes);
    const bool block_major = (cut->layout & BATON_LAYOUT_BLOCK_MAJOR) != 0;
    const uint64_t base = align(g->bytes), step = block_major ? b.bytes : b.bytes * blocks;
    uint32_t done = 0;
    for (uint32_t layer = g->layer_first; layer < g->layer_first + g->layer_count; layer++) {
        if (layer_kind(cut->model, layer) != MODEL_LAYER_MAMBA)
            continue;
        const baton_tensor_t t = {.layer = layer,
                                  .group = group,
                                  .offset = base + step * done++,
                                  .stride.block = (int64_t)(block_major ? b.bytes * layers : b.bytes)};
        add_mamba_layer(c, cut, &b, t);
    }
    g->bytes = base + b.bytes * blocks * layers;
}

static int add_tensors(struct model_cache *c, const struct model_cut *cut, struct why *why)
{
    c->geometry.num_groups = model_groups(cut, c->geometry.groups[0].num_blocks, c->geometry.groups);
    for (uint32_t i = 0; i < c->geometry.num_groups; i++) {
        int rc = 0;
        if (c->geometry.groups[i].kind == BATON_KIND_STATE)
            add_mamba(c, cut, i);
        else
            rc = add_attention(c, cut, i == 0 ? MODEL_LAYER_FULL : MODEL_LAYER_WINDOW, i);
        if (rc != 0)
            return why_set(why, "this cache has no such layout: %s", baton_errmsg());
    }
    c->geometry.tensors = c->tensors;
    return 0;
}

/* ---- the cache of one rank --------------------------------------------------------------------------------------- */

static int check_seat(const struct model_cut *cut, const struct model_seat *seat, struct why *why)
{
    if (seat->tp == 0 || seat->pp == 0 || seat->pp > cut->layers)
        return why_set(why, "pipeline parallelism %u leaves ranks without a layer: there are %u", seat->pp,
                       cut->layers);
    if (seat->tp_rank >= seat->tp || seat->pp_rank >= seat->pp)
        return why_set(why, "rank (%u, %u) lies outside an engine of tp %u, pp %u", seat->tp_rank, seat->pp_rank,
                       seat->tp, seat->pp);
    return 0;
}

static void cut_heads(struct model_cache *c, const struct model *m, const struct model_seat *seat)
{
    baton_geometry_t *g = &c->geometry;
    g->num_splits = 1;
    g->splits[SPLIT_KV] = split_heads(m->heads, seat);
    if (!has_kind(m, MODEL_LAYER_MAMBA))
        return;
    g->splits[SPLIT_MAMBA_HEADS] = split_heads(m->mamba.heads, seat);
    g->splits[SPLIT_MAMBA_GROUPS] = split_heads(m->mamba.groups, seat);
    g->num_splits = SPLITS;
}

int model_cache_init(struct model_cache *c, const struct model_cut *cut, const struct model_seat *seat,
                     uint32_t num_blocks, struct why *why)
{
    *c = (struct model_cache){0};
    if (check_seat(cut, seat, why) != 0)
        return -1;
    baton_geometry_t *g = &c->geometry;
    g->size = sizeof *g;
    snprintf(g->model, sizeof g->model, "%s", cut->model->name);
    snprintf(g->dtype, sizeof g->dtype, "%s", cut->dtype->name);
    g->elem_bytes = cut->dtype->bytes;
    g->planes = cut->model->planes;
    g->num_groups = 1;
    g->groups[0].block_tokens = cut->block_tokens;
    g->head_size = cut->model->head_size;
    g->groups[0].num_blocks = num_blocks;
    g->layers_total = cut->layers;
    share_out(cut->layers, seat->pp, seat->pp_rank, &g->layer_first, &g->layer_count);
    cut_heads(c, cut->model, seat);
    c->tensors = calloc((size_t)g->layer_count * 4, sizeof *c->tensors);
    if (c->tensors == NULL)
        return why_set(why, "no memory for the tensors of %u layers", g->layer_count);
    int rc = add_tensors(c, cut, why);
    if (rc == 0 && g->num_tensors == 0)
        rc = why_set(why, "pipeline stage %u of %u keeps nothing of a request: its layers are no attention, nor Mamba",
                     seat->pp_rank, seat->pp);
    if (rc != 0)
        model_cache_fini(c);
    return rc;
}

void model_cache_fini(struct model_cache *c)
{
    free(c->tensors);
    *c = (struct model_cache){0};
}

/* ---- a request's tokens ------------------------------------------------------------------------------------------ */

uint32_t model_blocks(uint32_t tokens, uint32_t block_tokens)
{
    return tokens / block_tokens + (tokens % block_tokens != 0);
}

struct model_span model_wanted(const baton_group_t *group, uint32_t held, uint32_t tokens)
{
    if (group->kind == BATON_KIND_STATE)
        return (struct model_span){0, held < tokens ? 1 : 0};
    uint32_t first = held;
    if (group->kind == BATON_KIND_WINDOW && tokens > group->window_tokens && tokens - group->window_tokens > first)
        first = tokens - group->window_tokens;
    return (struct model_span){first, tokens};
}

uint32_t model_table_first(const baton_group_t *group, uint32_t tokens)
{
    const uint32_t first = model_wanted(group, 0, tokens).first;
    return first - first % group->block_tokens;
}

uint32_t model_table_blocks(const baton_group_t *group, uint32_t tokens)
{
    const uint32_t end = model_wanted(group, 0, tokens).end;
    return model_blocks(end - model_table_first(group, tokens), group->block_tokens);
}

static uint64_t token_bytes(const struct model_extent *x)
{
    return (uint64_t)x->planes * x->split.head_count * x->head_size * x->elem_bytes;
}

uint64_t model_block_bytes(const baton_geometry_t *g, uint32_t group)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < g->num_tensors; i++) {
        const struct model_extent x = model_extent(g, &g->tensors[i]);
        if (g->tensors[i].group == group)
            bytes += token_bytes(&x) * x.group.block_tokens;
    }
    return bytes;
}

uint64_t model_wanted_bytes(const baton_geometry_t *g, uint32_t held, uint32_t tokens)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < g->num_tensors; i++) {
        const struct model_extent x = model_extent(g, &g->tensors[i]);
        const struct model_span wanted = model_wanted(&x.group, held, tokens);
        bytes += token_bytes(&x) * (wanted.end - wanted.first);
    }
    return bytes;
}
