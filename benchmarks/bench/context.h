/* SPDX-License-Identifier: BSD-3-Clause */
/* context: one Baton context as an engine would hold it, and the engine's way of waiting for an event. */
#ifndef BENCH_CONTEXT_H
#define BENCH_CONTEXT_H

#include <stdbool.h>

#include "bench/bench.h"
#include "bench/effort.h"
#include "bench/own.h"

struct context {
    baton_t *baton;
    baton_cache_t *cache; /* NULL: this rank moves no blocks */
    char *pool;
    bool polls; /* it waits by calling baton_poll again and again */
    bool hears; /* its engine asked for verdicts: one follows the end of each call */
    struct effort_meter meter;
};

/** Contexts that are opened from now on find this variable in the environment; NULL: they do not find it. */
void context_set(const char *variable, const char *value);

/**
 * Opens and starts a context over the ranks of the bench's world, where this rank is `self`. Starts the computing
 * thread where it is wanted (busy.h). With --verdicts the engine asks for them. `geometry` may be NULL. Collective;
 * fails where Baton does.
 */
void context_open(struct bench *b, struct context *c, const baton_open_params_t *self,
                  const baton_geometry_t *geometry);

/** The same, with the cache in region 0 of `own`, which must outlive the context. */
void context_open_over(struct bench *b, struct context *c, const baton_open_params_t *self,
                       const baton_geometry_t *geometry, const struct own *own);

/** Stops the computing thread and closes. Collective. A peer that was lost is noted in the bench. */
void context_close(struct bench *b, struct context *c);

/**
 * Sleeps in poll(2) on the context's descriptor until there is an event, unless the context polls, for at most
 * timeout_ms. False: none came. The thread stays outside MPI meanwhile, as an engine's does.
 */
bool context_await(const struct context *c, baton_event_t *event, uint64_t timeout_ms);

#endif
