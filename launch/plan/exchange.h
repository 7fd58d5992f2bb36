/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange: who exchanges what between two engines, by the planner that the library itself runs. */
#ifndef PLAN_TOOL_EXCHANGE_H
#define PLAN_TOOL_EXCHANGE_H

#include "engine.h"
#include "runs.h"

/** The request that is planned for. */
struct request {
    uint32_t tokens, held; /* leading tokens that the consumer has already */
};

/** A consumer and one of the producers that it takes from. */
struct pair {
    uint32_t producer, consumer;
    uint32_t first_part, num_parts; /* among the exchange's */
    bool same_node;
    struct runs moves;
};

/** Pairs in order of consumer, then producer. */
struct exchange {
    const struct engine *prefill, *decode;
    struct request request;
    uint32_t num_pairs, room_pairs, num_parts, room_parts;
    struct pair *pairs;
    struct plan_source *parts; /* member: the producer's rank */
    uint32_t *first_pair;      /* by consumer, and one more behind the last */
};

/** 0, or -1 with *why: caches do not match (the field is named), or no memory. Call exchange_fini in both cases. */
int exchange_init(struct exchange *x, const struct engine *prefill, const struct engine *decode,
                  const struct request *request, struct why *why);
void exchange_fini(struct exchange *x);

/**
 * The parts of a consumer's cache and the producer's rank that each comes from (*out: free it), by plan_sources among
 * the ranks that hold its layers. `members` are the prefill engine's ranks and `me` is the consumer, which may have
 * other places than the engines'. `turn`: of the consumer's engine (plan_turn). Their number, or -1 with *why.
 */
int exchange_sources(const struct engine *prefill, const struct plan_member *members, const struct plan_member *me,
                     uint32_t consumer, uint32_t turn, struct plan_source **out, struct why *why);

/** Compiles what `consumer` takes from `producer`; both caches are made and ended within. 0, or -1 with *why. */
int exchange_compile(const struct engine *prefill, const struct engine *decode, uint32_t producer, uint32_t consumer,
                     const struct cache *to, const struct plan_source *parts, uint32_t num_parts, struct plan **out,
                     struct why *why);

/** Totals, and how evenly they are spread. */
struct summary {
    uint64_t bytes, runs, units, pairs, same_node_pairs, same_node_bytes;
    uint64_t pair_bytes_least, pair_bytes_most;
    uint64_t fan_in_least, fan_in_most;   /* producers of a consumer */
    uint64_t fan_out_least, fan_out_most; /* consumers of a producer; 0 for one that nobody reads */
    uint32_t producers_idle;              /* read by nobody */
    uint64_t producer_bytes_most, consumer_bytes_most;
};

/** 0, or -1 with *why: no memory. */
int summary_of(const struct exchange *x, struct summary *out, struct why *why);

/** A / b, and 0 where b is 0. */
double summary_ratio(uint64_t a, uint64_t b);

#endif
