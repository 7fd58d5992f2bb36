/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * result: what the decode ranks found out together: a row for each request, and sums. Each number is told by one rank;
 * the others have 0 there, so that rows are gathered by adding.
 */
#ifndef ENGINE_RESULT_H
#define ENGINE_RESULT_H

#include <mpi.h>

#include "engine/serve.h"

struct result_row {
    int64_t answered;       /* all tokens */
    int64_t checked, equal; /* against the undivided model */
    int64_t first_ns;       /* from its arrival to its first token */
    int64_t token_ns;       /* for each further token; 0: none */
    int64_t handed_ns;      /* from prefill's end until the last decode rank had its blocks; 0: not known */
    int64_t tokens_digest, logits_digest; /* hashes, bit by bit */
};

struct result_sums {
    int64_t loaded_tokens, returned_tokens, prefix_tokens, preempted, recomputed, aborted, taken_back, failures;
    int64_t bytes[BATON_PATHS]; /* received, by path */
};

struct result {
    uint32_t count;
    struct result_row *rows;
    struct result_sums sums;
};

/** 0, or -1 for want of memory. */
int result_init(struct result *r, uint32_t count);
void result_fini(struct result *r);

/** On a rank of a decode engine that has served: fills in what this rank tells. 0, or -1: the engine is lost. */
int result_take(struct result *r, struct serve *s);

/** Compares this rank's share of its engine's requests with the undivided model. 0, or -1 with *why. */
int result_check(struct result *r, const struct serve *s, struct why *why);

/** Collective over the decode ranks: their first one has all. 0, or -1. */
int result_gather(struct result *r, MPI_Comm decode, uint64_t patience_ns);

/** The report on standard output. True: all requests are as undivided. */
bool result_print(const struct result *r);

/** A line for each request: its number, its tokens' hash, its logits' hash. 0, or -1 with *why. */
int result_write(const struct result *r, const char *path, struct why *why);

#endif
