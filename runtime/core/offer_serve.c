/* SPDX-License-Identifier: BSD-3-Clause */
/* offer_serve: what consumers' words do to an offer, or to what is known of one that is not open, see offer.h. */
#include <stdio.h>

#include "core/ends.h"
#include "core/offer_inside.h"
#include "core/outcome.h"
#include "core/post.h"
#include "core/state.h"
#include "wire/table.h"
#include "core/survey.h"

/* ---- granting ---------------------------------------------------------------------------------------------------- */

static void tell_ready(struct core *core, const struct offer *o, uint32_t peer, uint64_t want)
{
    struct wire_message m = {.type = WIRE_READY,
                             .want_id = want,
                             .ready = {.generation = o->lease.generation,
                                       .tokens_done = o->reach.done,
                                       .tokens_next = o->reach.next,
                                       .layer_end = o->reach.layer_end,
                                       .table_entries = wire_table_entries(&o->call->tables),
                                       .table_offset = o->lease.table_offset}};
    post_send(core->post, peer, &m);
}

/* Short tables travel in the grant of a pull, which saves its consumer the reading. */
static struct wire_bytes tables_sent(const struct core *core, const struct offer *o, const struct word *w)
{
    uint32_t entries = wire_table_entries(&o->call->tables);
    if (w->mode != BATON_MODE_PULL || entries > core->c.settings->grant_blocks)
        return (struct wire_bytes){0};
    return (struct wire_bytes){(uint32_t)wire_table_bytes(entries), lease_encoded(core->leases, &o->lease)};
}

static void tell_grant(struct core *core, const struct offer *o, const struct word *w)
{
    struct wire_message m = {.type = WIRE_GRANT,
                             .want_id = w->want,
                             .grant = {.asks = w->asks,
                                       .slot = o->lease.slot,
                                       .generation = o->lease.generation,
                                       .table_offset = o->lease.table_offset,
                                       .table_entries = wire_table_entries(&o->call->tables),
                                       .offered_tokens = o->call->offer.num_tokens,
                                       .attach = {o->call->offer.num_attach, o->call->offer.attach},
                                       .table = tables_sent(core, o, w),
                                       .partial = !offer_is_whole(o)}};
    post_send(core->post, w->peer, &m);
    if (m.grant.partial && w->mode == BATON_MODE_PULL)
        tell_ready(core, o, w->peer, w->want);
}

void offer_tell_reach(struct core *core, struct offer *o)
{
    for (struct reader *r = seats_next(o->seats, NULL); r != NULL; r = seats_next(o->seats, r)) {
        if (reader_push(r) != NULL)
            push_ready(core, reader_push(r));
        else if (reader_state(r) == READER_GRANTED)
            tell_ready(core, o, reader_rank(core, r), reader_want(r));
    }
}

/* ---- a want meets a live offer ----------------------------------------------------------------------------------- */

/* It refuses a want that is about it: it waits for the word of that want's end. */
static void refuse(struct core *core, const struct offer *o, const struct word *w, int error, const char *detail)
{
    word_nack(core, w, o->lease.generation, error, detail);
}

/* The want is over here: neither a repetition of it nor the word of its end is about the next offer. */
static void nack_over(struct core *core, const struct offer *o, const struct word *w, int error, const char *detail)
{
    attempt_note(core, o->attempt, w->peer, w->want);
    word_nack(core, w, 0, error, detail);
}

/* Whether this offer has what is wanted; else the want is refused. */
static bool suits(struct core *core, const struct offer *o, const struct word *w)
{
    uint32_t offered = o->call->offer.num_tokens;
    char detail[96];
    if (w->tokens > offered || (w->tokens != offered && geometry_has_state(core->c.geometry))) {
        snprintf(detail, sizeof detail, "%u tokens wanted, %u offered%s", w->tokens, offered,
                 w->tokens < offered ? ": a recurrent state can only be taken whole" : "");
        refuse(core, o, w, BATON_ETOKENS, detail);
        return false;
    }
    return true;
}

/* The reader that wants, if it may be granted anything; else the want is refused. */
static struct reader *reader_for(struct core *core, struct offer *o, const struct word *w)
{
    int error;
    struct reader *r = reader_take(core, o->seats, w->peer, &error);
    if (r == NULL)
        word_nack(core, w, 0, error,
                  error == BATON_EPEER ? "this engine has lost a rank" : "no seat is left for this engine");
    else if (!reader_is_expected(r))
        word_nack(core, w, 0, BATON_EMESSAGE, "by the directory this rank reads nothing here");
    else if (reader_state(r) != READER_ENDED)
        return r;
    else
        nack_over(core, o, w, BATON_EGONE, "this rank has ended its part of the offer");
    return NULL;
}

/* A want meets a reader that is being written to: it asks how far that is, or it is a new attempt. */
static void again(struct core *core, struct offer *o, struct push *push, const struct word *w)
{
    if (push_want(push) != w->want) {
        word_nack(core, w, 0, BATON_EBUSY, "its former attempt is not quiet yet");
        offer_on_push(core, o, push_stop(core, push, BATON_ECANCELED, "a new attempt came"));
        return;
    }
    push_ask(core, push, w->asks);
    if (push_state(push) != PUSH_WRITTEN)
        tell_grant(core, o, w);
}

static int begin_push(struct core *core, struct offer *o, struct reader *r, const struct word *w)
{
    struct push_order order = {
        .offer = o, .reader = r, .generation = o->lease.generation, .mine = o->call, .reach = &o->reach};
    struct push *push;
    int rc = push_create(core, &order, w, &push);
    if (rc != 0)
        return rc;
    o->pushes++;
    reader_set_push(r, push);
    return 0;
}

/* GRANT, or NACK with the reason. */
static void match(struct core *core, struct offer *o, const struct word *w)
{
    if (attempt_has_refused(o->attempt, w->peer, w->want)) {
        word_nack(core, w, 0, BATON_EGONE, "the offer that it was meant for has ended");
        return;
    }
    struct reader *r = suits(core, o, w) ? reader_for(core, o, w) : NULL;
    if (r == NULL)
        return;
    struct push *push = reader_push(r);
    if (push != NULL && push_state(push) == PUSH_WRITTEN && push_want(push) != w->want)
        offer_drop_push(core, o, r); /* it is done, and the word of that was lost */
    if (reader_push(r) != NULL) {
        again(core, o, reader_push(r), w);
        return;
    }
    int rc = reader_grant(core, r);
    if (rc != 0) {
        refuse(core, o, w, rc, "the producer has lost this rank");
        return;
    }
    rc = w->mode == BATON_MODE_PUSH ? begin_push(core, o, r, w) : 0;
    if (rc != 0) {
        reader_rest(core, r);
        refuse(core, o, w, rc, "the push could not be begun");
        return;
    }
    reader_note(r, w);
    o->is_far |= path_is_far(core->c.path[w->peer]);
    timeline_meet(core_timeline(core), TIMELINE_MATCHED, core->now, o->call->id, w->peer, w->want, 0);
    if (o->call->end.event.wait_ns == 0)
        o->call->end.event.wait_ns = core->now - o->call->submitted_ns;
    tell_grant(core, o, w);
    if (reader_push(r) != NULL)
        offer_on_push(core, o, push_start(core, reader_push(r)));
}

/* ---- the end of a want meets a live offer ------------------------------------------------------------------------ */

/* A rank needs nothing more. */
struct release {
    uint64_t want;
    int32_t error;
    bool of_granted; /* it names no lease, or another one: this offer is meant only if it granted that very want */
    bool cancelled;  /* it waits for CLOSED */
    bool of_former;  /* its bytes, or what it was granted of them, were of a former offer */
};

static void release(struct core *core, struct offer *o, uint32_t peer, const struct release *f)
{
    int error;
    struct reader *r = reader_of(core, o->seats, peer);
    if (r == NULL && !f->of_granted)
        r = reader_take(core, o->seats, peer, &error);
    if (r == NULL)
        return; /* nobody waits for that rank */
    if (reader_state(r) == READER_GRANTED && reader_want(r) != f->want)
        return; /* of another attempt */
    if ((reader_state(r) == READER_NONE && f->of_granted) || (reader_state(r) == READER_ENDED && f->of_former))
        return; /* its WANT came before it, and met another offer of this key */
    if (reader_state(r) == READER_NONE)
        reader_note_end(r, f->want);
    struct push *push = reader_push(r);
    if (push != NULL && push_state(push) != PUSH_WRITTEN) { /* ends once it is quiet */
        if (f->of_former)
            push_note_former(push);
        offer_on_push(core, o,
                      f->cancelled
                          ? push_cancel(core, push, f->error)
                          : push_stop(core, push, f->error != 0 ? f->error : BATON_EMESSAGE, "its consumer ended"));
        return;
    }
    if (f->of_former) {
        offer_drop_push(core, o, r);
        reader_undo(core, o->seats, r);
    } else {
        offer_close_reader(core, o, r, f->error);
    }
}

void offer_meet(struct core *core, struct offer *o, const struct word *w)
{
    bool late = w->until_ns < core->now; /* its last word is on its way */
    if (o->state == OFFER_LIVE && (w->release || late)) {
        struct release f = {.want = w->want, .error = w->release ? w->error : BATON_ETIMEDOUT};
        release(core, o, w->peer, &f);
    } else if (o->state == OFFER_LIVE) {
        match(core, o, w);
    } else if (!w->release) {
        char detail[96];
        int error = outcome_of_ended(o->error, detail, sizeof detail);
        nack_over(core, o, w, error, detail);
    }
}

/* ---- WANT -------------------------------------------------------------------------------------------------------- */

static void nack_gone(struct core *core, const struct word *w, const struct attempt *a, int error)
{
    char detail[96], which[32] = "the offer";
    if (attempt_number(a) != 0)
        snprintf(which, sizeof which, "its attempt %u", attempt_number(a));
    snprintf(detail, sizeof detail, "%s ended: %s", which, error != 0 ? baton_strerror(error) : "done");
    word_nack(core, w, 0, error == BATON_ECLOSED ? error : BATON_EGONE, detail);
}

/* Whether that very want is being written to: no word but that it is quiet may end it. */
static bool is_written_to(const struct core *core, const struct offer *o, uint32_t peer, uint64_t want)
{
    const struct reader *r = o != NULL ? reader_of(core, o->seats, peer) : NULL;
    const struct push *push = r != NULL ? reader_push(r) : NULL;
    return push != NULL && push_want(push) == want && push_state(push) != PUSH_WRITTEN;
}

/* Whether that very want was granted the offer, and read by itself when it ended. */
static bool was_reading(const struct core *core, const struct offer *o, const struct word *w)
{
    const struct reader *r = reader_of(core, o->seats, w->peer);
    return r != NULL && reader_state(r) == READER_GRANTED && reader_push(r) == NULL && reader_want(r) == w->want;
}

/* Whether the directory says the same of its engine's readers. */
static bool readers_agree(const struct core *core, uint32_t peer, const struct wire_want *m)
{
    uint32_t engine = core->c.directory->engine_of[peer], n = core->c.directory->engines[engine]->num_ranks;
    const struct readers *readers = readers_of(core, engine);
    bool agree = readers != NULL && m->readers.num == n;
    for (uint32_t i = 0; agree && i < n; i++)
        agree = readers_have(readers, i) == ((m->readers.bit[i / 8] >> (i % 8)) & 1);
    return agree;
}

/* No offer of that attempt is open: it has ended, or is to come. */
static void want_meets_none(struct core *core, const struct word *w, const struct wire_want *m)
{
    struct attempt *a = attempt_find(core, m->name.key, m->name.attempt);
    const struct attempt *ended = attempt_ended(core, &m->name, w);
    if (ended != NULL) {
        const struct word *waits = a != NULL ? waiter_word(a, w->peer) : NULL;
        nack_gone(core, w, ended, attempt_error(ended));
        if (waits != NULL && waits->want == w->want) /* a newer attempt ended meanwhile */
            waiter_leave(core, a, w->peer);
    } else if (!waiter_keep(core, &m->name, w, m->time_left_ms + core->c.settings->resend_ms)) {
        word_nack(core, w, 0, BATON_EBUSY, "too many wants wait for their offers");
    }
}

void offer_on_want(struct core *core, uint32_t peer, const struct wire_message *message)
{
    const struct wire_want *m = &message->want;
    struct word word = word_of_want(core, peer, message);
    struct offer *o = offer_find(core, m->name.key, m->name.attempt);
    if (core->shut && !is_written_to(core, o, peer, word.want)) {
        word_nack(core, &word, 0, BATON_ECLOSED, "the producer closes");
        return;
    }
    if (!readers_agree(core, peer, m)) {
        count_add(&core->stats.messages_bad, 1);
        word_nack(core, &word, 0, BATON_EMESSAGE, "the readers it names are not those of the directory");
        return;
    }
    if (m->mode == BATON_MODE_PUSH && core->c.directory->rows[peer].rules != PLAN_RULES) {
        bool is_about = o != NULL && o->state == OFFER_LIVE;
        word_nack(core, &word, is_about ? o->lease.generation : 0, BATON_EGEOMETRY,
                  "the consumer's planner version differs: it can only pull, without checksums");
        return;
    }
    if (o == NULL)
        want_meets_none(core, &word, m);
    else if (o->state == OFFER_LIVE)
        match(core, o, &word);
    else if (was_reading(core, o, &word))
        nack_gone(core, &word, o->attempt, o->error);
    else
        word_nack(core, &word, 0, BATON_EBUSY, "the offer is about to end");
}

/* ---- DONE, CANCEL, RELEASE --------------------------------------------------------------------------------------- */

/*
 * A word about a want that waits here becomes what the offer will find, if it is about that one. RELEASE may be about
 * an offer that is to come: no word of its want need have come before it. False: there is no room for it.
 */
static bool end_waits(struct core *core, struct attempt *a, struct word word, const struct wire_message *m)
{
    const struct word *w = a != NULL ? waiter_word(a, word.peer) : NULL;
    uint64_t keep_ms = core->c.settings->tombstone_ms;
    bool releases = m->type == WIRE_RELEASE;
    if (w != NULL && w->want != m->want_id && (!w->release || !releases || m->want_id < w->want))
        return true; /* a word of another want of that rank waits */
    if (w == NULL && !releases)
        return true;                           /* it was about a former offer of this key */
    if (w != NULL && m->end.generation != 0) { /* likewise, and what waits is a repetition of that want */
        waiter_leave(core, a, word.peer);
        return true;
    }
    if (m->end.time_left_ms > keep_ms)
        keep_ms = m->end.time_left_ms;
    if (waiter_keep(core, &m->end.name, &word, keep_ms))
        return true;
    log_line(core->c.log, LOG_WARN, "a release by rank %u was not kept: too many words wait for their offers",
             word.peer);
    return false;
}

/* False: it has to come again, since what an earlier want of that rank was granted has not ended. */
static bool end_meets_live(struct core *core, struct offer *o, const struct word *w, const struct wire_message *m)
{
    const struct reader *r = reader_of(core, o->seats, w->peer);
    bool is_granted = r != NULL && reader_state(r) == READER_GRANTED;
    bool names_it = m->type == WIRE_RELEASE || m->end.generation == o->lease.generation;
    struct release f = {.want = w->want,
                        .error = w->error,
                        .of_granted = !names_it,
                        .cancelled = m->type == WIRE_CANCEL,
                        .of_former = !names_it && m->end.generation != 0};
    if (!(is_granted && reader_want(r) == w->want) && attempt_is_former(o->attempt, w->peer, w->want))
        return true;
    if (is_granted && reader_want(r) < w->want)
        return false;
    release(core, o, w->peer, &f);
    return true;
}

void offer_on_end(struct core *core, uint32_t peer, const struct wire_message *m)
{
    struct attempt *a = attempt_find(core, m->end.name.key, m->end.name.attempt);
    struct offer *o = a != NULL ? attempt_offer(a) : NULL;
    struct word word = word_of_end(peer, m);
    bool written = is_written_to(core, o, peer, m->want_id), heard = true;
    if (o != NULL && o->state == OFFER_LIVE) {
        heard = end_meets_live(core, o, &word, m);
    } else if (o == NULL) {
        const struct word *w = a != NULL ? waiter_word(a, peer) : NULL;
        bool waits = w != NULL && w->want == m->want_id;
        if (waits || attempt_ended(core, &m->end.name, &word) == NULL)
            heard = end_waits(core, a, word, m);
    } else {
        heard = m->type != WIRE_RELEASE; /* it is about the key's next offer: it comes again */
    }
    /* A CANCEL that names no lease is answered by CLOSED alone: ENDED would take back the RELEASE that follows it. */
    if (heard && (m->type != WIRE_CANCEL || m->end.generation != 0))
        ends_answer(core, peer, m->want_id);
    if (m->type == WIRE_CANCEL && !written) { /* else its push answers when it is quiet */
        struct wire_message closed = {
            .type = WIRE_CLOSED, .want_id = m->want_id, .closed.quiet = heard ? WIRE_QUIET : WIRE_NOT_KNOWN};
        post_send(core->post, peer, &closed);
    }
}
