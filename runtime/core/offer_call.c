/* SPDX-License-Identifier: BSD-3-Clause */
/* offer_call: what its caller does to an offer: offers, and says what is in place by now, see offer.h. */
#include <stdio.h>
#include <string.h>

#include "core/offer_inside.h"
#include "core/outcome.h"
#include "core/state.h"
#include "wire/table.h"

/* ---- it is offered ----------------------------------------------------------------------------------------------- */

/* The entries that its tables will have when all chunks are there. */
static uint32_t entries_in_the_end(const struct call *call)
{
    struct plan_tables all = call->tables;
    for (uint32_t i = 0; i < all.num; i++)
        all.table[i].num_blocks = call->offer.room[i];
    return wire_table_entries(&all);
}

static struct reach reach_at_first(const struct core *core, const struct call_offer *offer)
{
    if (offer->in_chunks)
        return (struct reach){0, 0, UINT32_MAX};
    if (offer->in_layers)
        return (struct reach){0, UINT32_MAX, core->c.geometry->layer_first};
    return REACH_WHOLE;
}

void offer_submit(struct core *core, struct call *call)
{
    struct lease lease;
    struct word word;
    if (core->shut) {
        outcome_fail(core, call, BATON_ECLOSED, "");
        return;
    }
    if (offer_find(core, call->key, call->attempt) != NULL) {
        outcome_refuse(core, call, "offer the key again after the event of its former offer");
        return;
    }
    int rc = lease_open(core->leases, &call->tables, entries_in_the_end(call), &lease);
    if (rc != 0) {
        outcome_fail(core, call, rc, "no lease slot or no room for the block table (BATON_LEASES, BATON_TABLE_BYTES)");
        return;
    }
    struct attempt *a = attempt_make(core, call->key, call->attempt);
    struct offer *o = a != NULL ? offer_create(core, a, call, &lease) : NULL;
    if (o == NULL) {
        lease_end(core->leases, &lease);
        if (a != NULL)
            attempt_release(core, a); /* unless words wait there */
        outcome_fail(core, call, BATON_ENOMEM, "");
        return;
    }
    o->reach = reach_at_first(core, &call->offer);
    while (waiter_take(core, a, &word))
        offer_meet(core, o, &word);
}

/* ---- more of it is in place -------------------------------------------------------------------------------------- */

/* Its time to live begins anew: the prefill goes on. */
static void live_anew(struct core *core, struct offer *o)
{
    offer_until(core, o, core->now + o->call->offer.ttl_ms * NS_PER_MS);
}

/* Notes layers that are ready. How many of mine are, without a gap. */
static uint32_t note_layers(const struct core *core, struct offer *o, const struct call_ready *ready)
{
    uint32_t first = core->c.geometry->layer_first, count = core->c.geometry->layer_count;
    uint32_t n = o->reach.layer_end - first;
    for (uint32_t i = 0; i < count; i++)
        if (first + i >= ready->layer_first && first + i - ready->layer_first < ready->layer_count)
            o->ready[i / 8] |= (uint8_t)(1u << (i % 8));
    while (n < count && (o->ready[n / 8] >> (n % 8) & 1))
        n++;
    return n;
}

void offer_ready(struct core *core, const struct call *word)
{
    struct offer *o = offer_of(core, word->id);
    if (o == NULL || o->state != OFFER_LIVE)
        return;
    const struct call_offer *offer = &o->call->offer;
    uint32_t chunk = word->ready.chunk_tokens;
    live_anew(core, o);
    if (!offer->in_layers) {
        offer_fail(core, o, BATON_EINVAL, "layers were said to be ready, and it was not offered in layers");
        return;
    }
    if (offer->in_chunks && chunk == 0) {
        offer_fail(core, o, BATON_EINVAL, "baton_ready on a chunked offer needs the chunk's tokens");
        return;
    }
    bool newest = chunk == 0 || chunk == o->reach.next || (chunk == offer->num_tokens && o->reach.next == UINT32_MAX);
    if (o->reach.done == o->reach.next || !newest)
        return; /* the chunk is all there */
    uint32_t first = core->c.geometry->layer_first, before = o->reach.layer_end;
    uint32_t n = note_layers(core, o, &word->ready);
    o->reach.layer_end = first + n;
    if (n == core->c.geometry->layer_count)
        o->reach = (struct reach){o->reach.next, o->reach.next, UINT32_MAX};
    if (first + n > before)
        offer_tell_reach(core, o);
}

/* Whether its tables have a block for each token before `end` that may be wanted of it. */
static int tables_reach(const struct core *core, const struct offer *o, uint32_t end, struct plan_why *why)
{
    const struct plan_tables *t = &o->call->tables;
    for (uint32_t i = 0; i < t->num; i++) {
        baton_group_t group = core->c.geometry->groups[i];
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
        offer_fail(core, o, rc, why.text);
        return;
    }
    uint32_t tokens = word->append.num_tokens, next = tokens < o->call->offer.num_tokens ? tokens : UINT32_MAX;
    if (o->ready != NULL) { /* with the next chunk begun, the one before is in place */
        memset(o->ready, 0, core->c.geometry->layer_count / 8 + 1);
        o->reach = (struct reach){o->reach.next, next, core->c.geometry->layer_first};
    } else {
        o->reach = (struct reach){next, next, UINT32_MAX};
    }
    live_anew(core, o);
    offer_tell_reach(core, o);
}
