/* SPDX-License-Identifier: BSD-3-Clause */
/* cut: see cut.h. */
#include "model/cut.h"

#include <stdio.h>

const struct option_choice cut_layouts[] = {{"hnd", BATON_LAYOUT_HND}, {"nhd", BATON_LAYOUT_NHD}, {NULL, 0}};
const struct option_choice cut_kvs[] = {{"separate", BATON_LAYOUT_KV_SEPARATE},
                                        {"block", BATON_LAYOUT_KV_BLOCK},
                                        {"fused", BATON_LAYOUT_KV_FUSED},
                                        {NULL, 0}};
const struct option_choice cut_orders[] = {
    {"layer", BATON_LAYOUT_LAYER_MAJOR}, {"block", BATON_LAYOUT_BLOCK_MAJOR}, {NULL, 0}};

int cut_read_model(const struct option_row *row, const char *text, void *field, struct why *why)
{
    const struct model *model = model_find(text);
    if (model == NULL)
        return why_set(why, "--%s must be one of %s, and is \"%.64s\"", row->name, model_names(), text);
    *(const struct model **)field = model;
    return 0;
}

int cut_read_dtype(const struct option_row *row, const char *text, void *field, struct why *why)
{
    const struct model_dtype *dtype = model_dtype_find(text);
    if (dtype == NULL)
        return why_set(why, "--%s must be one of bf16, fp8, fp32, and is \"%.64s\"", row->name, text);
    *(const struct model_dtype **)field = dtype;
    return 0;
}

struct model_cut cut_default(void)
{
    return (struct model_cut){.model = model_find("llama3-8b"), .dtype = model_dtype_find("bf16"), .block_tokens = 16};
}

int cut_check(const struct model_cut *cut, struct why *why)
{
    if (cut->layers > cut->model->layers)
        return why_set(why, "--layers is %u, and %s has %u layers", cut->layers, cut->model->name, cut->model->layers);
    return 0;
}

const char *cut_layout_name(unsigned layout, char *text)
{
    snprintf(text, 32, "%s+%s+%s", option_name(cut_layouts, layout & BATON_LAYOUT_NHD, ""),
             option_name(cut_kvs, layout & (BATON_LAYOUT_KV_BLOCK | BATON_LAYOUT_KV_FUSED), ""),
             option_name(cut_orders, layout & BATON_LAYOUT_BLOCK_MAJOR, ""));
    return text;
}
