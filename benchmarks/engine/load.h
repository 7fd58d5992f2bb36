/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * load: the requests to serve, from a trace or made here. Every rank has the same list. Tokens of prompts are hashes,
 * so that requests which share ids of the trace share tokens. A request may be the next turn of a conversation: its
 * prompt then begins with the prompt of the turn before and what the model answered to that. Pure, but for the file.
 */
#ifndef ENGINE_LOAD_H
#define ENGINE_LOAD_H

#include <stdint.h>

#include "option/why.h"
#include "replay/trace.h"

#define LOAD_NONE UINT32_MAX

struct load_request {
    uint64_t arrival_ms;
    uint32_t prompt, output; /* tokens; the prompt has at least 2, the output 1 */
    uint32_t parent, child;  /* the turns before and after, or LOAD_NONE */
    uint32_t root;           /* the first turn of the conversation */
    uint32_t spoken;         /* tokens that the model answered in all turns before */
};

struct load {
    uint32_t count;
    struct load_request *requests;
    struct trace trace; /* its ids; none where the load was made here */
    uint32_t scale, vocab;
    uint64_t seed;
};

/** Reads at most `most` requests of a trace, whose lengths are divided by `scale`. 0, or -1 with *why. */
int load_open(struct load *l, const char *path, uint32_t most, uint32_t scale, uint32_t vocab, struct why *why);

/** Makes `count` requests, half of them further turns; their lengths in tokens are also divided by `scale`. */
int load_make(struct load *l, uint32_t count, uint32_t scale, uint32_t vocab, uint64_t seed, struct why *why);
void load_fini(struct load *l);

/** The most tokens that a request has, its output included. */
uint32_t load_most_tokens(const struct load *l);

/**
 * Fills in the prompt of a request. `spoken` has what the model answered in all turns before, as many tokens as the
 * request's `spoken` says; NULL where these are none.
 */
void load_prompt(const struct load *l, uint32_t index, const uint16_t *spoken, uint16_t *tokens);

#endif
