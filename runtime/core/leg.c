/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * leg: the part of a want between one producer rank and this one.
 *
 *   ASKED   WANT was sent; sent again with growing pauses until GRANT or NACK
 *   TABLE   granted; the producer's block table is read from its arena
 *   MOVING  bytes move, a chunk a turn; other legs have their turns between
 *   FENCE   every byte landed; the lease's generation is read again
 *   FENCED  it is the one granted: the bytes are those that were offered
 *   CLOSED  given up, and nothing of it can write into the blocks any more
 */
#include "core/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS UINT64_C(1000000)
#define RESEND_MOST 16 /* times BATON_RESEND_MS */

static void run_add(struct core *core, struct leg *leg)
{
    if (leg->runnable)
        return;
    leg->runnable = true;
    DL_APPEND2(core->run, leg, run_prev, run_next);
}

static void run_remove(struct core *core, struct leg *leg)
{
    if (!leg->runnable)
        return;
    leg->runnable = false;
    DL_DELETE2(core->run, leg, run_prev, run_next);
}

static void fail(struct core *core, struct leg *leg, int error, const char *detail)
{
    want_fail(core, leg->want, BATON_STATUS_FAILED, error, (int32_t)leg->contact->peer, detail);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static const baton_ticket_t *ticket_for(const struct core_submit *s, uint32_t peer)
{
    for (uint32_t i = 0; i < s->num_tickets; i++)
        if (s->tickets[i].rank == peer)
            return &s->tickets[i];
    return NULL;
}

static void on_resend(struct core *core, struct timer *t);

static void ask(struct core *core, struct leg *leg)
{
    const struct core_submit *s = leg->want->submit;
    uint64_t due = s->submitted_ns + (uint64_t)s->time_ms * NS_PER_MS;
    const baton_ticket_t *ticket = ticket_for(s, leg->contact->peer);
    struct wire_message m = {.type = WIRE_WANT,
                             .want = leg->want->seq,
                             .mode = BATON_MODE_PULL,
                             .time_left_ms = due > core->now ? (uint32_t)((due - core->now) / NS_PER_MS) + 1 : 1,
                             .tokens = s->num_tokens,
                             .ticket_incarnation = ticket != NULL ? ticket->incarnation : 0,
                             .ticket_serial = ticket != NULL ? ticket->serial : 0};
    memcpy(m.key, s->key, sizeof m.key);
    m.num_readers_bits = core->c.directory->engines[core->engine].num_ranks;
    memcpy(m.readers, leg->contact->readers, sizeof m.readers);
    core_send(core, leg->contact->peer, &m);
    leg->told = true;
    timer_arm(&core->timers, &leg->resend, core->now + leg->pause_ns, on_resend);
}

static void on_resend(struct core *core, struct timer *t)
{
    struct leg *leg = (struct leg *)((char *)t - offsetof(struct leg, resend));
    if (leg->pause_ns < RESEND_MOST * core->c.settings->resend_ms * NS_PER_MS)
        leg->pause_ns *= 2;
    if (core->unsent_to[leg->contact->peer] > 0) /* the former one has not left yet */
        timer_arm(&core->timers, &leg->resend, core->now + leg->pause_ns, on_resend);
    else
        ask(core, leg);
}

void leg_ask(struct core *core, struct leg *leg)
{
    leg->state = LEG_ASKED;
    leg->pause_ns = core->c.settings->resend_ms * NS_PER_MS;
    ask(core, leg);
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static void on_grant(struct core *core, struct leg *leg, const struct wire_message *m)
{
    const struct core_submit *s = leg->want->submit;
    uint32_t need = leg->want->link->num_contacts ? (s->num_tokens - 1) / core->c.geometry->block_tokens + 1 : 0;
    if (m->generation == 0 || m->num_blocks < need ||
        !contact_holds(leg->contact, m->slot, m->table_offset, wire_table_bytes(m->num_blocks))) {
        core->stats.messages_bad++;
        fail(core, leg, BATON_EMESSAGE, "the grant names a lease that lies outside the peer's card");
        return;
    }
    leg->src_blocks = malloc(need * sizeof *leg->src_blocks);
    if (leg->src_blocks == NULL) {
        fail(core, leg, BATON_ENOMEM, "");
        return;
    }
    timer_stop(&core->timers, &leg->resend);
    leg->slot = m->slot;
    leg->generation = m->generation;
    leg->table_offset = m->table_offset;
    leg->state = LEG_TABLE;
    leg->want->submit->event.wait_ns = core->now - s->submitted_ns;
    /* The ids needed lie in front; the checksum is over all, so all are read. */
    leg->table_bytes = (uint32_t)wire_table_bytes(m->num_blocks);
    run_add(core, leg);
}

void leg_on_message(struct core *core, uint32_t peer, const struct wire_message *m)
{
    struct want *want;
    struct leg *leg = NULL;
    HASH_FIND(hh, core->wants, &m->want, sizeof m->want, want);
    for (uint32_t i = 0; want != NULL && i < want->num_legs; i++)
        if (want->legs[i].contact->peer == peer)
            leg = &want->legs[i];
    if (leg == NULL || leg->state != LEG_ASKED)
        return; /* ended, or answered before: messages are idempotent */
    if (m->type == WIRE_GRANT) {
        on_grant(core, leg, m);
    } else if (m->error == BATON_EBUSY) {
        return; /* asked again by the resend timer */
    } else {
        leg->refused = true;
        fail(core, leg, m->error, m->detail);
    }
}

/* ---- moving ------------------------------------------------------------------------------------------------------ */

static void on_table(struct core *core, struct leg *leg, const struct port_event *e)
{
    const struct core_submit *s = leg->want->submit;
    uint32_t need = (s->num_tokens - 1) / core->c.geometry->block_tokens + 1;
    int rc = e->error;
    if (rc == 0)
        rc = wire_table_decode(e->data, e->bytes, leg->slot, leg->generation, need, leg->contact->num_blocks,
                               leg->src_blocks);
    if (rc != 0) {
        core->stats.stale += rc == BATON_ESTALE;
        fail(core, leg, rc, "its block table could not be read");
        return;
    }
    plan_transfer_init(&leg->transfer, leg->contact->plan, s->num_tokens, leg->src_blocks, s->blocks);
    leg->state = leg->transfer.bytes > 0 ? LEG_MOVING : LEG_FENCE; /* layers without a tensor have no bytes */
    run_add(core, leg);
}

static void on_moved(struct core *core, struct leg *leg, const struct port_event *e)
{
    baton_path_t path = core->c.path[leg->contact->peer];
    leg->landed += e->moved;
    core->inflight -= e->moved;
    core->stats.gets += e->runs;
    if (leg->state != LEG_MOVING || leg->parked) /* an answer of the same step in which it was given up */
        return;
    if (e->error != 0) {
        fail(core, leg, e->error, "reading its blocks failed");
        return;
    }
    leg->want->submit->event.bytes += e->moved;
    leg->want->submit->event.path_bytes[path] += e->moved;
    if (leg->landed == leg->transfer.bytes)
        leg->state = LEG_FENCE;
    run_add(core, leg);
}

static void on_board(struct core *core, struct leg *leg, const struct port_event *e)
{
    if (e->error != 0 || e->generation != leg->generation) {
        char detail[96];
        core->stats.stale++;
        snprintf(detail, sizeof detail, "generation %" PRIu64 " granted, %" PRIu64 " read again", leg->generation,
                 e->error != 0 ? 0 : e->generation);
        fail(core, leg, BATON_ESTALE, detail);
        return;
    }
    leg->state = LEG_FENCED;
    leg->want->fenced++;
    want_leg_fenced(core, leg->want);
}

static void close_leg(struct core *core, struct leg *leg)
{
    leg->state = LEG_CLOSED;
    leg->want->closed++;
    want_leg_closed(core, leg->want);
}

void leg_on_event(struct core *core, struct leg *leg, const struct port_event *e)
{
    if (e->kind == PORT_MOVED) {
        on_moved(core, leg, e);
    } else if (e->kind == PORT_QUIET && leg->parked) {
        leg->parked = false;
        core->inflight -= leg->taken - leg->landed;
        leg->landed = leg->taken;
        close_leg(core, leg);
    } else if (leg->issued && (e->kind == PORT_CARD || e->kind == PORT_BOARD)) {
        leg->issued = false;
        core->reading--;
        if (e->kind == PORT_CARD && leg->state == LEG_TABLE)
            on_table(core, leg, e);
        else if (e->kind == PORT_BOARD && leg->state == LEG_FENCE)
            on_board(core, leg, e);
    }
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* One turn. True: something was taken. */
static bool advance(struct core *core, struct leg *leg)
{
    const struct port *port = core->c.port;
    const struct settings *set = core->c.settings;
    struct contact *c = leg->contact;
    int64_t rc;
    if (leg->state == LEG_TABLE) {
        rc = port->card(port->self, c->peer, c->arena_offset + leg->table_offset, leg->table_bytes, leg->op.tag);
    } else if (leg->state == LEG_FENCE) {
        rc = port->board(port->self, c->peer, c->board_offset + 8 * (uint64_t)leg->slot, leg->op.tag);
    } else {
        uint64_t mine = leg->taken - leg->landed;
        uint64_t budget = least(set->chunk_bytes, set->leg_bytes > mine ? set->leg_bytes - mine : 0);
        budget = least(budget, set->inflight_bytes > core->inflight ? set->inflight_bytes - core->inflight : 0);
        if (plan_at_end(&leg->transfer, &leg->cursor) || (budget == 0 && mine > 0)) {
            run_remove(core, leg); /* its own completions bring it back */
            return false;
        }
        if (budget == 0)
            return false; /* others fill the process' limit: next step */
        struct port_leg part = {.peer = c->peer,
                                .tag = leg->op.tag,
                                .transfer = &leg->transfer,
                                .cursor = &leg->cursor,
                                .pool_offset = c->pool_offset,
                                .pool_bytes = c->pool_bytes};
        rc = port->move(port->self, &part, budget);
    }
    if (rc == BATON_EAGAIN)
        return false;
    if (rc < 0) {
        fail(core, leg, (int)rc, "its path refused the operation");
        return true;
    }
    if (leg->state == LEG_MOVING) {
        leg->taken += (uint64_t)rc;
        core->inflight += (uint64_t)rc;
        return true;
    }
    leg->issued = true;
    core->reading++;
    run_remove(core, leg);
    return true;
}

void leg_run_all(struct core *core)
{
    bool moved = true;
    while (moved && core->run != NULL) { /* rounds, until a whole one takes nothing */
        uint32_t n = 0;
        struct leg *leg;
        moved = false;
        DL_COUNT2(core->run, leg, n, run_next);
        while (n-- > 0 && core->run != NULL) {
            leg = core->run;
            DL_DELETE2(core->run, leg, run_prev, run_next);
            DL_APPEND2(core->run, leg, run_prev, run_next);
            moved |= advance(core, leg);
        }
    }
}

/* ---- giving up --------------------------------------------------------------------------------------------------- */

void leg_stop(struct core *core, struct leg *leg)
{
    timer_stop(&core->timers, &leg->resend);
    run_remove(core, leg);
    if (leg->issued) { /* reads of table or board land in the port's own memory */
        leg->issued = false;
        core->reading--;
        core->c.port->park(core->c.port->self, leg->contact->peer, leg->op.tag);
    }
    if (leg->state != LEG_MOVING || leg->taken == leg->landed ||
        core->c.port->park(core->c.port->self, leg->contact->peer, leg->op.tag) == PORT_PARK_QUIET) {
        core->inflight -= leg->taken - leg->landed;
        leg->landed = leg->taken;
        op_remove(core, &leg->op); /* what this step still brings of it is counted already */
        leg->state = LEG_CLOSED;
        leg->want->closed++;
        return;
    }
    leg->parked = true; /* the blocks are not the caller's again before PORT_QUIET */
}

void leg_free(struct core *core, struct leg *leg)
{
    timer_stop(&core->timers, &leg->resend);
    run_remove(core, leg);
    op_remove(core, &leg->op);
    if (leg->issued)
        core->reading--;
    free(leg->src_blocks);
}
