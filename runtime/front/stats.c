/* SPDX-License-Identifier: BSD-3-Clause */
/* stats: see stats.h. */
#include "front/stats.h"

#include <string.h>

#include "front/context.h"

static void add_paths(struct baton *b, baton_stats_t *out)
{
    const struct net_counts net = b->on.net->counts(b->on.net->self);
    const uint64_t bad = net.messages_bad + paths_messages_bad(b->paths);
    out->messages_received += bad;
    out->messages_bad += bad;
    out->flushes = net.flushes;
    out->settled = net.settled;
    out->poisoned = net.poisoned;
    out->reads_parked = net.parked;
    memcpy(out->peers, paths_peers(b->paths), sizeof out->peers);
}

static void add_turns(const struct loop *l, baton_stats_t *out)
{
    out->verdicts_lost += count_of(&l->verdicts_lost);
    out->turns = count_of(&l->num_turns);
    out->turns_calls = count_of(&l->turns.count[TURNS_CALL]);
    out->turns_polls = count_of(&l->turns.count[TURNS_POLL]);
    out->turns_workers = count_of(&l->turns.count[TURNS_WORKER]);
    out->turns_doorbell = count_of(&l->turns.count[TURNS_DOORBELL]);
    out->sleeps = count_of(&l->num_sleeps);
}

void stats_read(struct baton *b, baton_stats_t *out)
{
    memset(out, 0, sizeof *out);
    /* acquire: the core and the paths are there once the context has been started. */
    if (atomic_load_explicit(&b->start.is_whole, memory_order_acquire)) {
        core_stats(b->core, out);
        add_paths(b, out);
    }
    add_turns(&b->loop, out);
    events_reasons(&b->events, out->reasons);
    out->again = admission_refused(&b->admission);
}
