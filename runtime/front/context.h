/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context: what one baton_t is made of.
 *
 *   the opening thread   everything, before start and after the reactor has been joined
 *   whoever makes turns  in between: core, paths and net (turns.h)
 *   any thread           in between: reads what start has made; and the parts below, as the header of each says
 *
 * Only a part's own file touches its fields. Other files call its functions.
 */
#ifndef BATON_FRONT_CONTEXT_H
#define BATON_FRONT_CONTEXT_H

#include <stdatomic.h>

#include "baton.h"

#include "base/mpsc.h"
#include "base/settings.h"
#include "core/core.h"
#include "core/ground.h"
#include "core/net.h"
#include "core/world.h"
#include "fault/fault.h"
#include "front/admission.h"
#include "front/binding.h"
#include "front/cache.h"
#include "front/calls.h"
#include "front/closing.h"
#include "front/events.h"
#include "front/fleet.h"
#include "front/caller.h"
#include "front/paths.h"
#include "front/reactor.h"
#include "front/snapshot.h"
#include "front/stall.h"
#include "front/start.h"
#include "front/stats.h"
#include "observe/log.h"
#include "topo/topo.h"

enum context_state {
    CONTEXT_OPEN,
    CONTEXT_WAITING, /* for caches that come late */
    CONTEXT_STARTED,
    CONTEXT_FAILED,
    CONTEXT_LEFT /* by MPI_Finalize */
};

/** What a context stands on. Whoever opens it fills this. */
struct footing {
    const struct ground *ground;
    const struct net *net;
    const struct world_calls *world; /* NULL, from the end of start on: there is none, and the context closes alone */
    baton_progress_mode_t mode;      /* BATON_PROGRESS_THREAD or _CALLER */
};

/** What it is opened with. */
struct opening {
    const struct settings *settings;
    baton_progress_mode_t progress; /* that the engine asks for */
    struct logger *log;
    int local; /* an error that this process has found before, with its sentence set, or 0: for others to be told of */
};

struct baton {
    struct settings settings;
    struct logger log;
    baton_open_params_t who;
    struct topo_place place;
    struct binding binding;
    _Atomic enum context_state state;

    struct footing on;
    struct baton_cache *cache; /* NULL: none declared */
    struct directory *directory;
    struct paths *paths;
    struct faults *faults;   /* NULL: none are injected */
    const struct port *port; /* the faults' or, without them, the paths' */
    struct core *core;
    uint64_t number; /* as a member (wire/row.h) */

    /* any thread */
    struct fleet *fleet;
    struct mpsc submits; /* calls on their way to the core */
    struct calls *calls;
    struct admission admission;
    struct events events;
    struct snapshot snapshot;

    struct loop loop;
    struct closing closing;
    struct stall stall;
    struct caller caller;
    struct start start;
};

/**
 * Opens a context: `find` gets `arg`, fills in what the context stands on, or returns an error, as it must if it was
 * given one. Errors are those of `find`; and in this process alone, without a call of it: BATON_EINVAL, an argument is
 * NULL; BATON_ESTATE, the process was forked from one that had opened a context.
 */
int context_open_on(const baton_open_params_t *params,
                    int (*find)(void *arg, const struct opening *o, struct footing *out), void *arg, baton_t **out);

/**
 * What each call asks before it looks at anything else of the context. 0; BATON_EINVAL: b is NULL; BATON_ESTATE: this
 * process is a copy of the one that opened it (base/forked.h).
 */
int context_check(const struct baton *b);

/** The same, and BATON_EAGAIN: caches are still to come; BATON_ESTATE: it is not started. */
int context_check_started(const struct baton *b);

/** Engines have come or gone, and the fleet knows it: tells the engine, if it asked for that. Any thread. */
void context_tell_engines(struct baton *b);

#endif
