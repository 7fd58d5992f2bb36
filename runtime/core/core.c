/* SPDX-License-Identifier: BSD-3-Clause */
/* core: creation, the step, messages out and in, outcomes and counts. The verbs' two sides are offer.c and want.c. */
#include "core/attempt.h"
#include "core/check.h"
#include "core/gone.h"
#include "core/leg.h"
#include "core/leave.h"
#include "core/survey.h"
#include "core/want.h"
#include "core/offer.h"
#include "core/lease.h"
#include "core/mover.h"
#include "core/ends.h"
#include "core/early.h"
#include "core/link.h"
#include "core/peer.h"
#include "core/post.h"
#include "core/speaker.h"
#include "core/contact.h"
#include "core/state.h"
#include "core/tail.h"

#include <stdlib.h>
#include <string.h>

/* All that core_destroy destroys. */
static int parts_create(struct core *core)
{
    static int (*const create[])(struct core *) = {early_create,  survey_create, peers_create,  leave_create,
                                                   ends_create,   links_create,  movers_create, attempts_create,
                                                   offers_create, wants_create,  checks_create, tails_create};
    int rc = 0;
    core->leases =
        leases_create((uint32_t)core->c.settings->leases, core->c.directory->rows[core->c.self].number & INT64_MAX,
                      core->c.arena, core->c.arena_bytes);
    core->post = post_create(&core->c, &core->stats);
    if (core->leases == NULL || core->post == NULL)
        return BATON_ENOMEM;
    for (size_t i = 0; rc == 0 && i < sizeof create / sizeof create[0]; i++)
        rc = create[i](core);
    return rc;
}

int core_create(const struct core_config *config, struct core **out)
{
    struct core *core = calloc(1, sizeof *core);
    if (core == NULL)
        return BATON_ENOMEM;
    core->c = *config;
    core->works.looks_most = LOOKS_A_STEP;
    core->works.pause_ns = 1;
    int rc = parts_create(core);
    if (rc != 0) {
        core_destroy(core);
        return rc;
    }
    *out = core;
    return 0;
}

void core_hook(struct core *core, const struct core_hooks *hooks, void *self)
{
    core->above = (struct above){hooks, self};
}

void core_destroy(struct core *core)
{
    if (core == NULL)
        return;
    offers_destroy(core);
    tails_destroy(core);
    wants_destroy(core);
    links_destroy(core);
    if (core->above.hooks != NULL)
        core->above.hooks->destroy(core);
    checks_destroy(core);
    ends_destroy(core);
    leave_destroy(core);
    peers_destroy(core);
    speakers_destroy(core);
    post_destroy(core->post);
    while (core_has_outcome(core)) {
        outcome_free(core_take(core));
    }
    HASH_CLEAR(hh, core->ops.by_tag);
    survey_destroy(core);
    movers_destroy(core);
    early_destroy(core);
    attempts_destroy(core);
    leases_destroy(core->leases);
    reap_free(&core->reap);
    free(core);
}

/* ---- what happened ----------------------------------------------------------------------------------------------- */

static bool is_to_offer(const struct wire_message *m)
{
    return m->type == WIRE_WANT || m->type == WIRE_DONE || m->type == WIRE_CANCEL || m->type == WIRE_RELEASE;
}

static void dispatch(struct core *core, uint32_t peer, const struct wire_message *m)
{
    if (is_to_offer(m))
        offer_hear(core, wire_name_of(m), peer); /* what that rank said by words before it sent this message */
    switch (m->type) {
    case WIRE_BEAT:
        peer_on_beat(core, peer, m);
        break;
    case WIRE_INQUIRY:
        peer_on_inquiry(core, peer, m);
        break;
    case WIRE_WITNESS:
        peer_on_witness(core, peer, m);
        break;
    case WIRE_LEAVE:
        leave_on_message(core, peer, m);
        break;
    case WIRE_WANT:
        offer_on_want(core, peer, m);
        break;
    case WIRE_DONE:
    case WIRE_CANCEL:
    case WIRE_RELEASE:
        offer_on_end(core, peer, m);
        break;
    case WIRE_GRANT:
    case WIRE_NACK:
    case WIRE_WRITTEN:
    case WIRE_CLOSED:
    case WIRE_SUMS:
    case WIRE_READY:
        want_on_message(core, peer, m);
        break;
    case WIRE_ENDED:
        ends_on_answer(core, peer, m);
        break;
    case WIRE_CHECK:
        check_on_ask(core, peer, m, offer_granted(core, m->check.name.key, m->check.name.attempt, peer, m->want_id));
        break;
    case WIRE_REPORT:
    case WIRE_VERDICT:
    case WIRE_ASK:
    case WIRE_STANDING:
        if (core->above.hooks != NULL)
            core->above.hooks->message(core, peer, m);
        break;
    }
}

static void on_message(struct core *core, const struct port_event *e)
{
    struct wire_message m;
    if (!post_open(core->post, e, &m))
        return;
    peer_heard(core, e->peer);
    if (!is_to_offer(&m) || !readers_await(core, e))
        dispatch(core, e->peer, &m);
}

static void on_card(struct core *core, struct op *op, const struct port_event *e)
{
    struct contact *c = (struct contact *)op;
    struct wire_message m;
    switch (link_on_card(core, c, e)) {
    case LINK_NOTHING:
        break;
    case LINK_TARGET:
        offers_on_contact(core, c);
        while (checks_take_waiting(core, contact_peer(c), &m))
            dispatch(core, contact_peer(c), &m);
        break;
    case LINK_SPARE:
        wants_on_spare(core, c);
        break;
    case LINK_SETTLED:
        wants_on_link(core, contact_link(c));
        break;
    }
}

static void on_hashed(struct core *core, struct check *c, int error)
{
    struct leg *leg;
    struct plan_why why = {{0}};
    int how = check_on_event(core, c, error, &leg, &why);
    if (leg != NULL) {
        leg_on_checked(core, leg, how, why.text);
    } else if (how == CHECK_GOOD) {
        const struct check_question *q = check_asked(c);
        check_answer(core, c, offer_granted(core, q->name.key, q->name.attempt, q->peer, q->want));
    }
}

static void on_joined(struct core *core, uint32_t peer)
{
    const uint32_t engine = core->c.directory->engine_of[peer];
    near_welcome(core, peer);
    if (core->c.directory->engines[engine]->state == DIRECTORY_WHOLE)
        wants_on_engine(core);
}

static void on_event(struct core *core, const struct port_event *e)
{
    struct op *op;
    switch (e->kind) {
    case PORT_MESSAGE:
        on_message(core, e);
        return;
    case PORT_JOINED:
        on_joined(core, e->peer);
        return;
    case PORT_LEFT:
        gone_member(core, e);
        return;
    default:
        break;
    }
    op = op_find(&core->ops, e->tag);
    if (op == NULL)
        return;
    if (op->kind == OP_CONTACT)
        on_card(core, op, e);
    else if (op->kind == OP_CHECK)
        on_hashed(core, (struct check *)op, e->error);
    else if (op->kind == OP_TAIL)
        want_on_tail(core, tail_end(core, (struct tail *)op), e->error);
    else
        mover_on_event(core, op, e);
}

/* ---- news -------------------------------------------------------------------------------------------------------- */

/* True: there were any. */
static bool hand_on_ends(struct core *core)
{
    struct outcome *told;
    bool any = false;
    while ((told = outcome_take_news(core)) != NULL) {
        if (core->above.hooks != NULL)
            core->above.hooks->end(core, told);
        any = true;
    }
    return any;
}

static void on_loss(struct core *core, uint32_t rank)
{
    wants_lose(core, rank);
    while (wants_on_legs(core)) /* they end before the rank is asked for, or asked about */
        continue;
    offers_lose(core, rank);
    hand_on_ends(core); /* else its engine's verdicts would take those calls for open */
    if (core->above.hooks != NULL)
        core->above.hooks->loss(core, rank);
    if (peer_is_dead(core, rank))
        ends_lose(core, rank);
    leave_on_loss(core, rank);
    peer_loss_handled(core, rank);
}

static void on_mover(struct core *core, const struct mover *m, const struct mover_word *word)
{
    if (mover_kind(m) == OP_PUSH)
        offers_on_mover(core, mover_owner(m), word);
    else
        leg_on_mover(core, mover_owner(m), word);
}

static void on_works(struct core *core, struct timer *t)
{
    (void)t;
    works_run(core, &core->works);
}

/* Hands on what the lower files have to tell: they never call those above them. */
static void deliver_news(struct core *core)
{
    struct mover *mover;
    struct mover_word word;
    struct wire_message m;
    uint32_t peer;
    bool any = true;
    while (any) {
        any = false;
        while ((mover = mover_take_news(core, &word)) != NULL) {
            on_mover(core, mover, &word);
            any = true;
        }
        while (wants_on_legs(core))
            any = true;
        any |= hand_on_ends(core);
        while (peer_take_loss(core, &peer)) {
            on_loss(core, peer);
            any = true;
        }
        while (readers_take_word(core, &peer, &m)) {
            dispatch(core, peer, &m);
            any = true;
        }
    }
    if (core->works.first != NULL && !core->works.timer.armed)
        timer_arm(&core->timers, &core->works.timer, core->now + core->works.pause_ns, on_works);
}

/* How much of everything there is by now. */
static void take_stock(struct core *core)
{
    struct counts *c = &core->stats;
    count_set(&c->leases_live, offers_open(core));
    count_set(&c->quarantined, core->outcomes.num_quarantined);
    count_set(&c->wants_live, wants_open(core));
    count_set(&c->legs_live, wants_legs(core));
    count_set(&c->pushes_live, core->ops.num[OP_PUSH]);
}

/* The step, or the call, is over. */
static void finish(struct core *core)
{
    deliver_news(core);
    take_stock(core);
    reap_free(&core->reap);
}

void core_step(struct core *core, uint64_t now, uint64_t heard_ns, const struct port_event *events, int num_events)
{
    core->now = now;
    core->timers.heard_ns = heard_ns;
    core->works.looks = 0;
    peers_watch(core, heard_ns);
    post_flush(core->post);
    speakers_flush(core);
    offers_hear(core);
    deliver_news(core);
    for (int i = 0; i < num_events; i++) {
        on_event(core, &events[i]);
        deliver_news(core);
    }
    struct timer *t;
    while ((t = timer_due(&core->timers, heard_ns)) != NULL) {
        t->fire(core, t);
        deliver_news(core);
    }
    offers_hear_late(core); /* who reads may have been found out meanwhile */
    deliver_news(core);
    while (!movers_run(core))
        deliver_news(core);
    checks_run(core);
    tails_run(core);
    finish(core);
}

static void begin(struct core *core, uint64_t now, struct call *call)
{
    core->now = now;
    count_add(&core->stats.offers, call->kind == CALL_OFFER);
    count_add(&core->stats.wants, call->kind == CALL_WANT);
    if (!call_ends(call))
        return;
    call->end.call = call;
    call->end.event = (baton_event_t){0};
    call->end.peer = -1;
    if (core_timeline(core) != NULL)
        timeline_add_call(core_timeline(core), call->kind == CALL_WANT ? TIMELINE_WANT : TIMELINE_OFFER,
                          call->submitted_ns, call->id, call_name(call));
    call_set_due(call, call_due_ns(call));
}

void core_submit(struct core *core, uint64_t now, struct call *call)
{
    bool is_word = !call_ends(call);
    begin(core, now, call);
    switch (call->kind) {
    case CALL_OFFER:
        offer_submit(core, call);
        break;
    case CALL_WANT:
        want_submit(core, call);
        break;
    case CALL_CANCEL:
        if (!want_cancel(core, call->id))
            offer_cancel(core, call->id);
        break;
    case CALL_READY:
        offer_ready(core, call);
        break;
    case CALL_APPEND:
        offer_append(core, call);
        break;
    }
    if (is_word)
        call_free(call);
    finish(core);
}

void core_give_up(struct core *core, uint64_t now, baton_id_t id, baton_status_t status, int error, const char *detail)
{
    core->now = now;
    if (!want_give_up(core, id, status, error, detail))
        offer_give_up(core, id, status, error);
    finish(core);
}

void core_decline(struct core *core, uint64_t now, struct call *call, int error, const char *detail)
{
    begin(core, now, call);
    outcome_fail(core, call, error, detail);
    finish(core);
}

uint64_t core_next_ns(const struct core *core)
{
    return timer_next(&core->timers);
}

bool core_is_busy(const struct core *core)
{
    const uint32_t *ops = core->ops.num;
    return movers_are_busy(core) || ops[OP_CONTACT] > 0 || ops[OP_CHECK] > 0 || ops[OP_TAIL] > 0 ||
           post_waiting(core->post) > 0 || core->works.first != NULL;
}

bool core_is_serving(const struct core *core)
{
    return core->serving > 0;
}

void core_shut(struct core *core, uint64_t now)
{
    core->now = now;
    core->shut = true;
    wants_shut(core);
    offers_shut(core);
    ends_shut(core);
    if (core->above.hooks != NULL)
        core->above.hooks->shut(core);
    finish(core);
}

bool core_is_quiet(const struct core *core)
{
    /* In closing, a peer that closed before gives no credits back: what waits for them is not waited for. */
    return wants_open(core) == 0 && offers_open(core) == 0 && (core->shut || post_waiting(core->post) == 0);
}

bool core_is_given_up(const struct core *core)
{
    return wants_open(core) + offers_open(core) == core->outcomes.num_quarantined;
}

void core_stats(const struct core *core, baton_stats_t *out)
{
    const struct counts *c = &core->stats;
    memset(out, 0, sizeof *out);
#define CORE_COUNT(name) out->name = count_of(&c->name);
    CORE_COUNTS_MAP(CORE_COUNT)
#undef CORE_COUNT
    for (unsigned p = 0; p < BATON_PATHS; p++)
        out->bytes[p] = count_of(&c->bytes[p]);
}

int core_pending(const struct core *core, uint64_t now, baton_pending_t *out, int max)
{
    int n = 0;
    for (uint32_t e = 0; e < core->c.directory->num_engines && n < max; e++)
        n += link_pending(core, e, now, &out[n]);
    return n;
}
