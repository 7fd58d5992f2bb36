/* SPDX-License-Identifier: BSD-3-Clause */
/* result: what all ranks found in one phase, put together at rank 0. */
#ifndef REPLAY_RESULT_H
#define REPLAY_RESULT_H

#include <stdint.h>

#include "replay/engine.h"
#include "replay/meet.h"
#include "replay/tally.h"

#define RESULT_NAME 16

struct result_phase {
    char name[RESULT_NAME];
    struct tally tally; /* of all ranks */
    uint64_t wall_ns;   /* from the common start to the last event of the slowest rank */
    uint64_t handshake_ns_max;
    uint64_t samples;
    struct quantiles received, waited, moved; /* over all wants of all ranks that were done */
    struct quantiles after_prefill[2];        /* from prefill's end until received; [1]: streamed */
    uint32_t after_prefill_count[2];          /* of requests; 0: the ranks have no common clock */
    struct load load;
    uint32_t verified_requests;
    uint32_t
        *pairs; /* with --require-path: [decode rank * ranks + prefill rank], a baton_path_t. NULL: not collected */
    uint8_t *verified; /* by request: every rank of its decode engine found it right */
};

/** What the decode engines' prefix caches had. */
struct result_reuse {
    uint32_t requests; /* that found something */
    uint64_t blocks, bytes;
    uint64_t bytes_of_all; /* of the trace */
};

struct result {
    const struct options *options;
    const struct trace *trace;
    const struct route *route;
    const struct prefix *prefix;
    const struct meet *meet;
    uint32_t busy_threads; /* that each rank started; 0: no busy phase */
    uint32_t num_phases;
    struct result_phase phases[SPEEDS_MAX + 1]; /* a run for each speed, or an idle and a busy one */

    /* What holds for every phase. */
    uint32_t verified_requests;
    uint64_t verified_blocks, mismatches;
    uint64_t tokens, blocks; /* of the trace: a request's blocks count once, however many ranks hold a part of them */
    struct result_reuse reuse;
};

/** Collective. Puts together the phase that the engine has just run. Only rank 0's *out is filled. 0 or -1, on all
   ranks. */
int result_collect(struct result_phase *out, struct engine *e, const baton_stats_t *before, struct why *why);

/** Rank 0: computes what follows from the phases. 0, or -1 with *why. */
int result_finish(struct result *r, struct why *why);
void result_fini(struct result *r);

/** Rank 0: whether everything is right. Each thing that is wrong is a sentence on standard error. */
bool result_is_good(const struct result *r);

#endif
