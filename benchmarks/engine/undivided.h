/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * undivided: the same model in one process, one request after another, with plain memory. It is what an engine's
 * answers are compared with. It has no scheduler, no prefix cache, no MPI and no Baton.
 */
#ifndef ENGINE_UNDIVIDED_H
#define ENGINE_UNDIVIDED_H

#include "engine/digest.h"
#include "engine/llama.h"
#include "engine/load.h"

struct undivided {
    const struct load *load;
    struct team team;
    struct pages pages;
    struct llama llama;
    struct batch batch;
    uint32_t *blocks;          /* 0, 1, 2, … */
    uint16_t *tokens, *spoken; /* of the conversation so far */
};

/** 0, or -1 with *why. Call undivided_fini in either case. */
int undivided_init(struct undivided *u, const struct shape *shape, const struct load *load, struct why *why);
void undivided_fini(struct undivided *u);

/** Answers all turns of the conversation that begins with request `root`; digests[i] becomes that of request i. */
void undivided_run(struct undivided *u, uint32_t root, struct digest *digests);

#endif
