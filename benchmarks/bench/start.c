/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * start: what it costs that engines meet.
 *
 * handshake: how long the first blocks of an engine take when nothing is known of it yet, against the next ones. Every
 * rank of the decode engine wants from all prefill engines at once, so the times also show whether one engine delays
 * another; with --stop-engine one of them does not answer. Then all others must be as fast as ever, and the want of the
 * stopped one must end at its deadline.
 *
 * regions: what a start costs where every rank's cache lies in many regions, beside the same cache in fewer. The
 * numbers of regions alternate, each with a context of its own: opened, timed until all ranks have started, tried with
 * one transfer that touches every region, and closed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/context.h"
#include "bench/fail.h"
#include "bench/pace.h"
#include "bench/samples.h"
#include "core/path.h"
#include "plan/plan.h"

#define LAYERS 8u /* of the pretended model, or as many as pipeline stages; heads alike */
#define HEADS 16u
#define BLOCKS 4u      /* of one transfer */
#define SETTLE_MS 500u /* after which a rank that meant to stop has stopped, and others have passed the barrier */
#define LATE_MS 1000u  /* how far past its deadline a want may end */
#define PATIENCE_MS 60000u

#define REGIONS_BLOCKS 16u
#define REGIONS_BATCH 4u /* blocks of the transfer */
#define ROUNDS_LEAST 3u
#define ROUNDS_MOST 1000u
#define WORD_MAX 48

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

/* ---- handshake: the cache ---------------------------------------------------------------------------------------- */

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

/* ---- handshake: a prefill rank ----------------------------------------------------------------------------------- */

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

/* ---- handshake: a decode rank ------------------------------------------------------------------------------------ */

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

static void print_outcome(struct run *run, int round, int engine)
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
            print_outcome(run, round, e);
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
    context_note(b, &run.context);
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

/* ---- regions ----------------------------------------------------------------------------------------------------- */

struct starts {
    struct bench *bench;
    enum own_kind kind;
    uint64_t block_bytes;
    uint32_t num_tensors; /* the largest number of regions; each number divides it */
    struct samples wrap[OPTION_LIST_MAX], start[OPTION_LIST_MAX], total[OPTION_LIST_MAX];
    baton_path_t path[OPTION_LIST_MAX];
    char windows[OPTION_LIST_MAX][WORD_MAX]; /* over the regions */
    uint64_t peer_bytes[OPTION_LIST_MAX];
};

/* K and V apart, layer by layer. Neighbours share a region where there are fewer regions than tensors. */
static void describe(const struct starts *r, uint32_t regions, struct blocks *c)
{
    const uint32_t layers = (r->num_tensors + 1) / 2, share = r->num_tensors / regions;
    blocks_describe_plain(c, layers, r->block_bytes, REGIONS_BLOCKS);
    const baton_strides_t stride = c->tensors[0].stride;
    free(c->tensors);
    c->geometry.num_tensors = r->num_tensors;
    c->geometry.tensors = c->tensors = room(r->num_tensors, sizeof *c->tensors);
    for (uint32_t i = 0; i < r->num_tensors; i++) {
        baton_tensor_t *t = &c->tensors[i];
        *t = (baton_tensor_t){.layer = i / 2,
                              .region = i / share,
                              .offset = i % share * r->block_bytes * REGIONS_BLOCKS,
                              .stride = stride};
        snprintf(t->name, sizeof t->name, "layer.%" PRIu32 ".%s", i / 2, i % 2 == 0 ? "k" : "v");
    }
}

/* What a consumer keeps of a producer whose cache is like its own: the plan, and where the regions lie. */
static uint64_t peer_bytes(const struct blocks *c, uint32_t regions)
{
    struct plan_box boxes[BATON_SPLITS_MAX];
    struct plan *plan;
    struct plan_why why;
    uint32_t num = plan_boxes(&c->geometry, boxes);
    if (plan_compile(&c->geometry, &c->geometry, boxes, num, &plan, &why) != 0)
        fail("no plan: %s", why.text);
    uint64_t bytes = plan_footprint(plan) + sizeof(struct path_regions) + regions * sizeof(struct path_region);
    plan_destroy(plan);
    return bytes;
}

/* ---- regions: one context ---------------------------------------------------------------------------------------- */

/* The time of the slowest rank. */
static void note_time(struct starts *r, struct samples *s, uint64_t ns, bool counts)
{
    MPI_Allreduce(MPI_IN_PLACE, &ns, 1, MPI_UINT64_T, MPI_MAX, r->bench->roster.comm);
    if (counts)
        samples_add(s, ns);
}

/* From even blocks into odd ones. */
static void transfer(const struct starts *r, const struct context *c, const struct blocks *cache, baton_path_t *out)
{
    const struct bench *b = r->bench;
    uint32_t from[REGIONS_BATCH], to[REGIONS_BATCH];
    baton_event_t event;
    for (uint32_t k = 0; k < REGIONS_BATCH; k++) {
        from[k] = 2 * k;
        to[k] = 2 * k + 1;
    }
    if (bench_is_producer(b)) {
        blocks_fill(cache, 0);
        context_offer(c, "regions", from, REGIONS_BATCH, 0);
        context_take(c, BATON_EVENT_OFFER, &event);
    } else if (bench_is_consumer(b)) {
        blocks_poison(cache, to, REGIONS_BATCH);
        context_want(c, b->roster.engines[b->prefill].name, "regions", to, REGIONS_BATCH, BATON_MODE_AUTO, NULL);
        context_take(c, BATON_EVENT_WANT, &event);
        *out = context_path(&event);
        if (!blocks_check(cache, 0, from, to, REGIONS_BATCH, false, "regions"))
            r->bench->status = 1;
    }
}

/* How many windows MPI has over the regions: the word of baton_describe's line about them. */
static void note_windows(const baton_t *baton, char out[WORD_MAX])
{
    static const char begin[] = "windows over engines' memory: ";
    char text[16384];
    snprintf(out, WORD_MAX, "none");
    const char *line = baton_describe(baton, text, sizeof text) > 0 ? strstr(text, begin) : NULL;
    if (line)
        snprintf(out, WORD_MAX, "%.*s", (int)strcspn(line + strlen(begin), ",:\n"), line + strlen(begin));
}

static void visit(struct starts *r, unsigned index, bool counts)
{
    struct bench *b = r->bench;
    const uint32_t regions = (uint32_t)b->options.regions.value[index];
    struct context c = {.patience_ms = CONTEXT_PATIENCE_MS};
    struct blocks cache;
    struct own own;
    describe(r, regions, &cache);
    own_create(&own, r->kind, regions, r->block_bytes * REGIONS_BLOCKS * (r->num_tensors / regions));
    cache.bases = own.bases;
    fail_on(baton_open(MPI_COMM_WORLD, &b->roster.ranks[b->roster.rank], &c.baton), "baton_open");
    MPI_Barrier(b->roster.comm);
    uint64_t begin = clock_now_ns();
    own_wrap(&own, c.baton, &cache.geometry, &c.cache);
    uint64_t wrapped = clock_now_ns();
    fail_on(baton_start(c.baton), "baton_start");
    uint64_t end = clock_now_ns();
    note_time(r, &r->wrap[index], wrapped - begin, counts);
    note_time(r, &r->start[index], end - wrapped, counts);
    note_time(r, &r->total[index], end - begin, counts);
    note_windows(c.baton, r->windows[index]);
    transfer(r, &c, &cache, &r->path[index]);
    channel_barrier(b->roster.comm);
    context_close(b, &c);
    r->peer_bytes[index] = peer_bytes(&cache, regions);
    own_destroy(&own);
    blocks_fini(&cache);
}

/* ---- regions: rows ----------------------------------------------------------------------------------------------- */

static void print_regions(struct starts *r, unsigned index)
{
    struct bench *b = r->bench;
    struct samples *total = &r->total[index];
    const uint64_t regions = b->options.regions.value[index];
    const char *kind = own_name(r->kind);
    report_row(&b->report,
               "memory=%s|regions=%" PRIu64
               "|path=%s|windows=%s|wrap_ms=%.3f|start_ms=%.3f|total_ms=%.3f|ratio=%.3f|peer_bytes=%" PRIu64,
               kind, regions, bench_path_name(r->path[index]), r->windows[index],
               samples_us(&r->wrap[index], 0.5) / 1e3, samples_us(&r->start[index], 0.5) / 1e3,
               samples_us(total, 0.5) / 1e3, samples_us(total, 0.5) / samples_us(&r->total[0], 0.5),
               r->peer_bytes[index]);
    report_note(&b->report, "  %s, %" PRIu64 " regions: %zu starts, total of the fastest tenth %.3f ms", kind, regions,
                total->count, samples_us(total, 0.1) / 1e3);
}

static void run_kind(struct bench *b, enum own_kind kind, uint32_t num_tensors)
{
    const struct options *o = &b->options;
    struct starts r = {.bench = b, .kind = kind, .block_bytes = o->block.value[0], .num_tensors = num_tensors};
    struct pace pace;
    for (unsigned i = 0; i < o->regions.count; i++)
        visit(&r, i, false);
    pace_begin(&pace, b, ROUNDS_LEAST, ROUNDS_MOST, "%s", own_name(kind));
    while (pace_next(&pace))
        for (unsigned i = 0; i < o->regions.count; i++)
            visit(&r, i, true);
    for (unsigned i = 0; i < o->regions.count; i++)
        print_regions(&r, i);
    for (unsigned i = 0; i < o->regions.count; i++) {
        samples_fini(&r.wrap[i]);
        samples_fini(&r.start[i]);
        samples_fini(&r.total[i]);
    }
}

void regions_run(struct bench *b)
{
    const struct options *o = &b->options;
    const uint32_t most = (uint32_t)option_list_most(&o->regions);
    report_note(
        &b->report,
        "each rank has the same cache of %" PRIu32 " tensors of %u blocks of %" PRIu64
        " bytes, in as many regions as a row says; from baton_cache_wrap until baton_start returns on the "
        "slowest rank; each column is a median of its own; ratio: total beside the first row's; peer_bytes: the "
        "plan and the regions of a peer",
        most, REGIONS_BLOCKS, o->block.value[0]);
    for (enum own_kind kind = OWN_PRIVATE; kind < OWN_KINDS; kind++)
        run_kind(b, kind, most);
}
