/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * leave: see leave.h. In a world of MPI, windows can be freed only by all ranks together. So a rank that closes must
 * learn of any lost rank, whether it had business with that rank or not, and all ranks must name the same one.
 *
 * A rank that closes says so to rank 0 (LEAVE, once a beat). It watches rank 0 and the ranks of its node, by beats and
 * by the operating system. Rank 0 watches every rank as soon as one closes. At the first loss that a closing rank finds
 * or hears of, it closes without the others, and says so to rank 0 and to its node (LEAVE with the lost rank as its
 * subject). Rank 0 tells all. A rank that hears of the loss before it closes remembers it. The process of a rank that
 * closes without the others may end at any time, and that is no loss, even if it was taken for lost before its LEAVE
 * came.
 *
 * A member that stands in no such world leaves alone. It says so (LEAVE with itself as its subject) to its neighbours
 * and to all with which it had business, once, and waits for no answer.
 */
#include "core/leave.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/peer.h"
#include "core/post.h"
#include "core/state.h"

struct leaving {
    bool begun;    /* this rank closes */
    bool watching; /* over all ranks (rank 0), or over rank 0 and this node */
    uint32_t lost; /* the rank without which the world is closed; DIRECTORY_NONE: none is known to be lost */
    bool is_own;   /* this rank found it; else another told it */
    struct timer timer;
};

static void tell(struct core *core, uint32_t rank)
{
    uint32_t lost = core->leaving->lost;
    struct wire_message m = {.type = WIRE_LEAVE};
    if (lost != DIRECTORY_NONE)
        m.subject.member = core->c.directory->rows[lost].number;
    if (rank != core->c.self && !post_waits(core->post, rank))
        post_send(core->post, rank, &m);
}

static void tell_others(struct core *core)
{
    const struct directory *d = core->c.directory;
    if (core->c.self == 0) {
        for (uint32_t i = 1; i < d->num_ranks; i++)
            tell(core, i);
        return;
    }
    tell(core, 0);
    for (uint32_t i = d->next_on_node[core->c.self]; i != core->c.self; i = d->next_on_node[i])
        if (i != 0)
            tell(core, i);
}

static void decide(struct core *core, uint32_t lost, bool is_own)
{
    struct leaving *l = core->leaving;
    bool first = l->lost == DIRECTORY_NONE;
    l->lost = lost;
    l->is_own = is_own;
    if (first && (l->begun || core->c.self == 0))
        tell_others(core);
}

static void watch(struct core *core, uint32_t rank)
{
    if (peer_know(core, rank) == 0) /* without memory to watch it: its own node, or rank 0, will tell */
        peer_hold(core, rank);
}

/* Neighbours that the operating system knows of. Rank 0 watches the others. */
static void watch_node(struct core *core)
{
    const struct directory *d = core->c.directory;
    const struct port *port = core->c.port;
    for (uint32_t i = d->next_on_node[core->c.self]; i != core->c.self; i = d->next_on_node[i])
        if (i != 0 && port->alive(port->self, i) != PORT_UNKNOWN)
            watch(core, i);
}

static void begin_watch(struct core *core)
{
    struct leaving *l = core->leaving;
    if (l->watching)
        return;
    l->watching = true;
    if (core->c.self != 0) {
        watch(core, 0);
        watch_node(core);
    }
    for (uint32_t i = 1; core->c.self == 0 && i < core->c.directory->num_ranks; i++)
        watch(core, i);
    for (uint32_t i = 0; i < core->c.directory->num_ranks && l->lost == DIRECTORY_NONE; i++)
        if (peer_is_lost(core, i))
            decide(core, i, true);
}

static void on_timer(struct core *core, struct timer *t)
{
    tell(core, 0);
    timer_arm(&core->timers, t, core->now + core->c.settings->beat_ms * NS_PER_MS, on_timer);
}

void core_leave(struct core *core, uint64_t now)
{
    struct leaving *l = core->leaving;
    core->now = now;
    l->begun = true;
    if (l->lost != DIRECTORY_NONE)
        tell_others(core);
    begin_watch(core);
    if (core->c.self != 0)
        on_timer(core, &l->timer);
}

int64_t core_loss(const struct core *core)
{
    return core->leaving->begun && core->leaving->lost != DIRECTORY_NONE ? (int64_t)core->leaving->lost : -1;
}

/* Neighbours take offers by words, and this rank need not know of that. */
static bool may_know_me(const struct core *core, uint32_t rank)
{
    return rank != core->c.self && core->c.directory->engine_of[rank] != DIRECTORY_NONE && !peer_is_lost(core, rank) &&
           !peer_has_left(core, rank) && (peer_is_known(core, rank) || !path_is_far(core->c.path[rank]));
}

void core_tell_left(struct core *core, uint64_t now)
{
    const struct directory *d = core->c.directory;
    struct wire_message m = {.type = WIRE_LEAVE, .subject.member = d->rows[core->c.self].number};
    core->now = now;
    for (uint32_t i = 0; i < d->num_ranks; i++)
        if (may_know_me(core, i))
            post_send(core->post, i, &m);
}

void leave_on_loss(struct core *core, uint32_t rank)
{
    if (core->leaving->watching && core->leaving->lost == DIRECTORY_NONE && !peer_has_left(core, rank))
        decide(core, rank, true);
}

/* That rank closes without the others. */
static void on_lone_leave(struct core *core, uint32_t rank, uint32_t lost)
{
    struct leaving *l = core->leaving;
    peer_leave(core, rank);
    if (l->lost == DIRECTORY_NONE || (l->lost == rank && l->is_own))
        decide(core, lost, false);
}

void leave_on_message(struct core *core, uint32_t rank, const struct wire_message *m)
{
    const bool is_alone = m->subject.member != 0;
    const uint32_t lost = is_alone ? directory_rank(core->c.directory, m->subject.member) : DIRECTORY_NONE;
    if (is_alone && lost == DIRECTORY_NONE) {
        post_refuse(core->post, rank, m, "its subject is no member");
        return;
    }
    if (lost == rank) { /* it stands in no world */
        peer_leave(core, rank);
        return;
    }
    if (is_alone)
        on_lone_leave(core, rank, lost);
    if (core->c.self != 0)
        return;
    begin_watch(core);
    if (core->leaving->lost != DIRECTORY_NONE)
        tell(core, rank);
    else
        peer_beat(core, rank, false);
}

int leave_create(struct core *core)
{
    core->leaving = calloc(1, sizeof *core->leaving);
    if (core->leaving == NULL)
        return BATON_ENOMEM;
    core->leaving->lost = DIRECTORY_NONE;
    return 0;
}

void leave_destroy(struct core *core)
{
    if (core->leaving != NULL)
        timer_stop(&core->timers, &core->leaving->timer);
    free(core->leaving);
}
