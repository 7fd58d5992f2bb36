/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * patience: how long a peer may take before it counts as silent. It is four times what its operations usually take, but
 * at least park_ms and at most BATON_PEER_MS. So a peer behind a slow link is not mistaken for one that was stopped.
 */
#ifndef BATON_BASE_PATIENCE_H
#define BATON_BASE_PATIENCE_H

#include "base/clock.h"
#include "base/settings.h"

/** Zeroed before. */
struct patience {
    uint64_t usual_ns; /* a running average; 0: nothing is known yet */
};

static inline void patience_learn(struct patience *p, uint64_t took_ns)
{
    p->usual_ns = p->usual_ns == 0 ? took_ns : p->usual_ns - p->usual_ns / 8 + took_ns / 8;
}

static inline uint64_t patience_ns(const struct patience *p, const struct settings *set)
{
    uint64_t least = set->park_ms * CLOCK_NS_PER_MS, most = set->peer_ms * CLOCK_NS_PER_MS, ns = 4 * p->usual_ns;
    if (ns > most)
        ns = most;
    return ns > least ? ns : least;
}

#endif
