/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verdict: what the ranks of an engine hear of one request as a whole, where the engine asked for it.
 *
 *   every rank   tells the engine's first rank how its call ended (REPORT), again with growing pauses until it hears
 *                the VERDICT, or until twice BATON_VERDICT_MS
 *   first rank   keeps a round for each key and verb: by identity, who has reported. It closes when all that hold a
 *                part of the cache have, when one of them is lost, or BATON_VERDICT_MS after its first report, and every
 *                rank is told the same. Half-way it asks the missing ones where they stand, to name that too.
 *
 * A closed round is kept for a while: who reports late, or again, gets its verdict once more.
 */
#include "core/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One call of mine that ended, and whose verdict I await. */
struct report {
    uint64_t id;
    UT_hash_handle hh;
    struct outcome *verdict; /* NULL: it is not told here */
    struct wire_message message;
    struct timer timer;
    uint64_t pause_ns, until_ns;
};

struct round_name {
    char key[BATON_KEY_MAX];
    uint32_t attempt;
    uint32_t verb;   /* enum call_kind */
    uint32_t engine; /* the producer's, as in the directory */
};

struct round {
    struct round_name name;
    UT_hash_handle hh;
    struct round *later;       /* of the same name: a next attempt */
    struct round *prev, *next; /* in core->rounds, oldest first */
    bool closed, asked;
    uint32_t missing;
    struct timer timer;
    baton_status_t status;
    int32_t error, peer; /* the worst that was reported, and by which rank; DONE: 0, -1 */
    char detail[96];
    uint32_t standing_of; /* index of the missing rank that `standing` is about */
    char standing[96];
    uint64_t ids[]; /* by index in the engine: the call that it reported; 0: none yet */
};

static const struct directory_engine *my_engine(const struct core *core)
{
    return &core->c.directory->engines[core_engine(core)];
}

static baton_verdicts_t mode_of(const struct core *core)
{
    return (baton_verdicts_t)core->c.directory->rows[core->c.self].verdicts;
}

static uint32_t leader(const struct core *core)
{
    return my_engine(core)->ranks[0];
}

/* Whether this rank's engine hears verdicts here. */
static bool hears(const struct core *core)
{
    return mode_of(core) == BATON_VERDICTS_ALL ||
           (mode_of(core) == BATON_VERDICTS_LEADER && leader(core) == core->c.self);
}

static bool takes_part(const struct core *core, uint32_t index)
{
    return my_engine(core)->members[index].num_boxes > 0;
}

static const char *verb_name(uint32_t verb)
{
    return verb == CALL_OFFER ? "offer" : "want";
}

/* ---- telling this rank's engine ---------------------------------------------------------------------------------- */

static void emit(struct core *core, struct outcome *verdict, const struct wire_verdict *v)
{
    baton_event_t *e = &verdict->event;
    e->peer = v->peer;
    e->of = v->verb == CALL_OFFER ? BATON_EVENT_OFFER : BATON_EVENT_WANT;
    snprintf(e->detail, sizeof e->detail, "%s", v->detail);
    core->stats.verdicts++;
    outcome_emit(core, verdict, BATON_EVENT_VERDICT, (baton_status_t)v->status, v->error);
}

static void report_free(struct core *core, struct report *r)
{
    timer_stop(&core->timers, &r->timer);
    HASH_DEL(core->reports, r);
    if (leader(core) != core->c.self)
        peer_end(core, leader(core));
    outcome_free(r->verdict);
    free(r);
}

static void report_end(struct core *core, struct report *r, const struct wire_verdict *v)
{
    struct outcome *verdict = r->verdict;
    r->verdict = NULL;
    report_free(core, r);
    if (verdict != NULL)
        emit(core, verdict, v);
}

/* The producer's engine of a call of mine. */
static uint32_t producer_of(const struct core *core, const struct call *call)
{
    return call->kind == CALL_OFFER ? core_engine(core) : call->want.engine;
}

/* A call of mine has just ended: its report is about to be made. */
static bool is_to_be_reported(const struct core *core, const struct wire_verdict *v)
{
    for (const struct outcome *o = core->outcomes.news; o != NULL; o = o->news_after)
        if (o->call->kind == v->verb && o->call->attempt == v->name.attempt && strcmp(o->call->key, v->name.key) == 0 &&
            producer_of(core, o->call) == v->engine)
            return true;
    return false;
}

/* A verdict that names no call of mine: this rank was the silent one. */
static void told_before_the_end(struct core *core, const struct wire_verdict *v)
{
    struct call *call = v->verb == CALL_OFFER ? offer_call(core, v->name.key, v->name.attempt)
                                              : want_call(core, v->name.key, v->name.attempt, v->engine);
    const struct report *r;
    for (r = core->reports; r != NULL; r = r->hh.next)
        if (r->message.verdict.verb == v->verb && r->message.verdict.engine == v->engine &&
            r->message.verdict.name.attempt == v->name.attempt && strcmp(r->message.verdict.name.key, v->name.key) == 0)
            return; /* mine is on its way there: that call's verdict comes by its id */
    if (is_to_be_reported(core, v))
        return; /* likewise, as soon as it is */
    struct outcome *verdict = call != NULL ? call->verdict : calloc(1, sizeof *verdict);
    if (call != NULL && verdict == NULL)
        return; /* it was told of this call already */
    if (verdict == NULL) {
        core->stats.verdicts_lost++;
        return;
    }
    if (call != NULL) {
        call->verdict = NULL;
        call->end.event.verdict = BATON_VERDICT_CAME;
        outcome_name(verdict, call);
    } else {
        memcpy(verdict->event.key, v->name.key, sizeof verdict->event.key);
        verdict->event.attempt = v->name.attempt;
        verdict->submitted_ns = core->now;
    }
    emit(core, verdict, v);
}

static void on_verdict(struct core *core, const struct wire_message *m)
{
    struct report *r;
    HASH_FIND(hh, core->reports, &m->want_id, sizeof m->want_id, r);
    if (r != NULL)
        report_end(core, r, &m->verdict);
    else if (m->want_id == 0 && hears(core))
        told_before_the_end(core, &m->verdict);
}

/* Makes a verdict of a report that got none. */
static void fail_verdict(const struct core *core, struct wire_message *m, int error, const char *why)
{
    m->type = WIRE_VERDICT;
    m->verdict.status = BATON_STATUS_FAILED;
    m->verdict.error = error;
    m->verdict.peer = (int32_t)leader(core);
    snprintf(m->verdict.detail, sizeof m->verdict.detail, "%s", why);
}

static void report_fail(struct core *core, struct report *r, int error, const char *why)
{
    struct wire_message m = r->message;
    fail_verdict(core, &m, error, why);
    report_end(core, r, &m.verdict);
}

/* ---- rounds, at the first rank ----------------------------------------------------------------------------------- */

static struct round_name name_of(const struct wire_verdict *v)
{
    struct round_name name = {.attempt = v->name.attempt, .verb = v->verb, .engine = v->engine};
    memcpy(name.key, v->name.key, sizeof name.key);
    return name;
}

static struct round *round_first(const struct core *core, const struct round_name *name)
{
    struct round *r;
    HASH_FIND(hh, core->rounds_by_name, name, sizeof *name, r);
    return r;
}

/* The first round of that name in which this rank's report is missing, or, with an id, the one that has it. */
static struct round *round_with(const struct core *core, const struct round_name *name, uint32_t index, uint64_t id)
{
    struct round *r = round_first(core, name);
    while (r != NULL && r->ids[index] != id)
        r = r->later;
    return r;
}

static void round_wait(struct core *core, struct round *r, bool wait)
{
    for (uint32_t i = 0; i < my_engine(core)->num_ranks; i++) {
        uint32_t rank = my_engine(core)->ranks[i];
        if (r->ids[i] != 0 || !takes_part(core, i) || rank == core->c.self)
            continue;
        if (!wait)
            peer_end(core, rank);
        else
            peer_hold(core, rank);
    }
}

static void round_destroy(struct core *core, struct round *r)
{
    struct round *first = round_first(core, &r->name);
    if (!r->closed)
        round_wait(core, r, false);
    timer_stop(&core->timers, &r->timer);
    if (first == r) {
        HASH_DEL(core->rounds_by_name, r);
        if (r->later != NULL)
            HASH_ADD(hh, core->rounds_by_name, name, sizeof r->name, r->later);
    } else {
        while (first != NULL && first->later != r) /* NULL: one before it could not be found again */
            first = first->later;
        if (first != NULL)
            first->later = r->later;
    }
    DL_DELETE(core->rounds, r);
    core->num_rounds--;
    core->num_closed -= r->closed;
    free(r);
}

static void on_forget(struct core *core, struct timer *t)
{
    round_destroy(core, (struct round *)((char *)t - offsetof(struct round, timer)));
}

static void tell(struct core *core, const struct round *r, uint32_t index)
{
    uint32_t rank = my_engine(core)->ranks[index];
    struct wire_message m = {.type = WIRE_VERDICT,
                             .want_id = r->ids[index],
                             .verdict = {.name.attempt = r->name.attempt,
                                         .verb = (uint8_t)r->name.verb,
                                         .engine = r->name.engine,
                                         .status = (uint8_t)r->status,
                                         .error = r->error,
                                         .peer = r->peer}};
    memcpy(m.verdict.name.key, r->name.key, sizeof m.verdict.name.key);
    memcpy(m.verdict.detail, r->detail, sizeof m.verdict.detail);
    if (rank == core->c.self)
        on_verdict(core, &m);
    else
        post_send(core->post, rank, &m);
}

static void round_close(struct core *core, struct round *r)
{
    const struct settings *set = core->c.settings;
    uint64_t asked_ms = 2 * set->verdict_ms; /* so long a rank asks for it */
    round_wait(core, r, false);
    r->closed = true;
    core->num_closed++;
    timer_arm(&core->timers, &r->timer,
              core->now + (set->tombstone_ms > asked_ms ? set->tombstone_ms : asked_ms) * NS_PER_MS, on_forget);
    if (r->error != 0)
        log_line(core->c.log, LOG_INFO, "%s %s: rank %d: %s: %s", verb_name(r->name.verb), r->name.key, r->peer,
                 baton_errname(r->error), r->detail);
    for (uint32_t i = 0; i < my_engine(core)->num_ranks; i++)
        tell(core, r, i);
}

static void round_fail(struct core *core, struct round *r, int32_t error, uint32_t index, const char *why)
{
    r->status = BATON_STATUS_FAILED;
    r->error = error;
    r->peer = (int32_t)my_engine(core)->ranks[index];
    snprintf(r->detail, sizeof r->detail, "%u silent: %.80s", r->missing, why);
    round_close(core, r);
}

static uint32_t first_missing(const struct core *core, const struct round *r)
{
    uint32_t i = 0;
    while (i + 1 < my_engine(core)->num_ranks && (r->ids[i] != 0 || !takes_part(core, i)))
        i++;
    return i;
}

static void stand(struct core *core, const struct round_name *name, char *text, size_t size)
{
    if (name->verb == CALL_OFFER)
        offer_standing(core, name->key, name->attempt, text, size);
    else
        want_standing(core, name->key, name->attempt, name->engine, text, size);
}

static void on_round(struct core *core, struct timer *t)
{
    struct round *r = (struct round *)((char *)t - offsetof(struct round, timer));
    uint32_t first = first_missing(core, r);
    if (r->asked) {
        round_fail(core, r, BATON_ETIMEDOUT, first, r->standing_of == first ? r->standing : "it does not answer");
        return;
    }
    r->asked = true;
    timer_arm(&core->timers, t, core->now + core->c.settings->verdict_ms * NS_PER_MS / 2, on_round);
    for (uint32_t i = 0; i < my_engine(core)->num_ranks; i++) {
        uint32_t rank = my_engine(core)->ranks[i];
        if (r->ids[i] != 0 || !takes_part(core, i))
            continue;
        if (rank == core->c.self) {
            r->standing_of = i;
            stand(core, &r->name, r->standing, sizeof r->standing);
            continue;
        }
        struct wire_message m = {
            .type = WIRE_ASK,
            .verdict = {.name.attempt = r->name.attempt, .verb = (uint8_t)r->name.verb, .engine = r->name.engine}};
        memcpy(m.verdict.name.key, r->name.key, sizeof m.verdict.name.key);
        post_send(core->post, rank, &m);
    }
}

static struct round *oldest(const struct core *core, bool closed)
{
    struct round *r = core->rounds;
    while (r != NULL && r->closed != closed)
        r = r->next;
    return r;
}

/* Room for one more: the oldest open one ends; and of the closed ones as many are remembered. */
static void make_room(struct core *core)
{
    uint64_t most = 2 * core->c.settings->requests;
    if (core->num_rounds - core->num_closed >= most) {
        struct round *open = oldest(core, false);
        round_fail(core, open, BATON_EAGAIN, first_missing(core, open),
                   "too many requests wait for it (BATON_REQUESTS)");
    }
    if (core->num_closed > most) {
        round_destroy(core, oldest(core, true));
        core->evicted_ns = core->now;
    }
}

static struct round *round_create(struct core *core, const struct round_name *name)
{
    uint32_t n = my_engine(core)->num_ranks;
    make_room(core);
    struct round *r = calloc(1, sizeof *r + n * sizeof r->ids[0]), *last = round_first(core, name);
    if (r == NULL)
        return NULL;
    r->name = *name;
    r->status = BATON_STATUS_DONE;
    r->peer = -1;
    r->standing_of = UINT32_MAX;
    if (last == NULL) {
        HASH_ADD(hh, core->rounds_by_name, name, sizeof r->name, r);
        if (r->hh.tbl == NULL) {
            free(r);
            return NULL;
        }
    } else {
        while (last->later != NULL)
            last = last->later;
        last->later = r;
    }
    for (uint32_t i = 0; i < n; i++)
        r->missing += takes_part(core, i);
    DL_APPEND(core->rounds, r);
    core->num_rounds++;
    round_wait(core, r, true);
    timer_arm(&core->timers, &r->timer, core->now + core->c.settings->verdict_ms * NS_PER_MS / 2, on_round);
    return r;
}

/* Failed before expired before cancelled before done. */
static unsigned badness(baton_status_t status)
{
    static const unsigned order[] = {
        [BATON_STATUS_DONE] = 0, [BATON_STATUS_CANCELLED] = 1, [BATON_STATUS_EXPIRED] = 2, [BATON_STATUS_FAILED] = 3};
    return order[status];
}

/* Index of a rank that is waited for and lost; UINT32_MAX: none. */
static uint32_t lost_member(const struct core *core, const struct round *r)
{
    for (uint32_t i = 0; i < my_engine(core)->num_ranks; i++)
        if (r->ids[i] == 0 && takes_part(core, i) && peer_is_lost(core, my_engine(core)->ranks[i]))
            return i;
    return UINT32_MAX;
}

/* Whether a round that was over may have made room for others while ranks still asked for it. */
static bool was_evicted(const struct core *core)
{
    return core->evicted_ns != 0 && core->now - core->evicted_ns < 2 * core->c.settings->verdict_ms * NS_PER_MS;
}

static void on_report(struct core *core, uint32_t rank, const struct wire_message *m)
{
    struct round_name name = name_of(&m->verdict);
    uint32_t index = core->c.directory->index_of[rank];
    struct round *r = round_with(core, &name, index, m->want_id);
    bool begins = false;
    if (r == NULL) { /* not one that it sent again */
        r = round_with(core, &name, index, 0);
        if (r == NULL && m->verdict.again && was_evicted(core)) {
            struct wire_message forgotten = *m;
            fail_verdict(core, &forgotten, BATON_ETIMEDOUT, "its verdict was lost, and is forgotten (BATON_REQUESTS)");
            post_send(core->post, rank, &forgotten);
            return;
        }
        begins = r == NULL;
        if (begins)
            r = round_create(core, &name);
        if (r == NULL) {
            log_line(core->c.log, LOG_WARN, "no memory for the verdict on %s", m->verdict.name.key);
            return; /* it is sent again */
        }
        r->ids[index] = m->want_id;
        r->missing--;
        if (!r->closed && rank != core->c.self)
            peer_end(core, rank);
        if (!r->closed && badness((baton_status_t)m->verdict.status) > badness(r->status)) {
            r->status = (baton_status_t)m->verdict.status;
            r->error = m->verdict.error;
            r->peer = (int32_t)rank;
            memcpy(r->detail, m->verdict.detail, sizeof r->detail);
        }
    }
    uint32_t lost = begins ? lost_member(core, r) : UINT32_MAX; /* later: verdicts_lose */
    if (r->closed)
        tell(core, r, index);
    else if (r->missing == 0)
        round_close(core, r);
    else if (lost != UINT32_MAX)
        round_fail(core, r, BATON_EPEER, lost, "it is lost");
}

static void on_standing(struct core *core, uint32_t rank, const struct wire_message *m)
{
    struct round_name name = name_of(&m->verdict);
    uint32_t index = core->c.directory->index_of[rank];
    struct round *r = round_first(core, &name);
    while (r != NULL && (r->closed || r->ids[index] != 0))
        r = r->later;
    if (r == NULL || index > r->standing_of)
        return;
    r->standing_of = index;
    memcpy(r->standing, m->verdict.detail, sizeof r->standing);
}

static void on_ask(struct core *core, uint32_t rank, const struct wire_message *m)
{
    const struct wire_verdict *asked = &m->verdict;
    struct wire_message answer = {.type = WIRE_STANDING,
                                  .verdict = {.name = asked->name, .verb = asked->verb, .engine = asked->engine}};
    struct round_name name = name_of(asked);
    stand(core, &name, answer.verdict.detail, sizeof answer.verdict.detail);
    post_send(core->post, rank, &answer);
}

void verdict_on_message(struct core *core, uint32_t rank, const struct wire_message *m)
{
    bool from_member = core->c.directory->engine_of[rank] == core_engine(core), i_lead = leader(core) == core->c.self;
    bool to_leader = m->type == WIRE_REPORT || m->type == WIRE_STANDING;
    if (!from_member || mode_of(core) == BATON_VERDICTS_NONE || (to_leader ? !i_lead : rank != leader(core)) ||
        (to_leader && !takes_part(core, core->c.directory->index_of[rank])) ||
        m->verdict.engine >= core->c.directory->num_engines ||
        m->verdict.peer >= (int32_t)core->c.directory->num_ranks) {
        core->stats.messages_bad++;
        return;
    }
    if (m->type == WIRE_REPORT)
        on_report(core, rank, m);
    else if (m->type == WIRE_STANDING)
        on_standing(core, rank, m);
    else if (m->type == WIRE_ASK)
        on_ask(core, rank, m);
    else
        on_verdict(core, m);
}

/* ---- my own calls ------------------------------------------------------------------------------------------------ */

/* Reports that nobody here waits for are not kept without a limit: the oldest goes. */
static void reports_bound(struct core *core)
{
    struct report *r, *next;
    if (HASH_COUNT(core->reports) < 2 * core->c.settings->requests)
        return;
    HASH_ITER(hh, core->reports, r, next)
    {
        if (r->verdict == NULL) {
            report_free(core, r);
            return;
        }
    }
}

static void on_pause(struct core *core, struct timer *t)
{
    struct report *r = (struct report *)((char *)t - offsetof(struct report, timer));
    if (core->now >= r->until_ns) {
        report_fail(core, r, BATON_ETIMEDOUT, "the engine's first rank told no verdict");
        return;
    }
    r->pause_ns = post_pause_ns(core->post, r->pause_ns);
    uint64_t due = core->now + r->pause_ns;
    timer_arm(&core->timers, t, due < r->until_ns ? due : r->until_ns, on_pause);
    r->message.verdict.again = 1;
    if (leader(core) != core->c.self && !post_waits(core->post, leader(core)))
        post_send(core->post, leader(core), &r->message);
}

static int report_create(struct core *core, const struct wire_message *m, struct outcome *verdict)
{
    bool far = leader(core) != core->c.self;
    int rc = far ? peer_begin(core, leader(core)) : 0;
    if (rc != 0)
        return rc;
    struct report *r = calloc(1, sizeof *r);
    if (r != NULL) {
        r->id = m->want_id;
        HASH_ADD(hh, core->reports, id, sizeof r->id, r);
    }
    if (r == NULL || r->hh.tbl == NULL) {
        free(r);
        if (far)
            peer_end(core, leader(core));
        return BATON_ENOMEM;
    }
    r->verdict = verdict;
    r->message = *m;
    r->pause_ns = post_pause_ns(core->post, 0);
    r->until_ns = core->now + 2 * core->c.settings->verdict_ms * NS_PER_MS;
    timer_arm(&core->timers, &r->timer, core->now + r->pause_ns, on_pause);
    return 0;
}

void verdict_report(struct core *core, struct outcome *told)
{
    baton_event_t *e = &told->event;
    struct call *call = told->call;
    struct outcome *verdict = call->verdict;
    if (mode_of(core) == BATON_VERDICTS_NONE || !takes_part(core, core_index(core)) || core->shut)
        return;
    struct wire_message m = {.type = WIRE_REPORT,
                             .want_id = call->id,
                             .verdict = {.name.attempt = call->attempt,
                                         .verb = (uint8_t)call->kind,
                                         .engine = producer_of(core, call),
                                         .status = (uint8_t)e->status,
                                         .error = e->error}};
    memcpy(m.verdict.name.key, call->key, sizeof m.verdict.name.key);
    snprintf(m.verdict.detail, sizeof m.verdict.detail, "%.95s", e->detail);
    call->verdict = NULL;
    if (verdict != NULL) {
        e->verdict = call->end.event.verdict = BATON_VERDICT_FOLLOWS;
        outcome_name(verdict, call);
    }
    reports_bound(core);
    int rc = report_create(core, &m, verdict);
    if (rc != 0 && verdict != NULL) {
        fail_verdict(core, &m, rc, "the engine's first rank could not be told");
        emit(core, verdict, &m.verdict);
    } else if (rc == 0 && leader(core) != core->c.self) {
        post_send(core->post, leader(core), &m);
    } else if (rc == 0) {
        on_report(core, core->c.self, &m);
    }
}

/* ---- losses and the end ------------------------------------------------------------------------------------------ */

void verdicts_lose(struct core *core, uint32_t rank)
{
    if (core->c.directory->engine_of[rank] != core_engine(core))
        return;
    if (rank == leader(core)) {
        struct report *r, *next;
        HASH_ITER(hh, core->reports, r, next)
        {
            report_fail(core, r, BATON_EPEER, "the engine's first rank is lost");
        }
        return;
    }
    struct round *r, *next;
    uint32_t index = core->c.directory->index_of[rank];
    DL_FOREACH_SAFE(core->rounds, r, next)
    {
        if (!r->closed && r->ids[index] == 0 && takes_part(core, index))
            round_fail(core, r, BATON_EPEER, index, "it is lost");
    }
}

void verdicts_shut(struct core *core)
{
    struct report *r, *next;
    HASH_ITER(hh, core->reports, r, next)
    {
        report_free(core, r);
    }
    while (core->rounds != NULL)
        round_destroy(core, core->rounds);
}
