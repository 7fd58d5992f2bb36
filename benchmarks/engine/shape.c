/* SPDX-License-Identifier: BSD-3-Clause */
/* shape: see shape.h. */
#include "engine/shape.h"

int shape_check(const struct shape *s, struct why *why)
{
    if (s->layers == 0 || s->layers > SHAPE_LAYERS_MAX)
        return why_set(why, "--layers must be 1 to %d, and is %u", SHAPE_LAYERS_MAX, s->layers);
    if (s->heads == 0 || s->kv_heads == 0 || s->heads % s->kv_heads != 0)
        return why_set(why, "--heads (%u) must be a multiple of --kv-heads (%u)", s->heads, s->kv_heads);
    if (s->head_size == 0 || s->head_size % 2 != 0)
        return why_set(why, "--head-size must be even, and is %u", s->head_size);
    if ((uint64_t)s->heads * s->head_size > SHAPE_HIDDEN_MAX)
        return why_set(why, "%u heads of %u channels are more than %d channels", s->heads, s->head_size,
                       SHAPE_HIDDEN_MAX);
    if (s->ffn == 0 || s->ffn > SHAPE_FFN_MAX)
        return why_set(why, "--ffn must be 1 to %d, and is %u", SHAPE_FFN_MAX, s->ffn);
    if (s->vocab < 2 || s->vocab > SHAPE_VOCAB_MAX)
        return why_set(why, "--vocab must be 2 to %d, and is %u", SHAPE_VOCAB_MAX, s->vocab);
    return 0;
}

/* Part `rank` of `ranks` begins here. */
static uint32_t begin(uint32_t all, uint32_t rank, uint32_t ranks)
{
    return (uint32_t)((uint64_t)rank * all / ranks);
}

int shape_slice(const struct shape *s, struct seat seat, struct slice *out, struct why *why)
{
    const uint32_t group = s->heads / s->kv_heads; /* query heads that read one KV head */
    if (seat.tp > s->heads || seat.tp > s->ffn)
        return why_set(why, "TP %u cannot cut %u heads and %u columns of the MLP", seat.tp, s->heads, s->ffn);
    if (seat.pp > s->layers)
        return why_set(why, "PP %u cannot cut %u layers", seat.pp, s->layers);
    *out = (struct slice){
        .layer_first = begin(s->layers, seat.pp_rank, seat.pp),
        .head_first = begin(s->heads, seat.tp_rank, seat.tp),
        .ffn_first = begin(s->ffn, seat.tp_rank, seat.tp),
        .first = seat.pp_rank == 0,
        .last = seat.pp_rank == seat.pp - 1,
    };
    out->layer_count = begin(s->layers, seat.pp_rank + 1, seat.pp) - out->layer_first;
    out->head_count = begin(s->heads, seat.tp_rank + 1, seat.tp) - out->head_first;
    out->ffn_count = begin(s->ffn, seat.tp_rank + 1, seat.tp) - out->ffn_first;
    out->kv_first = out->head_first / group;
    out->kv_count = (out->head_first + out->head_count - 1) / group + 1 - out->kv_first;
    return 0;
}
