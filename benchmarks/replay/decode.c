/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * decode: see decode.h. Three checks: what was wanted is there; behind the request's last token the blocks still hold
 * poison; and blocks that lay free still hold it when they are taken again, so that nothing wrote after its event.
 */
#include "replay/decode.h"

#include <stdio.h>
#include <stdlib.h>

#include "replay/clock.h"
#include "replay/sabotage.h"

/* ---- wants ------------------------------------------------------------------------------------------------------- */

static bool may_begin(struct engine *e, uint32_t request)
{
    if (!sabotage_needs_gate(e, request) || e->gate_open)
        return true;
    if (e->slots[e->num_slots - 1].state == SLOT_FREE && e->pool.num_free > 0)
        engine_begin_gate(e, request);
    return false;
}

static void complain_of_miss(struct engine *e, const struct slot *s, const struct pattern_miss *miss, const char *what)
{
    const struct pattern_table t = engine_table(e, s);
    const int digits = 2 * (int)e->pattern.geometry->elem_bytes;
    char words[96];
    pattern_explain(&e->pattern, &t, miss, engine_pattern_request(e, 0), e->trace->count + 1, words, sizeof words);
    engine_complain(e,
                    "%s: request %u, layer %u, head %u, token %u, plane %s, channel %u: expected 0x%0*x, found 0x%0*x, "
                    "in block %u%s%s",
                    what, s->request, miss->place.layer, miss->place.head, miss->place.token,
                    miss->place.plane == 0 ? "K" : "V", miss->place.channel, digits, miss->expected, digits,
                    miss->found, miss->block, words[0] ? "; " : "", words);
}

static void count_misses(struct engine *e, const struct slot *s, const struct pattern_result *r, const char *what)
{
    e->tally.mismatches += r->mismatches;
    if (r->mismatches > 0)
        complain_of_miss(e, s, &r->first, what);
}

static void check_free(struct engine *e, struct slot *s)
{
    struct pattern_result r = {0};
    const struct pattern_table t = engine_table(e, s);
    pattern_verify_poison(&e->pattern, &t, 0, PATTERN_POISON_CONSUMER, &r);
    count_misses(e, s, &r, "written while it was free (taken now for this place)");
    if (r.mismatches > 0)
        pattern_poison(&e->pattern, &t, 0, PATTERN_POISON_CONSUMER);
}

static int want(struct engine *e, struct slot *s, const char *key)
{
    const baton_want_params_t params = {
        .key = key,
        .engine = e->meet->engines[SIDE_PREFILL][s->request % e->meet->num_engines[SIDE_PREFILL]].name,
        .blocks = s->blocks,
        .num_blocks = s->num_blocks,
        .num_tokens = s->num_tokens,
        .timeout_ms = e->options->timeout_ms,
        .mode = e->options->mode,
        .user = s};
    return baton_want(e->baton, &params, &s->id);
}

static void wanted(struct engine *e, struct slot *s)
{
    if (!s->gate)
        e->tally.wants[0]++;
}

/* ---- what came --------------------------------------------------------------------------------------------------- */

static bool verify(struct engine *e, const struct slot *s)
{
    struct pattern_result data = {0}, beyond = {0};
    const struct pattern_table t = engine_table(e, s);
    const uint64_t start = clock_ns();
    pattern_verify(&e->pattern, &t, &data);
    e->tally.verify_ns += clock_ns() - start;
    e->tally.verify_bytes += model_token_bytes(e->pattern.geometry, s->num_tokens);
    pattern_verify_poison(&e->pattern, &t, s->num_tokens, PATTERN_POISON_CONSUMER, &beyond);
    count_misses(e, s, &data, "wrong");
    count_misses(e, s, &beyond, "written behind the request's last token");
    return data.mismatches == 0 && beyond.mismatches == 0;
}

static void add_sample(struct engine *e, const baton_event_t *event)
{
    struct tally_samples *all = &e->samples;
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

/* Whether the event counts as many bytes as were demanded. */
static bool check_bytes(struct engine *e, const struct slot *s, const baton_event_t *event)
{
    const uint64_t demanded = model_token_bytes(e->pattern.geometry, s->num_tokens);
    e->tally.payload_bytes += demanded;
    for (unsigned path = 0; path < BATON_PATHS; path++)
        e->tally.path_bytes[path] += event->path_bytes[path];
    if (event->bytes == demanded)
        return true;
    e->tally.miscounted++;
    engine_complain(e, "request %u: %llu bytes were demanded, and the event tells %llu", s->request,
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
        e->gate_open = true;
        return;
    }
    if (event->status >= BATON_STATUS_DONE && event->status <= BATON_STATUS_CANCELLED)
        e->tally.wants[event->status]++;
    if (event->status != BATON_STATUS_DONE)
        return;
    add_sample(e, event);
    const bool counted = check_bytes(e, s, event), right = verify(e, s);
    e->verified[s->request] = counted && right;
}

const struct engine_job decode_job = {.may_begin = may_begin,
                                      .prepare = check_free,
                                      .call = want,
                                      .accepted = wanted,
                                      .finish = finish,
                                      .poison = PATTERN_POISON_CONSUMER};
