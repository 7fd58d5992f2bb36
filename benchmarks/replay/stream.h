/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream: a prefill that takes time, as it is modelled: in which steps a request's bytes come into place, when, and
 * which requests are offered while they do. Tokens pass at an even pace, chunk by chunk; each chunk passes the model's
 * layers, those of one stage after those of the stage before. Pure.
 */
#ifndef REPLAY_STREAM_H
#define REPLAY_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"

struct stream {
    uint32_t flags; /* an or of baton_offer_flags_t: what a step is */
    uint32_t num_tokens, chunk_tokens, tokens_per_s;
    struct model_span layers; /* of the rank */
    uint32_t layers_total;
};

/** What comes into place at one moment: some tokens' entries in some layers. */
struct stream_step {
    struct model_span tokens, layers;
};

/** The place before the first step. */
struct stream_step stream_begin(const struct stream *s);
/** Goes on to the next step. False: there is none, and the place stays. */
bool stream_next(const struct stream *s, struct stream_step *at);

/** After how long from the prefill's begin a step's bytes are in place; and the whole prefill, on all its ranks. */
uint64_t stream_step_ns(const struct stream *s, const struct stream_step *at);
uint64_t stream_ns(const struct stream *s);

/**
 * Whether this request is offered while its prefill goes on. A trace that is streamed has each request twice, side by
 * side: of two, one is and the other is not, by lot, so that neither goes to other engines than the other.
 */
bool stream_hits(uint64_t seed, uint32_t request);

#endif
