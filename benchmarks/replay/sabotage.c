/* SPDX-License-Identifier: BSD-3-Clause */
/* sabotage: see sabotage.h. The first rank of the engine breaks its part. With stale every rank does. */
#include "replay/sabotage.h"

#include <string.h>

#include "model/model.h"

#define TOKENS_BROKEN 4 /* at the most */

bool sabotage_hits(const struct engine *e, uint32_t request)
{
    uint32_t broken = e->trace->count / 2;
    if (e->options->stream != 0 && !stream_hits(e->options->seed, broken))
        broken ^= 1;
    return e->options->sabotage != SABOTAGE_NONE && request == broken;
}

bool sabotage_needs_gate(const struct engine *e, uint32_t request)
{
    return e->options->sabotage == SABOTAGE_STALE && sabotage_hits(e, request);
}

bool sabotage_is_late(const struct engine *e, uint32_t request)
{
    return e->options->sabotage == SABOTAGE_LATE && sabotage_hits(e, request);
}

static uint32_t tokens_before_end(uint32_t num_tokens)
{
    return num_tokens > TOKENS_BROKEN ? num_tokens - TOKENS_BROKEN : 0;
}

/* The first rank breaks its part. If several ranks hold the same, each of them does, since any of them may be read. */
static bool breaks(const struct engine *e, const baton_tensor_t *t)
{
    const struct roster_engine *own = &e->meet->roster.engines[SIDE_PREFILL][e->meet->engine];
    return e->rank_in_engine == 0 ||
           (e->rank_in_engine < own->tp && own->tp > model_extent(e->pattern.geometry, t).split.heads_total);
}

static void flip(const struct engine *e, const struct pattern_table *t)
{
    const baton_geometry_t *g = e->pattern.geometry;
    const baton_tensor_t *tensor = &g->tensors[g->num_tensors / 2];
    const struct model_extent x = model_extent(g, tensor);
    const struct model_span wanted = model_wanted(&x.group, 0, t->num_tokens);
    const struct pattern_place at = {.layer = tensor->layer,
                                     .plane = x.planes - 1,
                                     .head = x.split.head_first + x.split.head_count / 2,
                                     .token = wanted.first + (wanted.end - wanted.first) / 2,
                                     .channel = x.head_size / 3,
                                     .part = pattern_part(tensor->name)};
    const uint32_t flipped = pattern_value(&e->pattern, t->request, &at) ^ 1;
    if (breaks(e, tensor))
        memcpy(pattern_address(&e->pattern, t, &at), &flipped, x.elem_bytes);
}

/* A rank with one head has no second one. Then its head gets the values of a head that lies elsewhere, or nowhere. */
static void swap_heads(const struct engine *e, const struct pattern_table *t)
{
    const baton_geometry_t *g = e->pattern.geometry;
    const struct model_extent x = model_extent(g, &g->tensors[0]);
    const uint32_t head = x.split.head_first, last = head + x.split.head_count - 1;
    const uint32_t other = last > head ? head + 1 : head > 0 ? head - 1 : head + 1;
    const uint32_t first = tokens_before_end(t->num_tokens);
    if (!breaks(e, &g->tensors[0]))
        return;
    pattern_fill_head(&e->pattern, t, 0, head, other, first, t->num_tokens);
    if (last > head)
        pattern_fill_head(&e->pattern, t, 0, other, head, first, t->num_tokens);
}

/* This is done again after each step of a prefill. What it writes was written before, or is not filled yet. */
void sabotage_prepared(const struct engine *e, const struct slot *s)
{
    const struct pattern_table t = engine_table(e, s);
    if (s->gate || !sabotage_hits(e, s->request))
        return;
    if (e->options->sabotage == SABOTAGE_FLIP)
        flip(e, &t);
    else if (e->options->sabotage == SABOTAGE_HEAD)
        swap_heads(e, &t);
    else if (e->options->sabotage == SABOTAGE_SHORT && breaks(e, &e->pattern.geometry->tensors[0]))
        pattern_poison(&e->pattern, &t, tokens_before_end(s->num_tokens), PATTERN_POISON_PRODUCER);
}

void sabotage_offered(struct engine *e, const struct slot *s)
{
    struct pattern_table t = engine_table(e, s);
    if (s->gate || !sabotage_needs_gate(e, s->request))
        return;
    const uint32_t other = s->request > 0 ? s->request - 1 : 1;
    t.request = engine_pattern_request(e, other);
    pattern_fill(&e->pattern, &t);
    engine_begin_gate(e, s->request);
}
