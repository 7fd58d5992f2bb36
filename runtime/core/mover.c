/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mover: the bytes between one peer's cache and mine, in either direction.
 *
 *   WAITING what is in place was moved, and that was not all
 *   TABLE   the peer's block table is read from its arena, under the lease that its message named
 *   MOVING  runs move, a slice a turn; other movers have their turns between. Tokens move as they come into place, chunk
 *           by chunk, and of the newest chunk those layers that are. One proof in the end is one for all: a generation
 *           never comes back
 *   PROOF   every byte landed. Of a read: the peer's generation is read again; of a write: it is settled
 *   DRAINING a write that was stopped: until what was put is settled, so that nothing of it can land later
 *   ENDED   told, or stopped
 */
#include "core/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void run_add(struct core *core, struct mover *m)
{
    if (m->runnable)
        return;
    m->runnable = true;
    DL_APPEND(core->run, m);
}

static void run_remove(struct core *core, struct mover *m)
{
    if (!m->runnable)
        return;
    m->runnable = false;
    DL_DELETE(core->run, m);
}

/* The owner hears how it ended; with an error the owner stops it. */
static void tell(struct core *core, struct mover *m, int error, const char *detail)
{
    if (error == 0)
        m->state = MOVER_ENDED;
    if (m->op.kind == OP_LEG)
        leg_on_moved(core, (struct leg *)m, error, detail);
    else
        push_on_moved(core, (struct push *)m, error, detail);
}

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

/* Up to which token it may move now. */
static uint32_t next_end(const struct mover *m)
{
    uint32_t end = m->reach.done > m->at ? m->reach.done : m->reach.next;
    return end < m->num_tokens ? end : m->num_tokens;
}

/* The layers, of those tokens, below which it may move. */
static uint32_t layer_end(const struct mover *m)
{
    return m->reach.done >= m->end ? UINT32_MAX : m->reach.layer_end;
}

/* Begins to move the tokens that follow. 0: some bytes of them, or none of all the rest. */
static int next_chunk(struct mover *m, uint32_t end, struct plan_why *why)
{
    const struct plan_tables *src = m->write ? m->mine : &m->theirs, *dst = m->write ? &m->theirs : m->mine;
    int rc = plan_transfer_chunk(&m->transfer, m->contact->plan, m->at, end, m->num_tokens, src, dst, why);
    if (rc != 0)
        return rc == BATON_ETOKENS ? rc : BATON_EMESSAGE; /* mine were checked when they came */
    m->end = end;
    m->cursor = (struct plan_cursor){0};
    m->bytes += m->transfer.bytes;
    return 0;
}

/* Goes on with the tokens that are in place by now; waits for them; or all has landed. */
static void go_on(struct core *core, struct mover *m)
{
    struct plan_why why = {{0}};
    int rc = 0;
    m->state = MOVER_WAITING;
    while (rc == 0 && m->state == MOVER_WAITING && m->at < m->num_tokens) {
        uint32_t end = next_end(m);
        if (end <= m->at)
            return;
        if (m->unread) {
            m->state = MOVER_TABLE;
            break;
        }
        rc = next_chunk(m, end, &why);
        if (rc == 0 && m->transfer.bytes > 0)
            m->state = MOVER_MOVING;
        else
            m->at = end; /* there is nothing of it in this part */
    }
    if (rc != 0) {
        tell(core, m, rc, why.text);
        return;
    }
    if (m->at == m->num_tokens)
        m->state = MOVER_PROOF;
    run_add(core, m);
}

static int take_table(struct mover *m, const struct peer_table *table)
{
    if (!contact_holds(m->contact, table))
        return BATON_EMESSAGE;
    m->unread |= table->offset != m->table.offset || table->numbers != m->table.numbers;
    m->table = *table;
    return 0;
}

int mover_start(struct core *core, struct mover *m, const struct peer_table *table, uint32_t held, uint32_t num_tokens,
                const struct plan_tables *mine)
{
    m->at = held;
    m->num_tokens = num_tokens;
    m->mine = mine;
    m->unread = true;
    int rc = take_table(m, table);
    if (rc == 0)
        go_on(core, m);
    return rc;
}

int mover_ready(struct core *core, struct mover *m, const struct reach *reach, const struct peer_table *table)
{
    int rc = table != NULL ? take_table(m, table) : 0;
    if (rc != 0)
        return rc;
    m->reach = *reach;
    if (m->state == MOVER_WAITING || m->state == MOVER_MOVING)
        run_add(core, m);
    return 0;
}

/* ---- what happened ----------------------------------------------------------------------------------------------- */

/* Tables of an offer in chunks may be written anew while they are read: then a word of the new ones is on its way. */
static bool waits_for_table(const struct mover *m, int error)
{
    return error == BATON_ESTALE && !m->write && m->reach.done < UINT32_MAX;
}

static void on_table(struct core *core, struct mover *m, const struct port_event *e)
{
    uint32_t *ids = NULL;
    bool newer = m->table.offset != m->asked.offset || m->table.numbers != m->asked.numbers;
    int rc = e->error;
    if (rc == 0)
        rc = wire_table_decode(e->data, e->bytes, m->table.slot, m->table.generation, &m->theirs, &ids);
    if (rc == 0) {
        free(m->their_ids);
        m->their_ids = ids;
        m->unread = newer;
    } else if (newer && rc == BATON_ESTALE) {
        run_add(core, m); /* at once, in its new place */
        return;
    } else if (waits_for_table(m, rc)) {
        m->state = MOVER_WAITING;
        return;
    } else {
        core->stats.stale += rc == BATON_ESTALE;
        tell(core, m, rc, "its block tables could not be read");
        return;
    }
    go_on(core, m);
}

static void on_moved(struct core *core, struct mover *m, const struct port_event *e)
{
    m->landed += e->moved;
    *(m->write ? &core->stats.puts : &core->stats.gets) += e->runs;
    if (m->state == MOVER_DRAINING && m->landed == m->taken)
        run_add(core, m);
    if (m->state != MOVER_MOVING) /* an answer of the same step in which it was given up */
        return;
    core->inflight -= e->moved;
    if (e->error != 0) {
        tell(core, m, e->error, m->write ? "writing to its blocks failed" : "reading its blocks failed");
        return;
    }
    if (m->landed == m->bytes) {
        m->at = m->end;
        go_on(core, m);
        return;
    }
    run_add(core, m);
}

static void quiet(struct core *core, struct mover *m)
{
    m->parked = false;
    m->state = MOVER_ENDED;
    run_remove(core, m);
    op_remove(core, &m->op);
    if (m->op.kind == OP_LEG)
        leg_on_quiet(core, (struct leg *)m);
    else
        push_on_quiet(core, (struct push *)m);
}

/* A write that cannot be settled is not known to be quiet: it stays so until close, unless its peer is gone. */
static void on_drained(struct core *core, struct mover *m, int error)
{
    if (error == 0 || peer_is_dead(core, m->contact->peer))
        quiet(core, m);
}

static void on_proof(struct core *core, struct mover *m, const struct port_event *e)
{
    if (m->write) {
        tell(core, m, e->error, "what was written could not be settled");
    } else if (e->error != 0 || e->generation != m->table.generation) {
        char detail[96];
        core->stats.stale++;
        snprintf(detail, sizeof detail, "generation %" PRIu64 " granted, %" PRIu64 " read again", m->table.generation,
                 e->error != 0 ? 0 : e->generation);
        tell(core, m, BATON_ESTALE, detail);
    } else {
        tell(core, m, 0, "");
    }
}

void mover_on_event(struct core *core, struct mover *m, const struct port_event *e)
{
    enum port_event_kind proof = m->write ? PORT_SETTLED : PORT_BOARD;
    if (e->kind == PORT_MOVED) {
        on_moved(core, m, e);
    } else if (e->kind == PORT_QUIET && m->parked) {
        quiet(core, m);
    } else if (m->issued && (e->kind == PORT_CARD || e->kind == proof)) {
        m->issued = false;
        core->reading--;
        if (e->kind == PORT_CARD && m->state == MOVER_TABLE)
            on_table(core, m, e);
        else if (e->kind == proof && m->state == MOVER_PROOF)
            on_proof(core, m, e);
        else if (e->kind == proof && m->state == MOVER_DRAINING)
            on_drained(core, m, e->error);
    }
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What it may have in flight now. 0: *others says whether the limit of the process is the reason. */
static uint64_t budget_of(const struct core *core, const struct mover *m, bool *others)
{
    const struct settings *set = core->c.settings;
    uint64_t mine = m->taken - m->landed;
    uint64_t own = least(set->chunk_bytes, set->leg_bytes > mine ? set->leg_bytes - mine : 0);
    uint64_t all = set->inflight_bytes > core->inflight ? set->inflight_bytes - core->inflight : 0;
    *others = all == 0 && mine == 0;
    return least(own, all);
}

/* What a write to a dead rank may still do there harms nobody; here its requests must have come back. */
static int64_t ask(struct core *core, struct mover *m)
{
    if (m->state == MOVER_DRAINING && peer_is_dead(core, m->contact->peer))
        return BATON_EPEER;
    const struct port *port = core->c.port;
    const struct contact *c = m->contact;
    if (m->state == MOVER_TABLE)
        return port->card(port->self, c->peer, c->arena_offset + m->table.offset,
                          (uint32_t)wire_table_bytes(m->table.numbers), m->op.tag);
    if (m->write)
        return port->settle(port->self, c->peer, m->op.tag);
    return port->board(port->self, c->peer, c->board_offset + 8 * (uint64_t)m->table.slot, m->op.tag);
}

/* One turn. True: something was taken. */
static bool advance(struct core *core, struct mover *m)
{
    const struct port *port = core->c.port;
    int64_t rc;
    if (m->state == MOVER_WAITING) {
        run_remove(core, m);
        go_on(core, m);
        return true;
    }
    if (m->state == MOVER_MOVING) {
        bool others;
        uint64_t budget = budget_of(core, m, &others);
        uint32_t layers = layer_end(m);
        uint64_t ahead = layers < UINT32_MAX ? plan_ahead(&m->transfer, &m->cursor, layers) : UINT64_MAX;
        if (ahead == 0 || plan_at_end(&m->transfer, &m->cursor) || (budget == 0 && !others)) {
            run_remove(core, m); /* its own completions bring it back, or layers that become ready */
            return false;
        }
        budget = least(budget, ahead);
        if (budget == 0)
            return false; /* others fill the process' limit: next step */
        struct port_leg part = {.peer = m->contact->peer,
                                .write = m->write,
                                .tag = m->op.tag,
                                .transfer = &m->transfer,
                                .cursor = &m->cursor,
                                .pool_offset = m->contact->pool_offset,
                                .pool_bytes = m->contact->pool_bytes};
        rc = port->move(port->self, &part, budget);
    } else {
        rc = ask(core, m);
    }
    if (rc == BATON_EAGAIN)
        return false;
    if (rc < 0 && m->state == MOVER_DRAINING) {
        run_remove(core, m);
        on_drained(core, m, (int)rc);
        return true;
    }
    if (rc < 0) {
        tell(core, m, (int)rc, "its path refused the operation");
        return true;
    }
    if (m->state == MOVER_MOVING) {
        m->taken += (uint64_t)rc;
        core->inflight += (uint64_t)rc;
        return true;
    }
    m->issued = true;
    m->asked = m->table;
    core->reading++;
    run_remove(core, m);
    return true;
}

void movers_run(struct core *core)
{
    bool moved = true;
    while (moved && core->run != NULL) { /* rounds, until a whole one takes nothing */
        uint32_t n = 0;
        struct mover *m;
        moved = false;
        DL_COUNT(core->run, m, n);
        while (n-- > 0 && core->run != NULL) {
            m = core->run;
            DL_DELETE(core->run, m);
            DL_APPEND(core->run, m);
            moved |= advance(core, m);
        }
    }
}

/* ---- giving up --------------------------------------------------------------------------------------------------- */

/* What was put may still land: it is settled first. */
static bool stop_write(struct core *core, struct mover *m)
{
    if (m->taken == 0 || m->state == MOVER_ENDED)
        return true;
    bool settling = m->state == MOVER_PROOF && m->issued;
    m->state = MOVER_DRAINING;
    if (m->landed == m->taken && !settling)
        run_add(core, m);
    return false;
}

static bool stop_read(struct core *core, struct mover *m)
{
    const struct port *port = core->c.port;
    if (m->issued) { /* table and generation land in the port's own memory */
        m->issued = false;
        core->reading--;
        port->park(port->self, m->contact->peer, m->op.tag);
    }
    bool all = m->state != MOVER_MOVING || m->taken == m->landed;
    m->parked = !all && port->park(port->self, m->contact->peer, m->op.tag) != PORT_PARK_QUIET;
    m->state = MOVER_ENDED;
    return !m->parked; /* else the blocks are not their owner's again before PORT_QUIET */
}

bool mover_stop(struct core *core, struct mover *m)
{
    if (m->parked || m->state == MOVER_DRAINING)
        return false;
    run_remove(core, m);
    if (m->state == MOVER_MOVING) /* it holds no budget while it waits */
        core->inflight -= m->taken - m->landed;
    bool is_quiet = m->write && m->state != MOVER_TABLE ? stop_write(core, m) : stop_read(core, m);
    if (is_quiet)
        op_remove(core, &m->op); /* what this step still brings of it is counted already */
    return is_quiet;
}

void mover_dead(struct core *core, struct mover *m)
{
    if (m->state == MOVER_DRAINING && m->landed == m->taken && !m->issued)
        run_add(core, m); /* it asks, and hears that nobody is there */
}

void mover_free(struct core *core, struct mover *m)
{
    run_remove(core, m);
    op_remove(core, &m->op);
    if (m->issued)
        core->reading--;
    free(m->their_ids);
}
