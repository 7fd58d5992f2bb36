/* SPDX-License-Identifier: BSD-3-Clause */
/* outcome: see outcome.h. */
#include "core/outcome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/state.h"
#include "observe/failure.h"

static void count(struct core *core, baton_event_type_t type, baton_status_t status)
{
    struct counts *s = &core->stats;
    count_t *by_status[2][4] = {
        {&s->offers_done, &s->offers_failed, &s->offers_expired, &s->offers_cancelled},
        {&s->wants_done, &s->wants_failed, &s->wants_expired, &s->wants_cancelled},
    };
    count_add(by_status[type == BATON_EVENT_WANT][status - BATON_STATUS_DONE], 1);
}

void outcome_name(struct outcome *outcome, const struct call *call)
{
    baton_event_t *e = &outcome->event;
    outcome->submitted_ns = call->submitted_ns;
    e->id = call->id;
    memcpy(e->key, call_name(call), sizeof e->key);
    e->attempt = call->attempt;
    e->user = call->user;
    e->mode = call->kind == CALL_WANT ? call->want.mode : BATON_MODE_AUTO;
}

/* An index in the directory means nothing outside. */
static void name_peer(const struct core *core, struct outcome *outcome)
{
    const struct directory *d = core->c.directory;
    baton_event_t *e = &outcome->event;
    if (outcome->peer < 0)
        return;
    const struct directory_engine *engine = d->engines[d->engine_of[outcome->peer]];
    e->peer = d->rows[outcome->peer].number;
    e->peer_life = engine->life;
    e->peer_rank = d->index_of[outcome->peer];
    memcpy(e->peer_engine, engine->name, sizeof e->peer_engine);
}

void outcome_emit(struct core *core, struct outcome *outcome, baton_event_type_t type, baton_status_t status, int error)
{
    baton_event_t *e = &outcome->event;
    e->type = type;
    e->status = status;
    e->error = error;
    e->total_ns = core->now - outcome->submitted_ns;
    name_peer(core, outcome);
    if (status != BATON_STATUS_DONE)
        outcome_drop_attached(outcome);
    queue_join(&core->outcomes.due, &outcome->due);
}

static baton_event_type_t event_type(const struct call *call)
{
    return call->kind == CALL_OFFER ? BATON_EVENT_OFFER : BATON_EVENT_WANT;
}

/* How a call ended is logged once: when it was given up, or at its end. */
static void log_end(struct core *core, const struct outcome *outcome)
{
    const struct call *call = outcome->call;
    const baton_event_t *e = &outcome->event;
    if (e->status != BATON_STATUS_DONE && e->status != BATON_STATUS_CANCELLED)
        failure_log(core->c.log, &(struct failure){.what = call->kind == CALL_WANT ? "want" : "offer",
                                                   .reason = baton_errname(e->error),
                                                   .key = call->key,
                                                   .peer_engine = e->peer_engine,
                                                   .peer_rank = e->peer_rank,
                                                   .leg = outcome->leg,
                                                   .state = outcome->state,
                                                   .age_ns = e->total_ns,
                                                   .detail = e->detail});
}

int outcome_of_ended(int error, char *text, size_t size)
{
    snprintf(text, size, "the offer ended: %s", error != 0 ? baton_strerror(error) : "done");
    return error == BATON_ECLOSED ? error : BATON_EGONE;
}

struct outcome *outcome_take_news(struct core *core)
{
    struct queued *news = queue_take(&core->outcomes.news);
    return news != NULL ? outcome_of_news(news) : NULL;
}

static void emit_end(struct core *core, struct call *call, baton_status_t status, int error)
{
    outcome_name(&call->end, call);
    call->end.event.num_blocks = call->num_blocks;
    outcome_emit(core, &call->end, event_type(call), status, error);
    count(core, call->end.event.type, status);
}

void outcome_end(struct core *core, struct call *call, baton_status_t status, int error)
{
    emit_end(core, call, status, error);
    if (call->end.event.given_up) {
        core->outcomes.num_quarantined--;
        return;
    }
    log_end(core, &call->end);
    queue_join(&core->outcomes.news, &call->end.news);
}

void outcome_fail(struct core *core, struct call *call, int error, const char *detail)
{
    snprintf(call->end.event.detail, sizeof call->end.event.detail, "%s", detail);
    outcome_end(core, call, BATON_STATUS_FAILED, error);
}

void outcome_refuse(struct core *core, struct call *call, const char *detail)
{
    snprintf(call->end.event.detail, sizeof call->end.event.detail, "%s", detail);
    emit_end(core, call, BATON_STATUS_FAILED, BATON_EEXIST);
    log_end(core, &call->end);
}

uint64_t outcome_patience_ns(const struct core *core, const struct call *call, int error)
{
    uint64_t due = call->due_ns, from = core->now;
    if (error != BATON_EPEER && !core->shut && due > from)
        from = due;
    return from + core->c.settings->quiet_ms * NS_PER_MS;
}

void outcome_give_up(struct core *core, struct call *call, baton_status_t status, int error, int32_t peer,
                     const char *detail)
{
    struct outcome *told = call->given_up;
    if (told == NULL)
        return;
    call->given_up = NULL;
    *told = call->end; /* what it did so far */
    outcome_name(told, call);
    told->event.num_blocks = call->num_blocks;
    told->event.of = event_type(call);
    told->peer = peer;
    snprintf(told->event.detail, sizeof told->event.detail, "%s", detail);
    call->end.event.given_up = 1;
    core->outcomes.num_quarantined++;
    count_add(&core->stats.given_up, 1);
    outcome_emit(core, told, BATON_EVENT_GIVEN_UP, status, error);
    log_end(core, told);
    queue_join(&core->outcomes.news, &told->news);
}

bool core_has_outcome(const struct core *core)
{
    return core->outcomes.due.first != NULL;
}

struct outcome *core_take(struct core *core)
{
    struct queued *due = queue_take(&core->outcomes.due);
    return due != NULL ? outcome_of_due(due) : NULL;
}

void outcome_free(struct outcome *outcome)
{
    if (outcome != NULL && (outcome->event.type == BATON_EVENT_OFFER || outcome->event.type == BATON_EVENT_WANT))
        call_free(outcome->call);
    else
        free(outcome);
}
