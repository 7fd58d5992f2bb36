/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check: a 64-bit hash of each block of a leg (BATON_CHECKSUM=1 at the consumer). When the bytes of a leg are proved to
 * have landed, the consumer hashes them where they lie now and asks the producer (CHECK) for the hashes of what it has
 * in its blocks; both go by the plan of that pair, which is the same on both sides, so layouts do not matter. Only
 * when all are equal does the leg count as done. Hashing is done by the copy workers, a slice at a time.
 */
#include "core/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check {
    struct op op; /* first */
    struct check *prev, *next;
    struct leg *leg; /* the consumer's; NULL: the producer's, or given up */
    uint32_t peer;
    uint64_t want;
    char key[BATON_KEY_MAX];            /* producer */
    uint64_t serial;                    /* producer: of the offer when it was asked */
    uint32_t num_blocks, summed, slice; /* slice: blocks that are being hashed; 0: none */
    uint64_t *mine;
    uint64_t *theirs; /* consumer */
    bool *has;        /* consumer: by block, whether theirs came */
    uint32_t got;
    uint32_t *blocks;
    struct plan_transfer transfer;
};

static void check_free(struct core *core, struct check *c)
{
    DL_DELETE(core->checks, c);
    core->num_checks--;
    op_remove(core, &c->op);
    free(c->mine);
    free(c->theirs);
    free(c->has);
    free(c->blocks);
    free(c);
}

static struct check *check_create(struct core *core, const struct plan *plan, uint32_t tokens, const uint32_t *blocks,
                                  bool for_leg)
{
    struct check *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    DL_APPEND(core->checks, c);
    core->num_checks++;
    c->num_blocks = (tokens - 1) / core->c.geometry->block_tokens + 1;
    c->mine = calloc(c->num_blocks, sizeof *c->mine);
    c->blocks = malloc(c->num_blocks * sizeof *c->blocks);
    c->theirs = for_leg ? calloc(c->num_blocks, sizeof *c->theirs) : NULL;
    c->has = for_leg ? calloc(c->num_blocks, sizeof *c->has) : NULL;
    if (c->mine == NULL || c->blocks == NULL || (for_leg && (c->theirs == NULL || c->has == NULL)) ||
        op_add(core, &c->op, OP_CHECK) != 0) {
        check_free(core, c);
        return NULL;
    }
    memcpy(c->blocks, blocks, c->num_blocks * sizeof *c->blocks);
    plan_transfer_init(&c->transfer, plan, tokens, c->blocks, c->blocks); /* of one side only: that side's ids */
    return c;
}

/* ---- hashing ----------------------------------------------------------------------------------------------------- */

static void sum_on(struct core *core, struct check *c)
{
    uint64_t a_block = c->transfer.bytes / c->num_blocks + 1, most = core->c.settings->chunk_bytes / a_block + 1;
    uint32_t left = c->num_blocks - c->summed, n = most < left ? (uint32_t)most : left;
    if (c->slice > 0 || left == 0)
        return;
    if (core->c.port->sum(core->c.port->self, &c->transfer, c->theirs == NULL, c->summed, n, &c->mine[c->summed],
                          c->op.tag) == 0)
        c->slice = n;
}

void checks_run(struct core *core)
{
    struct check *c;
    DL_FOREACH(core->checks, c)
    {
        sum_on(core, c);
    }
}

static void compare(struct core *core, struct check *c)
{
    char detail[96];
    uint32_t i = 0;
    if (c->summed < c->num_blocks || c->got < c->num_blocks)
        return;
    while (i < c->num_blocks && c->mine[i] == c->theirs[i])
        i++;
    snprintf(detail, sizeof detail, "block %u of %u (id %u here) has another hash than the producer's", i,
             c->num_blocks, i < c->num_blocks ? c->blocks[i] : 0);
    struct leg *leg = c->leg;
    bool good = i == c->num_blocks;
    leg->check = NULL;
    check_free(core, c);
    leg_on_checked(core, leg, good ? 0 : BATON_ECHECKSUM, detail);
}

static void send_sums(struct core *core, const struct check *c)
{
    for (uint32_t first = 0; first < c->num_blocks && core->unsent_to[c->peer] == 0; first += WIRE_SUMS_MOST) {
        uint32_t left = c->num_blocks - first; /* what finds no credits is asked for again */
        struct wire_message m = {.type = WIRE_SUMS,
                                 .want = c->want,
                                 .first = first,
                                 .num_sums = left < WIRE_SUMS_MOST ? left : WIRE_SUMS_MOST,
                                 .sums_out = &c->mine[first]};
        core_send(core, c->peer, &m);
    }
}

static void refuse(struct core *core, uint32_t peer, uint64_t want, int32_t error)
{
    struct wire_message m = {.type = WIRE_SUMS, .want = want, .error = error};
    core_send(core, peer, &m);
}

void check_on_event(struct core *core, struct check *c)
{
    c->summed += c->slice;
    c->slice = 0;
    if (c->theirs != NULL && c->leg == NULL) { /* given up meanwhile */
        check_free(core, c);
    } else if (c->theirs != NULL) {
        compare(core, c);
    } else if (c->summed == c->num_blocks) {
        const struct core_submit *s = offer_granted(core, c->key, c->peer, c->want);
        if (s != NULL && s->serial == c->serial)
            send_sums(core, c);
        else
            refuse(core, c->peer, c->want, BATON_EGONE);
        check_free(core, c);
    }
}

/* ---- the consumer ------------------------------------------------------------------------------------------------ */

void check_ask(struct core *core, const struct leg *leg)
{
    struct wire_message m = {.type = WIRE_CHECK, .want = leg->want->seq, .tokens = leg->want->submit->num_tokens};
    memcpy(m.key, leg->want->submit->key, sizeof m.key);
    core_send(core, leg->contact->peer, &m);
}

int check_begin(struct core *core, struct leg *leg)
{
    const struct core_submit *s = leg->want->submit;
    struct check *c = check_create(core, leg->contact->plan, s->num_tokens, s->blocks, true);
    if (c == NULL)
        return BATON_ENOMEM;
    c->leg = leg;
    leg->check = c;
    check_ask(core, leg);
    return 0;
}

void check_stop(struct core *core, struct leg *leg)
{
    struct check *c = leg->check;
    if (c == NULL)
        return;
    leg->check = NULL;
    c->leg = NULL;
    if (c->slice == 0)
        check_free(core, c); /* else a worker reads the blocks, which harms nobody, and writes into c */
}

void check_on_sums(struct core *core, struct leg *leg, const struct wire_message *m)
{
    struct check *c = leg->check;
    if (c == NULL)
        return;
    if (m->error != 0) {
        leg_on_checked(core, leg, m->error, "the producer could not tell the hashes of its blocks");
        return;
    }
    if (m->first >= c->num_blocks || m->num_sums > c->num_blocks - m->first) {
        core->stats.messages_bad++;
        return;
    }
    for (uint32_t i = 0; i < m->num_sums; i++) {
        c->theirs[m->first + i] = wire_sum(m, i);
        c->got += !c->has[m->first + i];
        c->has[m->first + i] = true;
    }
    compare(core, c);
}

/* ---- the producer ------------------------------------------------------------------------------------------------ */

void check_on_ask(struct core *core, uint32_t peer, const struct wire_message *m)
{
    const struct core_submit *s = offer_granted(core, m->key, peer, m->want);
    int error = s == NULL ? BATON_EGONE : m->tokens > s->num_tokens ? BATON_ETOKENS : 0;
    struct contact *t = error == 0 ? target_of(core, peer, &error) : NULL;
    if (t != NULL && t->state == CONTACT_REFUSED)
        error = BATON_EGEOMETRY;
    if (error != 0) {
        refuse(core, peer, m->want, error);
        return;
    }
    struct check *c;
    uint32_t asked = 0; /* mine are not counted: else two engines that serve each other could wait for each other */
    DL_FOREACH(core->checks, c)
    {
        asked += c->theirs == NULL;
        if (c->theirs == NULL && c->peer == peer && c->want == m->want)
            return; /* under way */
    }
    if (t->state != CONTACT_GOOD) { /* it asks again */
        contact_want(core, t);
        return;
    }
    if (asked >= core->c.settings->requests)
        return; /* likewise */
    c = check_create(core, t->plan, m->tokens, s->blocks, false);
    if (c == NULL)
        return;
    c->peer = peer;
    c->want = m->want;
    c->serial = s->serial;
    memcpy(c->key, m->key, sizeof c->key);
}

void checks_destroy(struct core *core)
{
    while (core->checks != NULL)
        check_free(core, core->checks);
}
