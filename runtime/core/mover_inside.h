/* SPDX-License-Identifier: BSD-3-Clause */
/* mover_inside: a mover's fields. For mover.c, and for tests that look inside. */
#ifndef BATON_CORE_MOVER_INSIDE_H
#define BATON_CORE_MOVER_INSIDE_H

#include "core/budget.h"
#include "core/mover.h"
#include "core/queue.h"
#include "core/state.h"
#include "core/tables.h"
#include "core/tally.h"
#include "core/timer.h"
#include "core/fair.h"

enum mover_state { MOVER_IDLE, MOVER_WAITING, MOVER_TABLE, MOVER_MOVING, MOVER_PROOF, MOVER_DRAINING, MOVER_ENDED };

/** Tokens [at, end) of the request, and how far they have moved. */
struct chunk {
    uint32_t at, end;
    uint64_t began_ns; /* the first of the request's chunks */
    struct plan_transfer transfer;
    struct plan_cursor cursor;
};

struct mover {
    struct op op; /* first */
    void *owner;
    struct contact *contact;
    uint32_t peer;
    struct flow *flow;
    bool write; /* push: from mine to the peer's */
    enum mover_state state;
    bool issued;             /* TABLE, PROOF: the question is under way */
    bool unread;             /* theirs are not of the newest table */
    enum path_park parked;   /* stopped: LATER: it waits for PORT_QUIET; NEVER: for its peer's end, or close */
    struct reach reach;      /* what may move */
    struct peer_table table; /* the newest that was named */
    struct peer_table asked; /* TABLE: the one that is read */
    uint32_t num_tokens;     /* of the request */
    const struct plan_tables *mine;
    struct tables theirs;
    struct chunk chunk;        /* what moves now */
    uint64_t taken, bytes;     /* of all so far; bytes: with those of the transfer */
    struct tally tally;        /* those that landed */
    struct fair_member member; /* in movers->asks, or (MOVING) in movers->moves */
    struct queued news;        /* in movers->news, with: */
    struct mover_word word;
    char detail[96];
};

/** If this `is` a moment of its leg, from FIRST to STOPPED, the timeline is told. */
static inline void mover_note(const struct core *core, const struct mover *m, enum timeline_kind kind, bool is)
{
    unsigned open = kind == TIMELINE_STOPPED && m->taken > 0 && m->state < MOVER_PROOF ? TIMELINE_MOVES : 0;
    if (is)
        timeline_leg(core_timeline(core), kind, core->now, m->op.tag, m->tally.bytes, m->write | open);
}

/** It can do no more. `is_whole`: all has landed, and is known to be what was granted. */
static inline void mover_end(const struct core *core, struct mover *m, bool is_whole)
{
    mover_note(core, m, TIMELINE_FENCED, is_whole);
    if (!is_whole)
        return;
    m->state = MOVER_ENDED;
    tally_add(core, &m->tally, m->chunk.began_ns);
}

/** Where the generation of the peer's lease stands in its segment. */
static inline uint64_t mover_board_at(const struct mover *m)
{
    return contact_layout(m->contact)->board_offset + 8 * (uint64_t)m->table.slot;
}

/** The same if a read's next move may take all of its last bytes, else 0. `whole`: its chunk lacks no layer. */
static inline uint64_t mover_board_behind(const struct mover *m, bool whole)
{
    return whole && !m->write && m->chunk.end == m->num_tokens ? mover_board_at(m) : 0;
}

/** Those of one peer. */
struct flow {
    struct fair_queue asks, moves; /* that wait */
    struct share share;            /* what they have in flight */
};

/** All of one core. */
struct movers {
    struct fair asks, moves; /* questions to peers, and bytes */
    struct queue news;
    struct budget copies, rma; /* bytes in flight, by path */
    struct timer look;         /* who of those that hold bytes is silent */
    uint32_t reading;          /* tables and generations that are read */
    struct flow *flows[];      /* by rank; NULL: none had to do with it yet */
};

#endif
