/* SPDX-License-Identifier: BSD-3-Clause */
/* check: see check.h. */
#include "core/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "core/link.h"
#include "core/post.h"
#include "core/state.h"

struct check {
    struct op op; /* first */
    struct check *prev, *next;
    struct check_job job;              /* consumer; leg NULL: it was given up */
    struct check_question asked;       /* producer */
    baton_id_t offer;                  /* producer: the one that was granted when it was asked */
    uint32_t num_parts, summed, slice; /* slice: parts that are being hashed; 0: none */
    uint64_t *mine;
    uint64_t *theirs; /* consumer */
    bool *has;        /* consumer: by part, whether theirs came */
    uint32_t got;
    struct plan_tables tables; /* mine, copied */
    uint32_t *blocks;
    struct plan_transfer transfer; /* of my side alone */
};

/* Producer: a question of a rank whose card is read. */
struct waiting {
    struct waiting *prev, *next;
    struct timer timer; /* forgets it: by then the reading has failed */
    uint32_t peer;
    struct wire_message question;
};

struct checks {
    struct check *first;
    struct waiting *waiting;
};

static void check_free(struct core *core, struct check *c)
{
    DL_DELETE(core->checks->first, c);
    op_remove(&core->ops, &c->op);
    free(c->mine);
    free(c->theirs);
    free(c->has);
    free(c->blocks);
    reap_add(&core->reap, c);
}

static bool tables_copy(struct check *c, const struct call *call)
{
    uint32_t at = 0;
    c->blocks = malloc((call->num_blocks > 0 ? call->num_blocks : 1) * sizeof *c->blocks);
    if (c->blocks == NULL)
        return false;
    c->tables = call->tables;
    for (uint32_t i = 0; i < call->tables.num; i++) {
        const baton_table_t *table = &call->tables.table[i];
        c->tables.table[i].blocks = c->blocks + at;
        if (table->num_blocks > 0)
            memcpy(c->blocks + at, table->blocks, table->num_blocks * sizeof *c->blocks);
        at += table->num_blocks;
    }
    return true;
}

/* 0 and *out, BATON_ENOMEM, or what the tables lack. */
static int check_create(struct core *core, const struct plan *plan, uint32_t held, uint32_t tokens,
                        const struct call *call, bool for_leg, struct check **out)
{
    struct plan_why why;
    struct check *c = reap_new(sizeof *c);
    if (c == NULL)
        return BATON_ENOMEM;
    DL_APPEND(core->checks->first, c);
    int rc = tables_copy(c, call) ? 0 : BATON_ENOMEM;
    if (rc == 0)
        rc = plan_transfer_init(&c->transfer, plan, held, tokens, for_leg ? NULL : &c->tables,
                                for_leg ? &c->tables : NULL, &why);
    if (rc == 0) {
        c->num_parts = plan_num_parts(&c->transfer);
        c->mine = calloc(c->num_parts + 1, sizeof *c->mine);
        c->theirs = for_leg ? calloc(c->num_parts + 1, sizeof *c->theirs) : NULL;
        c->has = for_leg ? calloc(c->num_parts + 1, sizeof *c->has) : NULL;
        rc = c->mine == NULL || (for_leg && (c->theirs == NULL || c->has == NULL)) ? BATON_ENOMEM : 0;
    }
    if (rc == 0)
        rc = op_add(&core->ops, &c->op, OP_CHECK);
    if (rc != 0) {
        check_free(core, c);
        return rc;
    }
    *out = c;
    return 0;
}

/* ---- hashing ----------------------------------------------------------------------------------------------------- */

static void sum_on(struct core *core, struct check *c)
{
    uint32_t left = c->num_parts - c->summed;
    if (c->slice > 0 || left == 0)
        return;
    uint64_t a_part = c->transfer.bytes / c->num_parts + 1, most = core->c.settings->chunk_bytes / a_part + 1;
    uint32_t n = most < left ? (uint32_t)most : left;
    if (core->c.port->sum(core->c.port->self, &c->transfer, c->theirs == NULL, c->summed, n, &c->mine[c->summed],
                          c->op.tag) == 0)
        c->slice = n;
}

void checks_run(struct core *core)
{
    struct check *c;
    DL_FOREACH(core->checks->first, c)
    {
        sum_on(core, c);
    }
}

static int compare(struct core *core, struct check *c, struct plan_why *why)
{
    uint32_t i = 0;
    if (c->summed < c->num_parts || c->got < c->num_parts)
        return CHECK_OPEN;
    while (i < c->num_parts && c->mine[i] == c->theirs[i])
        i++;
    bool good = i == c->num_parts;
    if (!good)
        snprintf(why->text, sizeof why->text, "block %u of %u has another hash than the producer's", i, c->num_parts);
    check_free(core, c);
    return good ? CHECK_GOOD : BATON_ECHECKSUM;
}

static void send_sums(struct core *core, const struct check *c)
{
    for (uint32_t first = 0; first < c->num_parts && !post_waits(core->post, c->asked.peer); first += WIRE_LIST_MAX) {
        uint32_t left = c->num_parts - first; /* what finds no credits is asked for again */
        struct wire_message m = {
            .type = WIRE_SUMS,
            .want_id = c->asked.want,
            .sums = {.first = first,
                     .hashes = {.num = left < WIRE_LIST_MAX ? left : WIRE_LIST_MAX, .out = &c->mine[first]}}};
        post_send(core->post, c->asked.peer, &m);
    }
}

static void refuse(struct core *core, uint32_t peer, uint64_t want, int32_t error)
{
    struct wire_message m = {.type = WIRE_SUMS, .want_id = want, .sums.error = error};
    post_send(core->post, peer, &m);
}

int check_on_event(struct core *core, struct check *c, int error, struct leg **leg, struct plan_why *why)
{
    bool is_asked = c->theirs == NULL;
    c->summed += c->slice;
    c->slice = 0;
    *leg = c->job.leg;
    if (error == 0 && is_asked)
        return c->summed == c->num_parts ? CHECK_GOOD : CHECK_OPEN;
    if (error == 0 && c->job.leg != NULL)
        return compare(core, c, why);
    if (is_asked)
        refuse(core, c->asked.peer, c->asked.want, error);
    snprintf(why->text, sizeof why->text, "the blocks that arrived could not be hashed");
    check_free(core, c); /* it failed, or was given up meanwhile */
    return error;
}

const struct check_question *check_asked(const struct check *c)
{
    return &c->asked;
}

void check_answer(struct core *core, struct check *c, const struct call *granted)
{
    if (granted != NULL && granted->id == c->offer)
        send_sums(core, c);
    else
        refuse(core, c->asked.peer, c->asked.want, core->shut ? BATON_ECLOSED : BATON_EGONE);
    check_free(core, c);
}

/* ---- the consumer ------------------------------------------------------------------------------------------------ */

void check_ask(struct core *core, const struct check *c)
{
    const struct call *call = c->job.call;
    struct wire_message m = {
        .type = WIRE_CHECK,
        .want_id = c->job.want,
        .check = {.name.attempt = call->attempt, .tokens = call->want.num_tokens, .held = call->want.held_tokens}};
    memcpy(m.check.name.key, call->key, sizeof m.check.name.key);
    post_send(core->post, contact_peer(c->job.contact), &m);
}

int check_begin(struct core *core, const struct check_job *job, struct check **out)
{
    const struct call *call = job->call;
    struct check *c;
    int rc =
        check_create(core, contact_plan(job->contact), call->want.held_tokens, call->want.num_tokens, call, true, &c);
    if (rc != 0)
        return rc;
    if (c->num_parts == 0) { /* layers without a tensor have no bytes */
        check_free(core, c);
        return CHECK_GOOD;
    }
    c->job = *job;
    *out = c;
    check_ask(core, c);
    return CHECK_OPEN;
}

void check_stop(struct core *core, struct check *c)
{
    if (c == NULL)
        return;
    c->job.leg = NULL;
    if (c->slice == 0)
        check_free(core, c); /* else a worker reads the blocks, which harms nobody, and writes into c */
}

int check_on_sums(struct core *core, struct check *c, const struct wire_message *m, struct plan_why *why)
{
    const struct wire_sums *sums = &m->sums;
    if (sums->error != 0) {
        snprintf(why->text, sizeof why->text, "the producer could not tell the hashes of its blocks");
        check_stop(core, c);
        return sums->error;
    }
    if (sums->first >= c->num_parts || sums->hashes.num > c->num_parts - sums->first) {
        count_add(&core->stats.messages_bad, 1);
        return CHECK_OPEN;
    }
    for (uint32_t i = 0; i < sums->hashes.num; i++) {
        c->theirs[sums->first + i] = wire_list_at(&sums->hashes, i);
        c->got += !c->has[sums->first + i];
        c->has[sums->first + i] = true;
    }
    return compare(core, c, why);
}

/* ---- the producer ------------------------------------------------------------------------------------------------ */

static void waiting_free(struct core *core, struct waiting *w)
{
    timer_stop(&core->timers, &w->timer);
    DL_DELETE(core->checks->waiting, w);
    reap_add(&core->reap, w);
}

static void on_waited(struct core *core, struct timer *t)
{
    waiting_free(core, (struct waiting *)((char *)t - offsetof(struct waiting, timer)));
}

/* Until its rank's card is there. What finds no place is asked again. */
static void keep(struct core *core, uint32_t peer, const struct wire_message *m)
{
    struct waiting *w;
    DL_FOREACH(core->checks->waiting, w)
    {
        if (w->peer == peer && w->question.want_id == m->want_id)
            return;
    }
    w = checks_waiting(core) < core->c.settings->requests ? reap_new(sizeof *w) : NULL;
    if (w == NULL)
        return;
    w->peer = peer;
    w->question = *m;
    DL_APPEND(core->checks->waiting, w);
    timer_arm(&core->timers, &w->timer, core->now + core->c.settings->handshake_ms * NS_PER_MS, on_waited);
}

bool checks_take_waiting(struct core *core, uint32_t peer, struct wire_message *m)
{
    struct waiting *w;
    DL_FOREACH(core->checks->waiting, w)
    {
        if (w->peer != peer)
            continue;
        *m = w->question;
        waiting_free(core, w);
        return true;
    }
    return false;
}

uint32_t checks_waiting(const struct core *core)
{
    const struct waiting *w;
    uint32_t n;
    DL_COUNT(core->checks->waiting, w, n);
    return n;
}

void check_on_ask(struct core *core, uint32_t peer, const struct wire_message *m, const struct call *granted)
{
    int error = granted == NULL                               ? (core->shut ? BATON_ECLOSED : BATON_EGONE)
                : m->check.tokens > granted->offer.num_tokens ? BATON_ETOKENS
                                                              : 0;
    struct contact *t = error == 0 ? target_of(core, peer, &error) : NULL;
    bool same_rules = core->c.directory->rows[peer].rules == PLAN_RULES;
    if (t != NULL && (contact_refusal(t) != NULL || !same_rules))
        error = BATON_EGEOMETRY;
    if (error != 0) {
        refuse(core, peer, m->want_id, error);
        return;
    }
    struct check *c;
    uint32_t asked = 0; /* mine are not counted: else two engines that serve each other could wait for each other */
    DL_FOREACH(core->checks->first, c)
    {
        asked += c->theirs == NULL;
        if (c->theirs == NULL && c->asked.peer == peer && c->asked.want == m->want_id)
            return; /* under way */
    }
    if (!contact_is_good(t)) {
        contact_want(core, t);
        keep(core, peer, m);
        return;
    }
    if (asked >= core->c.settings->requests)
        return; /* it asks again */
    error = check_create(core, contact_plan(t), m->check.held, m->check.tokens, granted, false, &c);
    if (error == BATON_ENOMEM)
        return; /* likewise */
    if (error != 0) {
        refuse(core, peer, m->want_id, error);
        return;
    }
    if (c->num_parts == 0) { /* nothing is exchanged with it: it has nothing to ask */
        check_free(core, c);
        refuse(core, peer, m->want_id, BATON_EGEOMETRY);
        return;
    }
    c->asked = (struct check_question){.name = m->check.name, .peer = peer, .want = m->want_id};
    c->offer = granted->id;
}

bool checks_know(const struct core *core, uint32_t peer)
{
    const struct check *c;
    DL_FOREACH(core->checks->first, c)
    {
        if (c->theirs == NULL && c->asked.peer == peer)
            return true;
    }
    return false;
}

void checks_forget(struct core *core, uint32_t peer)
{
    struct waiting *w, *next;
    DL_FOREACH_SAFE(core->checks->waiting, w, next)
    {
        if (w->peer == peer)
            waiting_free(core, w);
    }
}

int checks_create(struct core *core)
{
    core->checks = calloc(1, sizeof *core->checks);
    return core->checks != NULL ? 0 : BATON_ENOMEM;
}

void checks_destroy(struct core *core)
{
    while (core->checks != NULL && core->checks->first != NULL)
        check_free(core, core->checks->first);
    while (core->checks != NULL && core->checks->waiting != NULL)
        waiting_free(core, core->checks->waiting);
    free(core->checks);
}
