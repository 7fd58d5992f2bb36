/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * decode: see decode.h. There are three checks. What was wanted is there. All else in the request's blocks still holds
 * poison: behind its last token, before a window, and what was held already. Free blocks hold poison when they are
 * taken again and at the end, so that a write after its event is found.
 */
#include "replay/decode.h"

#include <stdio.h>
#include <string.h>
#include <stdlib.h>

#include "model/model.h"
#include "replay/clock.h"
#include "replay/random.h"
#include "replay/sabotage.h"

/* ---- wants ------------------------------------------------------------------------------------------------------- */

/* With --prefix-cache, what the engine's cache has. Else, of the requests that --held chooses, some hold all tokens,
   some hold whole blocks, and most hold any number of tokens. All ranks of an engine hold the same. */
static uint32_t held(const struct engine *e, uint32_t request, uint32_t num_tokens)
{
    if (e->prefix->held != NULL)
        return sabotage_hits(e, request) ? 0 : e->prefix->held[request];
    const uint32_t alike = e->options->stream != 0 ? request / 2 : request; /* the trace is doubled */
    uint64_t random = random_mix(e->options->seed + 1) ^ engine_pattern_request(e, alike);
    const uint32_t block_tokens = e->share.groups[0].block_tokens;
    const bool holds = (double)(random_next(&random) >> 11) < e->options->held * 9007199254740992.0;
    if (!holds || sabotage_hits(e, request))
        return 0;
    const uint32_t kind = random_below(&random, 4), tokens = random_below(&random, num_tokens);
    return kind == 0 ? num_tokens : kind == 1 ? tokens - tokens % block_tokens : tokens;
}

static bool may_begin(struct engine *e, uint32_t request)
{
    if (!sabotage_needs_gate(e, request) || e->phase.gate_open)
        return true;
    if (e->slots[e->num_slots - 1].state == SLOT_FREE && engine_has_spare(e, request))
        engine_begin_gate(e, request);
    return false;
}

static bool may_prepare(const struct engine *e)
{
    (void)e;
    return true;
}

static enum slot_state prepare(struct engine *e, struct slot *s)
{
    (void)e;
    (void)s;
    return SLOT_READYING;
}

/* Blocks that were free hold poison. */
static void ready(struct engine *e, struct slot *s, bool last)
{
    struct pattern_result r = {0};
    const struct pattern_table t = engine_piece(e, s);
    (void)last;
    pattern_verify_poison(&e->pattern, &t, PATTERN_POISON_CONSUMER, &r);
    engine_count_misses(e, &t, s->request, &r, "written while it was free (taken now for this place)");
    if (r.mismatches > 0)
        pattern_poison(&e->pattern, &t, 0, PATTERN_POISON_CONSUMER);
}

static int want(struct engine *e, struct slot *s, const char *key)
{
    baton_want_params_t params = {
        .size = sizeof params,
        .key = key,
        .engine = e->meet->roster.engines[SIDE_PREFILL][e->route->engine_of[SIDE_PREFILL][s->request]].name,
        .num_tokens = s->num_tokens,
        .held_tokens = s->held,
        .timeout_ms = e->options->timeout_ms,
        .mode = e->options->mode,
        .user = s};
    s->begin_ns = clock_ns();
    params.num_tables = e->num_groups;
    memcpy(params.tables, s->tables, sizeof params.tables);
    return baton_want(e->baton, &params, &s->id);
}

static void count_bytes(struct engine *e, const struct slot *s)
{
    e->phase.tally.wanted_bytes += model_wanted_bytes(e->pattern.geometry, s->held, s->num_tokens);
}

static void wanted(struct engine *e, struct slot *s)
{
    if (s->gate)
        return;
    e->phase.tally.wants[0]++;
    count_bytes(e, s);
}

/* Of a want that has ended, or was refused. */
static void note_times(struct engine *e, const struct slot *s, bool done, uint64_t total_ns)
{
    struct load_times *times = &e->phase.times[s->request];
    const uint64_t waited = times->waited;
    *times = load_times(e->phase.start_ns, engine_arrival_ns(e, s->request), s->begin_ns, done, total_ns);
    times->waited = waited;
}

static void refused(struct engine *e, struct slot *s)
{
    if (s->gate)
        return;
    count_bytes(e, s);
    note_times(e, s, false, 0);
}

/* ---- what came --------------------------------------------------------------------------------------------------- */

static bool verify(struct engine *e, const struct slot *s, const struct pattern_table *t)
{
    struct pattern_result data = {0}, rest = {0};
    const uint64_t start = clock_ns();
    pattern_verify(&e->pattern, t, &data);
    e->phase.tally.verify_ns += clock_ns() - start;
    pattern_verify_rest(&e->pattern, t, PATTERN_POISON_CONSUMER, &rest);
    engine_count_misses(e, t, s->request, &data, "wrong");
    engine_count_misses(e, t, s->request, &rest, "written though it was not wanted");
    return data.mismatches == 0 && rest.mismatches == 0;
}

/* What arrived, and then poison over it: a write after the event is found. */
static void check(struct engine *e, struct slot *s, bool last)
{
    const struct pattern_table t = engine_piece(e, s);
    if (s->done)
        s->right &= verify(e, s, &t);
    pattern_poison(&e->pattern, &t, 0, PATTERN_POISON_CONSUMER);
    if (!last || !s->done)
        return;
    e->phase.tally.verify_bytes += model_wanted_bytes(e->pattern.geometry, s->held, s->num_tokens);
    e->phase.verified[s->request] = s->right;
}

static void add_sample(struct engine *e, const baton_event_t *event)
{
    struct tally_samples *all = &e->phase.samples;
    if (all->count == all->room) {
        const size_t room = all->room ? 2 * all->room : 256;
        struct tally_sample *grown = realloc(all->at, room * sizeof *grown);
        if (grown == NULL) {
            engine_complain(e, "no memory for the times of request %s", event->key);
            return;
        }
        all->at = grown;
        all->room = room;
    }
    const uint64_t wait_ns = event->wait_ns < event->total_ns ? event->wait_ns : event->total_ns;
    all->at[all->count++] = (struct tally_sample){event->total_ns, wait_ns, event->total_ns - wait_ns};
}

/* Whether the event names as many bytes as were demanded. */
static bool check_bytes(struct engine *e, const struct slot *s, const baton_event_t *event)
{
    const uint64_t demanded = model_wanted_bytes(e->pattern.geometry, s->held, s->num_tokens);
    e->phase.tally.payload_bytes += demanded;
    e->phase.tally.held_wants += s->held > 0;
    e->phase.tally.empty_wants += s->held == s->num_tokens;
    for (unsigned path = 0; path < BATON_PATHS; path++)
        e->phase.tally.path_bytes[path] += event->path_bytes[path];
    if (event->bytes == demanded)
        return true;
    e->phase.tally.miscounted++;
    engine_complain(e, "request %u: %llu bytes were demanded, and the event names %llu", s->request,
                    (unsigned long long)demanded, (unsigned long long)event->bytes);
    return false;
}

static const char *ending(baton_status_t status)
{
    return status == BATON_STATUS_EXPIRED ? "expired" : status == BATON_STATUS_CANCELLED ? "was cancelled" : "failed";
}

static void finish(struct engine *e, struct slot *s, const baton_event_t *event)
{
    if (event->status != BATON_STATUS_DONE)
        engine_complain(e, "the want of request %u %s: %s: %s", s->request, ending(event->status),
                        baton_strerror(event->error), event->detail);
    if (s->gate) {
        e->phase.gate_open = true;
        return;
    }
    if (event->status >= BATON_STATUS_DONE && event->status <= BATON_STATUS_CANCELLED)
        e->phase.tally.wants[event->status]++;
    note_times(e, s, event->status == BATON_STATUS_DONE, event->total_ns);
    if (event->status != BATON_STATUS_DONE)
        return;
    add_sample(e, event);
    if (event->bytes > 0)
        e->phase.moments[s->request] =
            (struct tally_moments){.wanted_ns = s->begin_ns, .received_ns = s->begin_ns + event->total_ns};
    s->done = true;
    s->right = check_bytes(e, s, event);
}

const struct engine_job decode_job = {.held = held,
                                      .may_begin = may_begin,
                                      .may_prepare = may_prepare,
                                      .prepare = prepare,
                                      .ready = ready,
                                      .call = want,
                                      .accepted = wanted,
                                      .refused = refused,
                                      .finish = finish,
                                      .check = check,
                                      .poison = PATTERN_POISON_CONSUMER};
