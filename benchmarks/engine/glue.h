/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * glue: all that this engine has to do with Baton. The rest of the program, its model and its scheduler, knows nothing
 * of Baton: it sees a carrier (carrier.h) and pages (pages.h). Read glue.c to learn what an engine needs.
 *
 * One thread, the engine's own, makes all calls. Baton's reactor moves the bytes meanwhile.
 */
#ifndef ENGINE_GLUE_H
#define ENGINE_GLUE_H

#include "baton.h"
#include "engine/carrier.h"
#include "engine/load.h"
#include "engine/memory.h"
#include "engine/options.h"
#include "engine/pages.h"

struct glue {
    const struct options *options;
    const struct load *load;
    baton_open_params_t me;
    baton_t *baton;
    baton_cache_t *cache;
    baton_geometry_t geometry;
    baton_tensor_t tensors[SHAPE_LAYERS_MAX];
    struct pages pages;
    struct memory own;                   /* what of the cache's memory is the engine's own */
    baton_engine_t *world;               /* all engines, in the order of their names */
    const char **engines[SIDES];         /* the names of each side's */
    uint32_t num_engines[SIDES], number; /* number: this engine's, on its side */
    bool one_machine;                    /* all ranks have one clock */
    unsigned failures;                   /* calls that Baton refused */
    baton_stats_t stats;                 /* as of the close */
};

static inline enum side glue_side(const struct glue *g)
{
    return g->me.role == BATON_ROLE_PREFILL ? SIDE_PREFILL : SIDE_DECODE;
}

/**
 * Opens Baton with a cache of `num_blocks` blocks; g->me says who this rank is. Collective over the world. 0, or a
 * negative BATON_E… with *why, on all ranks.
 */
int glue_open(struct glue *g, const struct options *options, const struct load *load, const struct slice *slice,
              uint32_t num_blocks, struct why *why);

/** Collective over the world. 0, or a negative BATON_E…; after BATON_EPEER the process must leave by baton_exit. */
int glue_close(struct glue *g, struct why *why);

struct carrier glue_carrier(struct glue *g);

/** The router: the number of the engine of that side that serves a request of the load. */
uint32_t glue_route(const struct glue *g, enum side side, uint32_t index);

/** Takes events, and notes in each transfer what became of it. */
void glue_poll(struct glue *g);
/** Sleeps until an event is there, for `ms` at most. */
void glue_wait(const struct glue *g, int ms);

/** A layer of the model has the keys and values of the next `count` tokens of a request whose blocks are streamed. */
void glue_layer(struct glue *g, struct request *r, uint32_t layer, uint32_t count);

#endif
