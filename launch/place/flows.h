/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flows: the job of a world of engines: its teams, and the bytes that go between any two ranks for one request.
 *
 * Transfers are what the planner says of a prefill and a decode engine. Requests are shared out evenly to the
 * engines of each side, in order, as a router does that keeps to the pairs of a placement: of E prefill and D decode
 * engines, engine i makes the requests from i/E to (i+1)/E of all, and engine k takes those from k/D to (k+1)/D.
 *
 * Engines exchange bytes within themselves too. A transformer's layer adds up its partial results over TP ranks twice
 * (Shoeybi et al., "Megatron-LM", 2019), and a ring does so in 2 (t - 1) / t of the bytes from each rank to the next
 * (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009): 4 (t - 1) / t hidden values a token and layer.
 * Between two pipeline stages go the hidden values of each token once.
 */
#ifndef BATON_PLACE_FLOWS_H
#define BATON_PLACE_FLOWS_H

#include "place/job.h"
#include "place/serve.h"

struct flows_load {
    uint32_t tokens[JOB_SIDES]; /* of a request, that the prefill engine reads and the decode engine writes */
    uint32_t layers;
    uint32_t token_bytes; /* of a token's hidden values */
    double inside;        /* weight of the engines' own traffic; 0: only transfers count */
};

/** What flows follow from. */
struct flows_source {
    const struct engine_size *sizes; /* of each side */
    struct serve *serve;             /* of one engine of each side, for a request; NULL: a side has no engines */
    struct flows_load load;
};

/**
 * Ranks are numbered as batonrun does: engine after engine, prefill first; within one, stage after stage. `places`: by
 * rank; NULL: each is as far as any other. 0, or -1 with *why. Call job_fini in both cases.
 */
int flows_job(const struct flows_source *s, const struct serve_place *places, struct job *out, struct why *why);

/** Finds out what goes between two engines of ranks with these places, in s->serve->flows. 0, or -1 with *why. */
int flows_between(const struct flows_source *s, const struct serve_place *places, uint32_t prefill, uint32_t decode,
                  struct why *why);

/** The first rank of an engine. */
uint32_t flows_first_rank(const struct engine_size *sizes, enum job_side side, uint32_t engine);

#endif
