/* SPDX-License-Identifier: BSD-3-Clause */
/* load: see load.h. */
#include "engine/load.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "replay/random.h"

#define LOOK_BACK 1024     /* requests before, among which the turn before is looked for */
#define COMMON_TOKENS 1024 /* tokens that all made prompts begin with, before they are divided */

static uint32_t divide(uint32_t tokens, uint32_t scale, uint32_t least)
{
    const uint32_t share = tokens / scale;
    return share > least ? share : least;
}

static int allocate(struct load *l, uint32_t count, struct why *why)
{
    l->count = count;
    l->requests = calloc(count, sizeof *l->requests);
    return l->requests != NULL ? 0 : why_set(why, "no memory for %u requests", count);
}

static void join(struct load *l, uint32_t parent, uint32_t child)
{
    struct load_request *p = &l->requests[parent], *c = &l->requests[child];
    p->child = child;
    c->parent = parent;
    c->root = p->root;
    c->spoken = p->spoken + p->output;
}

/* Nothing of a request follows another one yet. */
static struct load_request alone(uint32_t index, uint64_t arrival_ms, uint32_t prompt, uint32_t output)
{
    return (struct load_request){.arrival_ms = arrival_ms,
                                 .prompt = prompt,
                                 .output = output,
                                 .parent = LOAD_NONE,
                                 .child = LOAD_NONE,
                                 .root = index};
}

/* ---- from a trace ------------------------------------------------------------------------------------------------ */

/* Whether b goes on from a: its ids begin with those of a's prompt, of which the last may be cut short. */
static bool follows(const struct load *l, uint32_t a, uint32_t b)
{
    const struct trace_request *one = &l->trace.requests[a], *two = &l->trace.requests[b];
    const uint32_t whole = one->tokens / TRACE_HASH_TOKENS;
    const struct load_request *before = &l->requests[a];
    if (whole < 2 || before->child != LOAD_NONE || l->requests[b].prompt <= before->prompt + before->output)
        return false;
    return whole <= two->tokens / TRACE_HASH_TOKENS &&
           memcmp(l->trace.ids + one->first_id, l->trace.ids + two->first_id, whole * sizeof *l->trace.ids) == 0;
}

int load_open(struct load *l, const char *path, uint32_t most, uint32_t scale, uint32_t vocab, struct why *why)
{
    *l = (struct load){.scale = scale, .vocab = vocab};
    if (trace_open(path, most, &l->trace, why) != 0)
        return -1;
    if (allocate(l, l->trace.count, why) != 0)
        return -1;
    for (uint32_t i = 0; i < l->count; i++) {
        const struct trace_request *r = &l->trace.requests[i];
        l->requests[i] = alone(i, r->arrival_ms, divide(r->tokens, scale, 2), divide(r->output_tokens, scale, 1));
        for (uint32_t back = 1; back <= i && back <= LOOK_BACK; back++)
            if (follows(l, i - back, i)) {
                join(l, i - back, i);
                break;
            }
    }
    return 0;
}

/* ---- made here --------------------------------------------------------------------------------------------------- */

int load_make(struct load *l, uint32_t count, uint32_t scale, uint32_t vocab, uint64_t seed, struct why *why)
{
    uint64_t state = seed;
    *l = (struct load){.scale = scale, .vocab = vocab, .seed = seed};
    if (allocate(l, count, why) != 0)
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t own = divide(500 + random_below(&state, 6000), scale, 2);
        const uint32_t output = divide(64 + random_below(&state, 700), scale, 1);
        const uint32_t parent = i > 0 ? random_below(&state, i) : 0;
        const bool turn = i > 0 && random_below(&state, 2) == 0 && l->requests[parent].child == LOAD_NONE;
        l->requests[i] = alone(i, (uint64_t)i * 50, own, output);
        if (turn) {
            l->requests[i].prompt = l->requests[parent].prompt + l->requests[parent].output + (own + 3) / 4;
            join(l, parent, i);
        }
    }
    return 0;
}

void load_fini(struct load *l)
{
    trace_fini(&l->trace);
    free(l->requests);
    *l = (struct load){0};
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

uint32_t load_most_tokens(const struct load *l)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        const uint32_t tokens = l->requests[i].prompt + l->requests[i].output;
        most = tokens > most ? tokens : most;
    }
    return most;
}

/* What a token is a hash of, beside its position. */
static uint64_t id_at(const struct load *l, uint32_t index, uint32_t position)
{
    const uint64_t place = (uint64_t)position * l->scale;
    if (l->trace.count == 0)
        return place < COMMON_TOKENS ? 0 : (uint64_t)index + 1;
    const struct trace_request *r = &l->trace.requests[index];
    const uint64_t last = (r->tokens - 1) / TRACE_HASH_TOKENS, at = place / TRACE_HASH_TOKENS;
    return l->trace.ids[r->first_id + (at < last ? at : last)];
}

void load_prompt(const struct load *l, uint32_t index, const uint16_t *spoken, uint16_t *tokens)
{
    const struct load_request *r = &l->requests[index];
    uint32_t at = 0;
    if (r->parent != LOAD_NONE) {
        const struct load_request *parent = &l->requests[r->parent];
        load_prompt(l, r->parent, spoken, tokens);
        memcpy(tokens + parent->prompt, spoken + parent->spoken, parent->output * sizeof *tokens);
        at = parent->prompt + parent->output;
    }
    for (; at < r->prompt; at++)
        tokens[at] = (uint16_t)(random_mix(l->seed + random_mix(id_at(l, index, at)) + at) % l->vocab);
}
