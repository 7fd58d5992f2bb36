/* SPDX-License-Identifier: BSD-3-Clause */
/* stream: see stream.h. */
#include "replay/stream.h"

#include "replay/random.h"

struct stream_step stream_begin(const struct stream *s)
{
    return (struct stream_step){.tokens = {0, 0}, .layers = s->layers};
}

bool stream_next(const struct stream *s, struct stream_step *at)
{
    const uint32_t token = at->tokens.end, left = s->num_tokens - token;
    const bool in_layers = (s->flags & BATON_OFFER_LAYERS) != 0, in_chunks = (s->flags & BATON_OFFER_CHUNKS) != 0;
    if (at->layers.end < s->layers.end) {
        at->layers = (struct model_span){at->layers.end, at->layers.end + 1};
        return true;
    }
    if (left == 0)
        return false;
    at->tokens =
        (struct model_span){token, in_chunks && s->chunk_tokens < left ? token + s->chunk_tokens : s->num_tokens};
    at->layers = (struct model_span){s->layers.first, in_layers ? s->layers.first + 1 : s->layers.end};
    return true;
}

static uint64_t tokens_ns(const struct stream *s, double tokens)
{
    return (uint64_t)(tokens * 1e9 / s->tokens_per_s);
}

uint64_t stream_step_ns(const struct stream *s, const struct stream_step *at)
{
    const double tokens = at->tokens.end - at->tokens.first, layers = (double)at->layers.end / s->layers_total;
    return tokens_ns(s, at->tokens.first + tokens * layers);
}

uint64_t stream_ns(const struct stream *s)
{
    return tokens_ns(s, s->num_tokens);
}

bool stream_hits(uint64_t seed, uint32_t request)
{
    return ((request ^ random_mix(random_mix(seed) + request / 2)) & 1) != 0;
}
