/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * llama: one rank's part of the model: RMSNorm, RoPE, grouped-query attention over paged keys and values, SwiGLU. The
 * ranks of an engine compute a batch together. What comes out is the same, bit for bit, for every TP and PP, every
 * batch that a token is part of, and every form of the pages. It knows nothing of MPI or Baton.
 */
#ifndef ENGINE_LLAMA_H
#define ENGINE_LLAMA_H

#include "engine/batch.h"
#include "engine/pages.h"
#include "engine/team.h"
#include "engine/weights.h"

/** What a step works in: rows of numbers, one a token. */
struct llama_rows {
    float *hidden, *normed, *query, *key, *value, *mixed, *gate, *up, *logits, *scores;
    int64_t *sums;
};

struct llama {
    struct shape shape;
    struct slice slice;
    const struct pages *pages;
    const struct team *team;
    struct weights weights;
    struct llama_rows rows;
    float *turns; /* RoPE: cosine and sine, [positions][head_size / 2][2] */
};

/** Called in a step when the keys and values of all its tokens are in place in this layer (of the model). */
typedef void (*llama_layer_fn)(void *user, uint32_t layer);

/**
 * `tokens`: of a batch at most; `positions`: of a request at most. 0, or -1 for want of memory. `pages` and `team` must
 * outlive the model. Call llama_fini in either case.
 */
int llama_init(struct llama *m, const struct shape *shape, const struct slice *slice, const struct pages *pages,
               const struct team *team, uint32_t tokens, uint32_t positions);
void llama_fini(struct llama *m);

/** Computes a batch; on the last stage, its answers. 0, or -1: the team has lost a rank. */
int llama_step(struct llama *m, struct batch *b, llama_layer_fn on_layer, void *user);

#endif
