/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream: the model of a prefill that takes time: in which steps a request's bytes come into place, when, and which
 * requests are offered meanwhile. Tokens are computed at an even pace, chunk by chunk. Each chunk goes through the
 * model's layers, and so through one stage after another. Pure.
 */
#ifndef REPLAY_STREAM_H
#define REPLAY_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"

struct stream {
    uint32_t flags; /* an or of baton_offer_flags_t: whether a step is a layer, a chunk, or a layer of a chunk */
    uint32_t num_tokens, chunk_tokens, tokens_per_s;
    struct model_span layers; /* of the rank */
    uint32_t layers_total;
};

/** A step: the entries of some tokens in some layers, which come into place at one moment. */
struct stream_step {
    struct model_span tokens, layers;
};

/** The place before the first step. */
struct stream_step stream_begin(const struct stream *s);
/** Goes on to the next step. False: there is none, and *step stays as it is. */
bool stream_next(const struct stream *s, struct stream_step *at);

/** How long after the prefill's begin a step's bytes are in place; and how long the whole prefill takes, on all its
   ranks. */
uint64_t stream_step_ns(const struct stream *s, const struct stream_step *at);
uint64_t stream_ns(const struct stream *s);

/**
 * Whether this request is offered while its prefill goes on. A trace that is streamed has each request twice, side by
 * side: one of the two is, and the other is not. Which of them is random, so that both kinds go to all engines alike.
 */
bool stream_hits(uint64_t seed, uint32_t request);

#endif
