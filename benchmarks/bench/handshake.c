/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handshake: how long the first blocks of an engine take when nothing is known of it yet, against the next ones. Every
 * rank of the decode engine wants from all prefill engines at once, so the times also show whether one engine delays
 * another; with --stop-engine one of them does not answer. Then all others must be as fast as ever, and the want of the
 * stopped one must end at its deadline.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/channel.h"
#include "bench/conditions.h"
#include "bench/context.h"
#include "bench/fail.h"

#define LAYERS 8u /* of the pretended model, or as many as pipeline stages; heads alike */
#define HEADS 16u
#define BLOCKS 4u      /* of one transfer */
#define SETTLE_MS 500u /* after which a rank that meant to stop has stopped, and others have passed the barrier */
#define LATE_MS 1000u  /* how far past its deadline a want may end */
#define PATIENCE_MS 60000u

enum { COLD, WARM, ROUNDS };
static const char *const round_names[ROUNDS] = {"handshake", "second"};

/** What the decode rank saw of one engine in one round. */
struct outcome {
    bool wanted, ended;
    uint64_t begin_ns, us;
    baton_status_t status;
    int error;
};

struct run {
    struct bench *bench;
    struct context context;
    struct blocks cache;
    struct outcome *outcome[ROUNDS]; /* by engine of the roster */
};

static int own_engine(const struct bench *b)
{
    return b->roster.engine_of[b->roster.rank];
}

static bool offers(const struct bench *b, int engine)
{
    return engine != b->decode && (b->roster.engines[engine].role & BATON_ROLE_PREFILL);
}

static bool is_stopped(const struct bench *b, int engine)
{
    return b->options.stop_engine && strcmp(b->options.stop_engine, b->roster.engines[engine].name) == 0;
}

static void key_of(const struct bench *b, int round, int engine, char key[BATON_KEY_MAX])
{
    snprintf(key, BATON_KEY_MAX, "%s-%s", round_names[round], b->roster.engines[engine].name);
}

/* ---- the cache --------------------------------------------------------------------------------------------------- */

/* The part of `total` that belongs to `rank` of `ranks`, also where `ranks` does not divide `total`. */
static void part(uint32_t total, uint32_t rank, uint32_t ranks, uint32_t *first, uint32_t *count)
{
    *first = total * rank / ranks;
    *count = total * (rank + 1) / ranks - *first;
}

static void describe_cache(struct run *run)
{
    const struct roster *r = &run->bench->roster;
    const baton_open_params_t *self = &r->ranks[r->rank];
    struct blocks_form form = {.num_blocks = ROUNDS * BLOCKS * (uint32_t)r->num_engines,
                               .planes = 2,
                               .head_size = 16,
                               .heads = HEADS,
                               .layers = LAYERS,
                               .layout = BATON_LAYOUT_BLOCK_MAJOR};
    for (int e = 0; e < r->num_engines; e++) {
        form.heads = r->engines[e].tp > form.heads ? r->engines[e].tp : form.heads;
        form.layers = r->engines[e].pp > form.layers ? r->engines[e].pp : form.layers;
    }
    part(form.heads, self->tp_rank, self->tp, &form.head_first, &form.head_count);
    part(form.layers, self->pp_rank, self->pp, &form.layer_first, &form.layer_count);
    blocks_describe(&run->cache, &form);
}

/* The blocks that an engine's transfer of a round uses, on either side. */
static void blocks_of(int round, int engine, uint32_t out[BLOCKS])
{
    for (uint32_t i = 0; i < BLOCKS; i++)
        out[i] = ((uint32_t)engine * ROUNDS + (uint32_t)round) * BLOCKS + (BLOCKS - 1 - i);
}

/* An engine's blocks have patterns of its own. */
static uint64_t first_pattern(const struct run *run, int engine)
{
    return (uint64_t)engine * run->cache.geometry.groups[0].num_blocks;
}

/* ---- a prefill rank ---------------------------------------------------------------------------------------------- */

static void offer_all(struct run *run, baton_id_t ids[ROUNDS])
{
    const struct bench *b = run->bench;
    const int engine = own_engine(b);
    char key[BATON_KEY_MAX];
    uint32_t blocks[BLOCKS];
    blocks_fill(&run->cache, first_pattern(run, engine));
    run->context.patience_ms = (uint32_t)(2 * b->options.want_ms) + PATIENCE_MS;
    for (int round = 0; round < ROUNDS; round++) {
        key_of(b, round, engine, key);
        blocks_of(round, engine, blocks);
        ids[round] = context_offer(&run->context, key, blocks, BLOCKS, 0);
    }
}

static void run_prefill(struct run *run)
{
    struct bench *b = run->bench;
    baton_id_t ids[ROUNDS];
    offer_all(run, ids);
    channel_barrier(b->roster.comm);
    if (is_stopped(b, own_engine(b))) {
        clock_sleep_until(clock_now_ns() + SETTLE_MS / 2 * CLOCK_NS_PER_MS);
        if (watcher_stop_me(&b->watcher, b->options.stop_seconds) != 0)
            fail("cannot stop this process");
        context_end_offers(&run->context, ids, ROUNDS);
    } else {
        context_await_offers(&run->context, ROUNDS);
    }
}

/* ---- a decode rank ----------------------------------------------------------------------------------------------- */

static bool is_wanted(const struct run *run, int round, int engine)
{
    return offers(run->bench, engine) && (round == COLD || run->outcome[COLD][engine].status == BATON_STATUS_DONE);
}

static void want_one(struct run *run, int round, int engine)
{
    const struct bench *b = run->bench;
    struct outcome *o = &run->outcome[round][engine];
    char key[BATON_KEY_MAX];
    uint32_t blocks[BLOCKS];
    key_of(b, round, engine, key);
    blocks_of(round, engine, blocks);
    o->wanted = true;
    o->begin_ns = clock_now_ns();
    context_want(&run->context, b->roster.engines[engine].name, key, blocks, BLOCKS, BATON_MODE_AUTO, o);
}

static bool take_one(struct run *run)
{
    baton_event_t event;
    if (!context_await(&run->context, &event, run->bench->options.want_ms + PATIENCE_MS))
        return false;
    struct outcome *o = event.user;
    if (event.type != BATON_EVENT_WANT || !o)
        fail("an event that belongs to no want");
    o->us = (clock_now_ns() - o->begin_ns) / CLOCK_NS_PER_US;
    o->ended = true;
    o->status = event.status;
    o->error = event.error;
    return true;
}

static void run_round(struct run *run, int round)
{
    int open = 0;
    for (int e = 0; e < run->bench->roster.num_engines; e++) {
        if (is_wanted(run, round, e)) {
            want_one(run, round, e);
            open++;
        }
    }
    while (open > 0 && take_one(run))
        open--;
}

static void complain(struct run *run, int round, int engine, const char *what)
{
    fprintf(stderr, "baton-bench: %s of engine %s: %s\n", round_names[round], run->bench->roster.engines[engine].name,
            what);
    run->bench->status = 1;
}

static bool is_right(const struct run *run, int round, int engine)
{
    uint32_t blocks[BLOCKS];
    blocks_of(round, engine, blocks);
    return blocks_check(&run->cache, first_pattern(run, engine), blocks, blocks, BLOCKS, false, round_names[round]);
}

static void judge(struct run *run, int round, int engine)
{
    const struct outcome *o = &run->outcome[round][engine];
    bool done = o->status == BATON_STATUS_DONE;
    if (!o->ended)
        complain(run, round, engine, "the want never ended");
    else if (o->us > (run->bench->options.want_ms + LATE_MS) * 1000)
        complain(run, round, engine, "the want ended more than a second after its deadline");
    else if (is_stopped(run->bench, engine) && done)
        complain(run, round, engine, "the engine answered although it had stopped");
    else if (!is_stopped(run->bench, engine) && !done)
        complain(run, round, engine, baton_errname(o->error));
    else if (done && !is_right(run, round, engine))
        complain(run, round, engine, "wrong data");
}

static void print(struct run *run, int round, int engine)
{
    static const char *const status_names[] = {"never", "done", "failed", "expired", "cancelled"};
    struct bench *b = run->bench;
    const struct outcome *o = &run->outcome[round][engine];
    report_row(&b->report, "op=%s%s|engine=%s|ms=%.3f|status=%s", round_names[round], b->options.busy ? "+busy" : "",
               b->roster.engines[engine].name, (double)o->us / 1e3, status_names[o->ended ? o->status : 0]);
}

static void run_decode(struct run *run)
{
    struct bench *b = run->bench;
    run->context.patience_ms = (uint32_t)b->options.want_ms;
    for (int round = 0; round < ROUNDS; round++)
        run->outcome[round] = room((size_t)b->roster.num_engines, sizeof **run->outcome);
    memset(run->context.pool, 0, run->cache.geometry.bytes);
    channel_barrier(b->roster.comm);
    clock_sleep_until(clock_now_ns() + SETTLE_MS * CLOCK_NS_PER_MS);
    for (int round = 0; round < ROUNDS; round++)
        run_round(run, round);
    for (int round = 0; round < ROUNDS; round++) {
        for (int e = 0; e < b->roster.num_engines; e++) {
            if (!run->outcome[round][e].wanted)
                continue;
            print(run, round, e);
            judge(run, round, e);
        }
    }
}

static void note_stats(struct run *run)
{
    baton_stats_t stats = BATON_INIT(baton_stats_t);
    clock_sleep_until(clock_now_ns() + SETTLE_MS / 5 * CLOCK_NS_PER_MS); /* the statistics may be a little old */
    fail_on(baton_stats(run->context.baton, &stats), "baton_stats");
    report_note(&run->bench->report,
                "  the reactor's own count: %" PRIu64 " handshakes, the longest %.3f ms, %" PRIu64 " retries",
                stats.handshakes, (double)stats.handshake_ns_max / 1e6, stats.handshake_retries);
}

void handshake_run(struct bench *b)
{
    struct run run = {.bench = b};
    int engine = own_engine(b);
    report_note(&b->report,
                "ms: from the call of baton_want to its event, %u blocks from each engine, all engines wanted at once;"
                " handshake: nothing known yet, second: everything known; deadline %" PRIu64 " ms; stopped engine: %s",
                BLOCKS, b->options.want_ms, b->options.stop_engine ? b->options.stop_engine : "none");
    describe_cache(&run);
    context_open(b, &run.context, &b->roster.ranks[b->roster.rank], &run.cache, NULL);
    conditions_note_baton(b, run.context.baton);
    if (engine == b->decode)
        run_decode(&run);
    else if (offers(b, engine))
        run_prefill(&run);
    else
        channel_barrier(b->roster.comm);
    channel_barrier(b->roster.comm);
    if (b->report.active)
        note_stats(&run);
    context_close(b, &run.context);
    for (int round = 0; round < ROUNDS; round++)
        free(run.outcome[round]);
    blocks_fini(&run.cache);
}
