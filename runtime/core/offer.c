/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offer: the producer's side. An entry exists for each request (key and attempt) from the first word of it (an early
 * want or release, or the offer itself) until its tombstone is forgotten, so that wants and offers may come in either
 * order and what comes too late learns it at once.
 *
 *   AWAITED   words of consumers came, the offer did not
 *   LIVE      offered. It ends when each expected rank of each seat has ended (by identity: a second word of the same
 *             rank changes nothing), by its time to live, or by the caller's cancel
 *   DRAINING  it has an end, and its generation is raised; pushes of it still read its blocks
 *   ENDED     reported; a tombstone, which answers for its attempt and the older ones. Of a request without attempts (0)
 *             it answers those that were meant for it; others wait here for the next offer
 */
#include "core/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/table.h"

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static struct request *request_find(const struct core *core, const char *key)
{
    struct request *r;
    HASH_FIND_STR(core->requests, key, r);
    return r;
}

struct offer *offer_find(const struct core *core, const char *key, uint32_t attempt)
{
    const struct request *r = request_find(core, key);
    struct offer *o = r != NULL ? r->attempts : NULL;
    while (o != NULL && o->attempt != attempt)
        o = o->behind;
    return o;
}

static struct request *request_create(struct core *core, const char *key)
{
    struct request *r = calloc(1, sizeof *r);
    if (r == NULL)
        return NULL;
    memcpy(r->key, key, sizeof r->key);
    HASH_ADD_STR(core->requests, key, r);
    if (r->hh.tbl == NULL) {
        free(r);
        return NULL;
    }
    return r;
}

static void request_leave(struct core *core, struct request *r)
{
    if (r->attempts != NULL)
        return;
    HASH_DEL(core->requests, r);
    free(r);
}

static struct offer *offer_create(struct core *core, const char *key, uint32_t attempt)
{
    struct request *r = request_find(core, key);
    if (r == NULL)
        r = request_create(core, key);
    if (r == NULL)
        return NULL;
    struct offer *o = calloc(1, sizeof *o);
    if (o == NULL) {
        request_leave(core, r);
        return NULL;
    }
    o->request = r;
    o->attempt = attempt;
    o->worst_peer = -1;
    DL_APPEND2(r->attempts, o, before, behind);
    return o;
}

static void waiter_free(struct core *core, struct waiter *w)
{
    early_drop(core, w->peer);
    free(w);
}

static void waiter_destroy(struct core *core, struct waiter *w)
{
    timer_stop(&core->timers, &w->timer);
    DL_DELETE(w->offer->waiters, w);
    waiter_free(core, w);
}

/* Calls visit(core, push, arg) for each push of the offer. Any of them may be gone afterwards. */
static void each_push(struct core *core, struct offer *o, void (*visit)(struct core *, struct push *, int32_t),
                      int32_t arg)
{
    for (uint32_t i = 0; i < o->num_seats && o->pushes > 0; i++) {
        struct seat *s = &o->seats[i];
        for (uint32_t k = 0; s->readers != NULL && k < core->c.directory->engines[s->engine].num_ranks; k++)
            if (s->readers[k].push != NULL)
                visit(core, s->readers[k].push, arg);
    }
}

static void drop(struct core *core, struct push *push, int32_t unused)
{
    (void)unused;
    push_destroy(core, push);
}

static void seats_free(struct core *core, struct offer *o)
{
    each_push(core, o, drop, 0);
    for (uint32_t i = 0; i < o->num_seats; i++) {
        struct seat *s = &o->seats[i];
        for (uint32_t k = 0; s->readers != NULL && k < core->c.directory->engines[s->engine].num_ranks; k++)
            if (s->readers[k].state == READER_GRANTED)
                peer_end(core, core->c.directory->engines[s->engine].ranks[k]);
        free(s->readers);
    }
    core->serving -= o->serving;
    o->num_seats = o->serving = 0;
    free(o->ready);
    o->ready = NULL;
}

static void formers_free(struct core *core, struct offer *o)
{
    core->num_formers -= o->num_formers;
    free(o->formers);
    o->formers = NULL;
    o->num_formers = o->num_untaken = 0;
}

/* In the list of the live and draining ones, and found by its call's id. False: no memory. */
static bool live_add(struct core *core, struct offer *o, baton_id_t id)
{
    o->id = id;
    HASH_ADD(by_id, core->called, id, sizeof o->id, o);
    if (o->by_id.tbl == NULL)
        return false;
    DL_APPEND(core->live, o);
    core->num_live++;
    return true;
}

static void live_remove(struct core *core, struct offer *o)
{
    HASH_DELETE(by_id, core->called, o);
    DL_DELETE(core->live, o);
    core->num_live--;
}

static void offer_destroy(struct core *core, struct offer *o)
{
    while (o->waiters != NULL)
        waiter_destroy(core, o->waiters);
    if (o->state == OFFER_ENDED) {
        DL_DELETE(core->ended, o);
        core->num_ended--;
    } else if (o->state == OFFER_LIVE || o->state == OFFER_DRAINING) {
        live_remove(core, o);
    }
    seats_free(core, o);
    formers_free(core, o);
    timer_stop(&core->timers, &o->timer);
    DL_DELETE2(o->request->attempts, o, before, behind);
    request_leave(core, o->request);
    free(o);
}

/* The entry is one that awaits its offer again. What former wants were is still known. */
static void offer_revive(struct core *core, struct offer *o)
{
    DL_DELETE(core->ended, o);
    core->num_ended--;
    timer_stop(&core->timers, &o->timer);
    o->state = OFFER_AWAITED;
    o->worst = o->error = 0;
    o->worst_peer = -1;
}

/* It is as if it had never been, but for the words that wait here for the next. */
static void offer_forget(struct core *core, struct offer *o)
{
    offer_revive(core, o);
    formers_free(core, o);
    if (o->waiters == NULL)
        offer_destroy(core, o);
}

static void on_tombstone(struct core *core, struct timer *t)
{
    offer_forget(core, (struct offer *)((char *)t - offsetof(struct offer, timer)));
}

/* ---- tombstones -------------------------------------------------------------------------------------------------- */

/* What is remembered of a rank; with `make`, for want of memory too, NULL: nothing. */
static struct former *former_of(struct core *core, struct offer *o, uint32_t rank, bool make)
{
    for (uint32_t i = 0; i < o->num_formers; i++)
        if (o->formers[i].rank == rank)
            return &o->formers[i];
    struct former *more = make ? realloc(o->formers, (o->num_formers + 1) * sizeof *more) : NULL;
    if (more == NULL)
        return NULL;
    o->formers = more;
    more[o->num_formers] = (struct former){.rank = rank};
    core->num_formers++;
    return &more[o->num_formers++];
}

/* Whether that want, or a later one of its rank, was one of a former offer of this request. */
static bool is_former(struct core *core, struct offer *o, uint32_t rank, uint64_t want)
{
    const struct former *f = former_of(core, o, rank, false);
    return f != NULL && want <= f->want;
}

/* What its seats say of whose wants were meant for it. */
static void formers_keep(struct core *core, struct offer *o)
{
    o->num_untaken = 0;
    for (uint32_t i = 0; i < o->num_formers; i++)
        o->formers[i].open = false;
    for (uint32_t i = 0; i < o->num_seats; i++) {
        const struct seat *s = &o->seats[i];
        if (!s->bound && s->engine != DIRECTORY_NONE) {
            o->untaken[o->num_untaken++] = s->engine;
            for (uint32_t k = 0; k < o->num_formers; k++)
                o->formers[k].open |= core->c.directory->engine_of[o->formers[k].rank] == s->engine;
        }
        for (uint32_t k = 0; s->bound && k < core->c.directory->engines[s->engine].num_ranks; k++) {
            const struct reader *r = &s->readers[k];
            bool open = r->expected && r->state == READER_NONE;
            struct former *f =
                open || r->want != 0 ? former_of(core, o, core->c.directory->engines[s->engine].ranks[k], true) : NULL;
            if (f == NULL)
                continue;
            f->open = open;
            f->want = r->want > f->want ? r->want : f->want;
        }
    }
}

/* Without attempts: whether the want was meant for the offer that ended. It is asked once for each rank's part. */
static bool was_meant(struct core *core, struct offer *o, uint32_t rank, uint64_t want)
{
    struct former *f = former_of(core, o, rank, false);
    bool untaken = false;
    for (uint32_t i = 0; i < o->num_untaken; i++)
        untaken |= o->untaken[i] == core->c.directory->engine_of[rank];
    if (f != NULL && want <= f->want)
        return true;
    if (f != NULL ? !f->open : !untaken)
        return false;
    f = former_of(core, o, rank, true);
    if (f != NULL) {
        f->open = false;
        f->want = want;
    }
    return true;
}

/* The tombstone that answers a word about this attempt of the request; NULL: it is about an offer to come. */
static struct offer *tombstone_of(struct core *core, const struct wire_name *name, const struct waiter *word)
{
    const struct request *r = request_find(core, name->key);
    struct offer *o = r != NULL ? r->attempts : NULL;
    for (; o != NULL; o = o->behind) {
        if (o->state != OFFER_ENDED || o->attempt < name->attempt)
            continue;
        if (o->attempt > name->attempt)
            return o;
        if (word->ticket_serial != 0) {
            bool is_later = word->ticket_incarnation == core->incarnation && word->ticket_serial > o->serial;
            if (!is_later)
                return o; /* else it names one that is still in this rank's queue */
        } else if (name->attempt != 0 || was_meant(core, o, word->peer, word->want)) {
            return o;
        }
    }
    return NULL;
}

/* The newest attempt that ended answers for the older ones. Tombstones and what they remember are bounded: the oldest go
 * first. */
static void tombstones_bound(struct core *core, const struct offer *newest)
{
    struct offer *o = newest->request->attempts, *next;
    for (; o != NULL; o = next) {
        next = o->behind;
        if (o->state == OFFER_ENDED && o->attempt < newest->attempt)
            offer_forget(core, o);
    }
    uint64_t most = core->c.settings->tombstones;
    while (core->ended->next != NULL && (core->num_ended > most || core->num_formers > 4 * most))
        offer_forget(core, core->ended);
}

/* ---- ending ------------------------------------------------------------------------------------------------------ */

/* Nothing reads its blocks any more but unfenced readers, whom the raised generation tells: report, then remember. */
static void offer_report(struct core *core, struct offer *o)
{
    struct call *call = o->call;
    o->call = NULL;
    call->end.event.peer = o->worst_peer;
    live_remove(core, o);
    formers_keep(core, o);
    seats_free(core, o);
    o->state = OFFER_ENDED;
    DL_APPEND(core->ended, o);
    core->num_ended++;
    timer_arm(&core->timers, &o->timer, core->now + core->c.settings->tombstone_ms * NS_PER_MS, on_tombstone);
    outcome_end(core, call, o->status, o->error);
    tombstones_bound(core, o);
}

/*
 * What a consumer hears of an offer that ended before it had what it wants, whichever word brings it: that it is gone;
 * but closing is closing.
 */
static int reason_of(int error)
{
    return error == BATON_ECLOSED ? error : BATON_EGONE;
}

static void say_ended(const struct offer *o, char *text, size_t size)
{
    snprintf(text, size, "the offer ended: %s", o->error != 0 ? baton_strerror(o->error) : "done");
}

static void nack(struct core *core, const struct waiter *w, int error, const char *detail)
{
    struct wire_message m = {.type = WIRE_NACK, .want_id = w->want, .nack = {.asks = w->asks, .error = error}};
    snprintf(m.nack.detail, sizeof m.nack.detail, "%s", detail);
    post_send(core->post, w->peer, &m);
}

static void nack_ended(struct core *core, const struct offer *o, const struct waiter *w)
{
    char detail[96];
    say_ended(o, detail, sizeof detail);
    nack(core, w, reason_of(o->error), detail);
}

static void push_goes(struct core *core, struct offer *o, struct push_end end);

static void stop(struct core *core, struct push *push, int32_t error)
{
    char detail[96];
    struct offer *o = push->offer;
    say_ended(o, detail, sizeof detail);
    push_goes(core, o, push_stop(core, push, error, detail));
}

/* Those that read by themselves: else they would only find that the generation is another. */
static void tell_readers(struct core *core, const struct offer *o)
{
    for (uint32_t i = 0; i < o->num_seats; i++) {
        const struct seat *s = &o->seats[i];
        for (uint32_t k = 0; s->bound && k < core->c.directory->engines[s->engine].num_ranks; k++) {
            const struct reader *r = &s->readers[k];
            if (r->state == READER_GRANTED && r->push == NULL)
                nack_ended(core, o,
                           &(struct waiter){.peer = core->c.directory->engines[s->engine].ranks[k],
                                            .want = r->want,
                                            .asks = r->asks});
        }
    }
}

/* It has ended, and pushes are not known to have stopped reading its blocks. */
static void given_up(struct core *core, struct offer *o)
{
    outcome_give_up(core, o->call, o->status, o->error, o->worst_peer, o->call->end.event.detail);
}

static void on_patience(struct core *core, struct timer *t)
{
    given_up(core, (struct offer *)((char *)t - offsetof(struct offer, timer)));
}

/* The one way out of LIVE: fence, then stop what is written, and report once that is quiet. */
static void offer_end(struct core *core, struct offer *o, baton_status_t status, int error)
{
    uint64_t generation = lease_end(core->leases, &o->lease);
    core->c.port->raise(core->c.port->self, o->lease.slot, generation);
    timer_stop(&core->timers, &o->timer);
    o->call->end.state = o->pushes > 0 ? "pushing" : o->call->end.event.wait_ns > 0 ? "granted" : "live";
    o->status = status;
    o->error = error;
    o->state = OFFER_DRAINING;
    o->pushes++; /* so that the last to go does not report before all were told */
    tell_readers(core, o);
    each_push(core, o, stop, reason_of(error));
    if (--o->pushes == 0)
        offer_report(core, o);
    else
        timer_arm(&core->timers, &o->timer, outcome_patience_ns(core, o->call, error), on_patience);
}

static baton_status_t status_of(int error)
{
    return error == 0 ? BATON_STATUS_DONE : error == BATON_ECANCELED ? BATON_STATUS_CANCELLED : BATON_STATUS_FAILED;
}

/* The last deadline of a want that was granted and has not ended. 0: none. */
static uint64_t wanted_until(const struct core *core, const struct offer *o)
{
    uint64_t until = 0;
    for (uint32_t i = 0; i < o->num_seats; i++) {
        const struct seat *s = &o->seats[i];
        for (uint32_t k = 0; s->bound && k < core->c.directory->engines[s->engine].num_ranks; k++)
            if (s->readers[k].state == READER_GRANTED && !s->readers[k].lost && s->readers[k].until_ns > until)
                until = s->readers[k].until_ns;
    }
    return until;
}

static void on_ttl(struct core *core, struct timer *t);

/* Its time is over then. */
static void offer_until(struct core *core, struct offer *o, uint64_t due_ns)
{
    atomic_store_explicit(&o->call->due_ns, due_ns, memory_order_relaxed);
    timer_arm(&core->timers, &o->timer, due_ns, on_ttl);
}

static bool is_whole(const struct offer *o)
{
    return o->reach.done == UINT32_MAX;
}

/* What the caller never said of an offer that is not whole. */
static void say_awaited(const struct offer *o, char *text, size_t size)
{
    char chunk[48] = "";
    if (is_whole(o))
        return;
    if (o->reach.done == o->reach.next) {
        snprintf(text, size, ", and tokens from %u on were never appended", o->reach.done);
        return;
    }
    if (o->call->offer.in_chunks)
        snprintf(chunk, sizeof chunk, " of the tokens from %u on", o->reach.done);
    snprintf(text, size, ", and layer %u%s was never made ready", o->reach.layer_end, chunk);
}

static void on_ttl(struct core *core, struct timer *t)
{
    struct offer *o = (struct offer *)((char *)t - offsetof(struct offer, timer));
    char awaited[80] = "";
    uint32_t missing = 0;
    uint64_t until = wanted_until(core, o);
    if (until > core->now) { /* a want for it is alive: the lease goes on as long as that may */
        core->stats.leases_extended++;
        offer_until(core, o, until);
        return;
    }
    for (uint32_t i = 0; i < o->num_seats; i++)
        missing += o->seats[i].bound ? o->seats[i].open : 1;
    say_awaited(o, awaited, sizeof awaited);
    snprintf(o->call->end.event.detail, sizeof o->call->end.event.detail,
             "its time to live passed; %u rank(s) or seat(s) had not finished%s", missing, awaited);
    offer_end(core, o, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
}

/* Ends the offer if every seat is complete. */
static void offer_check(struct core *core, struct offer *o)
{
    for (uint32_t i = 0; i < o->num_seats; i++)
        if (!o->seats[i].complete)
            return;
    if (o->worst != 0)
        snprintf(o->call->end.event.detail, sizeof o->call->end.event.detail, "rank %d ended with: %s", o->worst_peer,
                 baton_strerror(o->worst));
    offer_end(core, o, status_of(o->worst), o->worst);
}

/* ---- seats ------------------------------------------------------------------------------------------------------- */

static int seat_bind(struct core *core, struct seat *seat, uint32_t engine)
{
    const struct readers *readers = readers_of(core, engine);
    uint32_t n = core->c.directory->engines[engine].num_ranks;
    if (readers == NULL)
        return BATON_EBUSY; /* it has said nothing yet */
    seat->readers = calloc(n, sizeof *seat->readers);
    if (seat->readers == NULL)
        return BATON_ENOMEM;
    seat->free = seat->engine == DIRECTORY_NONE;
    seat->engine = engine;
    seat->bound = true;
    for (uint32_t i = 0; i < n; i++) {
        seat->readers[i].expected = readers_have(readers, i);
        seat->open += readers_have(readers, i);
    }
    return 0;
}

static struct seat *seat_bound(struct offer *o, uint32_t engine)
{
    for (uint32_t i = 0; i < o->num_seats; i++)
        if (o->seats[i].bound && o->seats[i].engine == engine)
            return &o->seats[i];
    return NULL;
}

/* The seat of that engine, bound to it now if one is named for it or free for any. */
static int seat_take(struct core *core, struct offer *o, uint32_t engine, struct seat **out)
{
    struct seat *any = NULL;
    for (uint32_t i = 0; i < o->num_seats; i++) {
        struct seat *s = &o->seats[i];
        if (s->engine == engine) {
            *out = s;
            return s->bound ? 0 : seat_bind(core, s, engine);
        }
        if (s->engine == DIRECTORY_NONE && any == NULL)
            any = s;
    }
    if (any == NULL)
        return BATON_ESEAT;
    *out = any;
    return seat_bind(core, any, engine);
}

/* Nothing of it is granted any more. */
static void reader_rest(struct core *core, struct offer *o, struct reader *r, uint32_t peer)
{
    if (r->state != READER_GRANTED)
        return;
    r->state = READER_NONE;
    peer_end(core, peer);
    o->serving -= path_is_far(core->c.path[peer]);
    core->serving -= path_is_far(core->c.path[peer]);
}

/* What was granted to it by a belated word was not: it may come again, and so may another engine in its place. */
static void reader_undo(struct core *core, struct offer *o, struct seat *seat, uint32_t peer)
{
    struct reader *r = &seat->readers[core->c.directory->index_of[peer]];
    if (r->lost) { /* it is waited for again */
        r->lost = false;
        seat->open += r->expected;
        seat->complete = false;
    }
    reader_rest(core, o, r, peer);
    for (uint32_t i = 0; i < core->c.directory->engines[seat->engine].num_ranks; i++)
        if (seat->readers[i].state != READER_NONE)
            return;
    free(seat->readers);
    *seat = (struct seat){.engine = seat->free ? DIRECTORY_NONE : seat->engine};
}

/* Its end is not waited for any more, nor is a second word of it counted. */
static void reader_settle(struct offer *o, struct seat *seat, const struct reader *r, uint32_t peer, int32_t error)
{
    if (error != 0 && o->worst == 0) {
        o->worst = error;
        o->worst_peer = (int32_t)peer;
    }
    if (r->expected)
        seat->open--;
    if (seat->open == 0)
        seat->complete = true;
}

static void reader_end(struct core *core, struct offer *o, struct seat *seat, uint32_t peer, int32_t error)
{
    struct reader *r = &seat->readers[core->c.directory->index_of[peer]];
    if (r->state == READER_ENDED)
        return; /* identity, not counting */
    reader_rest(core, o, r, peer);
    r->state = READER_ENDED;
    r->error = error;
    if (!r->lost)
        reader_settle(o, seat, r, peer, error);
}

/* ---- the match --------------------------------------------------------------------------------------------------- */

/* An offer refuses a want that is about it: it waits for the word of that want's end. */
static void refuse_want(struct core *core, const struct offer *o, const struct waiter *w, int error, const char *detail)
{
    struct wire_message m = {.type = WIRE_NACK,
                             .want_id = w->want,
                             .nack = {.asks = w->asks, .error = error, .generation = o->lease.generation}};
    snprintf(m.nack.detail, sizeof m.nack.detail, "%s", detail);
    post_send(core->post, w->peer, &m);
}

static void tell_ready(struct core *core, const struct offer *o, uint32_t peer, uint64_t want)
{
    struct wire_message m = {.type = WIRE_READY,
                             .want_id = want,
                             .ready = {.generation = o->lease.generation,
                                       .tokens_done = o->reach.done,
                                       .tokens_next = o->reach.next,
                                       .layer_end = o->reach.layer_end,
                                       .numbers = wire_table_numbers(&o->call->tables),
                                       .table_offset = o->lease.table_offset}};
    post_send(core->post, peer, &m);
}

static void grant(struct core *core, const struct offer *o, const struct waiter *w)
{
    struct wire_message m = {.type = WIRE_GRANT,
                             .want_id = w->want,
                             .grant = {.asks = w->asks,
                                       .slot = o->lease.slot,
                                       .generation = o->lease.generation,
                                       .table_offset = o->lease.table_offset,
                                       .numbers = wire_table_numbers(&o->call->tables),
                                       .offered_tokens = o->call->offer.num_tokens,
                                       .partial = !is_whole(o)}};
    post_send(core->post, w->peer, &m);
    if (m.grant.partial && w->mode == BATON_MODE_PULL)
        tell_ready(core, o, w->peer, w->want);
}

static bool ticket_is(const struct core *core, uint64_t incarnation, uint64_t ticket, uint64_t serial)
{
    return ticket == 0 || (ticket == serial && incarnation == core->incarnation);
}

static bool ticket_names(const struct core *core, const struct waiter *w, uint64_t serial)
{
    return ticket_is(core, w->ticket_incarnation, w->ticket_serial, serial);
}

/* A want meets a reader that is being written to: it asks how far that is, or it is a new attempt. */
static void again(struct core *core, struct offer *o, struct reader *r, const struct waiter *w)
{
    if (r->push->want != w->want) {
        nack(core, w, BATON_EBUSY, "its former attempt is not quiet yet");
        push_goes(core, o, push_stop(core, r->push, BATON_ECANCELED, "a new attempt came"));
        return;
    }
    r->push->asks = w->asks;
    if (r->push->state == PUSH_WRITTEN) {
        push_tell(core, r->push, 0);
    } else {
        grant(core, o, w);
    }
}

static bool has_state(const baton_geometry_t *g)
{
    for (uint32_t i = 0; i < geometry_num_groups(g); i++)
        if (geometry_group(g, i).kind == BATON_KIND_STATE)
            return true;
    return false;
}

/* A want meets a live offer: GRANT, or NACK with the reason. */
static void match(struct core *core, struct offer *o, const struct waiter *w)
{
    struct seat *seat;
    char detail[96];
    if (!ticket_names(core, w, o->call->offer.serial)) {
        nack(core, w, BATON_EGONE, "its ticket names another offer of this key");
        return;
    }
    if (w->tokens > o->call->offer.num_tokens ||
        (w->tokens != o->call->offer.num_tokens && has_state(core->c.geometry))) {
        snprintf(detail, sizeof detail, "%u tokens wanted, %u offered%s", w->tokens, o->call->offer.num_tokens,
                 w->tokens < o->call->offer.num_tokens ? ": a state is of all" : "");
        refuse_want(core, o, w, BATON_ETOKENS, detail);
        return;
    }
    if (!is_whole(o) && w->mode == BATON_MODE_PULL && !w->partial) {
        nack(core, w, BATON_EBUSY, "not all is in place, and this rank's build cannot take a part before");
        return;
    }
    int rc = seat_take(core, o, core->c.directory->engine_of[w->peer], &seat);
    if (rc != 0) {
        nack(core, w, rc, "no seat is left for this engine");
        return;
    }
    struct reader *r = &seat->readers[core->c.directory->index_of[w->peer]];
    if (!r->expected) {
        nack(core, w, BATON_EMESSAGE, "by the directory this rank reads nothing here");
        return;
    }
    if (r->state == READER_ENDED) {
        nack(core, w, BATON_EGONE, "this rank has ended its part of the offer");
        return;
    }
    if (r->push != NULL && r->push->state == PUSH_WRITTEN && r->push->want != w->want) {
        push_destroy(core, r->push); /* it is done, and the word of that was lost */
        r->push = NULL;
    }
    if (r->push != NULL) {
        again(core, o, r, w);
        return;
    }
    if (r->state == READER_NONE) {
        rc = peer_begin(core, w->peer);
        if (rc != 0) {
            refuse_want(core, o, w, rc, "the producer has lost this rank");
            return;
        }
        r->state = READER_GRANTED;
        o->serving += path_is_far(core->c.path[w->peer]);
        core->serving += path_is_far(core->c.path[w->peer]);
    }
    if (w->mode == BATON_MODE_PUSH) {
        rc = push_create(core, o, seat, w, &r->push);
        if (rc != 0) {
            reader_rest(core, o, r, w->peer);
            refuse_want(core, o, w, rc, "the push could not be begun");
            return;
        }
    }
    r->want = w->want;
    r->asks = w->asks;
    r->until_ns = w->until_ns;
    if (o->call->end.event.wait_ns == 0)
        o->call->end.event.wait_ns = core->now - o->call->submitted_ns;
    grant(core, o, w);
    if (r->push != NULL)
        push_goes(core, o, push_start(core, r->push));
}

/* A reader of which nothing is under way ends, and the offer perhaps by it. */
static void reader_close(struct core *core, struct offer *o, struct seat *seat, uint32_t peer, int32_t error)
{
    struct reader *r = &seat->readers[core->c.directory->index_of[peer]];
    if (r->push != NULL)
        push_destroy(core, r->push);
    r->push = NULL;
    reader_end(core, o, seat, peer, error);
    offer_check(core, o);
}

/* What a rank says when it needs nothing (more). */
struct farewell {
    uint64_t want;
    int32_t error;
    bool asked;     /* it had sent a WANT before */
    bool cancelled; /* and waits for CLOSED */
    bool belated;   /* its bytes, or what it was granted of them, were of a former offer */
};

/* A farewell meets a live offer, which may end by it. */
static void release(struct core *core, struct offer *o, uint32_t peer, const struct farewell *f)
{
    struct seat *seat = seat_bound(o, core->c.directory->engine_of[peer]);
    if (seat == NULL && (f->asked || seat_take(core, o, core->c.directory->engine_of[peer], &seat) != 0))
        return; /* nobody waits for that rank */
    struct reader *r = &seat->readers[core->c.directory->index_of[peer]];
    if (r->state == READER_GRANTED && r->want != f->want)
        return; /* of another attempt */
    if ((r->state == READER_NONE && f->asked) || (r->state == READER_ENDED && f->belated))
        return; /* its WANT came before it, and met another offer of this key */
    if (r->state == READER_NONE)
        r->want = f->want;                                   /* so that what is said of it again is known */
    if (r->push != NULL && r->push->state != PUSH_WRITTEN) { /* ends once it is quiet */
        r->push->belated |= f->belated;
        if (f->cancelled)
            push_goes(core, o, push_cancel(core, r->push, f->error));
        else
            push_goes(core, o,
                      push_stop(core, r->push, f->error != 0 ? f->error : BATON_EMESSAGE, "its consumer ended"));
        return;
    }
    if (f->belated) {
        if (r->push != NULL)
            push_destroy(core, r->push);
        r->push = NULL;
        reader_undo(core, o, seat, peer);
    } else {
        reader_close(core, o, seat, peer, f->error);
    }
}

/* What became of a push of it. The offer may end by it. */
static void push_goes(struct core *core, struct offer *o, struct push_end end)
{
    if (end.seat == NULL)
        return;
    end.seat->readers[core->c.directory->index_of[end.peer]].push = NULL;
    if (o->state == OFFER_LIVE && end.belated) {
        reader_undo(core, o, end.seat, end.peer);
    } else if (o->state == OFFER_LIVE) {
        reader_end(core, o, end.seat, end.peer, end.error);
        offer_check(core, o);
    } else if (o->pushes == 0) {
        offer_report(core, o);
    }
}

void offers_on_mover(struct core *core, struct push *push, const struct mover_word *word)
{
    push_goes(core, push->offer,
              word->what == MOVER_MOVED ? push_on_moved(core, push, word->error, word->detail)
                                        : push_on_quiet(core, push));
}

void offers_on_contact(struct core *core, struct contact *c)
{
    struct queued *first;
    while ((first = contact_take(c)) != NULL) {
        struct push *push = (struct push *)((char *)first - offsetof(struct push, card));
        push_goes(core, push->offer, push_on_contact(core, push));
    }
}

/* ---- early words ------------------------------------------------------------------------------------------------- */

static void waiter_leave(struct core *core, struct waiter *w)
{
    struct offer *o = w->offer;
    waiter_destroy(core, w);
    if (o->state == OFFER_AWAITED && o->waiters == NULL)
        offer_destroy(core, o);
}

static void on_waiter(struct core *core, struct timer *t)
{
    waiter_leave(core, (struct waiter *)((char *)t - offsetof(struct waiter, timer)));
}

static struct waiter *waiter_of(const struct offer *o, uint32_t peer)
{
    struct waiter *w;
    DL_FOREACH(o->waiters, w)
    {
        if (w->peer == peer)
            return w;
    }
    return NULL;
}

/* Keeps a word until the offer comes, in the place of that rank's former one. False: at a limit. */
static bool wait_for_offer(struct core *core, const struct waiter *word, const struct wire_name *name, uint64_t keep_ms)
{
    struct offer *o = offer_find(core, name->key, name->attempt);
    struct waiter *w = o != NULL ? waiter_of(o, word->peer) : NULL;
    if (w == NULL && !early_may_keep(core, word->peer))
        return false;
    if (o == NULL)
        o = offer_create(core, name->key, name->attempt);
    if (o == NULL)
        return false;
    if (w == NULL) {
        w = calloc(1, sizeof *w);
        if (w == NULL) {
            if (o->state == OFFER_AWAITED && o->waiters == NULL)
                offer_destroy(core, o);
            return false;
        }
        *w = *word;
        w->offer = o;
        DL_APPEND(o->waiters, w);
        early_keep(core, w->peer);
    } else {
        struct waiter kept = *w;
        *w = *word;
        w->timer = kept.timer;
        w->offer = o;
        w->prev = kept.prev;
        w->next = kept.next;
    }
    timer_arm(&core->timers, &w->timer, core->now + keep_ms * NS_PER_MS, on_waiter);
    return true;
}

static struct reader *reader_at(const struct core *core, const struct offer *o, uint32_t peer)
{
    for (uint32_t i = 0; i < o->num_seats; i++)
        if (o->seats[i].bound && o->seats[i].engine == core->c.directory->engine_of[peer])
            return &o->seats[i].readers[core->c.directory->index_of[peer]];
    return NULL;
}

static void gone(struct core *core, const struct waiter *w, const struct offer *ended)
{
    char detail[96], which[32] = "the offer";
    if (ended->attempt != 0)
        snprintf(which, sizeof which, "its attempt %u", ended->attempt);
    snprintf(detail, sizeof detail, "%s ended: %s", which, ended->error ? baton_strerror(ended->error) : "done");
    nack(core, w, reason_of(ended->error), detail);
}

/* Whether that very want was granted the offer, and read by itself when it ended. */
static bool was_reading(const struct core *core, struct offer *o, const struct waiter *w)
{
    const struct seat *seat = seat_bound(o, core->c.directory->engine_of[w->peer]);
    const struct reader *r = seat != NULL ? &seat->readers[core->c.directory->index_of[w->peer]] : NULL;
    return r != NULL && r->state == READER_GRANTED && r->push == NULL && r->want == w->want;
}

/* Whether that very want is being written to: no word but that it is quiet may end it. */
static bool is_written_to(const struct core *core, const struct offer *o, uint32_t peer, uint64_t want)
{
    bool lives = o != NULL && (o->state == OFFER_LIVE || o->state == OFFER_DRAINING);
    const struct reader *r = lives ? reader_at(core, o, peer) : NULL;
    return r != NULL && r->push != NULL && r->push->want == want && r->push->state != PUSH_WRITTEN;
}

void offer_on_want(struct core *core, uint32_t peer, const struct wire_message *message)
{
    const struct wire_want *m = &message->want;
    struct waiter word = {.peer = peer,
                          .want = message->want_id,
                          .ticket_incarnation = m->ticket_incarnation,
                          .ticket_serial = m->ticket_serial,
                          .asks = m->asks,
                          .tokens = m->tokens,
                          .held = m->held,
                          .partial = m->partial,
                          .mode = m->mode,
                          .until_ns = core->now + m->time_left_ms * NS_PER_MS,
                          .table = {m->slot, m->numbers, m->generation, m->table_offset}};
    struct offer *o = offer_find(core, m->name.key, m->name.attempt);
    const struct readers *readers = readers_of(core, core->c.directory->engine_of[peer]);
    uint32_t n = core->c.directory->engines[core->c.directory->engine_of[peer]].num_ranks;

    if (core->shut && !is_written_to(core, o, peer, word.want)) {
        nack(core, &word, BATON_ECLOSED, "the producer closes");
        return;
    }
    bool agree = readers != NULL && m->num_readers_bits == n;
    for (uint32_t i = 0; agree && i < n; i++)
        agree = readers_have(readers, i) == ((m->readers[i / 8] >> (i % 8)) & 1);
    if (!agree) {
        core->stats.messages_bad++;
        nack(core, &word, BATON_EMESSAGE, "the readers it names are not those of the directory");
        return;
    }
    if (m->mode == BATON_MODE_PUSH && core->c.directory->rows[peer].rules != PLAN_RULES) {
        static const char why[] = "its build plans by other rules: it may pull";
        if (o != NULL && o->state == OFFER_LIVE && ticket_names(core, &word, o->serial))
            refuse_want(core, o, &word, BATON_EGEOMETRY, why);
        else
            nack(core, &word, BATON_EGEOMETRY, why);
        return;
    }
    if (o != NULL && o->state == OFFER_LIVE) {
        match(core, o, &word);
        return;
    }
    if (o != NULL && o->state == OFFER_DRAINING) {
        if (was_reading(core, o, &word))
            gone(core, &word, o);
        else
            nack(core, &word, BATON_EBUSY, "the offer is about to end");
        return;
    }
    const struct offer *ended = tombstone_of(core, &m->name, &word);
    if (ended != NULL) {
        struct waiter *w = o != NULL ? waiter_of(o, peer) : NULL;
        gone(core, &word, ended);
        if (w != NULL && w->want == word.want) /* a newer attempt ended meanwhile */
            waiter_leave(core, w);
    } else if (!wait_for_offer(core, &word, &m->name, m->time_left_ms + core->c.settings->resend_ms)) {
        nack(core, &word, BATON_EBUSY, "too many wants wait for their offers");
    }
}

/*
 * A word about a want that waits here becomes what the offer will find, if it is about that one. A want that no offer
 * granted, as far as its rank knows (version 2), had not come when its word did: the offer may be to come, too. False:
 * there is no room for it.
 */
static bool word_waits(struct core *core, struct offer *o, struct waiter word, const struct wire_message *m)
{
    struct waiter *w = o != NULL ? waiter_of(o, word.peer) : NULL;
    uint64_t keep_ms = core->c.settings->tombstone_ms;
    bool ungranted = m->type == WIRE_RELEASE || (m->version >= WIRE_ENDS && m->end.generation == 0);
    if (w != NULL && w->want != m->want_id && (!w->release || m->end.generation != 0 || m->want_id < w->want))
        return true; /* a word of another want of that rank waits */
    if (w == NULL && !ungranted)
        return true;                           /* it was about a former offer of this key */
    if (w != NULL && m->end.generation != 0) { /* likewise, and what waits is a repetition of that want */
        waiter_leave(core, w);
        return true;
    }
    if (w != NULL && !w->release) {
        word.ticket_incarnation = w->ticket_incarnation;
        word.ticket_serial = w->ticket_serial;
    }
    if (m->end.time_left_ms > keep_ms)
        keep_ms = m->end.time_left_ms;
    if (wait_for_offer(core, &word, &m->end.name, keep_ms))
        return true;
    log_line(core->c.log, LOG_WARN, "a release by rank %u was not kept: too many words wait for their offers",
             word.peer);
    return false;
}

/* False: it has to come again, since what an earlier want of that rank was granted has not ended. */
static bool end_live(struct core *core, struct offer *o, uint32_t peer, const struct wire_message *m)
{
    const struct reader *r = reader_at(core, o, peer);
    bool granted = r != NULL && r->state == READER_GRANTED && r->want == m->want_id;
    bool about_it = m->end.generation == o->lease.generation || (m->version >= WIRE_ENDS && m->end.generation == 0);
    struct farewell f = {.want = m->want_id,
                         .error = m->end.error,
                         .asked = m->type != WIRE_RELEASE && !about_it,
                         .cancelled = m->type == WIRE_CANCEL,
                         .belated = m->end.generation != 0 && m->end.generation != o->lease.generation};
    if (!granted && is_former(core, o, peer, m->want_id))
        return true;
    if (!ticket_is(core, m->end.ticket_incarnation, m->end.ticket_serial, o->serial))
        return true;
    if (r != NULL && r->state == READER_GRANTED && r->want < m->want_id)
        return false;
    release(core, o, peer, &f);
    return true;
}

void offer_on_end(struct core *core, uint32_t peer, const struct wire_message *m)
{
    struct offer *o = offer_find(core, m->end.name.key, m->end.name.attempt);
    bool known = o != NULL, written = is_written_to(core, o, peer, m->want_id), heard = true;
    if (o != NULL && o->state == OFFER_LIVE) {
        heard = end_live(core, o, peer, m);
    } else if (o == NULL || o->state != OFFER_DRAINING) {
        struct waiter word = {.peer = peer,
                              .release = true,
                              .want = m->want_id,
                              .error = m->end.error,
                              .ticket_incarnation = m->end.ticket_incarnation,
                              .ticket_serial = m->end.ticket_serial};
        const struct waiter *w = o != NULL ? waiter_of(o, peer) : NULL;
        bool waits = w != NULL && w->want == m->want_id;
        if (waits || tombstone_of(core, &m->end.name, &word) == NULL)
            heard = word_waits(core, o, word, m);
    }
    if (heard && m->version >= WIRE_ENDS)
        ends_answer(core, peer, m->want_id);
    if (m->type == WIRE_CANCEL && !written) { /* else its push answers when it is quiet */
        struct wire_message closed = {
            .type = WIRE_CLOSED, .want_id = m->want_id, .closed.quiet = known ? WIRE_QUIET : WIRE_NOT_KNOWN};
        post_send(core->post, peer, &closed);
    }
}

/* ---- the caller's side ------------------------------------------------------------------------------------------- */

static size_t ready_bytes(const struct core *core)
{
    return core->c.geometry->layer_count / 8 + 1;
}

/* Of its tables, when all chunks are there. */
static uint32_t numbers_in_the_end(const struct call *call)
{
    struct plan_tables all = call->tables;
    for (uint32_t i = 0; i < all.num; i++)
        all.table[i].num_blocks = call->offer.room[i];
    return wire_table_numbers(&all);
}

static void refuse(struct core *core, struct call *call, int error, const char *detail)
{
    snprintf(call->end.event.detail, sizeof call->end.event.detail, "%s", detail);
    outcome_end(core, call, BATON_STATUS_FAILED, error);
}

static void offer_open(struct core *core, struct offer *o, struct call *call)
{
    o->state = OFFER_LIVE;
    o->call = call;
    o->serial = call->offer.serial;
    o->num_seats = call->offer.num_seats;
    for (uint32_t i = 0; i < call->offer.num_seats; i++)
        o->seats[i] = (struct seat){.engine = call->offer.seats[i]};
    core->c.port->raise(core->c.port->self, o->lease.slot, o->lease.generation);
    offer_until(core, o, call_due_ns(call));

    struct waiter *early = o->waiters, *w;
    o->waiters = NULL;
    while ((w = early) != NULL) {
        DL_DELETE(early, w);
        timer_stop(&core->timers, &w->timer);
        bool named = ticket_names(core, w, call->offer.serial);
        bool late = w->until_ns < core->now; /* its last word is on its way */
        if (o->state == OFFER_LIVE && (w->release || late)) {
            struct farewell f = {.want = w->want, .error = w->release ? w->error : BATON_ETIMEDOUT};
            if (named)
                release(core, o, w->peer, &f);
        } else if (o->state == OFFER_LIVE)
            match(core, o, w);
        else if (!w->release)
            nack_ended(core, o, w);
        waiter_free(core, w);
    }
}

void offer_submit(struct core *core, struct call *call)
{
    struct offer *o = offer_find(core, call->key, call->attempt);
    struct lease lease;
    if (core->shut) {
        refuse(core, call, BATON_ECLOSED, "");
        return;
    }
    if (o != NULL && (o->state == OFFER_LIVE || o->state == OFFER_DRAINING)) {
        outcome_refuse(core, call, "offer the key again after the event of its former offer");
        return;
    }
    int rc = lease_open(core->leases, &call->tables, numbers_in_the_end(call), &lease);
    if (rc != 0) {
        refuse(core, call, rc, "no lease slot or no room for the block table (BATON_LEASES, BATON_TABLE_BYTES)");
        return;
    }
    if (o == NULL)
        o = offer_create(core, call->key, call->attempt);
    else if (o->state == OFFER_ENDED)
        offer_revive(core, o);
    if (o == NULL) {
        lease_end(core->leases, &lease);
        refuse(core, call, BATON_ENOMEM, "");
        return;
    }
    o->lease = lease;
    o->reach = REACH_WHOLE;
    o->ready = call->offer.in_layers ? calloc(ready_bytes(core), 1) : NULL;
    if ((call->offer.in_layers && o->ready == NULL) || !live_add(core, o, call->id)) {
        lease_end(core->leases, &lease);
        free(o->ready);
        o->ready = NULL;
        refuse(core, call, BATON_ENOMEM, "");
        if (o->waiters == NULL)
            offer_destroy(core, o);
        return; /* else the entry stays for those that wait */
    }
    if (call->offer.in_chunks)
        o->reach = (struct reach){0, 0, UINT32_MAX};
    else if (call->offer.in_layers)
        o->reach = (struct reach){0, UINT32_MAX, core->c.geometry->layer_first};
    offer_open(core, o, call);
}

static struct offer *offer_of(const struct core *core, baton_id_t id)
{
    struct offer *o;
    HASH_FIND(by_id, core->called, &id, sizeof id, o);
    return o;
}

/* For each reader that was granted it. */
static void ready_tell(struct core *core, struct offer *o)
{
    for (uint32_t i = 0; i < o->num_seats; i++) {
        const struct seat *s = &o->seats[i];
        for (uint32_t k = 0; s->bound && k < core->c.directory->engines[s->engine].num_ranks; k++) {
            const struct reader *r = &s->readers[k];
            if (r->push != NULL && r->push->state == PUSH_WRITING)
                mover_ready(core, r->push->mover, &o->reach, NULL);
            else if (r->push == NULL && r->state == READER_GRANTED)
                tell_ready(core, o, core->c.directory->engines[s->engine].ranks[k], r->want);
        }
    }
}

/* Its time to live begins anew: the prefill goes on. */
static void live_anew(struct core *core, struct offer *o)
{
    offer_until(core, o, core->now + o->call->offer.ttl_ms * NS_PER_MS);
}

void offer_ready(struct core *core, const struct call *word)
{
    struct offer *o = offer_of(core, word->id);
    if (o == NULL || o->state != OFFER_LIVE)
        return;
    live_anew(core, o);
    if (!o->call->offer.in_layers) {
        snprintf(o->call->end.event.detail, sizeof o->call->end.event.detail,
                 "layers were said to be ready, and it was not offered in layers");
        offer_end(core, o, BATON_STATUS_FAILED, BATON_EINVAL);
        return;
    }
    if (o->call->offer.in_chunks && word->ready.chunk_tokens == 0) {
        snprintf(o->call->end.event.detail, sizeof o->call->end.event.detail,
                 "layers were ready, and not said of which chunk");
        offer_end(core, o, BATON_STATUS_FAILED, BATON_EINVAL);
        return;
    }
    bool newest = word->ready.chunk_tokens == 0 || word->ready.chunk_tokens == o->reach.next ||
                  (word->ready.chunk_tokens == o->call->offer.num_tokens && o->reach.next == UINT32_MAX);
    if (o->reach.done == o->reach.next || !newest)
        return; /* the chunk is all there */
    uint32_t first = core->c.geometry->layer_first, count = core->c.geometry->layer_count, before = o->reach.layer_end,
             n = before - first;
    for (uint32_t i = 0; i < count; i++)
        if (first + i >= word->ready.layer_first && first + i - word->ready.layer_first < word->ready.layer_count)
            o->ready[i / 8] |= (uint8_t)(1u << (i % 8));
    while (n < count && (o->ready[n / 8] >> (n % 8) & 1))
        n++;
    o->reach.layer_end = first + n;
    if (n == count)
        o->reach = (struct reach){o->reach.next, o->reach.next, UINT32_MAX};
    if (n > before - first)
        ready_tell(core, o);
}

/* Whether its tables have a block for each token before `end` that may be wanted of it. */
static int tables_reach(const struct core *core, const struct offer *o, uint32_t end, struct plan_why *why)
{
    const struct plan_tables *t = &o->call->tables;
    for (uint32_t i = 0; i < t->num; i++) {
        baton_group_t group = geometry_group(core->c.geometry, i);
        uint32_t first, last;
        if (group.kind == BATON_KIND_STATE && end < o->call->offer.num_tokens)
            continue;
        plan_wanted(&group, t->table[i].first_token, end, &first, &last);
        int rc = plan_table_check(&group, &t->table[i], first, last, why);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int append(struct core *core, struct offer *o, const struct call *word, struct plan_why *why)
{
    uint32_t tokens = word->append.num_tokens, before = o->reach.next, total = o->call->offer.num_tokens;
    if (!o->call->offer.in_chunks) {
        snprintf(why->text, sizeof why->text, "it was not begun in chunks, and cannot be appended to");
        return BATON_EINVAL;
    }
    if (tokens <= before || tokens > total) {
        snprintf(why->text, sizeof why->text, "%u tokens were appended to %u of %u", tokens,
                 before < total ? before : total, total);
        return BATON_ETOKENS;
    }
    if (!call_add_tables(o->call, &word->tables)) {
        snprintf(why->text, sizeof why->text, "more blocks were appended than its tokens need");
        return BATON_ETOKENS;
    }
    int rc = tables_reach(core, o, tokens, why);
    if (rc == 0 && word->num_blocks > 0)
        lease_rewrite(core->leases, &o->call->tables, &o->lease);
    return rc;
}

void offer_append(struct core *core, const struct call *word)
{
    struct offer *o = offer_of(core, word->id);
    struct plan_why why = {{0}};
    if (o == NULL || o->state != OFFER_LIVE)
        return;
    int rc = append(core, o, word, &why);
    if (rc != 0) {
        snprintf(o->call->end.event.detail, sizeof o->call->end.event.detail, "%s", why.text);
        offer_end(core, o, BATON_STATUS_FAILED, rc);
        return;
    }
    uint32_t tokens = word->append.num_tokens, next = tokens < o->call->offer.num_tokens ? tokens : UINT32_MAX;
    if (o->ready != NULL) { /* with the next chunk begun, the one before is in place */
        memset(o->ready, 0, ready_bytes(core));
        o->reach = (struct reach){o->reach.next, next, core->c.geometry->layer_first};
    } else {
        o->reach = (struct reach){next, next, UINT32_MAX};
    }
    live_anew(core, o);
    ready_tell(core, o);
}

bool offer_cancel(struct core *core, baton_id_t id, int error)
{
    struct offer *o = offer_of(core, id);
    if (o != NULL && o->state == OFFER_LIVE)
        offer_end(core, o, status_of(error), error);
    return o != NULL;
}

void offer_give_up(struct core *core, baton_id_t id, baton_status_t status, int error)
{
    struct offer *o = offer_of(core, id);
    if (o != NULL && o->state == OFFER_LIVE)
        offer_end(core, o, status, error);
    o = offer_of(core, id);
    if (o != NULL)
        given_up(core, o);
}

/* What it waits for was lost, or this rank closes: it is given up sooner. */
static void lose_patience(struct core *core, struct offer *o)
{
    uint64_t due = outcome_patience_ns(core, o->call, BATON_EPEER);
    if (o->timer.armed && o->timer.due_ns > due)
        timer_arm(&core->timers, &o->timer, due, on_patience);
}

/* What is written to a lost rank is not quiet: the offer may end by its loss all the same, and then waits for that. */
static void reader_lose(struct core *core, struct offer *o, struct seat *seat, uint32_t rank)
{
    struct reader *r = seat->bound ? &seat->readers[core->c.directory->index_of[rank]] : NULL;
    if (o->state != OFFER_LIVE || r == NULL || r->push == NULL || r->lost)
        return;
    r->lost = true;
    reader_settle(o, seat, r, rank, BATON_EPEER);
    offer_check(core, o);
}

/* What a lost rank was granted ends, and the offer perhaps by it. */
static void offer_lose(struct core *core, struct offer *o, struct seat *seat, uint32_t rank)
{
    struct reader *r = &seat->readers[core->c.directory->index_of[rank]];
    if (r->state != READER_GRANTED)
        return;
    if (r->push != NULL && r->push->state != PUSH_WRITTEN) {
        if (o->state == OFFER_DRAINING)
            lose_patience(core, o);
        if (r->push->state != PUSH_STOPPING)
            push_goes(core, o, push_stop(core, r->push, BATON_EPEER, "it was silent")); /* r may be gone */
        else if (mover_lose(core, r->push->mover))
            push_goes(core, o, push_on_quiet(core, r->push));
        reader_lose(core, o, seat, rank);
        return;
    }
    if (o->state == OFFER_LIVE)
        reader_close(core, o, seat, rank, BATON_EPEER);
}

void offers_lose(struct core *core, uint32_t rank)
{
    struct offer *o, *next;
    DL_FOREACH_SAFE(core->live, o, next)
    {
        for (uint32_t i = 0; (o->state == OFFER_LIVE || o->state == OFFER_DRAINING) && i < o->num_seats; i++)
            if (o->seats[i].bound && o->seats[i].engine == core->c.directory->engine_of[rank])
                offer_lose(core, o, &o->seats[i], rank);
    }
}

void offers_shut(struct core *core)
{
    struct offer *o, *next;
    DL_FOREACH_SAFE(core->live, o, next)
    {
        if (o->state == OFFER_LIVE)
            offer_end(core, o, BATON_STATUS_FAILED, BATON_ECLOSED);
        else
            lose_patience(core, o);
    }
    struct request *r, *after;
    HASH_ITER(hh, core->requests, r, after)
    {
        for (o = r->attempts; o != NULL; o = next) {
            struct waiter *w;
            next = o->behind;
            DL_FOREACH(o->waiters, w)
            {
                if (!w->release)
                    nack(core, w, BATON_ECLOSED, "the producer closes");
            }
            if (o->state == OFFER_AWAITED)
                offer_destroy(core, o); /* r may be gone */
        }
    }
}

void offers_destroy(struct core *core)
{
    while (core->requests != NULL) {
        struct offer *o = core->requests->attempts;
        struct call *call = o->call;
        offer_destroy(core, o);
        call_free(call);
    }
}

const struct call *offer_granted(struct core *core, const char *key, uint32_t attempt, uint32_t peer, uint64_t want)
{
    struct offer *o = offer_find(core, key, attempt);
    const struct seat *seat =
        o != NULL && o->state == OFFER_LIVE ? seat_bound(o, core->c.directory->engine_of[peer]) : NULL;
    if (seat == NULL)
        return NULL;
    const struct reader *r = &seat->readers[core->c.directory->index_of[peer]];
    return r->state == READER_GRANTED && r->want == want ? o->call : NULL;
}

struct call *offer_call(struct core *core, const char *key, uint32_t attempt)
{
    struct offer *o = offer_find(core, key, attempt);
    return o != NULL ? o->call : NULL;
}

void offer_standing(struct core *core, const char *key, uint32_t attempt, char *text, size_t size)
{
    const struct offer *o = offer_find(core, key, attempt);
    if (o == NULL || o->call == NULL) {
        snprintf(text, size, "it has no such offer open");
        return;
    }
    uint32_t open = 0;
    for (uint32_t i = 0; i < o->num_seats; i++)
        open += o->seats[i].bound ? o->seats[i].open : 1;
    snprintf(text, size, "its offer waits for %u consumer rank(s) or seat(s), %u of them written to", open, o->pushes);
}
