/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stage: the transfers that other files time. In a transfer the consumer commands the offer; the producer offers and
 * answers; the consumer wants and sleeps until its event; the producer sleeps until its own event and answers again. So
 * no message of the benchmark is under way between the want and its event, and no offer is alive when the next
 * measurement begins.
 */
#include "bench/stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "bench/channel.h"
#include "bench/fail.h"
#include "bench/footprint.h"
#include "bench/hush.h"
#include "bench/pattern.h"
#include "bench/raw.h"
#include "front/inside.h"
#include "mpi/fabric.h"

#define BLOCK_TOKENS 16u
#define ELEM_BYTES 2u
#define PATIENCE_MS 600000u /* for one transfer: a slow one is a figure, not an error */
#define POISON 0xa5

enum command_kind {
    COMMAND_OFFER = 1,
    COMMAND_RAW_WRITE,
    COMMAND_ENTER_MPI,
    COMMAND_LEAVE_MPI,
    COMMAND_FOOTPRINT,
    COMMAND_EFFORT,
    COMMAND_END
};

struct command {
    uint32_t kind, batch, stage;
    uint32_t way; /* RAW_WRITE: enum raw_way */
    uint64_t place, serial;
};

struct answer {
    struct stage_footprint footprint; /* to COMMAND_FOOTPRINT, else 0 */
    struct effort effort;             /* to COMMAND_EFFORT */
    uint64_t ns;                      /* to COMMAND_RAW_WRITE */
};

static bool takes_part(const struct stage *s)
{
    return bench_is_producer(s->bench) || bench_is_consumer(s->bench);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void describe_blocks(struct stage *s)
{
    baton_geometry_t *g = &s->geometry;
    *g = (baton_geometry_t){.size = sizeof(baton_geometry_t),
                            .model = "baton-bench",
                            .dtype = "bf16",
                            .elem_bytes = ELEM_BYTES,
                            .planes = 1,
                            .head_size = (uint32_t)(s->block_bytes / BLOCK_TOKENS / ELEM_BYTES),
                            .num_groups = 1,
                            .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = s->num_blocks}},
                            .num_splits = 1,
                            .splits = {{.heads_total = 1, .head_count = 1}},
                            .layers_total = 1,
                            .layer_count = 1};
    fail_on(baton_geometry_layout(g, &s->tensor, BATON_LAYOUT_HND), "baton_geometry_layout");
    if (s->tensor.offset != 0 || s->tensor.stride.block != (int64_t)s->block_bytes)
        fail("a block of one head and plane is not contiguous in the usual layout");
}

static void make_walks(struct stage *s)
{
    uint64_t seed = s->bench->options.seed;
    size_t bytes = s->max_batch * sizeof(uint32_t);
    s->source_ids = malloc(bytes);
    s->target_ids = malloc(bytes);
    s->table = malloc(bytes);
    if (!s->source_ids || !s->target_ids || !s->table)
        fail("out of memory for block tables");
    if (walk_init(&s->source, s->num_blocks, walk_random(&seed)) != 0 ||
        walk_init(&s->target, s->num_blocks, walk_random(&seed)) != 0)
        fail("out of memory for the order of %" PRIu32 " blocks", s->num_blocks);
}

void stage_open(struct bench *b, struct stage *s, uint64_t block_bytes, uint32_t num_blocks, uint32_t max_batch)
{
    stage_open_in(b, s, OWN_SLAB, block_bytes, num_blocks, max_batch);
}

void stage_open_in(struct bench *b, struct stage *s, enum own_kind kind, uint64_t block_bytes, uint32_t num_blocks,
                   uint32_t max_batch)
{
    *s = (struct stage){.bench = b, .block_bytes = block_bytes, .num_blocks = num_blocks, .max_batch = max_batch};
    describe_blocks(s);
    if (takes_part(s)) {
        own_create(&s->own, kind, 1, s->geometry.bytes);
        make_walks(s);
    }
    context_open_over(b, &s->context, &b->roster.ranks[b->roster.rank], takes_part(s) ? &s->geometry : NULL, &s->own);
    if (bench_is_producer(b)) {
        for (uint32_t id = 0; id < num_blocks; id++)
            pattern_fill(s->context.pool + id * block_bytes, block_bytes, id);
    }
    channel_barrier(b->roster.comm);
}

static void command(struct stage *s, struct command c, struct answer *out)
{
    struct answer answer;
    MPI_Comm comm = s->bench->roster.comm;
    c.stage = s->number;
    channel_send(comm, s->bench->producer, &c, sizeof c);
    channel_receive(comm, s->bench->producer, &answer, sizeof answer, CHANNEL_ASLEEP);
    if (out)
        *out = answer;
}

void stage_close(struct stage *s)
{
    context_close(s->bench, &s->context);
    own_destroy(&s->own);
    walk_fini(&s->source);
    walk_fini(&s->target);
    free(s->source_ids);
    free(s->target_ids);
    free(s->table);
}

/* ---- the producer ------------------------------------------------------------------------------------------------ */

static void key_of(uint64_t serial, char key[BATON_KEY_MAX])
{
    snprintf(key, BATON_KEY_MAX, "bench-%" PRIu64, serial);
}

static void answer(struct stage *s, const struct answer *a)
{
    channel_send(s->bench->roster.comm, s->bench->consumer, a, sizeof *a);
}

static void serve_offer(struct stage *s, const struct command *c)
{
    char key[BATON_KEY_MAX];
    baton_event_t event;
    key_of(c->serial, key);
    walk_draw(&s->source, c->place, c->batch, s->source_ids);
    baton_offer_params_t p = {.size = sizeof p,
                              .key = key,
                              .num_tables = 1,
                              .tables = {{.blocks = s->source_ids, .num_blocks = c->batch}},
                              .num_tokens = c->batch * BLOCK_TOKENS,
                              .ttl_ms = PATIENCE_MS};
    fail_on(baton_offer(s->context.baton, &p, NULL, NULL), "baton_offer");
    answer(s, &(struct answer){0});
    if (!context_await(&s->context, &event, PATIENCE_MS))
        fail("no event of the offer %s", key);
    if (event.type != BATON_EVENT_OFFER || event.status != BATON_STATUS_DONE)
        fail("the offer %s ended as %s: %s", key, baton_errname(event.error), event.detail);
    answer(s, &(struct answer){0});
}

static void measure(const struct stage *s, struct stage_footprint *out)
{
    *out = (struct stage_footprint){0};
    if (footprint_read(s->context.pool, s->geometry.bytes, &out->private_kib, &out->rollup_kib) != 0)
        fail("cannot read /proc/self/smaps");
    out->segment_kib = fabric_pool_offset(baton_inside_fabric(s->context.baton)) / 1024;
}

/* Which of the drawn blocks raw MPI moves next. */
struct raw_walk {
    const struct stage *stage;
    uint32_t next, batch;
};

static bool next_block(void *arg, struct raw_piece *out)
{
    struct raw_walk *w = arg;
    const struct stage *s = w->stage;
    if (w->next == w->batch)
        return false;
    bool put = bench_is_producer(s->bench);
    uint64_t source = s->source_ids[w->next] * s->block_bytes, target = s->target_ids[w->next] * s->block_bytes;
    w->next++;
    *out = (struct raw_piece){.peer = put ? s->bench->consumer : s->bench->producer,
                              .mine = s->context.pool + (put ? source : target),
                              .theirs = (MPI_Aint)(put ? target : source),
                              .bytes = (int)s->block_bytes};
    return true;
}

static uint64_t raw_move_blocks(struct stage *s, enum raw_way way, uint32_t batch)
{
    struct raw_walk w = {.stage = s, .batch = batch};
    return raw_move(s->raw, way, bench_is_producer(s->bench), next_block, &w);
}

static void obey(struct stage *all)
{
    const struct bench *b = all->bench;
    enum channel_wait wait = CHANNEL_ASLEEP;
    struct command c = {0};
    while (c.kind != COMMAND_END) {
        struct answer a = {0};
        channel_receive(b->roster.comm, b->consumer, &c, sizeof c, wait);
        struct stage *s = &all[c.stage];
        if (c.kind == COMMAND_OFFER) {
            serve_offer(s, &c);
            continue;
        }
        if (c.kind == COMMAND_FOOTPRINT)
            measure(s, &a.footprint);
        if (c.kind == COMMAND_EFFORT)
            effort_read(&a.effort);
        if (c.kind == COMMAND_RAW_WRITE) {
            walk_draw(&s->source, c.place, c.batch, s->source_ids);
            walk_draw(&s->target, c.place, c.batch, s->target_ids);
            a.ns = raw_move_blocks(s, (enum raw_way)c.way, c.batch);
        }
        if (c.kind == COMMAND_ENTER_MPI)
            hush_begin();
        if (c.kind == COMMAND_LEAVE_MPI)
            hush_end();
        if (c.kind == COMMAND_ENTER_MPI || c.kind == COMMAND_LEAVE_MPI)
            wait = c.kind == COMMAND_ENTER_MPI ? CHANNEL_IN_MPI : CHANNEL_ASLEEP;
        answer(s, &a);
    }
}

void stage_serve(struct stage *s)
{
    if (bench_is_consumer(s->bench))
        command(s, (struct command){.kind = COMMAND_END}, NULL);
    else if (bench_is_producer(s->bench))
        obey(s);
    channel_barrier(s->bench->roster.comm);
}

/* ---- the consumer ------------------------------------------------------------------------------------------------ */

void stage_draw(struct stage *s, uint32_t batch)
{
    s->drawn = s->place;
    walk_draw(&s->source, s->drawn, batch, s->source_ids);
    walk_draw(&s->target, s->drawn, batch, s->target_ids);
    s->place += (uint64_t)batch + 1; /* one more, so that the next round of the walk is cut elsewhere */
}

static baton_path_t path_of(const baton_event_t *e)
{
    baton_path_t only = BATON_PATH_NONE;
    for (int path = 0; path < BATON_PATHS; path++) {
        if (e->path_bytes[path] == 0)
            continue;
        if (only != BATON_PATH_NONE)
            return BATON_PATH_NONE;
        only = (baton_path_t)path;
    }
    return only;
}

/* Baton's threads fall asleep, and the caller too unless it is to be awake, as an engine that computes. */
static void rest(const struct stage *s)
{
    uint64_t until = clock_now_ns() + (uint64_t)s->rest_ns;
    if (!s->is_awake)
        nanosleep(&(struct timespec){.tv_nsec = s->rest_ns}, NULL);
    while (clock_now_ns() < until)
        continue;
}

/* The timed part, for blocks that were drawn and are on offer. */
static void want(struct stage *s, uint32_t batch, const char *key, bool scribble, struct stage_transfer *out)
{
    const struct bench *b = s->bench;
    baton_event_t event;
    baton_want_params_t p = {.size = sizeof p,
                             .key = key,
                             .engine = b->roster.engines[b->prefill].name,
                             .num_tables = 1,
                             .tables = {{.blocks = s->table, .num_blocks = batch}},
                             .num_tokens = batch * BLOCK_TOKENS,
                             .timeout_ms = PATIENCE_MS,
                             .mode = b->options.op == OP_PUSH ? BATON_MODE_PUSH : BATON_MODE_PULL};
    rest(s);
    uint64_t begin = clock_now_ns();
    int rc = baton_want(s->context.baton, &p, NULL);
    uint64_t returned = clock_now_ns();
    if (scribble)
        memset(s->table, 0, batch * sizeof *s->table);
    fail_on(rc, "baton_want");
    if (!context_await(&s->context, &event, PATIENCE_MS))
        fail("no event of the want %s", key);
    uint64_t end = clock_now_ns();
    if (event.type != BATON_EVENT_WANT || event.status != BATON_STATUS_DONE)
        fail("the want %s ended as %s: %s", key, baton_errname(event.error), event.detail);
    if (event.bytes != batch * s->block_bytes)
        fail("the want %s moved %" PRIu64 " bytes of %" PRIu64, key, event.bytes, batch * s->block_bytes);
    *out = (struct stage_transfer){.submit_ns = returned - begin, .total_ns = end - begin, .path = path_of(&event)};
}

/* A transfer of the blocks that were drawn last. */
static void transfer(struct stage *s, uint32_t batch, bool scribble, struct stage_transfer *out)
{
    char key[BATON_KEY_MAX];
    struct answer done;
    struct command c = {.kind = COMMAND_OFFER, .batch = batch, .place = s->drawn, .serial = s->serial++};
    key_of(c.serial, key);
    command(s, c, NULL);
    memcpy(s->table, s->target_ids, batch * sizeof *s->table);
    want(s, batch, key, scribble, out);
    channel_receive(s->bench->roster.comm, s->bench->producer, &done, sizeof done, CHANNEL_ASLEEP);
}

void stage_pull(struct stage *s, uint32_t batch, bool scribble, struct stage_transfer *out)
{
    stage_draw(s, batch);
    transfer(s, batch, scribble, out);
}

static void compare(struct stage *s, uint32_t batch, uint64_t bytes)
{
    uint64_t at;
    for (uint32_t i = 0; i < batch; i++) {
        uint32_t from = s->source_ids[i], to = s->target_ids[i];
        if (pattern_check(s->context.pool + to * s->block_bytes, bytes, from, &at))
            continue;
        fprintf(stderr,
                "baton-bench: wrong data: request bench-%" PRIu64 ", block %" PRIu32 " of %" PRIu32 " (from %" PRIu32
                " into %" PRIu32 "), byte %" PRIu64 "\n",
                s->serial - 1, i, batch, from, to, at);
        s->bench->status = 1;
        return;
    }
}

void stage_verify(struct stage *s, uint32_t batch, bool scribble)
{
    struct stage_transfer ignored;
    stage_draw(s, batch);
    for (uint32_t i = 0; i < batch; i++)
        memset(s->context.pool + s->target_ids[i] * s->block_bytes, POISON, s->block_bytes);
    transfer(s, batch, scribble, &ignored);
    compare(s, batch, s->block_bytes);
}

void stage_glance(struct stage *s, uint32_t batch)
{
    compare(s, batch, sizeof(uint64_t));
}

void stage_enter_mpi(struct stage *s)
{
    command(s, (struct command){.kind = COMMAND_ENTER_MPI}, NULL);
    hush_begin();
}

void stage_leave_mpi(struct stage *s)
{
    hush_end();
    command(s, (struct command){.kind = COMMAND_LEAVE_MPI}, NULL);
}

uint64_t stage_raw_read(struct stage *s, enum raw_way way, uint32_t batch)
{
    return raw_move_blocks(s, way, batch);
}

uint64_t stage_raw_write(struct stage *s, enum raw_way way, uint32_t batch)
{
    struct command c = {.kind = COMMAND_RAW_WRITE, .batch = batch, .stage = s->number, .way = way, .place = s->drawn};
    struct answer a;
    MPI_Comm comm = s->bench->roster.comm;
    channel_send(comm, s->bench->producer, &c, sizeof c);
    channel_receive(comm, s->bench->producer, &a, sizeof a, CHANNEL_IN_MPI);
    return a.ns;
}

void stage_effort(struct stage *s, struct effort *own, struct effort *producer)
{
    struct answer a;
    command(s, (struct command){.kind = COMMAND_EFFORT}, &a);
    *producer = a.effort;
    effort_read(own);
}

void stage_footprint(struct stage *s, struct stage_footprint *own, struct stage_footprint *producer)
{
    struct answer a;
    command(s, (struct command){.kind = COMMAND_FOOTPRINT}, &a);
    *producer = a.footprint;
    measure(s, own);
}
