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
#include <time.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/channel.h"
#include "bench/conditions.h"
#include "bench/context.h"
#include "bench/fail.h"

static const char *const columns[] = {"op", "engine", "ms", "status"};

#define LAYERS 8u /* of the pretended model, or as many as pipeline stages; heads alike */
#define HEADS 16u
#define BLOCK_TOKENS 16u
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
    baton_geometry_t geometry;
    baton_tensor_t *tensors;
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
    baton_geometry_t *g = &run->geometry;
    *g = (baton_geometry_t){
        .size = sizeof(baton_geometry_t),
        .model = "baton-bench",
        .dtype = "bf16",
        .elem_bytes = 2,
        .planes = 2,
        .head_size = 16,
        .num_groups = 1,
        .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = ROUNDS * BLOCKS * (uint32_t)r->num_engines}},
        .num_splits = 1,
        .splits = {{.heads_total = HEADS}},
        .layers_total = LAYERS};
    for (int e = 0; e < r->num_engines; e++) {
        g->num_splits = 1;
        g->splits[0].heads_total =
            r->engines[e].tp > g->splits[0].heads_total ? r->engines[e].tp : g->splits[0].heads_total;
        g->layers_total = r->engines[e].pp > g->layers_total ? r->engines[e].pp : g->layers_total;
    }
    part(g->splits[0].heads_total, self->tp_rank, self->tp, &g->splits[0].head_first, &g->splits[0].head_count);
    part(g->layers_total, self->pp_rank, self->pp, &g->layer_first, &g->layer_count);
    run->tensors = calloc(g->layer_count, sizeof *run->tensors);
    if (!run->tensors)
        fail("out of memory for %" PRIu32 " tensors", g->layer_count);
    /* Block by block, so that each block is contiguous and easy to check. */
    fail_on(baton_geometry_layout(g, run->tensors, BATON_LAYOUT_BLOCK_MAJOR), "baton_geometry_layout");
}

/* The blocks that an engine's transfer of a round uses, on either side. */
static void blocks_of(int round, int engine, uint32_t out[BLOCKS])
{
    for (uint32_t i = 0; i < BLOCKS; i++)
        out[i] = ((uint32_t)engine * ROUNDS + (uint32_t)round) * BLOCKS + (BLOCKS - 1 - i);
}

static bool is_filled(const struct run *run, int round, int engine)
{
    uint32_t blocks[BLOCKS];
    uint64_t bytes = (uint64_t)run->geometry.tensors[0].stride.block;
    blocks_of(round, engine, blocks);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        const char *block = run->context.pool + blocks[i] * bytes;
        for (uint64_t at = 0; at < bytes; at++) {
            if ((unsigned char)block[at] != (unsigned char)(engine + 1))
                return false;
        }
    }
    return true;
}

/* ---- a prefill rank ---------------------------------------------------------------------------------------------- */

static void offer_all(struct run *run, baton_id_t ids[ROUNDS])
{
    const struct bench *b = run->bench;
    int engine = own_engine(b);
    memset(run->context.pool, engine + 1, run->geometry.bytes);
    for (int round = 0; round < ROUNDS; round++) {
        char key[BATON_KEY_MAX];
        uint32_t blocks[BLOCKS];
        key_of(b, round, engine, key);
        blocks_of(round, engine, blocks);
        baton_offer_params_t p = {.size = sizeof p,
                                  .key = key,
                                  .num_tables = 1,
                                  .tables = {{.blocks = blocks, .num_blocks = BLOCKS}},
                                  .num_tokens = BLOCKS * BLOCK_TOKENS,
                                  .ttl_ms = (uint32_t)(2 * b->options.want_ms) + PATIENCE_MS};
        fail_on(baton_offer(run->context.baton, &p, NULL, &ids[round]), "baton_offer");
    }
}

static void await_offers(struct run *run)
{
    baton_event_t event;
    for (int i = 0; i < ROUNDS; i++) {
        if (!context_await(&run->context, &event, 2 * run->bench->options.want_ms + 2 * PATIENCE_MS))
            fail("an offer of %s did not end", run->bench->roster.engines[own_engine(run->bench)].name);
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
        for (int round = 0; round < ROUNDS; round++)
            fail_on(baton_cancel(run->context.baton, ids[round]), "baton_cancel");
    }
    await_offers(run);
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
    baton_want_params_t p = {.size = sizeof p,
                             .key = key,
                             .engine = b->roster.engines[engine].name,
                             .num_tables = 1,
                             .tables = {{.blocks = blocks, .num_blocks = BLOCKS}},
                             .num_tokens = BLOCKS * BLOCK_TOKENS,
                             .timeout_ms = (uint32_t)b->options.want_ms,
                             .user = o};
    o->wanted = true;
    o->begin_ns = clock_now_ns();
    fail_on(baton_want(run->context.baton, &p, NULL), "baton_want");
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
    else if (done && !is_filled(run, round, engine))
        complain(run, round, engine, "wrong data");
}

static void print(struct run *run, int round, int engine)
{
    static const char *const status_names[] = {"never", "done", "failed", "expired", "cancelled"};
    struct bench *b = run->bench;
    const struct outcome *o = &run->outcome[round][engine];
    struct report_row row = {0};
    report_cell(&row, "%s%s", round_names[round], b->options.busy ? "+busy" : "");
    report_cell(&row, "%s", b->roster.engines[engine].name);
    report_cell(&row, "%.3f", (double)o->us / 1e3);
    report_cell(&row, "%s", status_names[o->ended ? o->status : 0]);
    report_add(&b->report, &row);
}

static void run_decode(struct run *run)
{
    struct bench *b = run->bench;
    size_t engines = (size_t)b->roster.num_engines;
    for (int round = 0; round < ROUNDS; round++) {
        run->outcome[round] = calloc(engines, sizeof **run->outcome);
        if (!run->outcome[round])
            fail("out of memory");
    }
    memset(run->context.pool, 0, run->geometry.bytes);
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
    baton_stats_t stats;
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
    report_open(&b->report, &b->options, bench_is_consumer(b), columns, sizeof columns / sizeof *columns);
    conditions_note(b);
    report_note(&b->report,
                "ms: from the call of baton_want to its event, %u blocks from each engine, all engines wanted at once;"
                " handshake: nothing known yet, second: everything known; deadline %" PRIu64 " ms; stopped engine: %s",
                BLOCKS, b->options.want_ms, b->options.stop_engine ? b->options.stop_engine : "none");
    describe_cache(&run);
    context_open(b, &run.context, &b->roster.ranks[b->roster.rank], &run.geometry);
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
    free(run.tensors);
}
