/* SPDX-License-Identifier: BSD-3-Clause */
/* outcome: see outcome.h. */
#include "core/outcome.h"

#include <stdio.h>
#include <string.h>

#include "core/state.h"
#include "observe/failure.h"

static void count(struct core *core, baton_event_type_t type, baton_status_t status)
{
    baton_stats_t *s = &core->stats;
    uint64_t *by_status[2][4] = {
        {&s->offers_done, &s->offers_failed, &s->offers_expired, &s->offers_cancelled},
        {&s->wants_done, &s->wants_failed, &s->wants_expired, &s->wants_cancelled},
    };
    ++*by_status[type == BATON_EVENT_WANT][status - BATON_STATUS_DONE];
}

void outcome_emit(struct core *core, struct core_submit *s, baton_event_type_t type, baton_status_t status, int error)
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
    if (core->outcomes.first == NULL)
        core->outcomes.first = s;
    else
        core->outcomes.last->next = s;
    core->outcomes.last = s;
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
    DL_APPEND2(core->outcomes.told, s, told_before, told_after);
}

struct core_submit *outcome_take_news(struct core *core)
{
    struct core_submit *s = core->outcomes.told;
    if (s != NULL)
        DL_DELETE2(core->outcomes.told, s, told_before, told_after);
    return s;
}

void outcome_end(struct core *core, struct core_submit *s, baton_status_t status, int error)
{
    s->event.given_up = s->given_up;
    core->outcomes.num_quarantined -= s->given_up;
    outcome_emit(core, s, event_type(s), status, error);
    count(core, s->event.type, status);
    if (!s->given_up)
        tell_end(core, s);
}

uint64_t outcome_patience_ns(const struct core *core, const struct core_submit *s, int error)
{
    uint64_t due = atomic_load_explicit(&s->due_ns, memory_order_relaxed), from = core->now;
    if (error != BATON_EPEER && !core->shut && due > from)
        from = due;
    return from + core->c.settings->quiet_ms * NS_PER_MS;
}

void outcome_give_up(struct core *core, struct core_submit *s, baton_status_t status, int error, int32_t peer,
                     const char *detail)
{
    struct core_submit *told = s->spare;
    if (s->given_up || told == NULL)
        return;
    s->spare = NULL;
    s->given_up = true;
    memcpy(told, s, sizeof *told);
    told->tickets = NULL;
    told->call = s;
    s->verdict = NULL;
    told->event.of = event_type(s);
    told->event.peer = peer;
    snprintf(told->event.detail, sizeof told->event.detail, "%s", detail);
    core->outcomes.num_quarantined++;
    core->stats.given_up++;
    outcome_emit(core, told, BATON_EVENT_GIVEN_UP, status, error);
    tell_end(core, told);
}

bool core_has_outcome(const struct core *core)
{
    return core->outcomes.first != NULL;
}

struct core_submit *core_take(struct core *core)
{
    struct core_submit *s = core->outcomes.first;
    if (s != NULL)
        core->outcomes.first = s->next;
    return s;
}
