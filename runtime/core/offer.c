/* SPDX-License-Identifier: BSD-3-Clause */
/* offer: the life of an offer: how it begins, what ends it, and what follows, see offer.h. */
#include "core/offer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/offer_inside.h"
#include "core/outcome.h"
#include "core/peer.h"
#include "core/state.h"
#include "core/survey.h"
#include "wire/table.h"

#define HEARD_A_STEP 64 /* slots that readers spoke of */

/* ---- the open ones ----------------------------------------------------------------------------------------------- */

struct offer *offer_of(const struct core *core, baton_id_t id)
{
    struct offer *o;
    HASH_FIND(by_id, core->offers->by_id, &id, sizeof id, o);
    return o;
}

struct offer *offer_find(const struct core *core, const char *key, uint32_t attempt)
{
    const struct attempt *a = attempt_find(core, key, attempt);
    return a != NULL ? attempt_offer(a) : NULL;
}

static bool open_add(struct core *core, struct offer *o)
{
    HASH_ADD(by_id, core->offers->by_id, id, sizeof o->id, o);
    return o->by_id.tbl != NULL;
}

struct offer *offer_create(struct core *core, struct attempt *a, struct call *call, const struct lease *lease)
{
    struct offer *o = reap_new(sizeof *o);
    if (o == NULL)
        return NULL;
    o->attempt = a;
    o->call = call;
    o->id = call->id;
    o->lease = *lease;
    o->reach = REACH_WHOLE;
    o->seats = seats_create((const char(*)[BATON_ENGINE_NAME_MAX])call->offer.seats, call->offer.num_seats);
    o->ready = call->offer.in_layers ? reap_new(core->c.geometry->layer_count / 8 + 1) : NULL;
    if (o->seats == NULL || (call->offer.in_layers && o->ready == NULL) || !open_add(core, o)) {
        seats_destroy(core, o->seats);
        reap_add(&core->reap, o->ready);
        reap_add(&core->reap, o);
        return NULL;
    }
    attempt_begin(core, a, o);
    near_enter(core, o);
    offer_until(core, o, call_due_ns(call));
    return o;
}

/* It is not open any more, and nothing of it is known but by its attempt. */
static void release(struct core *core, struct offer *o)
{
    o->state = OFFER_ENDED;
    core->offers->num_unheard -= o->is_unheard;
    HASH_DELETE(by_id, core->offers->by_id, o);
    seats_destroy(core, o->seats);
    timer_stop(&core->timers, &o->timer);
    reap_add(&core->reap, o->ready);
    reap_add(&core->reap, o);
}

/* ---- its end ----------------------------------------------------------------------------------------------------- */

/* Nothing reads its blocks any more but unfenced readers, whom the raised generation tells. */
static void report(struct core *core, struct offer *o)
{
    seats_error(o->seats, &o->call->end.peer);
    attempt_remember(core, o->attempt, o->seats);
    release(core, o);
    attempt_end(core, o->attempt, o->error);
    outcome_end(core, o->call, o->status, o->error);
}

/* Readers that pull hear why; without this they would only find another generation. */
static void tell_readers(struct core *core, const struct offer *o)
{
    char detail[96];
    int error = outcome_of_ended(o->error, detail, sizeof detail);
    for (const struct reader *r = seats_next(o->seats, NULL); r != NULL; r = seats_next(o->seats, r)) {
        struct word w = {.peer = reader_rank(core, r), .want = reader_want(r), .asks = reader_asks(r)};
        if (reader_state(r) == READER_GRANTED && reader_push(r) == NULL && w.want != 0)
            word_nack(core, &w, 0, error, detail);
    }
}

/* Its push has ended. */
static void forget_push(struct offer *o, struct reader *r)
{
    reader_set_push(r, NULL);
    o->pushes--;
}

static void stop_pushes(struct core *core, struct offer *o)
{
    char detail[96];
    int error = outcome_of_ended(o->error, detail, sizeof detail);
    for (struct reader *r = seats_next(o->seats, NULL); r != NULL && o->pushes > 0; r = seats_next(o->seats, r)) {
        struct push *push = reader_push(r);
        if (push != NULL && push_stop(core, push, error, detail).reader != NULL)
            forget_push(o, r);
    }
}

/* It has ended, and pushes are not known to have stopped reading its blocks. */
static void given_up(struct core *core, struct offer *o)
{
    int32_t peer;
    seats_error(o->seats, &peer);
    outcome_give_up(core, o->call, o->status, o->error, peer, o->call->end.event.detail);
}

static void on_patience(struct core *core, struct timer *t)
{
    given_up(core, (struct offer *)((char *)t - offsetof(struct offer, timer)));
}

/* The one way out of LIVE. */
static void offer_end(struct core *core, struct offer *o, baton_status_t status, int error)
{
    int32_t rank;
    near_leave(core, o, error);
    near_hear(core, o);
    if (status == BATON_STATUS_EXPIRED && seats_are_complete(o->seats) && seats_error(o->seats, &rank) == 0) {
        status = BATON_STATUS_DONE; /* the last word came beside the raise */
        error = 0;
        o->call->end.event.detail[0] = '\0';
    }
    timer_stop(&core->timers, &o->timer);
    o->call->end.state = o->pushes > 0 ? "pushing" : o->call->end.event.wait_ns > 0 ? "granted" : "live";
    o->status = status;
    o->error = error;
    o->state = OFFER_DRAINING;
    tell_readers(core, o);
    stop_pushes(core, o);
    if (o->pushes == 0)
        report(core, o);
    else
        timer_arm(&core->timers, &o->timer, outcome_patience_ns(core, o->call, error), on_patience);
}

static baton_status_t status_of(int error)
{
    return error == 0 ? BATON_STATUS_DONE : error == BATON_ECANCELED ? BATON_STATUS_CANCELLED : BATON_STATUS_FAILED;
}

void offer_fail(struct core *core, struct offer *o, int error, const char *detail)
{
    snprintf(o->call->end.event.detail, sizeof o->call->end.event.detail, "%s", detail);
    offer_end(core, o, BATON_STATUS_FAILED, error);
}

void offer_cancel(struct core *core, baton_id_t id)
{
    struct offer *o = offer_of(core, id);
    if (o != NULL && o->state == OFFER_LIVE)
        offer_end(core, o, BATON_STATUS_CANCELLED, BATON_ECANCELED);
}

void offer_give_up(struct core *core, baton_id_t id, baton_status_t status, int error)
{
    struct offer *o = offer_of(core, id);
    if (o != NULL && o->state == OFFER_LIVE)
        offer_end(core, o, status, error);
    if (o != NULL && o->state == OFFER_DRAINING)
        given_up(core, o);
}

/* Ends the offer if every seat is complete. */
static void check(struct core *core, struct offer *o)
{
    int32_t rank, error = seats_error(o->seats, &rank);
    if (!seats_are_complete(o->seats))
        return;
    if (error != 0)
        snprintf(o->call->end.event.detail, sizeof o->call->end.event.detail, "rank %d ended with: %s", rank,
                 baton_strerror(error));
    offer_end(core, o, status_of(error), error);
}

static void hear_and_check(struct core *core, struct offer *o)
{
    if (o == NULL || o->state != OFFER_LIVE)
        return;
    near_hear(core, o);
    check(core, o);
}

/* ---- its time ---------------------------------------------------------------------------------------------------- */

bool offer_is_whole(const struct offer *o)
{
    return o->reach.done == UINT32_MAX;
}

/* Names the part of an offer that the caller never made ready. */
static void say_awaited(const struct offer *o, char *text, size_t size)
{
    char chunk[34] = "";
    if (offer_is_whole(o))
        return;
    if (o->reach.done == o->reach.next) {
        snprintf(text, size, "; tokens from %u on were never appended", o->reach.done);
        return;
    }
    if (o->call->offer.in_chunks)
        snprintf(chunk, sizeof chunk, " of the tokens from %u on", o->reach.done);
    snprintf(text, size, "; layer %u%s was never ready", o->reach.layer_end, chunk);
}

/* While it is found out who reads, words about it may wait for that; not for long, whatever holds it up. */
static bool awaits_readers(const struct core *core, const struct offer *o)
{
    return survey_is_open(core) && core->timers.heard_ns < o->call->due_ns + core->c.settings->quiet_ms * NS_PER_MS;
}

/* It hears its own words first: ranks may have said more than one step hears. */
static void on_ttl(struct core *core, struct timer *t)
{
    struct offer *o = (struct offer *)((char *)t - offsetof(struct offer, timer));
    char awaited[68] = "";
    hear_and_check(core, o);
    if (o->state != OFFER_LIVE)
        return;
    if (awaits_readers(core, o)) {
        timer_arm(&core->timers, t, core->now + core->works.pause_ns, on_ttl);
        return;
    }
    uint64_t until = seats_wanted_until(o->seats);
    if (until > core->timers.heard_ns) { /* a want for it is alive: the lease goes on as long as that may */
        count_add(&core->stats.leases_extended, 1);
        offer_until(core, o, until);
        return;
    }
    say_awaited(o, awaited, sizeof awaited);
    snprintf(o->call->end.event.detail, sizeof o->call->end.event.detail,
             "time to live passed; %u rank(s) or seat(s) not done%s", seats_missing(o->seats), awaited);
    offer_end(core, o, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
}

void offer_until(struct core *core, struct offer *o, uint64_t due_ns)
{
    call_set_due(o->call, due_ns);
    timer_arm(&core->timers, &o->timer, due_ns, on_ttl);
}

/* ---- its readers ------------------------------------------------------------------------------------------------- */

void offer_drop_push(struct core *core, struct offer *o, struct reader *r)
{
    if (reader_push(r) == NULL)
        return;
    push_destroy(core, reader_push(r));
    forget_push(o, r);
}

void offer_close_reader(struct core *core, struct offer *o, struct reader *r, int32_t error)
{
    offer_drop_push(core, o, r);
    reader_end(core, o->seats, r, error);
    check(core, o);
}

void offer_on_push(struct core *core, struct offer *o, struct push_end end)
{
    if (end.reader == NULL)
        return;
    forget_push(o, end.reader);
    if (o->state == OFFER_LIVE && end.of_former) {
        reader_undo(core, o->seats, end.reader);
    } else if (o->state == OFFER_LIVE) {
        reader_end(core, o->seats, end.reader, end.error);
        check(core, o);
    } else if (o->pushes == 0) {
        report(core, o);
    }
}

void offers_on_mover(struct core *core, struct push *push, const struct mover_word *word)
{
    offer_on_push(core, push_offer(push), push_on_mover(core, push, word));
}

void offers_on_contact(struct core *core, struct contact *c)
{
    struct queued *first;
    while ((first = contact_take(c)) != NULL) {
        struct push *push = push_waiting(first);
        offer_on_push(core, push_offer(push), push_on_contact(core, push));
    }
}

/* ---- losses and the end ------------------------------------------------------------------------------------------ */

/* It is given up sooner: the rank that it waits for was lost, or this rank closes. */
static void lose_patience(struct core *core, struct offer *o)
{
    uint64_t due = outcome_patience_ns(core, o->call, BATON_EPEER);
    if (o->timer.armed && o->timer.due_ns > due)
        timer_arm(&core->timers, &o->timer, due, on_patience);
}

/* A rank was lost while it was written to. The offer may end by that, and then waits until the writing is quiet. */
static void lose_written(struct core *core, struct offer *o, struct reader *r)
{
    if (o->state == OFFER_DRAINING)
        lose_patience(core, o);
    offer_on_push(core, o, push_lose(core, reader_push(r)));
    if (o->state != OFFER_LIVE || reader_push(r) == NULL)
        return;
    reader_lose(core, o->seats, r);
    check(core, o);
}

/* Ends what a lost rank was granted. */
static void lose(struct core *core, struct offer *o, struct reader *r)
{
    const struct push *push = reader_push(r);
    if (reader_state(r) != READER_GRANTED)
        return;
    if (push != NULL && push_state(push) != PUSH_WRITTEN)
        lose_written(core, o, r);
    else if (o->state == OFFER_LIVE)
        offer_close_reader(core, o, r, BATON_EPEER);
}

void offers_lose(struct core *core, uint32_t rank)
{
    struct offer *o, *next;
    HASH_ITER(by_id, core->offers->by_id, o, next)
    {
        if (o->state == OFFER_LIVE)
            near_hear(core, o);
        struct reader *r = reader_of(core, o->seats, rank);
        if (r != NULL)
            lose(core, o, r);
        if (o->state == OFFER_LIVE)
            check(core, o);
    }
}

void offers_lose_engine(struct core *core, uint32_t engine)
{
    struct offer *o, *next;
    HASH_ITER(by_id, core->offers->by_id, o, next)
    {
        if (o->state == OFFER_LIVE)
            near_hear(core, o);
        if (!seats_lose(core, o->seats, engine) && o->state == OFFER_LIVE)
            offer_fail(core, o, BATON_EPEER, "an engine that had begun to take it has gone");
    }
}

bool offers_know(const struct core *core, uint32_t engine)
{
    struct offer *o, *next;
    HASH_ITER(by_id, core->offers->by_id, o, next)
    {
        if (seats_know(o->seats, engine))
            return true;
    }
    return false;
}

void offer_hear(struct core *core, const struct wire_name *name, uint32_t rank)
{
    const struct port_handoff *hand = core_handoff(core);
    struct offer *o = offer_find(core, name->key, name->attempt);
    if (o == NULL || o->state != OFFER_LIVE || !o->is_entered)
        return;
    const struct handoff_word w = hand->word(hand->self, o->lease.slot, o->lease.generation, rank);
    if (w.state != HANDOFF_NONE && near_hear_word(core, o, rank, &w))
        check(core, o);
}

static void on_more_told(struct core *core, struct timer *t)
{
    (void)t;
    offers_hear(core);
}

void offers_hear(struct core *core)
{
    const struct port_handoff *hand = core_handoff(core);
    uint32_t slot;
    unsigned n = 0;
    for (; hand != NULL && n < HEARD_A_STEP && hand->told(hand->self, &slot); n++)
        hear_and_check(core, slot < core->c.settings->leases ? core->offers->by_slot[slot] : NULL);
    if (n == HEARD_A_STEP) /* what is left is heard in a step that follows at once */
        timer_arm(&core->timers, &core->offers->more_told, core->now + 1, on_more_told);
    offers_hear_late(core);
}

void offers_hear_late(struct core *core)
{
    struct offer *o, *next;
    if (core->offers->num_unheard == 0)
        return;
    HASH_ITER(by_id, core->offers->by_id, o, next)
    {
        if (o->is_unheard)
            hear_and_check(core, o);
    }
}

void offers_shut(struct core *core)
{
    struct offer *o, *next;
    HASH_ITER(by_id, core->offers->by_id, o, next)
    {
        if (o->state == OFFER_LIVE)
            offer_end(core, o, BATON_STATUS_FAILED, BATON_ECLOSED);
        else
            lose_patience(core, o);
    }
    waiters_shut(core);
}

int offers_create(struct core *core)
{
    struct offers *all = core->offers = calloc(1, sizeof *core->offers);
    if (all == NULL)
        return BATON_ENOMEM;
    if (core_handoff(core) == NULL)
        return 0;
    all->by_slot = calloc(core->c.settings->leases, sizeof *all->by_slot);
    all->near = calloc(core->c.directory->most, sizeof *all->near);
    for (uint32_t r = 0; all->near != NULL && r < core->c.directory->num_ranks; r++)
        near_welcome(core, r);
    return all->by_slot != NULL && all->near != NULL ? 0 : BATON_ENOMEM;
}

void offers_destroy(struct core *core)
{
    struct offer *o, *next;
    if (core->offers == NULL || core->attempts == NULL)
        return;
    timer_stop(&core->timers, &core->offers->more_told);
    HASH_ITER(by_id, core->offers->by_id, o, next)
    {
        for (struct reader *r = seats_next(o->seats, NULL); r != NULL; r = seats_next(o->seats, r))
            offer_drop_push(core, o, r);
        release(core, o);
        call_free(o->call);
    }
    struct attempt *a;
    while ((a = attempts_next(core, NULL)) != NULL)
        attempt_drop(core, a);
    free(core->offers->by_slot);
    free(core->offers->near);
    free(core->offers);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

const struct call *offer_granted(struct core *core, const char *key, uint32_t attempt, uint32_t peer, uint64_t want)
{
    const struct offer *o = offer_find(core, key, attempt);
    const struct reader *r = o != NULL && o->state == OFFER_LIVE ? reader_of(core, o->seats, peer) : NULL;
    return r != NULL && reader_state(r) == READER_GRANTED && reader_want(r) == want ? o->call : NULL;
}

struct call *offer_call(struct core *core, const char *key, uint32_t attempt)
{
    const struct offer *o = offer_find(core, key, attempt);
    return o != NULL ? o->call : NULL;
}

void offer_standing(struct core *core, const char *key, uint32_t attempt, char *text, size_t size)
{
    const struct offer *o = offer_find(core, key, attempt);
    if (o == NULL)
        snprintf(text, size, "it has no such offer open");
    else
        snprintf(text, size, "its offer waits for %u consumer rank(s) or seat(s), %u of them written to",
                 seats_missing(o->seats), o->pushes);
}

uint32_t offers_open(const struct core *core)
{
    return HASH_CNT(by_id, core->offers->by_id);
}
