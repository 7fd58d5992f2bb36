/* SPDX-License-Identifier: BSD-3-Clause */
/* round: what the first rank gathers of its engine's reports, see verdict.h. */
#include <stdio.h>
#include <string.h>

#include <utlist.h>

#include "core/offer.h"
#include "core/peer.h"
#include "core/post.h"
#include "verdict/verdict_inside.h"
#include "core/want.h"

static const char *verb_name(uint32_t verb)
{
    return verb == CALL_OFFER ? "offer" : "want";
}

static struct round_name name_of(const struct wire_verdict *v)
{
    return (struct round_name){.request = v->name, .verb = v->verb, .producer = v->producer};
}

static struct round *round_first(const struct core *core, const struct round_name *name)
{
    struct round *r;
    HASH_FIND(hh, verdicts_of(core)->rounds_by_name, name, sizeof *name, r);
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
        HASH_DEL(verdicts_of(core)->rounds_by_name, r);
        if (r->later != NULL)
            HASH_ADD(hh, verdicts_of(core)->rounds_by_name, name, sizeof r->name, r->later);
    } else {
        while (first != NULL && first->later != r) /* NULL: one before it could not be found again */
            first = first->later;
        if (first != NULL)
            first->later = r->later;
    }
    DL_DELETE(verdicts_of(core)->rounds, r);
    verdicts_of(core)->num_rounds--;
    verdicts_of(core)->num_closed -= r->closed;
    reap_add(&core->reap, r);
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
                             .verdict = {.name = r->name.request,
                                         .verb = (uint8_t)r->name.verb,
                                         .producer = r->name.producer,
                                         .status = (uint8_t)r->status,
                                         .error = r->error,
                                         .member = r->peer >= 0 ? core->c.directory->rows[r->peer].number : 0}};
    memcpy(m.verdict.detail, r->detail, sizeof m.verdict.detail);
    if (rank == core->c.self)
        report_on_verdict(core, &m);
    else
        post_send(core->post, rank, &m);
}

static void round_close(struct core *core, struct round *r)
{
    const struct settings *set = core->c.settings;
    uint64_t asked_ms = 2 * set->verdict_ms; /* so long a rank asks for it */
    round_wait(core, r, false);
    r->closed = true;
    verdicts_of(core)->num_closed++;
    timer_arm(&core->timers, &r->timer,
              core->now + (set->tombstone_ms > asked_ms ? set->tombstone_ms : asked_ms) * NS_PER_MS, on_forget);
    if (r->error != 0)
        log_line(core->c.log, LOG_INFO, "%s %s: rank %d: %s: %s", verb_name(r->name.verb), r->name.request.key, r->peer,
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
        offer_standing(core, name->request.key, name->request.attempt, text, size);
    else
        want_standing(core, name->request.key, name->request.attempt, engine_of_member(core, name->producer), text,
                      size);
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
            .verdict = {.name = r->name.request, .verb = (uint8_t)r->name.verb, .producer = r->name.producer}};
        post_send(core->post, rank, &m);
    }
}

static struct round *oldest(const struct core *core, bool closed)
{
    struct round *r = verdicts_of(core)->rounds;
    while (r != NULL && r->closed != closed)
        r = r->next;
    return r;
}

/* Room for one more: the oldest open one ends; and of the closed ones as many are remembered. */
static void make_room(struct core *core)
{
    uint64_t most = 2 * core->c.settings->requests;
    if (verdicts_of(core)->num_rounds - verdicts_of(core)->num_closed >= most) {
        struct round *open = oldest(core, false);
        round_fail(core, open, BATON_EAGAIN, first_missing(core, open),
                   "too many requests wait for it (BATON_REQUESTS)");
    }
    if (verdicts_of(core)->num_closed > most) {
        round_destroy(core, oldest(core, true));
        verdicts_of(core)->evicted_ns = core->now;
    }
}

/* Ranks that are waited for are known as peers. False: no memory. */
static bool know_all(struct core *core)
{
    for (uint32_t i = 0; i < my_engine(core)->num_ranks; i++)
        if (peer_know(core, my_engine(core)->ranks[i]) != 0)
            return false;
    return true;
}

static struct round *round_create(struct core *core, const struct round_name *name)
{
    uint32_t n = my_engine(core)->num_ranks;
    if (!know_all(core))
        return NULL;
    make_room(core);
    struct round *r = reap_new(sizeof *r + n * sizeof r->ids[0]), *last = round_first(core, name);
    if (r == NULL)
        return NULL;
    r->name = *name;
    r->status = BATON_STATUS_DONE;
    r->peer = -1;
    r->standing_of = UINT32_MAX;
    if (last == NULL) {
        HASH_ADD(hh, verdicts_of(core)->rounds_by_name, name, sizeof r->name, r);
        if (r->hh.tbl == NULL) {
            reap_add(&core->reap, r);
            return NULL;
        }
    } else {
        while (last->later != NULL)
            last = last->later;
        last->later = r;
    }
    for (uint32_t i = 0; i < n; i++)
        r->missing += takes_part(core, i);
    DL_APPEND(verdicts_of(core)->rounds, r);
    verdicts_of(core)->num_rounds++;
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
    return verdicts_of(core)->evicted_ns != 0 &&
           core->now - verdicts_of(core)->evicted_ns < 2 * core->c.settings->verdict_ms * NS_PER_MS;
}

void round_on_report(struct core *core, uint32_t rank, const struct wire_message *m)
{
    struct round_name name = name_of(&m->verdict);
    uint32_t index = core->c.directory->index_of[rank];
    struct round *r = round_with(core, &name, index, m->want_id);
    bool begins = false;
    if (r == NULL) { /* not one that it sent again */
        r = round_with(core, &name, index, 0);
        if (r == NULL && m->verdict.again && was_evicted(core)) {
            struct wire_message forgotten = *m;
            report_fail_message(core, &forgotten, BATON_ETIMEDOUT,
                                "its verdict was lost, and is forgotten (BATON_REQUESTS)");
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

void round_on_standing(struct core *core, uint32_t rank, const struct wire_message *m)
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

void round_on_ask(struct core *core, uint32_t rank, const struct wire_message *m)
{
    const struct wire_verdict *asked = &m->verdict;
    struct wire_message answer = {.type = WIRE_STANDING,
                                  .verdict = {.name = asked->name, .verb = asked->verb, .producer = asked->producer}};
    struct round_name name = name_of(asked);
    stand(core, &name, answer.verdict.detail, sizeof answer.verdict.detail);
    post_send(core->post, rank, &answer);
}

void rounds_lose(struct core *core, uint32_t rank)
{
    struct round *r, *next;
    uint32_t index = core->c.directory->index_of[rank];
    DL_FOREACH_SAFE(verdicts_of(core)->rounds, r, next)
    {
        if (!r->closed && r->ids[index] == 0 && takes_part(core, index))
            round_fail(core, r, BATON_EPEER, index, "it is lost");
    }
}

void rounds_destroy(struct core *core)
{
    while (verdicts_of(core)->rounds != NULL)
        round_destroy(core, verdicts_of(core)->rounds);
}
