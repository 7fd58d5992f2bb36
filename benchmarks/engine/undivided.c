/* SPDX-License-Identifier: BSD-3-Clause */
/* undivided: see undivided.h. */
#include "engine/undivided.h"

#include <stdlib.h>

#define BLOCK_TOKENS 16
#define STEP_TOKENS 128

int undivided_init(struct undivided *u, const struct shape *shape, const struct load *load, struct why *why)
{
    const uint32_t most = load_most_tokens(load), num_blocks = most / BLOCK_TOKENS + 1;
    struct slice whole;
    *u = (struct undivided){.load = load, .team = team_of_one()};
    if (shape_slice(shape, u->team.seat, &whole, why) != 0)
        return -1;
    u->blocks = malloc(num_blocks * sizeof *u->blocks);
    u->tokens = malloc(most * sizeof *u->tokens);
    u->spoken = malloc(most * sizeof *u->spoken);
    if (u->blocks == NULL || u->tokens == NULL || u->spoken == NULL ||
        pages_init(&u->pages, shape, &whole, BLOCK_TOKENS, num_blocks) != 0 ||
        llama_init(&u->llama, shape, &whole, &u->pages, &u->team, STEP_TOKENS, most) != 0 ||
        batch_init(&u->batch, STEP_TOKENS) != 0)
        return why_set(why, "no memory for the undivided model");
    for (uint32_t b = 0; b < num_blocks; b++)
        u->blocks[b] = b;
    return 0;
}

void undivided_fini(struct undivided *u)
{
    llama_fini(&u->llama);
    pages_fini(&u->pages);
    batch_fini(&u->batch);
    free(u->blocks);
    free(u->tokens);
    free(u->spoken);
    *u = (struct undivided){0};
}

/* Computes tokens [from, to). The last one asks, if the answer is wanted. */
static void compute(struct undivided *u, uint32_t from, uint32_t to, bool asks)
{
    while (from < to) {
        batch_clear(&u->batch);
        for (; from < to && u->batch.count < STEP_TOKENS; from++)
            batch_add(&u->batch, (struct batch_token){.token = u->tokens[from],
                                                      .position = from,
                                                      .blocks = u->blocks,
                                                      .asks = asks && from == to - 1});
        llama_step(&u->llama, &u->batch, NULL, NULL); /* a team of one loses no rank */
    }
}

void undivided_run(struct undivided *u, uint32_t root, struct digest *digests)
{
    uint32_t computed = 0;
    for (uint32_t b = 0; b < u->pages.num_blocks; b++)
        pages_poison(&u->pages, b);
    for (uint32_t i = root; i != LOAD_NONE; i = u->load->requests[i].child) {
        const struct load_request *r = &u->load->requests[i];
        load_prompt(u->load, i, u->spoken, u->tokens);
        digests[i] = (struct digest){0};
        for (uint32_t n = 0; n < r->output; n++) {
            compute(u, computed, r->prompt + n, true);
            computed = r->prompt + n;
            digest_add(&digests[i], u->batch.answers[0]);
            u->tokens[r->prompt + n] = u->spoken[r->spoken + n] = (uint16_t)u->batch.answers[0].token;
        }
    }
}
