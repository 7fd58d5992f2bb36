/* SPDX-License-Identifier: BSD-3-Clause */
/* want: see want.h. */
#include "core/want.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/claim.h"
#include "core/outcome.h"
#include "core/state.h"
#include "core/want_inside.h"
#include "wire/table.h"

#define WANTED_ALREADY "want the key again after the event of its former want"

static struct want *find(const struct core *core, baton_id_t id)
{
    struct want *want;
    HASH_FIND(by_id, core->wants->by_id, &id, sizeof id, want);
    return want;
}

/* Its name is free. */
static void unname(struct core *core, struct want *want)
{
    if (want->by_name.tbl == NULL)
        return;
    HASH_DELETE(by_name, core->wants->by_name, want);
    want->by_name.tbl = NULL;
}

static void want_destroy(struct core *core, struct want *want)
{
    timer_stop(&core->timers, &want->timer);
    legs_destroy(core, want->legs, want->ask.num_legs);
    core->wants->num_legs -= want->ask.num_legs;
    ask_fini(&want->ask);
    unname(core, want);
    if (want->claims)
        claim_leave(core->wants->claims, core->c.geometry, want->ask.call);
    if (want->by_id.tbl != NULL)
        HASH_DELETE(by_id, core->wants->by_id, want);
    reap_add(&core->reap, want);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static void want_end(struct core *core, struct want *want, baton_status_t status, int error)
{
    struct call *call = want->ask.call;
    baton_event_t *event = &call->end.event;
    if (want->leased)
        core->c.port->raise(core->c.port->self, want->ask.lease.slot, lease_end(core->leases, &want->ask.lease),
                            want->ask.is_far);
    call->end.peer = want->rank;
    memcpy(event->detail, want->detail, sizeof event->detail);
    want_tell_end(core, want, error);
    for (uint32_t p = 0; p < BATON_PATHS && status == BATON_STATUS_DONE; p++)
        count_add(&core->stats.bytes[p], event->path_bytes[p]);
    want_destroy(core, want);
    outcome_end(core, call, status, error);
}

/* It has failed, and its blocks are not known to be quiet. It may be wanted again elsewhere. */
static void given_up(struct core *core, struct want *want)
{
    unname(core, want);
    want_tell_end(core, want, want->ask.error);
    outcome_give_up(core, want->ask.call, want->status, want->ask.error, want->rank, want->detail);
}

static void on_patience(struct core *core, struct timer *t)
{
    given_up(core, (struct want *)((char *)t - offsetof(struct want, timer)));
}

/* For the log: where the want stood, and the leg with the rank that it failed at. */
static void note_state(const struct want *want, int32_t rank)
{
    static const char *const states[] = {
        [WANT_QUEUED] = "handshake", [WANT_AWAITING] = "awaiting", [WANT_ACTIVE] = "active"};
    struct outcome *end = &want->ask.call->end;
    end->state = states[want->state];
    for (uint32_t i = 0; want->legs != NULL && i < want->ask.num_legs; i++)
        if ((int32_t)leg_rank(leg_at(want->legs, i)) == rank)
            end->leg = leg_state_name(leg_state(leg_at(want->legs, i)));
}

static bool is_quiet(const struct want *want)
{
    return want->ask.closed == want->ask.num_legs && want->tail == NULL;
}

static void stop(struct core *core, struct want *want)
{
    for (uint32_t i = 0; i < want->ask.num_legs; i++)
        leg_stop(core, leg_at(want->legs, i));
    if (tail_stop(core, want->tail))
        want->tail = NULL;
}

static void want_fail(struct core *core, struct want *want, baton_status_t status, int error, int32_t rank,
                      const char *detail)
{
    if (want->state == WANT_DRAINING)
        return;
    note_state(want, rank);
    if (want->state == WANT_QUEUED && want->ask.link != NULL) {
        link_unqueue(core, want->ask.link, &want->behind);
        want_tell_idle(core, want, error);
    }
    want->state = WANT_DRAINING;
    want->status = status;
    want->rank = rank;
    snprintf(want->detail, sizeof want->detail, "%s", detail);
    want->ask.is_over = true;
    want->ask.error = error;
    stop(core, want);
    if (is_quiet(want))
        want_end(core, want, status, error);
    else
        timer_arm(&core->timers, &want->timer, outcome_patience_ns(core, want->ask.call, error), on_patience);
}

/* Looks at its legs and its tail. */
static void advance(struct core *core, struct want *want)
{
    const struct ask *ask = &want->ask;
    const struct ask_failure *f = &ask->failure;
    if (want->state == WANT_ACTIVE && f->error != 0)
        want_fail(core, want, BATON_STATUS_FAILED, f->error, f->rank, f->detail);
    else if (want->state == WANT_DRAINING && is_quiet(want))
        want_end(core, want, want->status, ask->error);
    else if (want->state == WANT_ACTIVE && ask->fenced == ask->num_legs && want->tail == NULL)
        want_end(core, want, BATON_STATUS_DONE, 0);
}

bool wants_on_legs(struct core *core)
{
    struct queued *news = queue_take(&core->wants->told);
    if (news == NULL)
        return false;
    struct ask *ask = (struct ask *)((char *)news - offsetof(struct ask, news));
    advance(core, (struct want *)((char *)ask - offsetof(struct want, ask)));
    return true;
}

void want_on_tail(struct core *core, struct want *want, int error)
{
    want->tail = NULL;
    if (error != 0 && want->state == WANT_ACTIVE)
        want_fail(core, want, BATON_STATUS_FAILED, error, -1, "no zeros could be stored behind its tokens");
    else
        advance(core, want);
}

static void on_deadline(struct core *core, struct timer *t)
{
    struct want *want = (struct want *)((char *)t - offsetof(struct want, timer));
    int32_t rank = -1;
    const char *detail =
        "its deadline passed before all bytes came: they moved, or the producer had not made all ready";
    if (want->state == WANT_AWAITING)
        detail = "its deadline passed before an engine of the producer's name was whole";
    if (want->state == WANT_QUEUED) {
        detail = "its deadline passed before the producer's engine gave all its cards";
        rank = link_missing(want->ask.link);
    }
    for (uint32_t i = 0; i < want->ask.num_legs && rank < 0; i++) {
        const struct leg *leg = leg_at(want->legs, i);
        if (leg_state(leg) == LEG_ASKED)
            detail = "its deadline passed before it was granted: no offer came, or the producer is silent";
        if (leg_state(leg) != LEG_FENCED)
            rank = (int32_t)leg_rank(leg);
    }
    want_fail(core, want, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT, rank, detail);
}

bool want_cancel(struct core *core, baton_id_t id)
{
    struct want *want = find(core, id);
    if (want != NULL)
        want_fail(core, want, BATON_STATUS_CANCELLED, BATON_ECANCELED, -1, "");
    return want != NULL;
}

bool want_give_up(struct core *core, baton_id_t id, baton_status_t status, int error, const char *detail)
{
    struct want *want = find(core, id);
    if (want == NULL)
        return false;
    unname(core, want);
    want_fail(core, want, status, error, -1, detail);
    if (find(core, id) != NULL)
        given_up(core, want);
    return true;
}

/* ---- what happens ------------------------------------------------------------------------------------------------ */

static struct leg *leg_with(const struct want *want, uint32_t rank)
{
    for (uint32_t i = 0; i < want->ask.num_legs; i++)
        if (leg_rank(leg_at(want->legs, i)) == rank)
            return leg_at(want->legs, i);
    return NULL;
}

void want_on_message(struct core *core, uint32_t peer, const struct wire_message *m)
{
    const struct want *want = find(core, m->want_id);
    struct leg *leg = want != NULL ? leg_with(want, peer) : NULL;
    if (leg != NULL) /* else it has ended: messages are idempotent */
        leg_on_message(core, leg, m);
}

void wants_on_spare(struct core *core, struct contact *spare)
{
    struct queued *first;
    while ((first = contact_take(spare)) != NULL)
        leg_on_contact(core, leg_waiting(first));
}

/* It is given up sooner: the rank that it waits for was lost, or this rank closes. */
static void lose_patience(struct core *core, struct want *want)
{
    uint64_t due = outcome_patience_ns(core, want->ask.call, BATON_EPEER);
    if (want->timer.armed && want->timer.due_ns > due)
        timer_arm(&core->timers, &want->timer, due, on_patience);
}

void wants_lose(struct core *core, uint32_t rank)
{
    struct want *want, *next;
    for (want = core->wants->by_id; want != NULL; want = next) {
        struct leg *leg = leg_with(want, rank);
        next = want->by_id.next;
        if (leg == NULL)
            continue;
        if (want->state == WANT_DRAINING && leg_state(leg) == LEG_STOPPING)
            lose_patience(core, want);
        leg_lose(core, leg);
    }
}

void wants_lose_engine(struct core *core, uint32_t engine, uint32_t rank)
{
    struct want *want, *next;
    for (want = core->wants->by_id; want != NULL; want = next) {
        next = want->by_id.next;
        if (want->name.engine != engine)
            continue;
        if (want->state == WANT_DRAINING)
            lose_patience(core, want);
        else
            want_fail(core, want, BATON_STATUS_FAILED, BATON_EPEER, (int32_t)rank, "its producer's engine has gone");
    }
}

bool wants_know(const struct core *core, uint32_t engine)
{
    const struct want *want = core->wants->by_id;
    while (want != NULL && want->name.engine != engine)
        want = want->by_id.next;
    return want != NULL;
}

void wants_shut(struct core *core)
{
    struct want *want, *next;
    for (want = core->wants->by_id; want != NULL; want = next) {
        next = want->by_id.next;
        if (want->state == WANT_DRAINING)
            lose_patience(core, want);
        else
            want_fail(core, want, BATON_STATUS_FAILED, BATON_ECLOSED, -1, "");
    }
}

/* ---- beginnings -------------------------------------------------------------------------------------------------- */

/* It cannot begin, and no producer has heard of it. */
static void fail_untold(struct core *core, struct want *want, int error, int32_t rank, const char *detail)
{
    want->never_told = true;
    want_fail(core, want, BATON_STATUS_FAILED, error, rank, detail);
}

static bool begin_legs(struct core *core, struct want *want)
{
    int rc = ask_begin(&want->ask);
    want->state = WANT_ACTIVE;
    want->legs = rc == 0 ? legs_create(&want->ask) : NULL;
    if (want->legs == NULL) {
        ask_fini(&want->ask);
        return false;
    }
    core->wants->num_legs += want->ask.num_legs;
    return true;
}

/* A rank whose build plans by other rules, where both sides have to plan; -1: none. */
static int32_t other_rules(const struct core *core, const struct want *want)
{
    bool both_plan = want->ask.call->want.mode == BATON_MODE_PUSH || core->c.settings->checksum;
    for (uint32_t i = 0; i < want->ask.num_legs && both_plan; i++)
        if (core->c.directory->rows[want->ask.ranks[i]].rules != PLAN_RULES)
            return (int32_t)want->ask.ranks[i];
    return -1;
}

static int lease_tables(struct core *core, struct want *want)
{
    const struct plan_tables *tables = &want->ask.call->tables;
    struct lease *lease = &want->ask.lease;
    int rc = lease_open(core->leases, tables, wire_table_entries(tables), lease);
    if (rc != 0)
        return rc;
    want->leased = true;
    core->c.port->raise(core->c.port->self, lease->slot, lease->generation, false);
    return 0;
}

static void want_begin(struct core *core, struct want *want)
{
    const struct call *call = want->ask.call;
    struct plan_why why = {{0}};
    if (!begin_legs(core, want)) {
        want_fail(core, want, BATON_STATUS_FAILED, BATON_ENOMEM, -1, "");
        return;
    }
    int32_t other = other_rules(core, want);
    if (other >= 0) {
        fail_untold(core, want, BATON_EGEOMETRY, other,
                    "its build plans by other rules: only a pull without hashes can be done");
        return;
    }
    int rc = call->want.mode == BATON_MODE_PUSH ? lease_tables(core, want) : 0;
    if (rc != 0) {
        fail_untold(core, want, rc, -1,
                    "no lease slot or no room for the block table (BATON_LEASES, BATON_TABLE_BYTES)");
        return;
    }
    want_tell_idle(core, want, 0);
    rc = call->want.zero_tail ? tail_begin(core, want, call, &want->tail, &why) : 0;
    for (uint32_t i = 0; rc == 0 && i < want->ask.num_legs && want->ask.failure.error == 0; i++)
        rc = leg_begin(core, leg_at(want->legs, i));
    if (rc != 0)
        want_fail(core, want, BATON_STATUS_FAILED, rc, -1, why.text);
    else
        advance(core, want);
}

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

static struct want *want_named(const struct core *core, const char *key, uint32_t attempt, uint32_t engine)
{
    struct want_name name = {.attempt = attempt, .engine = engine};
    struct want *want;
    memcpy(name.key, key, sizeof name.key);
    HASH_FIND(by_name, core->wants->by_name, &name, sizeof name, want);
    return want;
}

static struct want *want_create(struct core *core, struct call *call)
{
    struct want *want = reap_new(sizeof *want);
    if (want == NULL)
        return NULL;
    want->ask.want = call->id;
    want->ask.call = call;
    want->ask.told = &core->wants->told;
    want->rank = -1;
    want->name.engine = DIRECTORY_NONE;
    HASH_ADD(by_id, core->wants->by_id, ask.want, sizeof want->ask.want, want);
    if (want->by_id.tbl == NULL) {
        want_destroy(core, want);
        return NULL;
    }
    return want;
}

/* Its producer's engine is known. 0; or BATON_EEXIST, BATON_ENOMEM. */
static int name(struct core *core, struct want *want, const struct call *call)
{
    if (want_named(core, call->key, call->attempt, call->want.engine) != NULL)
        return BATON_EEXIST;
    want->name.engine = call->want.engine;
    want->name.attempt = call->attempt;
    memcpy(want->name.key, call->key, sizeof want->name.key);
    HASH_ADD(by_name, core->wants->by_name, name, sizeof want->name, want);
    return want->by_name.tbl != NULL ? 0 : BATON_ENOMEM;
}

/* Its link; NULL, with *error and *why: it cannot be wanted. */
static struct link *link_for(struct core *core, struct want *want, int *error, struct plan_why *why)
{
    const struct call *call = want->ask.call;
    if (core->c.settings->paranoid)
        *error = claim_take(&core->wants->claims, core->c.geometry, call, why);
    if (*error != 0)
        return NULL;
    want->claims = core->c.settings->paranoid;
    return link_of(core, call->want.engine, error, why);
}

/*
 * Its engine, which may have gone since the call was made; else the one of the awaited name. False: none is whole.
 */
static bool find_engine(const struct core *core, struct call_want *call)
{
    const struct directory *d = core->c.directory;
    const uint32_t index = call->engine == DIRECTORY_NONE ? directory_find(d, call->awaited) : call->engine;
    const struct directory_engine *engine = index != DIRECTORY_NONE ? d->engines[index] : NULL;
    if (engine == NULL || engine->state != DIRECTORY_WHOLE || (call->life != 0 && engine->life != call->life))
        return false;
    call->engine = index;
    return true;
}

/* Its engine is there. */
static void meet(struct core *core, struct want *want)
{
    const struct call *call = want->ask.call;
    struct plan_why why = {{0}};
    int error = name(core, want, call);
    if (error == BATON_EEXIST)
        snprintf(why.text, sizeof why.text, "%s", WANTED_ALREADY);
    struct link *link = error == 0 ? link_for(core, want, &error, &why) : NULL;
    if (link == NULL) {
        want_fail(core, want, BATON_STATUS_FAILED, error, -1, why.text);
        return;
    }
    want->ask.link = link;
    want->never_told = link_lacks(link); /* nobody waits for it */
    timer_arm(&core->timers, &want->timer, call_due_ns(call), on_deadline);
    bool needs_nothing = call->want.held_tokens >= call->want.num_tokens && !link_lacks(link);
    if (needs_nothing) { /* the producers are told, and that is all */
        want_tell_idle(core, want, 0);
        want_end(core, want, BATON_STATUS_DONE, 0);
    } else if (link_state(link) == LINK_READY) {
        want_begin(core, want);
    } else if (link_state(link) == LINK_REFUSED) {
        refused(core, want, link_refusal(link));
    } else {
        link_queue(core, link, &want->behind);
    }
}

void want_submit(struct core *core, struct call *call)
{
    const bool is_there = find_engine(core, &call->want), is_awaited = call->want.engine == DIRECTORY_NONE;
    if (is_there && want_named(core, call->key, call->attempt, call->want.engine) != NULL) {
        outcome_refuse(core, call, WANTED_ALREADY);
        return;
    }
    struct want *want = want_create(core, call);
    if (want == NULL) {
        outcome_end(core, call, BATON_STATUS_FAILED, BATON_ENOMEM);
    } else if (core->shut) {
        want_fail(core, want, BATON_STATUS_FAILED, BATON_ECLOSED, -1, "");
    } else if (is_there) {
        meet(core, want);
    } else if (is_awaited) {
        want->state = WANT_AWAITING;
        timer_arm(&core->timers, &want->timer, call_due_ns(call), on_deadline);
    } else {
        want_fail(core, want, BATON_STATUS_FAILED, BATON_EPEER, -1, "its producer's engine has gone");
    }
}

void wants_on_engine(struct core *core)
{
    struct want *want, *next;
    for (want = core->wants->by_id; want != NULL; want = next) {
        next = want->by_id.next;
        if (want->state != WANT_AWAITING || !find_engine(core, &want->ask.call->want))
            continue;
        want->state = WANT_QUEUED;
        meet(core, want);
    }
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

struct call *want_call(struct core *core, const char *key, uint32_t attempt, uint32_t engine)
{
    const struct want *want = want_named(core, key, attempt, engine);
    return want != NULL ? want->ask.call : NULL;
}

static bool is_over(const struct leg *leg)
{
    return leg_state(leg) == LEG_FENCED || leg_state(leg) == LEG_CLOSED;
}

void want_standing(struct core *core, const char *key, uint32_t attempt, uint32_t engine, char *text, size_t size)
{
    const struct want *want = want_named(core, key, attempt, engine);
    baton_pending_t pending;
    if (want == NULL) {
        snprintf(text, size, "it has no such want open");
    } else if (want->state == WANT_QUEUED && link_pending(core, engine, core->now, &pending)) {
        snprintf(text, size, "its handshake with engine %s has %u of %u ranks after %llu ms", pending.engine,
                 pending.ranks_known, pending.ranks_needed, (unsigned long long)(pending.waiting_ns / NS_PER_MS));
    } else {
        uint32_t i = 0;
        while (i + 1 < want->ask.num_legs && is_over(leg_at(want->legs, i)))
            i++;
        const struct leg *leg = leg_at(want->legs, i);
        snprintf(text, size, "its leg with rank %u is %s", leg_rank(leg), leg_state_name(leg_state(leg)));
    }
}

uint32_t wants_open(const struct core *core)
{
    return HASH_CNT(by_id, core->wants->by_id);
}

uint32_t wants_legs(const struct core *core)
{
    return core->wants->num_legs;
}

int wants_create(struct core *core)
{
    core->wants = calloc(1, sizeof *core->wants);
    return core->wants != NULL ? 0 : BATON_ENOMEM;
}

void wants_destroy(struct core *core)
{
    if (core->wants == NULL)
        return;
    while (core->wants->by_id != NULL) {
        struct want *want = core->wants->by_id;
        struct call *call = want->ask.call;
        want_destroy(core, want);
        call_free(call);
    }
    claims_destroy(core->wants->claims);
    free(core->wants);
}
