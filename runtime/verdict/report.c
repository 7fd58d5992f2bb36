/* SPDX-License-Identifier: BSD-3-Clause */
/* report: what this rank reports of its own calls, and hears of them, see verdict.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/offer.h"
#include "core/peer.h"
#include "core/post.h"
#include "verdict/verdict_inside.h"
#include "core/want.h"

/* Whether this rank's engine hears verdicts here. */
static bool hears(const struct core *core)
{
    return mode_of(core) == BATON_VERDICTS_ALL ||
           (mode_of(core) == BATON_VERDICTS_LEADER && leader(core) == core->c.self);
}

/* ---- its verdict ------------------------------------------------------------------------------------------------- */

void report_emit(struct core *core, struct outcome *verdict, const struct wire_verdict *v)
{
    baton_event_t *e = &verdict->event;
    const uint32_t peer = v->member != 0 ? directory_rank(core->c.directory, v->member) : DIRECTORY_NONE;
    verdict->peer = peer != DIRECTORY_NONE ? (int32_t)peer : -1;
    e->of = v->verb == CALL_OFFER ? BATON_EVENT_OFFER : BATON_EVENT_WANT;
    snprintf(e->detail, sizeof e->detail, "%s", v->detail);
    count_add(&core->stats.verdicts, 1);
    outcome_emit(core, verdict, BATON_EVENT_VERDICT, (baton_status_t)v->status, v->error);
}

static void report_free(struct core *core, struct report *r)
{
    timer_stop(&core->timers, &r->timer);
    HASH_DEL(verdicts_of(core)->reports, r);
    if (leader(core) != core->c.self)
        peer_end(core, leader(core));
    outcome_free(r->verdict);
    reap_add(&core->reap, r);
}

static void report_end(struct core *core, struct report *r, const struct wire_verdict *v)
{
    struct outcome *verdict = r->verdict;
    r->verdict = NULL;
    report_free(core, r);
    if (verdict != NULL)
        report_emit(core, verdict, v);
}

uint64_t report_producer(const struct core *core, const struct call *call)
{
    const struct directory *d = core->c.directory;
    const uint32_t index = call->kind == CALL_WANT ? call->want.engine : core_engine(core);
    const uint64_t life = call->kind == CALL_WANT ? call->want.life : 0;
    const struct directory_engine *engine = index != DIRECTORY_NONE ? d->engines[index] : NULL;
    if (engine == NULL || !directory_is_complete(engine) || (life != 0 && engine->life != life))
        return life;
    return d->rows[engine->ranks[0]].number;
}

/* A call of mine has just ended: its report is about to be made. */
static bool is_to_be_reported(const struct core *core, const struct wire_verdict *v)
{
    for (const struct queued *q = core->outcomes.news.first; q != NULL; q = q->next) {
        const struct call *call = outcome_of_news(q)->call;
        if (call->kind == v->verb && call->attempt == v->name.attempt && strcmp(call->key, v->name.key) == 0 &&
            report_producer(core, call) == v->producer)
            return true;
    }
    return false;
}

/* A verdict that names no call of mine: this rank was the silent one. */
static void reported_early(struct core *core, const struct wire_verdict *v)
{
    struct call *call = v->verb == CALL_OFFER
                            ? offer_call(core, v->name.key, v->name.attempt)
                            : want_call(core, v->name.key, v->name.attempt, engine_of_member(core, v->producer));
    const struct report *r;
    for (r = verdicts_of(core)->reports; r != NULL; r = r->hh.next)
        if (r->message.verdict.verb == v->verb && r->message.verdict.producer == v->producer &&
            r->message.verdict.name.attempt == v->name.attempt && strcmp(r->message.verdict.name.key, v->name.key) == 0)
            return; /* mine is on its way there: that call's verdict comes by its id */
    if (is_to_be_reported(core, v))
        return; /* likewise, as soon as it is */
    struct outcome *verdict = call != NULL ? call->verdict : calloc(1, sizeof *verdict);
    if (call != NULL && verdict == NULL)
        return; /* it was told of this call already */
    if (verdict == NULL) {
        count_add(&core->stats.verdicts_lost, 1);
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
    report_emit(core, verdict, v);
}

void report_on_verdict(struct core *core, const struct wire_message *m)
{
    struct report *r;
    HASH_FIND(hh, verdicts_of(core)->reports, &m->want_id, sizeof m->want_id, r);
    if (r != NULL)
        report_end(core, r, &m->verdict);
    else if (m->want_id == 0 && hears(core))
        reported_early(core, &m->verdict);
}

void report_fail_message(const struct core *core, struct wire_message *m, int error, const char *why)
{
    m->type = WIRE_VERDICT;
    m->verdict.status = BATON_STATUS_FAILED;
    m->verdict.error = error;
    m->verdict.member = core->c.directory->rows[leader(core)].number;
    snprintf(m->verdict.detail, sizeof m->verdict.detail, "%s", why);
}

static void report_fail(struct core *core, struct report *r, int error, const char *why)
{
    struct wire_message m = r->message;
    report_fail_message(core, &m, error, why);
    report_end(core, r, &m.verdict);
}

/* ---- reporting --------------------------------------------------------------------------------------------------- */

/* Reports that nobody here waits for are not kept without a limit: the oldest goes. */
static void reports_bound(struct core *core)
{
    struct report *r, *next;
    if (HASH_COUNT(verdicts_of(core)->reports) < 2 * core->c.settings->requests)
        return;
    HASH_ITER(hh, verdicts_of(core)->reports, r, next)
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
    if (core->timers.heard_ns >= r->until_ns) {
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

int report_create(struct core *core, const struct wire_message *m, struct outcome *verdict)
{
    bool far = leader(core) != core->c.self;
    reports_bound(core);
    int rc = far ? peer_begin(core, leader(core)) : 0;
    if (rc != 0)
        return rc;
    struct report *r = reap_new(sizeof *r);
    if (r != NULL) {
        r->id = m->want_id;
        HASH_ADD(hh, verdicts_of(core)->reports, id, sizeof r->id, r);
    }
    if (r == NULL || r->hh.tbl == NULL) {
        reap_add(&core->reap, r);
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

void reports_fail(struct core *core, int error, const char *why)
{
    struct report *r, *next;
    HASH_ITER(hh, verdicts_of(core)->reports, r, next)
    {
        report_fail(core, r, error, why);
    }
}

void reports_destroy(struct core *core)
{
    while (verdicts_of(core)->reports != NULL)
        report_free(core, verdicts_of(core)->reports);
}
