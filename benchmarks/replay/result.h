/* SPDX-License-Identifier: BSD-3-Clause */
/* result: what all ranks found in one phase, put together at rank 0. */
#ifndef REPLAY_RESULT_H
#define REPLAY_RESULT_H

#include <stdint.h>

#include "replay/engine.h"
#include "replay/meet.h"
#include "replay/tally.h"

struct result_quantiles {
    uint64_t p50_ns, p90_ns, p99_ns;
};

struct result_phase {
    const char *name;
    struct tally tally; /* of all ranks */
    uint64_t wall_ns;   /* from the common start to the last event of the slowest rank */
    uint64_t handshake_ns_max;
    uint64_t samples;
    struct result_quantiles received, waited, moved; /* over all wants of all ranks that were done */
    struct result_quantiles after_prefill[2];        /* from prefill's end until received; [1]: streamed */
    uint32_t after_prefill_count[2];                 /* of requests; 0: the ranks have no common clock */
    uint32_t verified_requests;
    uint32_t
        *pairs; /* with --require-path: [decode rank * ranks + prefill rank], a baton_path_t. NULL: not collected */
    uint8_t *verified; /* by request: every rank of its decode engine found it right */
};

struct result {
    const struct options *options;
    const struct trace *trace;
    const struct route *route;
    const struct meet *meet;
    uint32_t busy_threads; /* that each rank started; 0: no busy phase */
    uint32_t num_phases;
    struct result_phase phases[2];

    /* What holds for every phase. */
    uint32_t verified_requests;
    uint64_t verified_blocks, mismatches;
    uint64_t tokens, blocks; /* of the trace: a request's blocks count once, however many ranks hold a part of them */
};

/** Collective. Puts together the phase that the engine has just run. Only rank 0's *out is filled. 0 or -1, on all
   ranks. */
int result_collect(struct result_phase *out, struct engine *e, const baton_stats_t *before, struct why *why);

/** Rank 0: computes what follows from the phases. */
void result_finish(struct result *r);
void result_fini(struct result *r);

/** Rank 0: whether everything is right. Each thing that is wrong is a sentence on standard error. */
bool result_is_good(const struct result *r);

#endif
