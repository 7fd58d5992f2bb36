/* SPDX-License-Identifier: BSD-3-Clause */
/* leg: see leg.h. */
#include "core/leg.h"

#include <string.h>

#include "core/check.h"
#include "core/ends.h"
#include "core/leg_inside.h"
#include "core/peer.h"
#include "core/post.h"
#include "core/state.h"

const char *leg_state_name(enum leg_state state)
{
    static const char *const names[] = {"handshake", "asked",  "moving",   "doubted", "awaited",
                                        "checking",  "fenced", "stopping", "closed"};
    return names[state];
}

#define DOUBTS_MOST 2 /* WANTs, each with its pause: resend_ms, then twice that */

static bool is_push(const struct leg *leg)
{
    return leg->ask->call->want.mode == BATON_MODE_PUSH;
}

static bool retry(struct core *core, struct leg *leg, int error);
static void on_quiet(struct core *core, struct leg *leg);

static void give_up(struct leg *leg, int error, const char *detail)
{
    ask_fail(leg->ask, leg_rank(leg), error, detail);
}

static void fail(struct core *core, struct leg *leg, int error, const char *detail)
{
    if (!retry(core, leg, error))
        give_up(leg, error, detail);
}

/* A peer that writes to me over this path needs me to poll. */
static void await(struct core *core, struct leg *leg, enum leg_state state)
{
    bool was = leg->state == LEG_AWAITED || leg->state == LEG_CHECKING || (leg->state == LEG_STOPPING && is_push(leg));
    bool is = state == LEG_AWAITED || state == LEG_CHECKING || (state == LEG_STOPPING && is_push(leg));
    if (path_is_far(core->c.path[leg_rank(leg)]))
        core->serving = core->serving + is - was;
    leg->state = state;
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

static void say(struct core *core, struct speaker *speaker)
{
    struct leg *leg = (struct leg *)((char *)speaker - offsetof(struct leg, speaker));
    if (leg->state == LEG_DOUBTED && leg->doubts++ == DOUBTS_MOST)
        fail(core, leg, BATON_ESTALE, "the lease's generation is another, and its producer does not say why");
    else if (leg->state == LEG_STOPPING)
        leg_send_cancel(core, leg);
    else if (leg->state == LEG_CHECKING)
        check_ask(core, leg->check);
    else
        leg_send_want(core, leg);
}

static void speak(struct core *core, struct leg *leg)
{
    speaker_begin(core, &leg->speaker, leg_rank(leg), say);
}

/* It was heard: the first pause begins anew. */
static void pause(struct core *core, struct leg *leg)
{
    speaker_pause(core, &leg->speaker, leg_rank(leg), say);
}

static void hush(struct core *core, struct leg *leg)
{
    speaker_stop(core, &leg->speaker);
}

/* ---- the answers ------------------------------------------------------------------------------------------------- */

static bool awaits_more(const struct leg *leg)
{
    return leg->state == LEG_MOVING && mover_awaits_more(leg->mover);
}

static void refuse_tables(struct core *core, struct leg *leg, int error)
{
    count_add(&core->stats.messages_bad, error == BATON_EMESSAGE);
    fail(core, leg, error, error == BATON_EMESSAGE ? "its block tables are outside its card, or of another lease" : "");
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
    int rc = mover_ready(core, leg->mover, reach, table);
    if (rc != 0) {
        refuse_tables(core, leg, rc);
        return;
    }
    pause(core, leg);
    if (!awaits_more(leg))
        hush(core, leg);
}

static void on_ready(struct core *core, struct leg *leg, const struct wire_ready *m)
{
    struct peer_table table = {.entries = m->table_entries, .generation = m->generation, .offset = m->table_offset};
    on_more(core, leg, &table, &(struct reach){m->tokens_done, m->tokens_next, m->layer_end});
}

/* A lease was granted, perhaps with its tables, or taken. */
static void read_lease(struct core *core, struct leg *leg, const struct peer_table *table,
                       const struct wire_bytes *sent, const struct reach *reach)
{
    const struct call *call = leg->ask->call;
    struct mover_job job = {.table = *table,
                            .sent = *sent,
                            .held = call->want.held_tokens,
                            .num_tokens = call->want.num_tokens,
                            .mine = &call->tables,
                            .want = call->id,
                            .reach = *reach};
    leg->ask->call->end.event.wait_ns = core->now - call->submitted_ns;
    leg->state = LEG_MOVING;
    int rc = mover_start(core, leg->mover, &job);
    if (rc != 0)
        refuse_tables(core, leg, rc);
}

static void on_grant(struct core *core, struct leg *leg, const struct wire_grant *m)
{
    struct peer_table table = {m->slot, m->table_entries, m->generation, m->table_offset};
    if (leg->state == LEG_AWAITED) {
        leg->generation = m->generation; /* of the offer that writes by now */
        ask_take_attached(leg->ask, leg->index, &m->attach);
    }
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
    leg->generation = m->generation;
    ask_take_attached(leg->ask, leg->index, &m->attach);
    if (is_push(leg)) {
        leg->ask->call->end.event.wait_ns = core->now - leg->ask->call->submitted_ns;
        await(core, leg, LEG_AWAITED);
        return;
    }
    leg->is_repeated = m->asks != leg->asks;
    leg_hold(core, leg, m->slot);
    if (!m->partial) /* else its READYs come with the answers to what is repeated */
        hush(core, leg);
    read_lease(core, leg, &table, &m->table, m->partial ? &(struct reach){0} : &REACH_WHOLE);
}

static void add_bytes(struct leg *leg, baton_path_t path, uint64_t bytes)
{
    leg->ask->call->end.event.bytes += bytes;
    leg->ask->call->end.event.path_bytes[path] += bytes;
}

static void fenced(struct core *core, struct leg *leg)
{
    hush(core, leg);
    await(core, leg, LEG_FENCED);
    leg->ask->fenced++;
    ask_tell(leg->ask);
}

/* All bytes are there. */
static void landed(struct core *core, struct leg *leg)
{
    if (!core->c.settings->checksum) {
        fenced(core, leg);
        return;
    }
    await(core, leg, LEG_CHECKING);
    pause(core, leg);
    struct check_job job = {leg, leg->ask->want, leg->contact, leg->ask->call};
    leg_on_checked(core, leg, check_begin(core, &job, &leg->check), "");
}

void leg_on_checked(struct core *core, struct leg *leg, int how, const char *detail)
{
    if (how != CHECK_OPEN)
        leg->check = NULL;
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
    const struct call *c = leg->ask->call;
    struct plan_transfer t;
    struct plan_why why;
    int rc = plan_transfer_init(&t, contact_plan(leg->contact), c->want.held_tokens, c->want.num_tokens, NULL,
                                &c->tables, &why);
    return rc == 0 && t.bytes == bytes;
}

/* The producer wrote all, or wrote what it wrote and writes no more. */
static void on_written(struct core *core, struct leg *leg, const struct wire_written *m)
{
    if (m->asks != leg->asks) /* one that asked later is on its way there, and might begin another writing */
        return;
    if (leg->state == LEG_STOPPING) {
        on_quiet(core, leg);
    } else if (m->error != 0) {
        leg->let_go = true;
        fail(core, leg, m->error, m->detail);
    } else if (leg->state != LEG_ASKED && leg->state != LEG_AWAITED) {
        return;
    } else if (!is_all(leg, m->bytes)) {
        count_add(&core->stats.messages_bad, 1);
        fail(core, leg, BATON_EMESSAGE, "it wrote other bytes than were wanted of it");
    } else {
        add_bytes(leg, (baton_path_t)m->path, m->bytes);
        ask_take_attached(leg->ask, leg->index, &m->attach);
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
            pause(core, leg);
        return;
    }
    leg->owes_end = m->generation != 0; /* an offer refused, and waits for this rank's end like any other */
    if (m->generation != 0 && m->generation != leg->generation) {
        leg->has_taken = false; /* what it had taken has ended, since another offer of the key refuses */
        leg->generation = m->generation;
    }
    if (leg->state == LEG_STOPPING) {
        on_quiet(core, leg);
    } else {
        leg->let_go = true;
        fail(core, leg, m->error, m->detail);
    }
}

void leg_on_message(struct core *core, struct leg *leg, const struct wire_message *m)
{
    struct plan_why why = {{0}};
    if (!leg->known)
        return;
    if (m->type == WIRE_GRANT)
        on_grant(core, leg, &m->grant);
    else if (m->type == WIRE_NACK)
        on_nack(core, leg, &m->nack);
    else if (m->type == WIRE_SUMS)
        leg_on_checked(core, leg, leg->check != NULL ? check_on_sums(core, leg->check, m, &why) : CHECK_OPEN, why.text);
    else if (m->type == WIRE_READY)
        on_ready(core, leg, &m->ready);
    else if (!is_push(leg))
        return; /* a pull waits for no word of the producer: it writes nothing here */
    else if (m->type == WIRE_WRITTEN)
        on_written(core, leg, &m->written);
    else if (leg->state == LEG_STOPPING) {
        /* CLOSED: quiet; or not known, and by the order of messages it never will be. The CANCEL named no offer, which
         * RELEASE will do; or no offer to come would know of the end. */
        leg->owes_end = leg->generation == 0 || m->closed.quiet == WIRE_NOT_KNOWN;
        on_quiet(core, leg);
    }
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* A lease that was taken is a grant that came at once. */
static void on_taken(struct core *core, struct leg *leg, const struct handoff_grant *grant)
{
    const struct handoff_offer *o = &grant->offer;
    ask_take_attached(leg->ask, leg->index, &(struct wire_bytes){o->num_attach, o->attach});
    read_lease(core, leg, &(struct peer_table){grant->slot, o->table_entries, grant->generation, o->table_offset},
               &(struct wire_bytes){0}, &REACH_WHOLE);
}

/* By its generation, which was read in memory: it has ended for sure. */
static void lease_ended(struct core *core, struct leg *leg)
{
    char why[96];
    int error = leg_why(core, leg, why, sizeof why);
    fail(core, leg, error, why);
}

static int ask(struct core *core, struct leg *leg)
{
    struct handoff_grant grant;
    int rc = peer_begin(core, leg_rank(leg));
    if (rc != 0)
        return rc;
    leg->busy = true;
    ends_take_back(core, leg_rank(leg), leg->ask->want); /* it was released before it was turned to */
    leg->state = LEG_ASKED;
    enum handoff_taken taken = leg_take(core, leg, &grant);
    if (taken == HANDOFF_TAKEN) {
        on_taken(core, leg, &grant);
    } else if (taken == HANDOFF_TOO_LATE) {
        lease_ended(core, leg);
    } else {
        speak(core, leg);
    }
    return 0;
}

/* ---- another rank in the place of one that failed ---------------------------------------------------------------- */

/* The next rank to turn to: of this node first. NULL: none. */
static struct contact *another(struct core *core, const struct leg *leg)
{
    uint32_t num;
    const uint32_t *spares = link_spares(leg->ask->link, &num);
    for (int far = 0; far <= 1; far++)
        for (uint32_t i = 0; i < num; i++) {
            uint32_t rank = spares[i];
            if (path_is_far(core->c.path[rank]) != far || peer_is_lost(core, rank) || ask_knows(leg->ask, rank))
                continue;
            struct contact *c = link_spare(core, leg->contact, rank);
            if (c != NULL)
                return c;
        }
    return NULL;
}

/* The leg is quiet: it begins anew with the next rank that can be asked. */
static void turn(struct core *core, struct leg *leg)
{
    struct contact *next;
    int rc = leg->error;
    if (leg->has_taken)
        leg_give_back(core, leg, leg->error);
    if (leg->busy)
        peer_end(core, leg_rank(leg));
    leg->busy = leg->let_go = leg->owes_end = leg->is_repeated = false;
    while ((next = another(core, leg)) != NULL) {
        struct ask_left left = {leg_rank(leg), leg->generation};
        if (!ask_turn(leg->ask, leg->index, &left, contact_peer(next)))
            break;
        mover_destroy(core, leg->mover);
        leg->contact = next;
        leg->known = false;
        leg->asks = 0;
        leg->generation = 0;
        count_add(&core->stats.retries, 1);
        log_line(core->c.log, LOG_INFO, "want %s turns to rank %u", leg->ask->call->key, contact_peer(next));
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
    give_up(leg, rc, "no other rank is left");
}

/* Turns to another rank that holds the same. False: there is none, or it would not be safe: the want fails. */
static bool retry(struct core *core, struct leg *leg, int error)
{
    bool reads = leg->state == LEG_MOVING || leg->state == LEG_DOUBTED;
    bool can = error == BATON_EPEER || error == BATON_ESTALE || error == BATON_EMPI || (error == BATON_EGONE && reads);
    if (!can || is_push(leg) || core->c.settings->checksum || leg->ask->is_over || leg->state == LEG_FENCED ||
        another(core, leg) == NULL)
        return false;
    hush(core, leg);
    contact_leave(core, leg->contact, &leg->card);
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

static void start(struct core *core, struct leg *leg)
{
    int rc = ask(core, leg);
    if (rc != 0)
        fail(core, leg, rc, rc == BATON_EPEER ? "it is lost" : "");
}

int leg_begin(struct core *core, struct leg *leg)
{
    leg->mover = mover_create(core, OP_LEG, leg, leg->contact, false);
    if (leg->mover == NULL)
        return BATON_ENOMEM;
    start(core, leg);
    return 0;
}

void leg_on_contact(struct core *core, struct leg *leg)
{
    const char *why = contact_refusal(leg->contact);
    leg->state = LEG_ASKED;
    if (why != NULL)
        fail(core, leg, BATON_EGEOMETRY, why);
    else
        start(core, leg);
}

/* ---- the mover --------------------------------------------------------------------------------------------------- */

/* Where it can turn to no other rank: the offer may just have ended, and the word of that be on its way. */
static void doubt(struct core *core, struct leg *leg)
{
    leg->state = LEG_DOUBTED;
    leg->doubts = 0;
    speak(core, leg);
}

static void on_moved(struct core *core, struct leg *leg, int error, const char *detail)
{
    if (leg->state != LEG_MOVING)
        return;
    if (error == BATON_ESTALE) {
        if (retry(core, leg, error))
            return;
        if (!leg->has_taken) {
            doubt(core, leg);
            return;
        }
        lease_ended(core, leg);
        return;
    }
    if (error != 0) {
        fail(core, leg, error, detail);
        return;
    }
    for (baton_path_t path = BATON_PATH_NONE + 1; path < BATON_PATHS; path++)
        add_bytes(leg, path, tally_by(core, mover_tally(leg->mover), path));
    landed(core, leg);
}

void leg_on_mover(struct core *core, struct leg *leg, const struct mover_word *word)
{
    if (word->what == MOVER_MOVED)
        on_moved(core, leg, word->error, word->detail);
    else
        on_quiet(core, leg);
}

/* ---- giving up --------------------------------------------------------------------------------------------------- */

static void close_leg(struct core *core, struct leg *leg)
{
    hush(core, leg);
    await(core, leg, LEG_CLOSED);
    leg->ask->closed++;
}

static void on_quiet(struct core *core, struct leg *leg)
{
    if (leg->leaves) {
        leg->leaves = false;
        turn(core, leg);
        return;
    }
    close_leg(core, leg);
    ask_tell(leg->ask);
}

void leg_stop(struct core *core, struct leg *leg)
{
    bool written = leg->state == LEG_CHECKING || leg->state == LEG_FENCED;
    bool writes = is_push(leg) && leg->known && !leg->let_go && !written;
    hush(core, leg);
    check_stop(core, leg->check);
    leg->check = NULL;
    contact_leave(core, leg->contact, &leg->card);
    leg->leaves = false;
    if (writes && peer_is_ended(core, leg_rank(leg))) {
        close_leg(core, leg);
    } else if (writes) {
        await(core, leg, LEG_STOPPING);
        speak(core, leg);
    } else if (mover_stop(core, leg->mover)) {
        close_leg(core, leg);
    } else {
        await(core, leg, LEG_STOPPING);
    }
}

static void leg_fini(struct core *core, struct leg *leg)
{
    hush(core, leg);
    check_stop(core, leg->check);
    contact_leave(core, leg->contact, &leg->card);
    if (leg->state == LEG_AWAITED || leg->state == LEG_CHECKING || leg->state == LEG_STOPPING)
        await(core, leg, LEG_CLOSED);
    mover_destroy(core, leg->mover);
    if (leg->busy)
        peer_end(core, leg_rank(leg));
}

void leg_lose(struct core *core, struct leg *leg)
{
    if (leg->state == LEG_ASKED || leg->state == LEG_MOVING || leg->state == LEG_AWAITED ||
        leg->state == LEG_CHECKING || leg->state == LEG_HANDSHAKE || leg->state == LEG_DOUBTED)
        fail(core, leg, BATON_EPEER, peer_is_dead(core, leg_rank(leg)) ? "it is gone" : "it is silent");
    else if (leg->state == LEG_STOPPING &&
             (is_push(leg) ? peer_is_ended(core, leg_rank(leg)) : mover_lose(core, leg->mover)))
        on_quiet(core, leg);
}

void leg_tell_end(struct core *core, struct leg *leg, int error)
{
    if (leg->told || leg->state == LEG_STOPPING)
        return;
    leg->told = true;
    bool is_heard = leg->has_taken && !leg->is_repeated;
    if (leg->has_taken)
        leg_give_back(core, leg, error);
    if (!is_heard && (!leg->let_go || leg->owes_end))
        ask_tell_end(core, leg->ask, leg_rank(leg), leg->generation, error);
}

/* ---- the legs of a want ------------------------------------------------------------------------------------------ */

struct leg *legs_create(struct ask *ask)
{
    struct leg *legs = reap_new(ask->num_legs * sizeof *legs);
    for (uint32_t i = 0; legs != NULL && i < ask->num_legs; i++) {
        legs[i].ask = ask;
        legs[i].index = i;
        legs[i].contact = link_contact(ask->link, i);
    }
    return legs;
}

void legs_destroy(struct core *core, struct leg *legs, uint32_t num)
{
    if (legs == NULL)
        return;
    for (uint32_t i = 0; i < num; i++)
        leg_fini(core, &legs[i]);
    reap_add(&core->reap, legs);
}

struct leg *leg_at(struct leg *legs, uint32_t i)
{
    return &legs[i];
}

struct leg *leg_waiting(struct queued *card)
{
    return (struct leg *)((char *)card - offsetof(struct leg, card));
}

enum leg_state leg_state(const struct leg *leg)
{
    return leg->state;
}

uint32_t leg_rank(const struct leg *leg)
{
    return contact_peer(leg->contact);
}
