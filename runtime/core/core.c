/* SPDX-License-Identifier: BSD-3-Clause */
/* core: creation, the step, messages out and in, outcomes and counts. The verbs' two sides are offer.c and want.c. */
#include "core/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESEND_MOST 16   /* times BATON_RESEND_MS */
#define NUMBERS_AHEAD 64 /* messages that may be missing before one: those that found no credit in time were dropped */

int core_create(const struct core_config *config, struct core **out)
{
    const struct directory *d = config->directory;
    struct core *core = calloc(1, sizeof *core);
    if (core == NULL)
        return BATON_ENOMEM;
    core->c = *config;
    core->looks_most = LOOKS_A_STEP;
    core->works_pause_ns = 1;
    core->incarnation = d->rows[config->self].incarnation;
    core->engine = d->engine_of[config->self];
    core->index = d->index_of[config->self];
    core->leaving.lost = WIRE_NOBODY;
    core->leases =
        leases_create((uint32_t)config->settings->leases, core->incarnation, config->arena, config->arena_bytes);
    core->links = calloc(d->num_engines, sizeof *core->links);
    core->targets = calloc(d->num_engines, sizeof *core->targets);
    core->readers = calloc(d->num_engines, sizeof *core->readers);
    core->peers = calloc(d->num_ranks, sizeof *core->peers);
    core->sent_to = calloc(d->num_ranks, sizeof *core->sent_to);
    core->waits_of = calloc(d->num_ranks, sizeof *core->waits_of);
    core->seen_from = calloc(d->num_ranks, sizeof *core->seen_from);
    core->answers = calloc(d->num_ranks, sizeof *core->answers);
    core->unsent_to = calloc(d->num_ranks, sizeof *core->unsent_to);
    core->blocked_at = calloc(d->num_ranks, sizeof *core->blocked_at);
    if (core->leases == NULL || core->links == NULL || core->targets == NULL || core->readers == NULL ||
        core->peers == NULL || core->sent_to == NULL || core->seen_from == NULL || core->waits_of == NULL ||
        core->answers == NULL || core->unsent_to == NULL || core->blocked_at == NULL) {
        core_destroy(core);
        return BATON_ENOMEM;
    }
    for (uint32_t i = 0; i < d->engines[core->engine].num_ranks && d->rows[config->self].verdicts; i++)
        if (peer_know(core, d->engines[core->engine].ranks[i]) != 0) {
            core_destroy(core);
            return BATON_ENOMEM;
        }
    *out = core;
    return 0;
}

void core_destroy(struct core *core)
{
    if (core == NULL)
        return;
    offers_destroy(core);
    tails_destroy(core);
    wants_destroy(core);
    if (core->links != NULL && core->targets != NULL)
        links_destroy(core);
    verdicts_shut(core);
    checks_destroy(core);
    ends_destroy(core);
    leave_destroy(core);
    peers_destroy(core);
    struct unsent *u, *next;
    DL_FOREACH_SAFE(core->unsent, u, next)
    {
        free(u);
    }
    while (core->outcomes != NULL) {
        struct core_submit *s = core_take(core);
        core_submit_free(s);
    }
    HASH_CLEAR(hh, core->ops);
    readers_free(core);
    claims_free(core);
    free(core->links);
    free(core->targets);
    free(core->sent_to);
    free(core->seen_from);
    free(core->waits_of);
    free(core->unsent_to);
    free(core->blocked_at);
    leases_destroy(core->leases);
    free(core);
}

/* ---- tags -------------------------------------------------------------------------------------------------------- */

int op_add(struct core *core, struct op *op, int kind)
{
    op->tag = ++core->next_tag;
    op->kind = kind;
    HASH_ADD(hh, core->ops, tag, sizeof op->tag, op);
    return op->hh.tbl != NULL ? 0 : BATON_ENOMEM;
}

void op_remove(struct core *core, struct op *op)
{
    if (op->hh.tbl == NULL)
        return;
    HASH_DEL(core->ops, op);
    op->hh.tbl = NULL;
}

/* ---- messages out ------------------------------------------------------------------------------------------------ */

static void unsent_keep(struct core *core, uint32_t peer, const uint8_t *data, uint32_t bytes)
{
    struct unsent *u = NULL;
    uint64_t most = 4 * core->c.settings->requests; /* of which no peer takes more than a quarter */
    if (core->num_unsent < most && core->unsent_to[peer] < most / 4)
        u = malloc(sizeof *u + bytes);
    if (u == NULL) { /* wants are sent again by their timers, and offers expire: nothing hangs on one message */
        log_line(core->c.log, LOG_WARN, "a message to rank %u was dropped: %u wait for credits", peer,
                 core->num_unsent);
        return;
    }
    u->peer = peer;
    u->bytes = bytes;
    memcpy(u->data, data, bytes);
    DL_APPEND(core->unsent, u);
    core->num_unsent++;
    core->unsent_to[peer]++;
}

void core_send(struct core *core, uint32_t peer, struct wire_message *m)
{
    uint8_t data[WIRE_MESSAGE_MAX];
    m->version = (uint8_t)directory_version(core->c.directory, core->c.self, peer);
    if (peer_is_dead(core, peer) || wire_type_version(m->type) > m->version)
        return;
    if (m->version < WIRE_NAMES && (m->attempt != 0 || strlen(m->key) >= WIRE_KEY_1)) {
        log_line(core->c.log, LOG_WARN,
                 "%s to rank %u was dropped: its wire version %u has no word for key %s, attempt %u",
                 wire_type_name(m->type), peer, m->version, m->key, m->attempt);
        return;
    }
    m->from = core->incarnation;
    m->to = core->c.directory->rows[peer].incarnation;
    m->number = ++core->sent_to[peer];
    uint32_t bytes = wire_encode(m, data);
    int rc = BATON_EAGAIN;
    if (core->unsent_to[peer] == 0)
        rc = core->c.port->send(core->c.port->self, peer, data, bytes);
    core->stats.messages_sent++;
    if (rc == BATON_EAGAIN)
        unsent_keep(core, peer, data, bytes);
    else if (rc != 0)
        log_line(core->c.log, LOG_WARN, "%s to rank %u: %s", wire_type_name(m->type), peer, baton_strerror(rc));
}

uint64_t core_pause_ns(const struct core *core, uint64_t pause_ns)
{
    uint64_t first = core->c.settings->resend_ms * NS_PER_MS;
    if (pause_ns == 0)
        return first;
    return pause_ns < RESEND_MOST * first ? 2 * pause_ns : pause_ns;
}

static void unsent_flush(struct core *core)
{
    struct unsent *u, *next;
    uint64_t pass = ++core->flushes;
    DL_FOREACH_SAFE(core->unsent, u, next)
    {
        if (core->blocked_at[u->peer] == pass) /* its later messages must not overtake; other peers' go on */
            continue;
        int rc = 0;
        if (!peer_is_dead(core, u->peer))
            rc = core->c.port->send(core->c.port->self, u->peer, u->data, u->bytes);
        if (rc == BATON_EAGAIN) {
            core->blocked_at[u->peer] = pass;
            continue;
        }
        if (rc != 0)
            log_line(core->c.log, LOG_WARN, "a kept message to rank %u: %s", u->peer, baton_strerror(rc));
        core->unsent_to[u->peer]--;
        core->num_unsent--;
        DL_DELETE(core->unsent, u);
        free(u);
    }
}

/* ---- what happened ----------------------------------------------------------------------------------------------- */

void core_refuse(struct core *core, uint32_t peer, const struct wire_message *m, const char *why)
{
    core->stats.messages_bad++;
    log_line(core->c.log, LOG_WARN, "%s from rank %u was refused: %s", wire_type_name(m->type), peer, why);
}

void core_dispatch(struct core *core, uint32_t peer, const struct wire_message *m)
{
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
        leg_on_message(core, peer, m);
        break;
    case WIRE_ENDED:
        ends_on_answer(core, peer, m);
        break;
    case WIRE_CHECK:
        check_on_ask(core, peer, m);
        break;
    case WIRE_REPORT:
    case WIRE_VERDICT:
    case WIRE_ASK:
    case WIRE_STANDING:
        verdict_on_message(core, peer, m);
        break;
    }
}

static void on_message(struct core *core, const struct port_event *e)
{
    struct wire_message m;
    core->stats.messages_received++;
    int rc = wire_decode(e->data, e->bytes, &m);
    if (rc == BATON_ENOSYS) { /* of a version that knows more than this one */
        core->stats.messages_unknown++;
        return;
    }
    if (rc != 0 || e->peer >= core->c.directory->num_ranks || m.to != core->incarnation ||
        m.from != core->c.directory->rows[e->peer].incarnation) {
        core->stats.messages_bad++;
        log_line(core->c.log, LOG_WARN, "a message of %u bytes from rank %u was refused: %s", e->bytes, e->peer,
                 rc != 0 ? "malformed" : "of another incarnation");
        return;
    }
    if (!number_take(&core->seen_from[e->peer], m.number, NUMBERS_AHEAD)) { /* what matters is said again */
        bool came_before = core->seen_from[e->peer].last - m.number < NUMBERS_AHEAD;
        core->stats.messages_bad += !came_before;
        return;
    }
    peer_heard(core, e->peer);
    bool to_an_offer = m.type == WIRE_WANT || m.type == WIRE_DONE || m.type == WIRE_CANCEL || m.type == WIRE_RELEASE;
    if (!to_an_offer || !readers_await(core, e))
        core_dispatch(core, e->peer, &m);
}

static void on_event(struct core *core, const struct port_event *e)
{
    struct op *op;
    if (e->kind == PORT_MESSAGE) {
        on_message(core, e);
        return;
    }
    HASH_FIND(hh, core->ops, &e->tag, sizeof e->tag, op);
    if (op == NULL)
        return;
    if (op->kind == OP_CONTACT)
        link_on_card(core, (struct contact *)op, e);
    else if (op->kind == OP_CHECK)
        check_on_event(core, (struct check *)op);
    else if (op->kind == OP_TAIL)
        tail_on_event(core, (struct tail *)op);
    else
        mover_on_event(core, (struct mover *)op, e);
}

void core_step(struct core *core, uint64_t now, const struct port_event *events, int num_events)
{
    core->now = now;
    core->looks = 0;
    peers_watch(core, now);
    unsent_flush(core);
    for (int i = 0; i < num_events; i++)
        on_event(core, &events[i]);
    struct timer *t;
    while ((t = timer_due(&core->timers, now)) != NULL)
        t->fire(core, t);
    movers_run(core);
    checks_run(core);
    tails_run(core);
}

/* Both verbs begin with a record whose event is empty. */
static void begin(struct core *core, uint64_t now, struct core_submit *s)
{
    core->now = now;
    core->stats.offers += s->kind == CORE_OFFER;
    core->stats.wants += s->kind == CORE_WANT;
    s->next = NULL;
    s->event = (baton_event_t){.peer = -1};
    atomic_store_explicit(&s->due_ns, core_submit_due_ns(s), memory_order_relaxed);
}

void core_submit(struct core *core, uint64_t now, struct core_submit *s)
{
    begin(core, now, s);
    switch (s->kind) {
    case CORE_OFFER:
        offer_submit(core, s);
        return;
    case CORE_WANT:
        want_submit(core, s);
        return;
    case CORE_CANCEL:
        if (!want_cancel(core, s->id))
            offer_cancel(core, s->id, BATON_ECANCELED);
        break;
    case CORE_READY:
        offer_ready(core, s);
        break;
    case CORE_APPEND:
        offer_append(core, s);
        break;
    }
    core_submit_free(s);
}

void core_give_up(struct core *core, uint64_t now, baton_id_t id, baton_status_t status, int error, const char *detail)
{
    core->now = now;
    if (!want_give_up(core, id, status, error, detail))
        offer_give_up(core, id, status, error);
}

void core_decline(struct core *core, uint64_t now, struct core_submit *s, int error, const char *detail)
{
    begin(core, now, s);
    snprintf(s->event.detail, sizeof s->event.detail, "%s", detail);
    core_outcome(core, s, BATON_STATUS_FAILED, error);
}

uint64_t core_next_ns(const struct core *core)
{
    return timer_next(&core->timers);
}

bool core_is_busy(const struct core *core)
{
    return budget_held(&core->copies) > 0 || budget_held(&core->rma) > 0 || core->reading > 0 || movers_wait(core) ||
           core->num_unsent > 0 || core->checks != NULL || core->tails != NULL || core->works != NULL;
}

bool core_is_serving(const struct core *core)
{
    return core->serving > 0 || core->awaiting > 0;
}

/* ---- outcomes ---------------------------------------------------------------------------------------------------- */

static void outcome_count(struct core *core, baton_event_type_t type, baton_status_t status)
{
    baton_stats_t *s = &core->stats;
    uint64_t *by_status[2][4] = {
        {&s->offers_done, &s->offers_failed, &s->offers_expired, &s->offers_cancelled},
        {&s->wants_done, &s->wants_failed, &s->wants_expired, &s->wants_cancelled},
    };
    ++*by_status[type == BATON_EVENT_WANT][status - BATON_STATUS_DONE];
}

void core_emit(struct core *core, struct core_submit *s, baton_event_type_t type, baton_status_t status, int error)
{
    baton_event_t *e = &s->event;
    e->type = type;
    e->status = status;
    e->error = error;
    e->id = s->id;
    memcpy(e->key, core_submit_name(s), sizeof e->key);
    e->attempt = s->attempt;
    e->user = s->user;
    e->mode = s->mode;
    e->num_blocks = s->num_blocks;
    e->total_ns = core->now - s->submitted_ns;
    s->next = NULL;
    if (core->outcomes == NULL)
        core->outcomes = s;
    else
        core->outcomes_last->next = s;
    core->outcomes_last = s;
}

static baton_event_type_t event_type(const struct core_submit *s)
{
    return s->kind == CORE_OFFER ? BATON_EVENT_OFFER : BATON_EVENT_WANT;
}

/* How a call ended is told to log and engine, once: when it was given up, or at its end. */
static void tell_end(struct core *core, struct core_submit *s)
{
    const baton_event_t *e = &s->event;
    if (e->status != BATON_STATUS_DONE && e->status != BATON_STATUS_CANCELLED)
        failure_log(core->c.log, &(struct failure){.what = s->kind == CORE_WANT ? "want" : "offer",
                                                   .reason = baton_errname(e->error),
                                                   .key = s->key,
                                                   .peer = e->peer,
                                                   .leg = s->leg,
                                                   .state = s->state,
                                                   .age_ns = e->total_ns,
                                                   .detail = e->detail});
    verdict_report(core, s);
}

void core_outcome(struct core *core, struct core_submit *s, baton_status_t status, int error)
{
    s->event.given_up = s->given_up;
    core->num_quarantined -= s->given_up;
    core_emit(core, s, event_type(s), status, error);
    outcome_count(core, s->event.type, status);
    if (!s->given_up)
        tell_end(core, s);
}

uint64_t core_patience_ns(const struct core *core, const struct core_submit *s, int error)
{
    uint64_t due = atomic_load_explicit(&s->due_ns, memory_order_relaxed), from = core->now;
    if (error != BATON_EPEER && !core->shut && due > from)
        from = due;
    return from + core->c.settings->quiet_ms * NS_PER_MS;
}

void core_outcome_given_up(struct core *core, struct core_submit *s, baton_status_t status, int error, int32_t peer,
                           const char *detail)
{
    struct core_submit *told = s->spare;
    if (s->given_up || told == NULL)
        return;
    s->spare = NULL;
    s->given_up = true;
    memcpy(told, s, sizeof *told);
    told->tickets = NULL;
    s->verdict = NULL;
    told->event.of = event_type(s);
    told->event.peer = peer;
    snprintf(told->event.detail, sizeof told->event.detail, "%s", detail);
    core->num_quarantined++;
    core->stats.given_up++;
    core_emit(core, told, BATON_EVENT_GIVEN_UP, status, error);
    tell_end(core, told);
    s->event.verdict = told->event.verdict;
}

bool core_has_outcome(const struct core *core)
{
    return core->outcomes != NULL;
}

struct core_submit *core_take(struct core *core)
{
    struct core_submit *s = core->outcomes;
    if (s != NULL)
        core->outcomes = s->next;
    return s;
}

void core_submit_tables(struct core_submit *s, const struct plan_tables *tables, const uint32_t *per_id)
{
    uint32_t *place = s->blocks;
    s->tables = *tables;
    s->num_blocks = 0;
    for (uint32_t i = 0; i < tables->num; i++) {
        const baton_table_t *from = &tables->table[i];
        uint32_t n = per_id != NULL ? per_id[i] : 1, *to = place;
        for (uint32_t k = 0; k < from->num_blocks; k++)
            for (uint32_t j = 0; j < n; j++)
                *to++ = from->blocks[k] * n + j;
        s->tables.table[i].blocks = place;
        s->tables.table[i].num_blocks = from->num_blocks * n;
        s->num_blocks += from->num_blocks * n;
        if (s->room[i] < from->num_blocks * n)
            s->room[i] = from->num_blocks * n;
        place += s->room[i];
    }
}

bool core_submit_append(struct core_submit *s, const struct plan_tables *more)
{
    for (uint32_t i = 0; i < more->num; i++)
        if (i >= s->tables.num || more->table[i].num_blocks > s->room[i] - s->tables.table[i].num_blocks)
            return false;
    for (uint32_t i = 0; i < more->num; i++) {
        baton_table_t *to = &s->tables.table[i];
        uint32_t n = more->table[i].num_blocks;
        if (n > 0)
            memcpy(s->blocks + (to->blocks - s->blocks) + to->num_blocks, more->table[i].blocks, n * sizeof *s->blocks);
        to->num_blocks += n;
        s->num_blocks += n;
    }
    return true;
}

void core_submit_free(struct core_submit *s)
{
    if (s == NULL)
        return;
    free(s->spare);
    free(s->verdict);
    free(s->tickets);
    free(s);
}

void core_shut(struct core *core, uint64_t now)
{
    core->now = now;
    core->shut = true;
    wants_shut(core);
    offers_shut(core);
    ends_shut(core);
    verdicts_shut(core);
}

bool core_is_quiet(const struct core *core)
{
    /* In closing, a peer that closed before gives no credits back: what waits for them is not waited for. */
    return core->wants == NULL && core->num_live == 0 && (core->shut || core->num_unsent == 0);
}

bool core_is_given_up(const struct core *core)
{
    return HASH_COUNT(core->wants) + core->num_live == core->num_quarantined;
}

void core_stats(const struct core *core, baton_stats_t *out)
{
    *out = core->stats;
    out->leases_live = core->num_live;
    out->quarantined = core->num_quarantined;
    out->wants_live = HASH_COUNT(core->wants);
    out->legs_live = core->num_legs;
    out->pushes_live = core->num_pushes;
}

int core_pending(const struct core *core, uint64_t now, baton_pending_t *out, int max)
{
    int n = 0;
    for (uint32_t e = 0; e < core->c.directory->num_engines && n < max; e++) {
        const struct link *link = core->links[e];
        if (link == NULL || link->queued == 0)
            continue;
        baton_pending_t *p = &out[n++];
        *p = (baton_pending_t){.ranks_needed = link->num_contacts,
                               .ranks_known = link->good,
                               .wants = link->queued,
                               .waiting_ns = now - link->since_ns};
        memcpy(p->engine, core->c.directory->engines[e].name, sizeof p->engine);
        for (uint32_t i = 0; i < link->num_contacts; i++)
            if (link->contacts[i].attempts > p->attempts)
                p->attempts = link->contacts[i].attempts;
    }
    return n;
}
