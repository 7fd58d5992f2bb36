/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state: one core. It holds what all its files use (time, timers, tags, memory to reap, counts) and one part for each
 * noun. A part is made, known and destroyed by the files of its noun alone; each noun's header says what it is.
 *
 * Shared by the files of the core, and by tests that look inside. All of it belongs to the thread that steps the core.
 */
#ifndef BATON_CORE_STATE_H
#define BATON_CORE_STATE_H

#include "core/core.h"
#include "core/counts.h"
#include "core/op.h"
#include "core/outcome.h"
#include "core/reap.h"
#include "core/timer.h"
#include "core/work.h"
#include "observe/timeline.h"

#define NS_PER_MS UINT64_C(1000000)

/** The room above the core, if there is one. */
struct above {
    const struct core_hooks *hooks;
    void *self; /* its own */
};

struct core {
    struct core_config c;
    uint64_t now; /* of this step */
    bool shut;
    struct timers timers;
    struct ops ops;
    struct works works;
    struct reap reap;
    struct counts stats;
    struct outcomes outcomes;
    uint32_t serving; /* peers that read from here or write to here over a path that needs this process to poll */
    struct post *post;
    struct leases *leases;
    struct early *early;
    struct survey *survey;
    struct peers *peers;
    struct leaving *leaving;
    struct ends *ends;
    struct links *links;
    struct movers *movers;
    struct checks *checks;
    struct tails *tails;
    struct attempts *attempts;
    struct offers *offers;
    struct wants *wants;
    struct above above;
};

/** My engine, and my index in it. */
static inline uint32_t core_engine(const struct core *core)
{
    return core->c.directory->engine_of[core->c.self];
}

static inline uint32_t core_index(const struct core *core)
{
    return core->c.directory->index_of[core->c.self];
}

/** Where this rank's transfers leave when they did what (observe/timeline.h); NULL: nowhere. */
static inline struct timeline *core_timeline(const struct core *core)
{
    return core->c.log->timeline;
}

/** How ranks of this node take offers without a message; NULL: they do not. */
static inline const struct port_handoff *core_handoff(const struct core *core)
{
    return core->c.port->handoff;
}

#endif
