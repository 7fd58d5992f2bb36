/* SPDX-License-Identifier: BSD-3-Clause */
/* model: see model.h. */
#include "replay/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct model models[] = {
    {"llama3-8b", 32, 8, 128},
    {"llama3-70b", 80, 8, 128},
    {"qwen3-32b", 64, 8, 128},
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
    return "llama3-8b, llama3-70b, qwen3-32b";
}

const struct model_dtype *model_dtype_find(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return &dtypes[i];
    return NULL;
}

static int check_seat(const struct model_cut *cut, const struct model_seat *seat, struct why *why)
{
    const struct model *m = cut->model;
    if (seat->tp == 0 || m->heads % seat->tp != 0)
        return why_set(why, "tensor parallelism %u does not divide the %u KV heads of %s", seat->tp, m->heads, m->name);
    if (seat->pp == 0 || seat->pp > cut->layers)
        return why_set(why, "pipeline parallelism %u leaves ranks without a layer: --layers is %u", seat->pp,
                       cut->layers);
    if (seat->tp_rank >= seat->tp || seat->pp_rank >= seat->pp)
        return why_set(why, "rank (%u, %u) lies outside an engine of tp %u, pp %u", seat->tp_rank, seat->pp_rank,
                       seat->tp, seat->pp);
    return 0;
}

int model_cache_init(struct model_cache *c, const struct model_cut *cut, const struct model_seat *seat,
                     uint32_t num_blocks, struct why *why)
{
    *c = (struct model_cache){0};
    if (check_seat(cut, seat, why) != 0)
        return -1;
    baton_geometry_t *g = &c->geometry;
    snprintf(g->model, sizeof g->model, "%s", cut->model->name);
    snprintf(g->dtype, sizeof g->dtype, "%s", cut->dtype->name);
    g->elem_bytes = cut->dtype->bytes;
    g->planes = 2;
    g->block_tokens = cut->block_tokens;
    g->head_size = cut->model->head_size;
    g->num_blocks = num_blocks;
    g->heads_total = cut->model->heads;
    g->head_count = cut->model->heads / seat->tp;
    g->head_first = g->head_count * seat->tp_rank;
    g->layers_total = cut->layers;
    g->layer_first = cut->layers * seat->pp_rank / seat->pp;
    g->layer_count = cut->layers * (seat->pp_rank + 1) / seat->pp - g->layer_first;
    c->tensors = calloc(g->layer_count, sizeof *c->tensors);
    if (c->tensors == NULL)
        return why_set(why, "no memory for %u tensors", g->layer_count);
    int rc = baton_geometry_layout(g, c->tensors, cut->layout);
    if (rc == 0)
        return 0;
    model_cache_fini(c);
    return why_set(why, "this cache has no such layout: %s", baton_errmsg());
}

void model_cache_fini(struct model_cache *c)
{
    free(c->tensors);
    *c = (struct model_cache){0};
}

uint32_t model_blocks(uint32_t tokens, uint32_t block_tokens)
{
    return tokens / block_tokens + (tokens % block_tokens != 0);
}

uint64_t model_block_bytes(const baton_geometry_t *g)
{
    return model_token_bytes(g, g->block_tokens);
}

uint64_t model_token_bytes(const baton_geometry_t *g, uint64_t tokens)
{
    return tokens * g->layer_count * g->planes * g->head_count * g->head_size * g->elem_bytes;
}
