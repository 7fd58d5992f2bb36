/* SPDX-License-Identifier: BSD-3-Clause */
/* context: one Baton context as an engine would hold it, and the engine's way of waiting for an event. */
#ifndef BENCH_CONTEXT_H
#define BENCH_CONTEXT_H

#include <stdbool.h>

#include "bench/bench.h"
#include "bench/own.h"

struct context {
    baton_t *baton;
    baton_cache_t *cache; /* NULL: this rank moves no blocks */
    char *pool;
    bool polls; /* it waits by calling baton_poll again and again */
};

/**
 * Opens and starts a context over all ranks, where this rank is `self`. With --busy, starts the computing thread.
 * `geometry` may be NULL. Collective; fails where Baton does.
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
