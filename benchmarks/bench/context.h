/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context: one Baton context as an engine would hold it: how it offers some of its blocks, wants some, and takes the
 * events; and how its reactor is held still. What fails ends the job.
 */
#ifndef BENCH_CONTEXT_H
#define BENCH_CONTEXT_H

#include <stdbool.h>

#include "bench/bench.h"
#include "bench/blocks.h"
#include "bench/process.h"

#define CONTEXT_PATIENCE_MS 600000u /* for one transfer: a slow one is a figure, not an error */

struct context {
    baton_t *baton;
    baton_cache_t *cache; /* NULL: this rank moves no blocks */
    char *pool;
    uint32_t patience_ms; /* deadline of its offers and wants */
    bool polls;           /* it waits by calling baton_poll again and again */
    bool hears;           /* its engine asked for verdicts: one follows the end of each call */
    struct effort_meter meter;
};

/** Contexts that are opened from now on find this variable in the environment; NULL: they do not find it. */
void context_set(const char *variable, const char *value);

/**
 * Opens and starts a context over the ranks of the bench's world, where this rank is `self`. Starts the computing
 * thread where it is wanted (process.h). With --verdicts the engine asks for them. `cache` may be NULL, and gets its
 * base. With `own` it lies in region 0 of that, which must outlive the context. Collective; fails where Baton does.
 */
void context_open(struct bench *b, struct context *c, const baton_open_params_t *self, struct blocks *cache,
                  const struct own *own);

/** Stops the computing thread and closes. Collective. A peer that was lost is noted in the bench. */
void context_close(struct bench *b, struct context *c);

/** Notes Baton's own description (baton_describe) in the report. */
void context_note(struct bench *b, const struct context *c);

/** `flags`: of baton_offer_flags_t. */
baton_id_t context_offer(const struct context *c, const char *key, const uint32_t *ids, uint32_t count, uint32_t flags);
baton_id_t context_want(const struct context *c, const char *engine, const char *key, const uint32_t *ids,
                        uint32_t count, baton_mode_t mode, void *user);

/**
 * Sleeps in poll(2) on the context's descriptor until there is an event, unless the context polls, for at most
 * timeout_ms. False: none came. The thread stays outside MPI meanwhile, as an engine's does.
 */
bool context_await(const struct context *c, baton_event_t *event, uint64_t timeout_ms);

/**
 * Takes the next event, which must be of that type and say that all went well, and then the verdict on it where the
 * engine asked for verdicts.
 */
void context_take(const struct context *c, baton_event_type_t type, baton_event_t *event);

/** Waits until `count` offers have ended, however they did: some were wanted, others cancelled. */
void context_await_offers(const struct context *c, uint32_t count);
/** Takes back those offers that nobody has wanted, and waits until all have ended. */
void context_end_offers(const struct context *c, const baton_id_t *ids, uint32_t count);

/** The path by which all bytes of a want came; NONE where more than one did. */
baton_path_t context_path(const baton_event_t *event);

/* ---- a reactor that holds still ---------------------------------------------------------------------------------- */

/*
 * While something else is measured in the same process, Baton's reactor can be held still.
 *
 * All threads of a process share MPI's progress and its locks: an idle reactor looks for messages now and then, at a
 * raised priority. Where CPUs are few, this made raw MPI up to a hundred times slower, and a comparison with that
 * would flatter Baton. So the program is linked with --wrap=control_progress: each turn of the reactor passes here,
 * between two MPI calls, and waits if it is asked to. No transfer of Baton's may be under way then, unless the whole
 * process is to be stopped.
 */

/**
 * Asks the reactor to wait; returns when it does, or when it has made no turn for 20 ms: a reactor that sleeps until it
 * is rung holds still anyway, and its next turn waits.
 */
void halt_begin(void);
/** Lets it go on. */
void halt_end(void);

#endif
