/* SPDX-License-Identifier: BSD-3-Clause */
/* cut: the options by which a program chooses a model's cache. Pure. */
#ifndef MODEL_CUT_H
#define MODEL_CUT_H

#include "model/model.h"
#include "option/option.h"

extern const struct option_choice cut_layouts[], cut_kvs[], cut_orders[];

/* Rows of an option table. `member` and `other` name the two sides' struct model_cut in `type`. */
#define CUT_MODEL(type, member)                                                                                        \
    .name = "model", .value = "NAME", .read = cut_read_model, .field = offsetof(type, member.model)
#define CUT_DTYPE(type, member)                                                                                        \
    .name = "dtype", .value = "NAME", .help = "bf16, fp8, fp32 (default bf16)", .read = cut_read_dtype,                \
    .field = offsetof(type, member.dtype)
#define CUT_LAYERS(type, member) .name = "layers", .value = "N", OPTION_WHOLE(type, member.layers, 1, BATON_TENSORS_MAX)
#define CUT_BLOCK_TOKENS(type, member, other)                                                                          \
    "block-tokens", "N", "tokens of a block (default 16)", OPTION_WHOLE(type, member.block_tokens, 1, 4096),           \
        .second = offsetof(type, other.block_tokens)
#define CUT_LAYOUT(type, member, other)                                                                                \
    "layout", "hnd|nhd", "order of head and token in a block (default hnd)",                                           \
        OPTION_CHOICE(type, member.layout, cut_layouts), .second = offsetof(type, other.layout),                       \
                                                         .mask = BATON_LAYOUT_NHD
#define CUT_KV(type, member, other)                                                                                    \
    "kv", "separate|block|fused", "K and V: apart, side by side in a block, or in an entry (default separate)",        \
        OPTION_CHOICE(type, member.layout, cut_kvs), .second = offsetof(type, other.layout),                           \
                                                     .mask = BATON_LAYOUT_KV_BLOCK | BATON_LAYOUT_KV_FUSED
#define CUT_ORDER(type, member, other)                                                                                 \
    "order", "layer|block", "layer by layer, or all layers of a block together (default layer)",                       \
        OPTION_CHOICE(type, member.layout, cut_orders), .second = offsetof(type, other.layout),                        \
                                                        .mask = BATON_LAYOUT_BLOCK_MAJOR

int cut_read_model(const struct option_row *row, const char *text, void *field, struct why *why);
int cut_read_dtype(const struct option_row *row, const char *text, void *field, struct why *why);

/** llama3-8b, bf16, 16 tokens a block, HND. No number of layers. */
struct model_cut cut_default(void);

/** 0, or -1 with *why: the model has fewer layers. */
int cut_check(const struct model_cut *cut, struct why *why);

/** "nhd+block+layer" for a layout. `text` has room for 32 bytes; returns it. */
const char *cut_layout_name(unsigned layout, char *text);

#endif
