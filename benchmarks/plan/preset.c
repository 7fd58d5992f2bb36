/* SPDX-License-Identifier: BSD-3-Clause */
/* preset: see preset.h. */
#include "preset.h"

#include <stdlib.h>

#include "model/model.h"

const char *preset_models(void)
{
    return model_names();
}

int preset_check(const struct preset *p, struct why *why)
{
    const struct model *model = model_find(p->model);
    if (model == NULL)
        return why_set(why, "--model must be one of %s, and is \"%.64s\"", model_names(), p->model);
    if (model_dtype_find(p->dtype) == NULL)
        return why_set(why, "--dtype must be one of bf16, fp8, fp32, and is \"%.64s\"", p->dtype);
    if (p->layers > model->layers)
        return why_set(why, "--layers is %u, and %s has %u layers", p->layers, model->name, model->layers);
    return 0;
}

static void own_fini(void *own)
{
    model_cache_fini(own);
    free(own);
}

int preset_cache(const struct preset *p, const struct seat *seat, uint32_t tokens, struct cache *out, struct why *why)
{
    const struct model *model = model_find(p->model);
    struct model_cut cut = {.model = model,
                            .dtype = model_dtype_find(p->dtype),
                            .layers = p->layers > 0 ? p->layers : model->layers,
                            .block_tokens = p->block_tokens,
                            .layout = p->layout};
    struct model_seat place = {.tp = seat->tp, .pp = seat->pp, .tp_rank = seat->tp_rank, .pp_rank = seat->pp_rank};
    struct model_cache *own = malloc(sizeof *own);
    if (own == NULL)
        return why_set(why, "no memory for a cache");
    if (model_cache_init(own, &cut, &place, model_blocks(tokens, p->block_tokens), why) != 0) {
        free(own);
        return -1;
    }
    *out = (struct cache){.geometry = &own->geometry, .own = own, .own_fini = own_fini};
    return 0;
}
