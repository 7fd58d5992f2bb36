/* SPDX-License-Identifier: BSD-3-Clause */
/* batch: the tokens that one step of an engine computes: chunks of prompts and last tokens, of any requests. */
#ifndef ENGINE_BATCH_H
#define ENGINE_BATCH_H

#include <stdbool.h>
#include <stdint.h>

/** What the model says of a token whose logits were asked for. */
struct batch_answer {
    uint32_t token;  /* the most probable one; the first of several */
    uint64_t logits; /* a hash of all logits, bit by bit */
};

struct batch_token {
    uint32_t token, position;
    const uint32_t *blocks; /* of its request. Tokens of one request stand in order of position */
    bool asks;              /* for logits */
};

struct batch {
    uint32_t count, room;
    struct batch_token *tokens;
    uint32_t num_answers; /* as many as tokens ask, in their order; on the last stage alone */
    struct batch_answer *answers;
};

/** Room for `room` tokens. 0, or -1 for want of memory. */
int batch_init(struct batch *b, uint32_t room);
void batch_fini(struct batch *b);
void batch_clear(struct batch *b);
/** The batch must have room. */
void batch_add(struct batch *b, struct batch_token token);

#endif
