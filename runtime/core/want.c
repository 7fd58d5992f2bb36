/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * want: one demand of this rank's engine, from its submission to its one event. It queues behind the handshake of the
 * producer's engine, then runs a leg to each rank that serves it; it is done when every leg's bytes are there and
 * fenced, and only then does any producer hear DONE, so that both sides end alike. Whatever fails stops all legs first
 * and ends when nothing can write into the blocks any more. If that takes too long it is given up: the engine is told so,
 * and the end follows.
 */
#include "core/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/table.h"

static void unname(struct core *core, struct want *want)
{
    if (want->by_name.tbl == NULL)
        return;
    HASH_DELETE(by_name, core->named, want);
    want->by_name.tbl = NULL;
}

static void news_drop(struct core *core, struct want *want)
{
    if (want->is_news)
        DL_DELETE2(core->told, want, told_before, told_after);
    want->is_news = false;
}

static void want_destroy(struct core *core, struct want *want)
{
    timer_stop(&core->timers, &want->deadline);
    news_drop(core, want);
    for (uint32_t i = 0; i < want->num_legs; i++)
        leg_free(core, &want->legs[i]);
    core->num_legs -= want->num_legs;
    free(want->legs);
    free(want->left);
    unname(core, want);
    if (want->claims)
        claim_leave(core, want->call);
    if (want->hh.tbl != NULL)
        HASH_DEL(core->wants, want);
    free(want);
}

static void tell(struct core *core, const struct want *want, uint32_t peer, enum wire_type type, uint64_t generation,
                 int error)
{
    const baton_ticket_t *ticket = ask_ticket(want, peer);
    struct wire_message m = {.type = type,
                             .want_id = want->seq,
                             .end = {.name.attempt = want->call->attempt,
                                     .error = error,
                                     .generation = generation,
                                     .time_left_ms = ask_left_ms(core, want),
                                     .ticket_incarnation = ticket != NULL ? ticket->incarnation : 0,
                                     .ticket_serial = ticket != NULL ? ticket->serial : 0}};
    memcpy(m.end.name.key, want->call->key, sizeof m.end.name.key);
    ends_tell(core, peer, &m);
}

static void release(struct core *core, const struct want *want, uint32_t peer, int error)
{
    tell(core, want, peer, WIRE_RELEASE, 0, error);
}

static void leg_tell(struct core *core, const struct want *want, const struct leg *leg, int error)
{
    uint32_t peer = contact_peer(leg->contact);
    if (!leg->told)
        release(core, want, peer, error);
    else if (!leg->ended || leg->unsaid)
        tell(core, want, peer, error == BATON_ECANCELED ? WIRE_CANCEL : WIRE_DONE, leg->generation, error);
}

/* Tells every producer rank that holds a part of it how it ended (all ranks, before it is known which those are). Those
 * that never heard of the want get a RELEASE, so that an offer, here or still to come, does not wait for us. */
static void want_tell(struct core *core, const struct want *want, int error)
{
    const struct link *link = want->link;
    uint32_t num_spares;
    const uint32_t *spares = link_spares(link, &num_spares);
    if (link_state(link) == LINK_BUILDING) {
        const struct directory_engine *engine = &core->c.directory->engines[want->name.engine];
        for (uint32_t i = 0; i < engine->num_ranks; i++)
            release(core, want, engine->ranks[i], error);
        return;
    }
    for (uint32_t i = 0; i < want->num_legs; i++)
        leg_tell(core, want, &want->legs[i], error);
    for (uint32_t i = 0; i < want->num_left; i++)
        tell(core, want, want->left[i].peer, want->left[i].told ? WIRE_DONE : WIRE_RELEASE, want->left[i].generation,
             error);
    for (uint32_t i = 0; i < link_num_contacts(link); i++)
        if (!ask_knows(want, contact_peer(link_contact(link, i))))
            release(core, want, contact_peer(link_contact(link, i)), error);
    for (uint32_t i = 0; i < num_spares; i++)
        if (!ask_knows(want, spares[i]))
            release(core, want, spares[i], error);
}

static void idle_tell(struct core *core, const struct want *want, int error)
{
    uint32_t num;
    const uint32_t *idle = link_idle(want->link, &num);
    for (uint32_t i = 0; i < num; i++)
        release(core, want, idle[i], error);
}

static void want_end(struct core *core, struct want *want, baton_status_t status, int error)
{
    struct call *call = want->call;
    if (want->leased) { /* the window's sync and the fence in it also make visible what was written here */
        core->c.port->raise(core->c.port->self, want->lease.slot, lease_end(core->leases, &want->lease));
        want->leased = false;
    }
    call->end.event.peer = want->peer;
    memcpy(call->end.event.detail, want->detail, sizeof call->end.event.detail);
    if (want->link != NULL && !want->unheard) /* that one will be wanted again */
        want_tell(core, want, error);
    if (status == BATON_STATUS_DONE)
        for (uint32_t p = 0; p < BATON_PATHS; p++)
            core->stats.bytes[p] += call->end.event.path_bytes[p];
    want_destroy(core, want);
    outcome_end(core, call, status, error);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

/* It has failed, and its blocks are not known to be quiet. Its name is free: it may be wanted again elsewhere. */
static void given_up(struct core *core, struct want *want)
{
    unname(core, want);
    outcome_give_up(core, want->call, want->status, want->error, want->peer, want->detail);
}

static void on_patience(struct core *core, struct timer *t)
{
    given_up(core, (struct want *)((char *)t - offsetof(struct want, deadline)));
}

/* For the log: where the want stood, and the leg with the rank that it failed at. */
static void note_state(struct want *want, int32_t peer)
{
    static const char *const states[] = {[WANT_QUEUED] = "handshake", [WANT_ACTIVE] = "active"};
    want->call->end.state = states[want->state];
    for (uint32_t i = 0; i < want->num_legs; i++)
        if ((int32_t)contact_peer(want->legs[i].contact) == peer)
            want->call->end.leg = leg_state_name(want->legs[i].state);
}

static bool is_quiet(const struct want *want)
{
    return want->closed == want->num_legs && want->tail == NULL;
}

static void want_fail(struct core *core, struct want *want, baton_status_t status, int error, int32_t peer,
                      const char *detail)
{
    if (want->state == WANT_DRAINING)
        return;
    bool queued = want->state == WANT_QUEUED;
    note_state(want, peer);
    want->state = WANT_DRAINING;
    want->status = status;
    want->error = error;
    want->peer = peer;
    snprintf(want->detail, sizeof want->detail, "%s", detail);
    if (queued) {
        if (want->link != NULL) {
            link_unqueue(core, want->link, &want->behind);
            idle_tell(core, want, error);
        }
        want_end(core, want, status, error);
        return;
    }
    for (uint32_t i = 0; i < want->num_legs; i++)
        leg_stop(core, &want->legs[i]);
    tail_stop(core, want);
    if (is_quiet(want))
        want_end(core, want, want->status, want->error);
    else
        timer_arm(&core->timers, &want->deadline, outcome_patience_ns(core, want->call, error), on_patience);
}

void want_settle(struct core *core, struct want *want)
{
    const struct leg_failure f = want->failure;
    if (want->state == WANT_ACTIVE && f.error != 0)
        want_fail(core, want, BATON_STATUS_FAILED, f.error, f.peer, f.detail);
    else if (want->state == WANT_DRAINING && is_quiet(want))
        want_end(core, want, want->status, want->error);
    else if (want->state == WANT_ACTIVE && want->fenced == want->num_legs && want->tail == NULL)
        want_end(core, want, BATON_STATUS_DONE, 0);
}

bool wants_on_legs(struct core *core)
{
    struct want *want = core->told;
    if (want == NULL)
        return false;
    news_drop(core, want);
    want_settle(core, want);
    return true;
}

static void on_deadline(struct core *core, struct timer *t)
{
    struct want *want = (struct want *)((char *)t - offsetof(struct want, deadline));
    int32_t peer = -1;
    const char *detail = "its deadline passed while its bytes moved";
    if (want->state == WANT_QUEUED) {
        detail = "its deadline passed before the producer's engine gave all its cards";
        peer = link_missing(want->link);
    }
    for (uint32_t i = 0; i < want->num_legs && peer < 0; i++) {
        if (want->legs[i].state == LEG_ASKED)
            detail = "its deadline passed before it was granted: no offer came, or the producer is silent";
        if (want->legs[i].state != LEG_FENCED)
            peer = (int32_t)contact_peer(want->legs[i].contact);
    }
    want_fail(core, want, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT, peer, detail);
}

bool want_cancel(struct core *core, baton_id_t id)
{
    struct want *want;
    HASH_FIND(hh, core->wants, &id, sizeof id, want);
    if (want == NULL)
        return false;
    want_fail(core, want, BATON_STATUS_CANCELLED, BATON_ECANCELED, -1, "");
    return true;
}

bool want_give_up(struct core *core, baton_id_t id, baton_status_t status, int error, const char *detail)
{
    struct want *want;
    HASH_FIND(hh, core->wants, &id, sizeof id, want);
    if (want == NULL)
        return false;
    unname(core, want);
    want_fail(core, want, status, error, -1, detail);
    HASH_FIND(hh, core->wants, &id, sizeof id, want);
    if (want != NULL)
        given_up(core, want);
    return true;
}

static void want_begin(struct core *core, struct want *want);

static void refused(struct core *core, struct want *want, const struct link_refusal *r)
{
    want_fail(core, want, BATON_STATUS_FAILED, r->error, r->peer, r->why.text);
}

void wants_on_link(struct core *core, struct link *link)
{
    struct queued *first;
    while ((first = link_take(link)) != NULL) {
        struct want *want = (struct want *)((char *)first - offsetof(struct want, behind));
        if (link_state(link) == LINK_READY)
            want_begin(core, want);
        else
            refused(core, want, link_refusal(link));
    }
}

void wants_on_spare(struct core *core, struct contact *spare)
{
    struct queued *first;
    while ((first = contact_take(spare)) != NULL)
        leg_on_spare(core, (struct leg *)((char *)first - offsetof(struct leg, card)));
}

/* What it waits for was lost, or this rank closes: it is given up sooner. */
static void lose_patience(struct core *core, struct want *want)
{
    uint64_t due = outcome_patience_ns(core, want->call, BATON_EPEER);
    if (want->deadline.armed && want->deadline.due_ns > due)
        timer_arm(&core->timers, &want->deadline, due, on_patience);
}

static struct leg *leg_with(struct want *want, uint32_t rank)
{
    for (uint32_t i = 0; i < want->num_legs; i++)
        if (contact_peer(want->legs[i].contact) == rank)
            return &want->legs[i];
    return NULL;
}

void wants_lose(struct core *core, uint32_t rank)
{
    struct want *want, *next;
    HASH_ITER(hh, core->wants, want, next)
    {
        struct leg *leg = leg_with(want, rank);
        if (leg == NULL)
            continue;
        if (want->state == WANT_DRAINING && leg->state == LEG_STOPPING)
            lose_patience(core, want);
        leg_lose(core, leg); /* the want may end by it */
    }
}

void wants_shut(struct core *core)
{
    struct want *want, *next;
    HASH_ITER(hh, core->wants, want, next)
    {
        if (want->state == WANT_DRAINING)
            lose_patience(core, want);
        else
            want_fail(core, want, BATON_STATUS_FAILED, BATON_ECLOSED, -1, "");
    }
}

void wants_destroy(struct core *core)
{
    struct want *want, *next;
    HASH_ITER(hh, core->wants, want, next)
    {
        struct call *call = want->call;
        want_destroy(core, want);
        call_free(call);
    }
}

/* ---- beginnings -------------------------------------------------------------------------------------------------- */

static void want_begin(struct core *core, struct want *want)
{
    struct link *link = want->link;
    want->state = WANT_ACTIVE;
    want->legs = calloc(link_num_contacts(link), sizeof *want->legs);
    if (want->legs == NULL) {
        want_fail(core, want, BATON_STATUS_FAILED, BATON_ENOMEM, -1, "");
        return;
    }
    want->num_legs = link_num_contacts(link);
    core->num_legs += want->num_legs;
    for (uint32_t i = 0; i < want->num_legs; i++) {
        want->legs[i].want = want;
        want->legs[i].contact = link_contact(link, i);
    }
    bool both_plan = want->call->want.mode == BATON_MODE_PUSH || core->c.settings->checksum;
    for (uint32_t i = 0; i < want->num_legs && both_plan; i++)
        if (core->c.directory->rows[contact_peer(link_contact(link, i))].rules != PLAN_RULES) {
            want->unheard = true;
            want_fail(core, want, BATON_STATUS_FAILED, BATON_EGEOMETRY, (int32_t)contact_peer(link_contact(link, i)),
                      "its build plans by other rules: only a pull without hashes can be done");
            return;
        }
    if (want->call->want.mode == BATON_MODE_PUSH) {
        int rc = lease_open(core->leases, &want->call->tables, wire_table_numbers(&want->call->tables), &want->lease);
        if (rc != 0) {
            want->unheard = true;
            want_fail(core, want, BATON_STATUS_FAILED, rc, -1,
                      "no lease slot or no room for the block table (BATON_LEASES, BATON_TABLE_BYTES)");
            return;
        }
        want->leased = true;
        core->c.port->raise(core->c.port->self, want->lease.slot, want->lease.generation);
    }
    idle_tell(core, want, 0);
    if (want->call->want.zero_tail) {
        struct plan_why why = {{0}};
        int rc = tail_begin(core, want, &why);
        if (rc != 0) {
            want_fail(core, want, BATON_STATUS_FAILED, rc, -1, why.text);
            return;
        }
    }
    for (uint32_t i = 0; i < want->num_legs && want->failure.error == 0; i++) {
        want->legs[i].mover = mover_create(core, OP_LEG, &want->legs[i], want->legs[i].contact, false);
        if (want->legs[i].mover == NULL) {
            want_fail(core, want, BATON_STATUS_FAILED, BATON_ENOMEM, -1, "");
            return;
        }
        leg_begin(core, &want->legs[i]);
    }
    want_settle(core, want);
}

static struct want *want_named(const struct core *core, const char *key, uint32_t attempt, uint32_t engine)
{
    struct want_name name = {.attempt = attempt, .engine = engine};
    struct want *want;
    memcpy(name.key, key, sizeof name.key);
    HASH_FIND(by_name, core->named, &name, sizeof name, want);
    return want;
}

static struct want *want_create(struct core *core, struct call *call)
{
    struct want *want = calloc(1, sizeof *want);
    if (want == NULL)
        return NULL;
    want->seq = call->id;
    want->call = call;
    want->peer = -1;
    want->name.engine = call->want.engine;
    want->name.attempt = call->attempt;
    memcpy(want->name.key, call->key, sizeof want->name.key);
    HASH_ADD(hh, core->wants, seq, sizeof want->seq, want);
    HASH_ADD(by_name, core->named, name, sizeof want->name, want);
    if (want->hh.tbl == NULL || want->by_name.tbl == NULL) {
        want_destroy(core, want);
        return NULL;
    }
    return want;
}

void want_submit(struct core *core, struct call *call)
{
    struct plan_why why = {{0}};
    int error = 0;
    struct want *want = want_named(core, call->key, call->attempt, call->want.engine);
    if (want != NULL) {
        outcome_refuse(core, call, "want the key again after the event of its former want");
        return;
    }
    want = want_create(core, call);
    if (want == NULL) {
        outcome_end(core, call, BATON_STATUS_FAILED, BATON_ENOMEM);
        return;
    }
    if (core->shut) {
        want_fail(core, want, BATON_STATUS_FAILED, BATON_ECLOSED, -1, "");
        return;
    }
    error = directory_can_name(core->c.directory, core->c.self, call->want.engine, call->key, call->attempt, &why);
    if (error == 0 && core->c.settings->paranoid)
        error = claim_take(core, call, &why);
    if (error != 0) {
        want_fail(core, want, BATON_STATUS_FAILED, error, -1, why.text);
        return;
    }
    want->claims = core->c.settings->paranoid;
    struct link *link = link_of(core, call->want.engine, &error, &why);
    if (link == NULL) {
        want_fail(core, want, BATON_STATUS_FAILED, error, -1, why.text);
        return;
    }
    want->link = link;
    want->unheard = link_lacks(link); /* nobody waits for it */
    timer_arm(&core->timers, &want->deadline, call_due_ns(call), on_deadline);
    bool needs_nothing = call->want.held_tokens >= call->want.num_tokens && !link_lacks(link);
    if (needs_nothing) { /* the producers are told, and that is all */
        idle_tell(core, want, 0);
        want_end(core, want, BATON_STATUS_DONE, 0);
    } else if (link_state(link) == LINK_READY) {
        want_begin(core, want);
    } else if (link_state(link) == LINK_REFUSED) {
        refused(core, want, link_refusal(link));
    } else {
        link_queue(core, link, &want->behind);
    }
}

struct call *want_call(struct core *core, const char *key, uint32_t attempt, uint32_t engine)
{
    const struct want *want = want_named(core, key, attempt, engine);
    return want != NULL ? want->call : NULL;
}

void want_standing(struct core *core, const char *key, uint32_t attempt, uint32_t engine, char *text, size_t size)
{
    const struct want *want = want_named(core, key, attempt, engine);
    baton_pending_t pending;
    if (want == NULL) {
        snprintf(text, size, "it has no such want open");
    } else if (link_pending(core, engine, core->now, &pending) && want->state == WANT_QUEUED) {
        snprintf(text, size, "its handshake with engine %s has %u of %u ranks after %llu ms", pending.engine,
                 pending.ranks_known, pending.ranks_needed, (unsigned long long)(pending.waiting_ns / NS_PER_MS));
    } else {
        uint32_t i = 0;
        while (i + 1 < want->num_legs && (want->legs[i].state == LEG_FENCED || want->legs[i].state == LEG_CLOSED))
            i++;
        snprintf(text, size, "its leg with rank %u is %s", contact_peer(want->legs[i].contact),
                 leg_state_name(want->legs[i].state));
    }
}
