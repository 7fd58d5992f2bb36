/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shape: the sizes of the model, and the slice of it that one rank holds. TP cuts query heads and the MLP's columns, PP
 * cuts layers; shares may be unequal. A rank holds the KV heads that its query heads read, so a KV head may lie on
 * several ranks. Pure.
 */
#ifndef ENGINE_SHAPE_H
#define ENGINE_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "option/why.h"

#define SHAPE_LAYERS_MAX 128
#define SHAPE_HIDDEN_MAX 4096
#define SHAPE_FFN_MAX 16384
#define SHAPE_VOCAB_MAX 65536 /* a token fits 16 bits */

struct shape {
    uint32_t layers, heads, kv_heads, head_size, ffn, vocab;
    uint64_t seed; /* of the weights */
};

/** A rank's place in its engine. */
struct seat {
    uint32_t tp, tp_rank, pp, pp_rank;
};

struct slice {
    uint32_t layer_first, layer_count;
    uint32_t head_first, head_count; /* query heads */
    uint32_t kv_first, kv_count;     /* KV heads */
    uint32_t ffn_first, ffn_count;   /* columns of the MLP */
    bool first, last;                /* stage: it embeds tokens; it computes logits */
};

static inline uint32_t shape_hidden(const struct shape *s)
{
    return s->heads * s->head_size;
}

/** Whether the sizes make a model whose sums are exact (fixed.h). 0, or -1 with *why. */
int shape_check(const struct shape *s, struct why *why);

/** The slice of a rank. 0, or -1 with *why: the engine has more ranks than there are parts. */
int shape_slice(const struct shape *s, struct seat seat, struct slice *out, struct why *why);

#endif
