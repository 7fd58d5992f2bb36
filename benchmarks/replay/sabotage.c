/* SPDX-License-Identifier: BSD-3-Clause */
/* sabotage: see sabotage.h. The first rank of the engine breaks its part; with stale every rank does. */
#include "replay/sabotage.h"

#define TOKENS_BROKEN 4 /* at the most */

bool sabotage_hits(const struct engine *e, uint32_t request)
{
    return e->options->sabotage != SABOTAGE_NONE && request == e->trace->count / 2;
}

bool sabotage_needs_gate(const struct engine *e, uint32_t request)
{
    return e->options->sabotage == SABOTAGE_STALE && sabotage_hits(e, request);
}

static uint32_t tokens_before_end(uint32_t num_tokens)
{
    return num_tokens > TOKENS_BROKEN ? num_tokens - TOKENS_BROKEN : 0;
}

static void flip(const struct engine *e, const struct pattern_table *t)
{
    const baton_geometry_t *g = e->pattern.geometry;
    const struct pattern_place at = {.layer = g->layer_first + g->layer_count / 2,
                                     .plane = g->planes - 1,
                                     .head = g->head_first + g->head_count / 2,
                                     .token = t->num_tokens / 2,
                                     .channel = g->head_size / 3};
    *(unsigned char *)pattern_address(&e->pattern, t, &at) ^= 1;
}

/* With one head a rank, the other head lies at another rank: then this one gets its values. */
static void swap_heads(const struct engine *e, const struct pattern_table *t)
{
    const baton_geometry_t *g = e->pattern.geometry;
    const uint32_t head = g->head_first, other = (head + 1) % g->heads_total, first = tokens_before_end(t->num_tokens);
    pattern_fill_head(&e->pattern, t, g->layer_first, head, other, first, t->num_tokens);
    if (g->head_count > 1)
        pattern_fill_head(&e->pattern, t, g->layer_first, other, head, first, t->num_tokens);
}

void sabotage_prepared(const struct engine *e, const struct slot *s)
{
    const struct pattern_table t = engine_table(e, s);
    if (s->gate || !sabotage_hits(e, s->request) || e->rank_in_engine != 0)
        return;
    if (e->options->sabotage == SABOTAGE_FLIP)
        flip(e, &t);
    else if (e->options->sabotage == SABOTAGE_HEAD)
        swap_heads(e, &t);
    else if (e->options->sabotage == SABOTAGE_SHORT)
        pattern_poison(&e->pattern, &t, tokens_before_end(s->num_tokens), PATTERN_POISON_PRODUCER);
}

void sabotage_offered(struct engine *e, const struct slot *s)
{
    struct pattern_table t = engine_table(e, s);
    if (s->gate || !sabotage_needs_gate(e, s->request))
        return;
    const uint32_t former = s->request >= e->share.engines ? s->request - e->share.engines : s->request + 1;
    t.request = engine_pattern_request(e, former);
    pattern_fill(&e->pattern, &t);
    engine_begin_gate(e, s->request);
}
