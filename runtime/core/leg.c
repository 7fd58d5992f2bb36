/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * leg: the part of a want between one producer rank and this one.
 *
 *   HANDSHAKE it was taken away from a rank that failed; the card of the one in its place is read
 *   ASKED     WANT was sent; sent again with growing pauses until it is answered
 *   MOVING    pull: granted; the blocks are read (mover.c)
 *   DOUBTED   pull: what was read may not be what was granted, by the proof. WANT is sent again: the producer says why
 *   AWAITED   push: granted; the producer writes. WANT is still repeated, and answered by how far it is
 *   CHECKING  BATON_CHECKSUM: they are there; their hashes are compared with the producer's (check.c)
 *   FENCED    the bytes in my blocks are those that were offered
 *   STOPPING  given up. Pull: until my own reads are quiet. Push: CANCEL was sent, and is sent again until the producer
 *             says that it writes no more
 *   CLOSED    given up, and nothing of it can write into the blocks any more
 */
#include "core/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/table.h"

const char *leg_state_name(enum leg_state state)
{
    static const char *const names[] = {"handshake", "asked",  "moving",   "doubted", "awaited",
                                        "checking",  "fenced", "stopping", "closed"};
    return names[state];
}

#define DOUBTS_MOST 2 /* pauses: the first is BATON_RESEND_MS, the second twice that */

static bool is_push(const struct leg *leg)
{
    return leg->want->call->want.mode == BATON_MODE_PUSH;
}

static bool retry(struct core *core, struct leg *leg, int error);

/* The want is to look at its legs: one has failed, is fenced or is closed. */
static void tell(struct core *core, struct want *want)
{
    if (!want->is_news)
        DL_APPEND2(core->told, want, told_before, told_after);
    want->is_news = true;
}

static void give_up(struct core *core, struct leg *leg, int error, const char *detail)
{
    struct want *want = leg->want;
    if (want->failure.error == 0) { /* the first reason counts */
        want->failure.error = error;
        want->failure.peer = (int32_t)contact_peer(leg->contact);
        snprintf(want->failure.detail, sizeof want->failure.detail, "%s", detail);
    }
    tell(core, want);
}

static void fail(struct core *core, struct leg *leg, int error, const char *detail)
{
    if (!retry(core, leg, error))
        give_up(core, leg, error, detail);
}

/* A peer that writes to me over this path needs me to poll. */
static void await(struct core *core, struct leg *leg, enum leg_state state)
{
    bool was = leg->state == LEG_AWAITED || leg->state == LEG_CHECKING || (leg->state == LEG_STOPPING && is_push(leg));
    bool is = state == LEG_AWAITED || state == LEG_CHECKING || (state == LEG_STOPPING && is_push(leg));
    if (path_is_far(core->c.path[contact_peer(leg->contact)]))
        core->serving = core->serving + is - was;
    leg->state = state;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static void send_want(struct core *core, struct leg *leg)
{
    const struct call *call = leg->want->call;
    const struct lease *lease = &leg->want->lease;
    const baton_ticket_t *ticket = ask_ticket(leg->want, contact_peer(leg->contact));
    struct wire_message m = {.type = WIRE_WANT,
                             .want_id = leg->want->seq,
                             .want = {.name.attempt = call->attempt,
                                      .mode = (uint8_t)call->want.mode,
                                      .asks = ++leg->asks,
                                      .time_left_ms = ask_left_ms(core, leg->want),
                                      .tokens = call->want.num_tokens,
                                      .held = call->want.held_tokens,
                                      .ticket_incarnation = ticket != NULL ? ticket->incarnation : 0,
                                      .ticket_serial = ticket != NULL ? ticket->serial : 0,
                                      .num_readers_bits = core->c.directory->engines[core_engine(core)].num_ranks,
                                      .slot = lease->slot,
                                      .generation = lease->generation,
                                      .table_offset = lease->table_offset,
                                      .numbers = wire_table_numbers(&call->tables),
                                      .partial = true}};
    memcpy(m.want.name.key, call->key, sizeof m.want.name.key);
    memcpy(m.want.readers, contact_readers(leg->contact), sizeof m.want.readers);
    post_send(core->post, contact_peer(leg->contact), &m);
    leg->told = true;
}

static void send_cancel(struct core *core, struct leg *leg)
{
    struct wire_message m = {
        .type = WIRE_CANCEL,
        .want_id = leg->want->seq,
        .end = {.name.attempt = leg->want->call->attempt, .error = leg->want->error, .generation = leg->generation}};
    memcpy(m.end.name.key, leg->want->call->key, sizeof m.end.name.key);
    post_send(core->post, contact_peer(leg->contact), &m);
    leg->ended = leg->unsaid = true; /* until CLOSED comes */
}

static void on_resend(struct core *core, struct timer *t)
{
    struct leg *leg = (struct leg *)((char *)t - offsetof(struct leg, resend));
    leg->pause_ns = post_pause_ns(core->post, leg->pause_ns);
    timer_arm(&core->timers, &leg->resend, core->now + leg->pause_ns, on_resend);
    if (leg->state == LEG_DOUBTED && ++leg->doubts == DOUBTS_MOST) {
        fail(core, leg, BATON_ESTALE, "the lease's generation is another, and its producer does not say why");
        return;
    }
    if (post_waits(core->post, contact_peer(leg->contact))) /* the former one has not left yet */
        return;
    if (leg->state == LEG_STOPPING)
        send_cancel(core, leg);
    else if (leg->state == LEG_CHECKING)
        check_ask(core, leg);
    else
        send_want(core, leg);
}

static void resend_from_now(struct core *core, struct leg *leg)
{
    leg->pause_ns = post_pause_ns(core->post, 0);
    timer_arm(&core->timers, &leg->resend, core->now + leg->pause_ns, on_resend);
}

static int ask(struct core *core, struct leg *leg)
{
    int rc = peer_begin(core, contact_peer(leg->contact));
    if (rc != 0)
        return rc;
    leg->busy = true;
    ends_take_back(core, contact_peer(leg->contact), leg->want->seq); /* it was released before it was turned to */
    leg->state = LEG_ASKED;
    send_want(core, leg);
    resend_from_now(core, leg);
    return 0;
}

/* ---- the answers ------------------------------------------------------------------------------------------------- */

static bool awaits_more(const struct leg *leg)
{
    return leg->state == LEG_MOVING && mover_awaits_more(leg->mover);
}

static void outside(struct core *core, struct leg *leg)
{
    core->stats.messages_bad++;
    fail(core, leg, BATON_EMESSAGE, "it names tables that lie outside its card");
}

static const char another_began[] = "the offer that was granted ended, and another of its key began";

/* More of an offer in parts is in place. */
static void on_more(struct core *core, struct leg *leg, const struct peer_table *table, const struct reach *reach)
{
    if (!awaits_more(leg))
        return;
    if (table->generation != leg->generation) { /* words keep their order: it is a later one */
        fail(core, leg, BATON_EGONE, another_began);
        return;
    }
    if (mover_ready(core, leg->mover, reach, table) != 0) {
        outside(core, leg);
        return;
    }
    resend_from_now(core, leg);
    if (!awaits_more(leg))
        timer_stop(&core->timers, &leg->resend);
}

static void on_ready(struct core *core, struct leg *leg, const struct wire_ready *m)
{
    struct peer_table table = {.numbers = m->numbers, .generation = m->generation, .offset = m->table_offset};
    on_more(core, leg, &table, &(struct reach){m->tokens_done, m->tokens_next, m->layer_end});
}

static void on_grant(struct core *core, struct leg *leg, const struct wire_grant *m)
{
    const struct call *call = leg->want->call;
    struct peer_table table = {m->slot, m->numbers, m->generation, m->table_offset};
    if (leg->state == LEG_AWAITED)
        leg->generation = m->generation; /* of the offer that writes by now */
    if (leg->state == LEG_DOUBTED) {
        if (m->generation != leg->generation)
            fail(core, leg, BATON_EGONE, another_began);
        else if (m->asks == leg->asks)
            fail(core, leg, BATON_ESTALE, "its generation was another, and its producer grants the same lease again");
        return;
    }
    if (leg->state != LEG_ASKED) {
        if (!m->partial || m->generation != leg->generation) /* granted once more, and whole by now; or by another */
            on_more(core, leg, &table, &REACH_WHOLE);
        return;
    }
    leg->want->call->end.event.wait_ns = core->now - call->submitted_ns;
    leg->generation = m->generation;
    if (is_push(leg)) {
        await(core, leg, LEG_AWAITED);
        return;
    }
    struct mover_job job = {
        .table = table, .held = call->want.held_tokens, .num_tokens = call->want.num_tokens, .mine = &call->tables};
    leg->state = LEG_MOVING;
    if (!m->partial) { /* else its READYs come with the answers to what is repeated */
        timer_stop(&core->timers, &leg->resend);
        job.reach = REACH_WHOLE;
    }
    if (mover_start(core, leg->mover, &job) != 0)
        outside(core, leg);
}

static void add_bytes(struct core *core, struct leg *leg, uint64_t bytes)
{
    leg->want->call->end.event.bytes += bytes;
    leg->want->call->end.event.path_bytes[core->c.path[contact_peer(leg->contact)]] += bytes;
}

static void fenced(struct core *core, struct leg *leg)
{
    timer_stop(&core->timers, &leg->resend);
    await(core, leg, LEG_FENCED);
    leg->want->fenced++;
    tell(core, leg->want);
}

/* All bytes are there. */
static void landed(struct core *core, struct leg *leg)
{
    if (!core->c.settings->checksum) {
        fenced(core, leg);
        return;
    }
    await(core, leg, LEG_CHECKING);
    resend_from_now(core, leg);
    leg_on_checked(core, leg, check_begin(core, leg), "");
}

void leg_on_checked(struct core *core, struct leg *leg, int how, const char *detail)
{
    if (leg->state != LEG_CHECKING)
        return;
    if (how < 0)
        fail(core, leg, how, detail);
    else if (how == CHECK_GOOD)
        fenced(core, leg);
}

/* Whether it is as many bytes as I want of it. */
static bool is_all(const struct leg *leg, uint64_t bytes)
{
    const struct call *call = leg->want->call;
    struct plan_transfer t;
    struct plan_why why;
    return plan_transfer_init(&t, contact_plan(leg->contact), call->want.held_tokens, call->want.num_tokens, NULL,
                              &call->tables, &why) == 0 &&
           t.bytes == bytes;
}

/* The producer wrote all, or wrote what it wrote and writes no more. */
static void on_written(struct core *core, struct leg *leg, const struct wire_written *m)
{
    if (m->asks != leg->asks) /* one that asked later is on its way there, and might begin another writing */
        return;
    if (leg->state == LEG_STOPPING) {
        leg_on_quiet(core, leg);
    } else if (m->error != 0) {
        leg->ended = true;
        fail(core, leg, m->error, m->detail);
    } else if (leg->state != LEG_ASKED && leg->state != LEG_AWAITED) {
        return;
    } else if (!is_all(leg, m->bytes)) {
        core->stats.messages_bad++;
        fail(core, leg, BATON_EMESSAGE, "it wrote other bytes than were wanted of it");
    } else {
        add_bytes(core, leg, m->bytes);
        if (m->generation != 0)
            leg->generation = m->generation;
        landed(core, leg);
    }
}

static void on_nack(struct core *core, struct leg *leg, const struct wire_nack *m)
{
    bool reads = leg->state == LEG_MOVING || leg->state == LEG_DOUBTED; /* the offer ended meanwhile */
    bool expects =
        reads || leg->state == LEG_ASKED || leg->state == LEG_AWAITED || (leg->state == LEG_STOPPING && is_push(leg));
    if (m->asks != leg->asks || !expects)
        return;                    /* asked again before, or over */
    if (m->error == BATON_EBUSY) { /* asked again soon: it answers, and room may come at any time */
        if (leg->state != LEG_MOVING || awaits_more(leg))
            resend_from_now(core, leg);
        return;
    }
    leg->unsaid = m->generation != 0; /* an offer refused, and waits for this rank's end like any other */
    if (m->generation != 0)
        leg->generation = m->generation;
    if (leg->state == LEG_STOPPING) {
        leg_on_quiet(core, leg);
    } else {
        leg->ended = true;
        fail(core, leg, m->error, m->detail);
    }
}

void leg_on_message(struct core *core, uint32_t peer, const struct wire_message *m)
{
    struct want *want;
    struct leg *leg = NULL;
    struct plan_why why = {{0}};
    HASH_FIND(hh, core->wants, &m->want_id, sizeof m->want_id, want);
    for (uint32_t i = 0; want != NULL && i < want->num_legs; i++)
        if (contact_peer(want->legs[i].contact) == peer)
            leg = &want->legs[i];
    if (leg == NULL || !leg->told)
        return; /* ended: messages are idempotent */
    if (m->type == WIRE_GRANT)
        on_grant(core, leg, &m->grant);
    else if (m->type == WIRE_NACK)
        on_nack(core, leg, &m->nack);
    else if (m->type == WIRE_SUMS)
        leg_on_checked(core, leg, check_on_sums(core, leg, m, &why), why.text);
    else if (m->type == WIRE_READY)
        on_ready(core, leg, &m->ready);
    else if (!is_push(leg))
        return; /* a pull waits for no word of the producer: it writes nothing here */
    else if (m->type == WIRE_WRITTEN)
        on_written(core, leg, &m->written);
    else if (leg->state ==
             LEG_STOPPING) { /* CLOSED: quiet; or not known, and by the order of messages it never will be */
        leg->unsaid = false;
        leg_on_quiet(core, leg);
    }
}

/* ---- another rank in the place of one that failed ---------------------------------------------------------------- */

static void leave_handshake(struct core *core, struct leg *leg)
{
    contact_leave(core, leg->contact, &leg->card);
}

/* The next rank to turn to: of this node first. NULL: none. */
static struct contact *another(struct core *core, const struct leg *leg)
{
    uint32_t num;
    const uint32_t *spares = link_spares(leg->want->link, &num);
    for (int far = 0; far <= 1; far++)
        for (uint32_t i = 0; i < num; i++) {
            uint32_t rank = spares[i];
            if (path_is_far(core->c.path[rank]) != far || peer_is_lost(core, rank) || ask_knows(leg->want, rank))
                continue;
            struct contact *c = link_spare(core, leg->contact, rank);
            if (c != NULL)
                return c;
        }
    return NULL;
}

static bool leave(struct want *want, const struct leg *leg)
{
    struct left *more = realloc(want->left, (want->num_left + 1) * sizeof *more);
    if (more == NULL)
        return false;
    more[want->num_left++] = (struct left){contact_peer(leg->contact), leg->told, leg->generation};
    want->left = more;
    return true;
}

/* The leg is quiet: it begins anew with the next rank that can be asked. */
static void turn(struct core *core, struct leg *leg)
{
    struct contact *next;
    int rc = leg->error;
    if (leg->busy)
        peer_end(core, contact_peer(leg->contact));
    leg->busy = leg->ended = leg->unsaid = false;
    while ((next = another(core, leg)) != NULL && leave(leg->want, leg)) {
        mover_destroy(core, leg->mover);
        leg->contact = next;
        leg->told = false;
        leg->asks = 0;
        leg->generation = 0;
        core->stats.retries++;
        log_line(core->c.log, LOG_INFO, "want %s turns to rank %u", leg->want->call->key, contact_peer(next));
        leg->mover = mover_create(core, OP_LEG, leg, next, false);
        if (leg->mover == NULL) {
            rc = BATON_ENOMEM;
            break;
        }
        if (!contact_is_good(next)) {
            leg->state = LEG_HANDSHAKE;
            contact_wait(core, next, &leg->card);
            return;
        }
        rc = ask(core, leg);
        if (rc == 0)
            return;
    }
    leg->state = LEG_ASKED; /* as far as giving up goes */
    give_up(core, leg, rc, "no other rank is left");
}

/* Turns to another rank that holds the same. False: there is none, or it would not be safe: the want fails. */
static bool retry(struct core *core, struct leg *leg, int error)
{
    bool reads = leg->state == LEG_MOVING || leg->state == LEG_DOUBTED;
    bool can = error == BATON_EPEER || error == BATON_ESTALE || error == BATON_EMPI || (error == BATON_EGONE && reads);
    if (!can || is_push(leg) || core->c.settings->checksum || leg->want->state != WANT_ACTIVE ||
        leg->state == LEG_FENCED || another(core, leg) == NULL)
        return false;
    timer_stop(&core->timers, &leg->resend);
    leave_handshake(core, leg);
    leg->error = error;
    bool is_quiet = mover_stop(core, leg->mover);
    if (mover_is_stray(leg->mover))
        return false; /* what it began may land at any time: no other rank's bytes are safe from that */
    leg->state = LEG_STOPPING;
    if (is_quiet)
        turn(core, leg);
    else
        leg->leaves = true; /* what the former rank still sends must not land in what the next one sent */
    return true;
}

void leg_begin(struct core *core, struct leg *leg)
{
    int rc = ask(core, leg);
    if (rc != 0)
        fail(core, leg, rc, rc == BATON_EPEER ? "it is lost" : "");
}

void leg_on_spare(struct core *core, struct leg *leg)
{
    const char *why = contact_refusal(leg->contact);
    leg->state = LEG_ASKED;
    if (why != NULL)
        fail(core, leg, BATON_EGEOMETRY, why);
    else
        leg_begin(core, leg);
}

/* ---- the mover --------------------------------------------------------------------------------------------------- */

/* Where it can turn to no other rank: the offer may just have ended, and the word of that be on its way. */
static void doubt(struct core *core, struct leg *leg)
{
    leg->state = LEG_DOUBTED;
    leg->doubts = 0;
    send_want(core, leg);
    resend_from_now(core, leg);
}

void leg_on_moved(struct core *core, struct leg *leg, int error, const char *detail)
{
    if (leg->state != LEG_MOVING)
        return;
    if (error == BATON_ESTALE) {
        if (!retry(core, leg, error))
            doubt(core, leg);
        return;
    }
    if (error != 0) {
        fail(core, leg, error, detail);
        return;
    }
    add_bytes(core, leg, mover_landed(leg->mover));
    landed(core, leg);
}

/* ---- giving up --------------------------------------------------------------------------------------------------- */

static void close_leg(struct core *core, struct leg *leg)
{
    timer_stop(&core->timers, &leg->resend);
    await(core, leg, LEG_CLOSED);
    leg->want->closed++;
}

void leg_on_quiet(struct core *core, struct leg *leg)
{
    if (leg->leaves) {
        leg->leaves = false;
        turn(core, leg);
        return;
    }
    close_leg(core, leg);
    tell(core, leg->want);
}

void leg_stop(struct core *core, struct leg *leg)
{
    bool written = leg->state == LEG_CHECKING || leg->state == LEG_FENCED;
    bool writes = is_push(leg) && leg->told && !leg->ended && !written;
    timer_stop(&core->timers, &leg->resend);
    check_stop(core, leg);
    leave_handshake(core, leg);
    leg->leaves = false;
    if (writes && peer_is_ended(core, contact_peer(leg->contact))) {
        close_leg(core, leg);
    } else if (writes) {
        await(core, leg, LEG_STOPPING);
        send_cancel(core, leg);
        resend_from_now(core, leg);
    } else if (mover_stop(core, leg->mover)) {
        close_leg(core, leg);
    } else {
        await(core, leg, LEG_STOPPING);
    }
}

void leg_free(struct core *core, struct leg *leg)
{
    timer_stop(&core->timers, &leg->resend);
    check_stop(core, leg);
    leave_handshake(core, leg);
    if (leg->state == LEG_AWAITED || leg->state == LEG_CHECKING || leg->state == LEG_STOPPING)
        await(core, leg, LEG_CLOSED);
    mover_destroy(core, leg->mover);
    if (leg->busy)
        peer_end(core, contact_peer(leg->contact));
}

void leg_lose(struct core *core, struct leg *leg)
{
    if (leg->state == LEG_ASKED || leg->state == LEG_MOVING || leg->state == LEG_AWAITED ||
        leg->state == LEG_CHECKING || leg->state == LEG_HANDSHAKE || leg->state == LEG_DOUBTED)
        fail(core, leg, BATON_EPEER, peer_is_dead(core, contact_peer(leg->contact)) ? "it is gone" : "it is silent");
    else if (leg->state == LEG_STOPPING &&
             (is_push(leg) ? peer_is_ended(core, contact_peer(leg->contact)) : mover_lose(core, leg->mover)))
        leg_on_quiet(core, leg);
}
