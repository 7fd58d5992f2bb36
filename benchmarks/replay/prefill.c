/* SPDX-License-Identifier: BSD-3-Clause */
/* prefill: see prefill.h. Blocks are poisoned the moment that the offer's event says they are free. */
#include "replay/prefill.h"

#include "model/model.h"
#include "replay/clock.h"
#include "replay/sabotage.h"

static uint32_t held(const struct engine *e, uint32_t request, uint32_t num_tokens)
{
    (void)e;
    (void)request;
    (void)num_tokens;
    return 0;
}

static bool may_begin(struct engine *e, uint32_t request)
{
    /* The gate of a broken request needs a block beside the request's own. */
    return !sabotage_needs_gate(e, request) || engine_has_spare(e, request);
}

static void fill(struct engine *e, struct slot *s)
{
    const struct pattern_table t = engine_table(e, s);
    const uint64_t start = clock_ns();
    pattern_fill(&e->pattern, &t);
    e->tally.fill_ns += clock_ns() - start;
    e->tally.fill_bytes += model_wanted_bytes(e->pattern.geometry, 0, s->num_tokens);
    sabotage_prepared(e, s);
}

static int offer(struct engine *e, struct slot *s, const char *key)
{
    const char *consumer = e->meet->engines[SIDE_DECODE][s->request % e->meet->num_engines[SIDE_DECODE]].name;
    baton_offer_params_t params = {.key = key,
                                   .num_tokens = s->num_tokens,
                                   .ttl_ms = e->options->timeout_ms,
                                   .num_consumers = 1,
                                   .consumers = &consumer,
                                   .user = s};
    if (e->num_groups == 1) {
        params.blocks = s->tables[0].blocks;
        params.num_blocks = s->tables[0].num_blocks;
    } else {
        params.tables = s->tables;
        params.num_tables = e->num_groups;
    }
    return baton_offer(e->baton, &params, NULL, &s->id);
}

static void offered(struct engine *e, struct slot *s)
{
    if (!s->gate)
        e->tally.offers[0]++;
    sabotage_offered(e, s);
}

static void finish(struct engine *e, struct slot *s, const baton_event_t *event)
{
    if (event->status != BATON_STATUS_DONE)
        engine_complain(e, "the offer of request %u ended %s: %s: %s", s->request,
                        event->status == BATON_STATUS_EXPIRED ? "expired" : "without success",
                        baton_strerror(event->error), event->detail);
    if (!s->gate && event->status >= BATON_STATUS_DONE && event->status <= BATON_STATUS_CANCELLED)
        e->tally.offers[event->status]++;
}

const struct engine_job prefill_job = {.held = held,
                                       .may_begin = may_begin,
                                       .prepare = fill,
                                       .call = offer,
                                       .accepted = offered,
                                       .finish = finish,
                                       .poison = PATTERN_POISON_PRODUCER};
