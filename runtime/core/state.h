/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state: the core's own structures, shared by its files and by nobody else.
 *
 *   producer: offer -> seats (one a consumer engine) -> readers (its ranks); early wants wait as waiters of the offer
 *   consumer: link (one a producer engine wanted) -> contacts (its ranks that serve us); want -> legs (one a contact)
 *
 * All of it belongs to the thread that steps the core.
 */
#ifndef BATON_CORE_STATE_H
#define BATON_CORE_STATE_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "core/claim.h"
#include "core/core.h"
#include "core/early.h"
#include "core/ends.h"
#include "core/lease.h"
#include "core/leave.h"
#include "core/link.h"
#include "core/mover.h"
#include "core/offer.h"
#include "core/op.h"
#include "core/outcome.h"
#include "core/peer.h"
#include "core/post.h"
#include "core/queue.h"
#include "core/reap.h"
#include "core/survey.h"
#include "core/timer.h"
#include "core/want.h"
#include "core/work.h"

#define NS_PER_MS UINT64_C(1000000)

/* ---- the core ---------------------------------------------------------------------------------------------------- */

struct core {
    struct core_config c;
    uint64_t now;
    struct timers timers;
    struct ops ops;
    struct works works;
    struct reap reap;
    bool shut;
    uint32_t serving; /* peers that read from here or write to here over a path that needs this process to poll */
    baton_stats_t stats;
    struct post *post;
    struct outcomes outcomes;
    struct leases *leases;
    struct early *early;
    struct survey *survey;
    struct peers *peers;
    struct leaving *leaving;
    struct ends *ends;
    struct claims *claims; /* NULL: none yet */
    struct links *links;
    struct movers *movers;

    struct attempts *attempts;
    struct offers *offers;

    struct wants *wants;
    struct checks *checks;
    struct tails *tails;
    struct verdicts *verdicts;
};

/** My row in the directory, my engine, and my index in it. */
static inline const struct wire_row *core_row(const struct core *core)
{
    return &core->c.directory->rows[core->c.self];
}

static inline uint32_t core_engine(const struct core *core)
{
    return core->c.directory->engine_of[core->c.self];
}

static inline uint32_t core_index(const struct core *core)
{
    return core->c.directory->index_of[core->c.self];
}

#endif
