/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prefill: see prefill.h. Blocks are poisoned as soon as the offer's event says that they are free. With --stream each
 * request is filled step by step as time passes. The steps are the same for a request that is offered before the first
 * step, and told of each, and for one that is offered after the last.
 */
#include "replay/prefill.h"

#include <string.h>

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
    /* The gate needs a block beside those of the requests, whenever it comes. */
    return e->options->sabotage != SABOTAGE_STALE || engine_has_spare(e, request);
}

static void fill(struct engine *e, const struct slot *s, const struct stream_step *part)
{
    const struct pattern_table t = engine_table(e, s);
    const uint64_t start = clock_ns();
    pattern_fill_some(&e->pattern, &t, part->layers, part->tokens);
    e->phase.tally.fill_ns += clock_ns() - start;
    sabotage_prepared(e, s);
}

static void fill_all(struct engine *e, const struct slot *s)
{
    const struct stream_step all = {.tokens = {0, s->num_tokens}, .layers = {0, UINT32_MAX}};
    fill(e, s, &all);
}

static void count_filled(struct engine *e, const struct slot *s)
{
    e->phase.tally.fill_bytes += model_wanted_bytes(e->pattern.geometry, 0, s->num_tokens);
}

/* ---- a prefill that takes time ----------------------------------------------------------------------------------- */

static struct stream stream_of(const struct engine *e, const struct slot *s)
{
    const baton_geometry_t *g = e->pattern.geometry;
    return (struct stream){.flags = e->options->stream,
                           .num_tokens = s->num_tokens,
                           .chunk_tokens = e->options->chunk_tokens,
                           .tokens_per_s = e->options->prefill_tokens_per_s,
                           .layers = {g->layer_first, g->layer_first + g->layer_count},
                           .layers_total = g->layers_total};
}

/* Sets when the next step is due. A request that is offered at the end waits for the stages behind this one. False: no
   step is left. */
static bool next_step(const struct engine *e, struct slot *s)
{
    const struct stream stream = stream_of(e, s);
    s->due_ns = 0;
    if (!stream_next(&stream, &s->step))
        return false;
    struct stream_step behind = s->step;
    const bool waits = !s->streams && !stream_next(&stream, &behind);
    s->due_ns = s->begin_ns + (waits ? stream_ns(&stream) : stream_step_ns(&stream, &s->step));
    return true;
}

static void begin_prefill(const struct engine *e, struct slot *s)
{
    const struct stream stream = stream_of(e, s);
    s->begin_ns = clock_ns();
    s->step = stream_begin(&stream);
    next_step(e, s);
}

/* Blocks of a group's table that hold the first `tokens` tokens. A state has its block when all tokens are there. */
static uint32_t blocks_of(const struct engine *e, const struct slot *s, uint32_t group, uint32_t tokens)
{
    const baton_group_t *g = &e->share.groups[group];
    const baton_table_t *t = &s->tables[group];
    if (tokens == s->num_tokens)
        return t->num_blocks;
    if (g->kind == BATON_KIND_STATE || tokens <= t->first_token)
        return 0;
    return model_blocks(tokens - t->first_token, g->block_tokens);
}

/* The next chunk, with the blocks that no chunk before needed. */
static int append(const struct engine *e, const struct slot *s, uint32_t num_tokens)
{
    baton_append_params_t params = {.size = sizeof params, .num_tokens = num_tokens, .num_tables = e->num_groups};
    for (uint32_t g = 0; g < e->num_groups; g++) {
        const uint32_t given = blocks_of(e, s, g, s->given);
        params.tables[g] = (baton_table_t){.blocks = s->tables[g].blocks + given,
                                           .num_blocks = blocks_of(e, s, g, num_tokens) - given};
    }
    return baton_append(e->baton, s->id, &params);
}

/* Says that the step's bytes are in place. */
static int tell(const struct engine *e, struct slot *s)
{
    const struct stream_step *at = &s->step;
    if ((e->options->stream & BATON_OFFER_CHUNKS) != 0 && s->given < at->tokens.end) {
        const int rc = append(e, s, at->tokens.end);
        if (rc != 0)
            return rc;
        s->given = at->tokens.end;
    }
    if ((e->options->stream & BATON_OFFER_LAYERS) == 0)
        return 0;
    return baton_ready(e->baton, s->id, at->layers.first, at->layers.end - at->layers.first,
                       e->options->stream & BATON_OFFER_CHUNKS ? at->tokens.end : 0);
}

static void refused(struct engine *e, struct slot *s, int rc)
{
    e->phase.tally.refused++;
    engine_complain(e, "a part of request %u was refused: %s: %s", s->request, baton_errname(rc), baton_errmsg());
    baton_cancel(e->baton, s->id);
    s->due_ns = 0;
}

/* If Baton had no room to be told of a step, the same bytes are written once more when the step is due again. */
static void go_on(struct engine *e, struct slot *s)
{
    const struct stream stream = stream_of(e, s);
    struct stream_step behind = s->step;
    const bool last = !stream_next(&stream, &behind);
    if (!sabotage_is_late(e, s->request))
        fill(e, s, &s->step);
    else if (last)
        fill_all(e, s);
    if (last && e->phase.moments[s->request].filled_ns == 0)
        e->phase.moments[s->request].filled_ns = clock_ns();
    const int rc = s->streams ? tell(e, s) : 0;
    if (rc == BATON_EAGAIN) {
        engine_postpone(e, s);
    } else if (rc != 0) {
        refused(e, s, rc);
    } else if (!next_step(e, s)) {
        count_filled(e, s);
        if (s->streams)
            sabotage_offered(e, s);
        else
            s->state = SLOT_HELD;
    }
}

/* ---- offers ------------------------------------------------------------------------------------------------------ */

/* A prefill that takes time begins when the request arrives. */
static bool may_prepare(const struct engine *e)
{
    return e->options->stream == 0;
}

static enum slot_state prepare(struct engine *e, struct slot *s)
{
    if (e->options->stream == 0 || s->gate)
        return SLOT_READYING;
    s->streams = stream_hits(e->options->seed, s->request);
    if (s->streams)
        return SLOT_HELD;
    begin_prefill(e, s);
    return SLOT_FILLING;
}

static void ready(struct engine *e, struct slot *s, bool last)
{
    fill(e, s, &s->step);
    if (last)
        count_filled(e, s);
}

static int offer(struct engine *e, struct slot *s, const char *key)
{
    const char *consumer = e->meet->roster.engines[SIDE_DECODE][e->route->engine_of[SIDE_DECODE][s->request]].name;
    baton_offer_params_t params = {.size = sizeof params,
                                   .key = key,
                                   .num_tokens = s->num_tokens,
                                   .ttl_ms = e->options->timeout_ms,
                                   .num_consumers = 1,
                                   .consumers = &consumer,
                                   .flags = s->streams ? e->options->stream : 0,
                                   .user = s};
    params.num_tables = e->num_groups;
    memcpy(params.tables, s->tables, sizeof params.tables);
    for (uint32_t g = 0; g < e->num_groups && (params.flags & BATON_OFFER_CHUNKS) != 0; g++)
        params.tables[g].num_blocks = 0; /* they come with their chunks */
    return baton_offer(e->baton, &params, &s->id);
}

static void offered(struct engine *e, struct slot *s)
{
    if (!s->gate)
        e->phase.tally.offers[0]++;
    if (s->streams)
        begin_prefill(e, s);
    else
        sabotage_offered(e, s);
}

static void finish(struct engine *e, struct slot *s, const baton_event_t *event)
{
    if (event->status != BATON_STATUS_DONE)
        engine_complain(e, "the offer of request %u ended %s: %s: %s", s->request,
                        event->status == BATON_STATUS_EXPIRED ? "expired" : "without success",
                        baton_strerror(event->error), event->detail);
    if (!s->gate && event->status >= BATON_STATUS_DONE && event->status <= BATON_STATUS_CANCELLED)
        e->phase.tally.offers[event->status]++;
}

/* If anyone still reads the blocks, the poison is found. */
static void check(struct engine *e, struct slot *s, bool last)
{
    const struct pattern_table t = engine_piece(e, s);
    (void)last;
    pattern_poison(&e->pattern, &t, 0, PATTERN_POISON_PRODUCER);
}

const struct engine_job prefill_job = {.held = held,
                                       .may_begin = may_begin,
                                       .may_prepare = may_prepare,
                                       .prepare = prepare,
                                       .ready = ready,
                                       .call = offer,
                                       .accepted = offered,
                                       .go_on = go_on,
                                       .finish = finish,
                                       .check = check,
                                       .poison = PATTERN_POISON_PRODUCER};
