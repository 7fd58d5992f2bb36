/* SPDX-License-Identifier: BSD-3-Clause */
/* serve: see serve.h. */
#include "engine/serve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "option/output.h"
#include "replay/clock.h"

#define IDLE_MS 1 /* a rank without work looks that often whether another one has news */

/** What the last stage tells the others after a step. */
struct serve_news {
    uint64_t ended_ns;
    struct batch_answer answers[];
};

/* ---- making ------------------------------------------------------------------------------------------------------ */

static bool is_mine(void *user, uint32_t index)
{
    const struct glue *g = user;
    return glue_route(g, glue_side(g), index) == g->number;
}

static uint32_t count_blocks(const struct serve *s)
{
    const struct options_cache *cache = &s->options->cache[glue_side(&s->glue)];
    if (cache->blocks > 0)
        return cache->blocks;
    const double blocks = ceil(cache->pool * scheduler_least_blocks(s->load, cache->block_tokens));
    return blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX; /* more than any memory has */
}

static int make_scheduler(struct serve *s)
{
    const struct options *o = s->options;
    const struct carrier carrier = glue_carrier(&s->glue);
    const struct scheduler_rules rules = {
        .prefill = glue_side(&s->glue) == SIDE_PREFILL,
        .block_tokens = o->cache[glue_side(&s->glue)].block_tokens,
        .step_tokens = o->step_tokens,
        .most_running = o->running,
        .prefix = o->prefix != 0,
        .stream = o->stream,
        .abort = o->abort,
    };
    return scheduler_init(&s->scheduler, &rules, s->load, &carrier, count_blocks(s), is_mine, &s->glue);
}

static int make_model(struct serve *s)
{
    const uint32_t tokens = s->options->step_tokens;
    s->news = calloc(1, sizeof *s->news + tokens * sizeof *s->news->answers);
    s->facts = calloc(1 + 2 * (size_t)s->load->count, sizeof *s->facts);
    if (s->news == NULL || s->facts == NULL || batch_init(&s->batch, tokens) != 0)
        return -1;
    s->team = mates_team(&s->mates);
    return llama_init(&s->llama, &s->options->shape, &s->slice, &s->glue.pages, &s->team, tokens,
                      load_most_tokens(s->load));
}

int serve_place(struct serve *s, const struct options *options, const baton_open_params_t *me, struct why *why)
{
    s->options = options;
    s->glue.me = *me;
    s->mates.seat = (struct seat){me->tp, me->tp_rank, me->pp, me->pp_rank};
    return shape_slice(&options->shape, s->mates.seat, &s->slice, why);
}

int serve_meet(struct serve *s, struct why *why)
{
    const baton_open_params_t *me = &s->glue.me;
    if (mates_init(&s->mates, MPI_COMM_WORLD, me->engine, s->mates.seat, s->options->patience_ms) != 0)
        return why_set(why, "%s should have %u ranks, which do not find each other", me->engine, me->tp * me->pp);
    return 0;
}

int serve_init(struct serve *s, const struct load *load, struct why *why)
{
    s->load = load;
    if (glue_open(&s->glue, s->options, load, &s->slice, count_blocks(s), why) < 0)
        return -1;
    if (s->glue.num_engines[SIDE_PREFILL] == 0 || s->glue.num_engines[SIDE_DECODE] == 0)
        return why_set(why, "needs a prefill and a decode engine: batonrun --prefill 1x1 --decode 1x1 baton-serve");
    if (make_scheduler(s) != 0 || make_model(s) != 0)
        return why_set(why, "no memory for the model");
    for (uint32_t b = 0; b < s->glue.pages.num_blocks; b++)
        pages_poison(&s->glue.pages, b);
    s->begun_ns = s->fed_ns = clock_ns();
    return 0;
}

void serve_fini(struct serve *s)
{
    scheduler_fini(&s->scheduler);
    llama_fini(&s->llama);
    batch_fini(&s->batch);
    mates_fini(&s->mates);
    free(s->news);
    free(s->facts);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

uint64_t serve_arrival_ns(const struct serve *s, uint32_t index)
{
    const double speed = s->options->speed;
    if (speed == 0)
        return s->begun_ns;
    return s->begun_ns + (uint64_t)((double)(s->load->requests[index].arrival_ms * NS_PER_MS) / speed);
}

/* The trace's time. */
static int64_t now_ms(const struct serve *s)
{
    const double speed = s->options->speed, passed_ns = (double)(clock_ns() - s->begun_ns);
    return speed == 0 ? INT64_MAX : (int64_t)(passed_ns * speed / (double)NS_PER_MS);
}

/* The ranks agree on the time and on what became of transfers. */
static int agree(struct serve *s)
{
    glue_poll(&s->glue);
    s->facts[0] = now_ms(s);
    const uint32_t count = 1 + scheduler_outcomes(&s->scheduler, s->facts + 1);
    if (mates_least(&s->mates, s->facts, count) != 0)
        return -1;
    scheduler_hear(&s->scheduler, s->facts + 1);
    return 0;
}

static void on_layer(void *user, uint32_t layer)
{
    struct serve *s = user;
    for (uint32_t i = 0; s->scheduler.rules.prefill && i < s->scheduler.num_parts; i++)
        glue_layer(&s->glue, s->scheduler.parts[i].request, layer, s->scheduler.parts[i].count);
}

static int compute(struct serve *s)
{
    const size_t bytes = s->batch.num_answers * sizeof *s->news->answers;
    if (llama_step(&s->llama, &s->batch, on_layer, s) != 0)
        return -1;
    memcpy(s->news->answers, s->batch.answers, bytes);
    s->news->ended_ns = clock_ns();
    if (mates_share(&s->mates, s->news, (uint32_t)(sizeof *s->news + bytes)) != 0)
        return -1;
    memcpy(s->batch.answers, s->news->answers, bytes);
    scheduler_commit(&s->scheduler, &s->batch, s->news->ended_ns);
    return 0;
}

/* Changes one byte of the first blocks that came from another engine. */
static void flip_once(struct serve *s)
{
    for (uint32_t i = 0; i < s->scheduler.count && !s->sabotaged; i++) {
        const struct request *r = &s->scheduler.requests[i];
        if (r->phase != PHASE_RUNNING || r->in.mine != OUTCOME_DONE || r->in.from == r->in.until)
            continue;
        const uint32_t tokens = s->glue.pages.block_tokens;
        float *value = pages_at(&s->glue.pages, 0, PLANE_VALUE, 0, r->blocks[r->in.from / tokens], r->in.from % tokens);
        ((unsigned char *)value)[sizeof *value - 1] ^= 0x40;
        s->sabotaged = true;
    }
}

static void show_progress(const struct serve *s)
{
    static uint32_t shown;
    uint32_t answered = 0;
    if (!serve_is_leader(s) || s->scheduler.rules.prefill || s->glue.number != 0)
        return;
    if (!output_has_terminal())
        return;
    for (uint32_t i = 0; i < s->scheduler.count; i++)
        answered += s->scheduler.requests[i].answered;
    if (answered != shown)
        fprintf(stderr, "\r%s: %u/%u requests%s", s->glue.me.engine, answered, s->scheduler.count,
                answered == s->scheduler.count ? "\n" : "");
    shown = answered;
}

/* Blocks of a transfer that was given up may never come back: who needs them does not wait for ever. */
static int starve(struct serve *s, struct why *why)
{
    const uint64_t now_ns = clock_ns();
    if (!s->scheduler.starves)
        s->fed_ns = now_ns;
    if (now_ns - s->fed_ns <= s->mates.patience_ns)
        return 0;
    return why_set(why,
                   "rank %d of %s: %u blocks are left, too few for a request; transfers that were given up hold %u",
                   s->mates.rank, s->glue.me.engine, s->scheduler.blocks.num_free,
                   s->scheduler.blocks.count - s->scheduler.blocks.num_free);
}

int serve_lost(const struct serve *s, struct why *why)
{
    return why_set(why, "rank %d of %s: another rank of this engine is lost", s->mates.rank, s->glue.me.engine);
}

int serve_run(struct serve *s, struct why *why)
{
    for (;;) {
        if (agree(s) != 0)
            return serve_lost(s, why);
        if (scheduler_finished(&s->scheduler))
            return 0;
        if (s->options->sabotage == SABOTAGE_FLIP && !s->scheduler.rules.prefill && serve_is_leader(s))
            flip_once(s);
        scheduler_plan(&s->scheduler, (uint64_t)s->facts[0], &s->batch);
        if (starve(s, why) != 0)
            return -1;
        if (s->batch.count == 0)
            glue_wait(&s->glue, IDLE_MS);
        else if (compute(s) != 0)
            return serve_lost(s, why);
        show_progress(s);
    }
}
