/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serve: one rank of one engine: its part of the model, its scheduler and its carrier, and the loop that they run in.
 * In each step the ranks of the engine agree on what happened, decide alike what to compute, and compute it together.
 */
#ifndef ENGINE_SERVE_H
#define ENGINE_SERVE_H

#include "engine/glue.h"
#include "engine/llama.h"
#include "engine/mates.h"
#include "engine/scheduler.h"

struct serve_news;

struct serve {
    const struct options *options;
    const struct load *load;
    struct slice slice;
    struct mates mates;
    struct team team;
    struct glue glue;
    struct llama llama;
    struct batch batch;
    struct scheduler scheduler;
    struct serve_news *news;   /* of a step */
    int64_t *facts;            /* that the ranks agree on */
    uint64_t begun_ns, fed_ns; /* fed: when the scheduler last had blocks or nothing to do */
    bool sabotaged;
};

static inline bool serve_is_leader(const struct serve *s)
{
    return s->mates.rank == 0;
}

/** Local: which slice of the model this rank has. 0, or -1 with *why. */
int serve_place(struct serve *s, const struct options *options, const baton_open_params_t *me, struct why *why);
/** Collective over the world: finds the other ranks of the engine. 0, or -1 with *why. */
int serve_meet(struct serve *s, struct why *why);
/** Collective over the world: opens Baton, makes the model and the scheduler. 0, or -1 with *why. */
int serve_init(struct serve *s, const struct load *load, struct why *why);
void serve_fini(struct serve *s);

/** Serves until every request of this engine has ended. 0, or -1 with *why: a rank is lost, or blocks stay away. */
int serve_run(struct serve *s, struct why *why);

/** Says so in *why. Returns -1. */
int serve_lost(const struct serve *s, struct why *why);

/** When a request arrived, on this rank's clock. */
uint64_t serve_arrival_ns(const struct serve *s, uint32_t index);

#endif
