/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stage: the transfers that other files time. In a transfer the consumer commands the offer; the producer offers and
 * answers; the consumer wants and sleeps until its event; the producer sleeps until its own event and answers again. So
 * no message of the benchmark is under way between the want and its event, and no offer is alive when the next
 * measurement begins.
 *
 * Where a call of the producer's is timed, the consumer wants and then says so. The producer, which has received that,
 * rests first, so that the want has arrived and all have fallen asleep again, and then makes its call.
 */
#include "bench/stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/settings.h"
#include "bench/blocks.h"
#include "bench/channel.h"
#include "bench/command.h"
#include "bench/crew.h"
#include "bench/fail.h"
#include "bench/footprint.h"
#include "bench/hush.h"
#include "bench/raw.h"
#include "front/inside.h"
#include "mpi/fabric.h"

#define NAP_NS 100000L                     /* of the consumer while it waits for the first layer */
#define LAST_LAYER (STAGE_LAYERS_MOST - 1) /* the one whose baton_ready is timed; all before it are ready at once */

static bool takes_part(const struct stage *s)
{
    return bench_is_producer(s->bench) || bench_is_consumer(s->bench);
}

void stage_rest(const struct stage *s)
{
    uint64_t until = clock_now_ns() + (uint64_t)s->rest_ns;
    if (!s->is_awake)
        nanosleep(&(struct timespec){.tv_nsec = s->rest_ns}, NULL);
    while (clock_now_ns() < until)
        continue;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

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

/* Where a layer begins in the cache. Patterns go on from layer to layer: block 0 of the second is number num_blocks. */
static char *layer_at(const struct stage *s, uint32_t layer)
{
    return s->context.pool + (uint64_t)layer * s->num_blocks * s->block_bytes;
}

static void open_layers(struct stage *s, enum own_kind kind, uint32_t num_layers)
{
    struct bench *b = s->bench;
    blocks_describe_layers(s->block_bytes, s->num_blocks, num_layers, &s->geometry, s->tensors);
    if (takes_part(s)) {
        own_create(&s->own, kind, 1, s->geometry.bytes);
        make_walks(s);
    }
    context_open_over(b, &s->context, &b->roster.ranks[b->roster.rank], takes_part(s) ? &s->geometry : NULL, &s->own);
    if (bench_is_producer(b))
        for (uint32_t layer = 0; layer < num_layers; layer++)
            blocks_fill(layer_at(s, layer), s->block_bytes, s->num_blocks, layer * s->num_blocks);
    channel_barrier(b->roster.comm);
}

void stage_open(struct bench *b, struct stage *s, uint64_t block_bytes, uint32_t num_blocks, uint32_t max_batch)
{
    stage_open_in(b, s, OWN_SLAB, block_bytes, num_blocks, max_batch);
}

void stage_open_in(struct bench *b, struct stage *s, enum own_kind kind, uint64_t block_bytes, uint32_t num_blocks,
                   uint32_t max_batch)
{
    *s = (struct stage){.bench = b, .block_bytes = block_bytes, .num_blocks = num_blocks, .max_batch = max_batch};
    open_layers(s, kind, 1);
}

void stage_open_layers(struct bench *b, struct stage *s, uint32_t num_layers, uint64_t block_bytes, uint32_t num_blocks,
                       uint32_t max_batch)
{
    *s = (struct stage){.bench = b, .block_bytes = block_bytes, .num_blocks = num_blocks, .max_batch = max_batch};
    open_layers(s, OWN_SLAB, num_layers);
}

void stage_command(struct stage *s, struct command c, struct answer *out)
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

void stage_key(uint64_t serial, char key[BATON_KEY_MAX])
{
    snprintf(key, BATON_KEY_MAX, "bench-%" PRIu64, serial);
}

void stage_answer(struct stage *s, const struct answer *a)
{
    channel_send(s->bench->roster.comm, s->bench->consumer, a, sizeof *a);
}

/* What comes before the timed call. Returns the offer that there is then, or 0. */
static baton_id_t prepare(struct stage *s, enum bench_from from, const char *key, uint32_t batch)
{
    if (from == FROM_OFFER)
        return 0;
    if (from == FROM_WANT)
        return blocks_offer(&s->context, key, s->source_ids, batch);
    const baton_id_t id = blocks_offer_layers(&s->context, key, s->source_ids, batch);
    fail_on(baton_ready(s->context.baton, id, 0, LAST_LAYER, 0), "baton_ready");
    return id;
}

/* When the consumer says so, the rest and then the timed call. */
static struct effort make_call(struct stage *s, baton_id_t id, const char *key, uint32_t batch, struct answer *out)
{
    struct command go;
    channel_receive(s->bench->roster.comm, s->bench->consumer, &go, sizeof go, CHANNEL_ASLEEP);
    s->rest_ns = (long)go.rest_ns;
    s->is_awake = go.way;
    stage_rest(s);
    const struct effort before = effort_read(&s->context.meter);
    out->begin_ns = clock_now_ns();
    if (id == 0)
        blocks_offer(&s->context, key, s->source_ids, batch);
    else
        fail_on(baton_ready(s->context.baton, id, LAST_LAYER, 1, 0), "baton_ready");
    out->returned_ns = clock_now_ns();
    return before;
}

static void serve_offer(struct stage *s, const struct command *c)
{
    const enum bench_from from = (enum bench_from)c->way;
    char key[BATON_KEY_MAX];
    struct answer a = {0};
    baton_event_t event;
    stage_key(c->serial, key);
    walk_draw(&s->source, c->place, c->batch, s->source_ids);
    const baton_id_t id = prepare(s, from, key, c->batch);
    stage_answer(s, &a);
    const struct effort before =
        from == FROM_WANT ? effort_read(&s->context.meter) : make_call(s, id, key, c->batch, &a);
    blocks_await(&s->context, BATON_EVENT_OFFER, &event);
    a.effort = effort_since(&s->context.meter, before);
    stage_answer(s, &a);
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
        if (c.kind == COMMAND_OFFER || c.kind == COMMAND_STREAK) {
            (c.kind == COMMAND_OFFER ? serve_offer : stream_serve_streak)(s, &c);
            continue;
        }
        if (c.kind == COMMAND_FOOTPRINT)
            measure(s, &a.footprint);
        if (c.kind == COMMAND_RAW_WRITE) {
            walk_draw(&s->source, c.place, c.batch, s->source_ids);
            walk_draw(&s->target, c.place, c.batch, s->target_ids);
            a.ns = raw_move_blocks(s, (enum raw_way)c.way, c.batch);
        }
        if (c.kind == COMMAND_STREAM)
            stream_offer(s, &c);
        if (c.kind == COMMAND_STREAM_END)
            stream_take_back(s);
        if (c.kind == COMMAND_HOLD)
            hush_begin();
        if (c.kind == COMMAND_GO_ON)
            hush_end();
        if (c.kind == COMMAND_HOLD || c.kind == COMMAND_GO_ON)
            wait = (enum channel_wait)c.way; /* CHANNEL_ASLEEP where it goes on */
        stage_answer(s, &a);
    }
}

void stage_serve(struct stage *s)
{
    if (bench_is_consumer(s->bench))
        stage_command(s, (struct command){.kind = COMMAND_END}, NULL);
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

static void call_want(struct stage *s, const struct wanted *w)
{
    const struct bench *b = s->bench;
    blocks_want(&s->context, b->roster.engines[b->prefill].name, w->key, s->table, w->batch,
                b->options.op == OP_PUSH ? BATON_MODE_PUSH : BATON_MODE_PULL, NULL);
}

/* Returns when the event was taken, and leaves the times and the effort out. */
static uint64_t await_want(struct stage *s, const struct wanted *w, struct stage_transfer *out)
{
    const uint64_t bytes = s->geometry.layer_count * (uint64_t)w->batch * s->block_bytes;
    baton_event_t event;
    if (w->scribble)
        memset(s->table, 0, w->batch * sizeof *s->table);
    blocks_await(&s->context, BATON_EVENT_WANT, &event);
    const uint64_t end = clock_now_ns();
    *out = (struct stage_transfer){.path = blocks_path(&event)};
    if (event.bytes != bytes)
        fail("the want %s moved %" PRIu64 " bytes of %" PRIu64, w->key, event.bytes, bytes);
    /* Baton reads the clock once a turn: a turn that is held up on a busy machine may look early without being so. */
    out->is_early = s->from == FROM_OFFER && event.wait_ns < (uint64_t)s->rest_ns;
    return end;
}

void stage_time_want(struct stage *s, const struct wanted *w, struct stage_transfer *out)
{
    const uint64_t begin = clock_now_ns();
    call_want(s, w);
    const uint64_t returned = clock_now_ns();
    const uint64_t end = await_want(s, w, out);
    out->submit_ns = returned - begin;
    out->total_ns = end - begin;
}

/* Timed from the want, of what is on offer. */
static void time_want(struct stage *s, const struct wanted *w, struct stage_transfer *out)
{
    struct answer done;
    stage_rest(s);
    const struct effort before = effort_read(&s->context.meter);
    stage_time_want(s, w, out);
    out->consumer = effort_since(&s->context.meter, before);
    channel_receive(s->bench->roster.comm, s->bench->producer, &done, sizeof done, CHANNEL_ASLEEP);
    out->producer = done.effort;
}

/* Until the last word of each block in the first layer is no longer the mark. */
static void await_first_layer(struct stage *s, const struct wanted *w)
{
    const uint64_t until = clock_now_ns() + BLOCKS_PATIENCE_MS * CLOCK_NS_PER_MS;
    baton_event_t event;
    for (uint32_t come = 0; come < w->batch;) {
        if (blocks_has_come(layer_at(s, 0), s->block_bytes, s->target_ids[come])) {
            come++;
            continue;
        }
        if (context_await(&s->context, &event, 0))
            fail("the want %s ended before its last layer was ready: %s: %s", w->key, baton_errname(event.error),
                 event.detail);
        if (clock_now_ns() > until)
            fail("the first layer of %s did not come for %u ms", w->key, BLOCKS_PATIENCE_MS);
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
}

/* Timed from a call of the producer's, for a want that waits for it. */
static void time_call(struct stage *s, const struct wanted *w, struct stage_transfer *out)
{
    const struct command go = {.kind = COMMAND_CALL, .way = s->is_awake, .rest_ns = s->rest_ns};
    struct answer done;
    if (s->from == FROM_READY)
        blocks_mark(layer_at(s, 0), s->block_bytes, s->target_ids, w->batch);
    call_want(s, w);
    if (s->from == FROM_READY)
        await_first_layer(s, w);
    channel_send(s->bench->roster.comm, s->bench->producer, &go, sizeof go);
    const struct effort before = effort_read(&s->context.meter);
    const uint64_t end = await_want(s, w, out);
    out->consumer = effort_since(&s->context.meter, before);
    channel_receive(s->bench->roster.comm, s->bench->producer, &done, sizeof done, CHANNEL_ASLEEP);
    if (end < done.begin_ns)
        fail("the event of %s came %" PRIu64 " ns before the call that it was to wait for", w->key,
             done.begin_ns - end);
    out->submit_ns = done.returned_ns - done.begin_ns;
    out->total_ns = end - done.begin_ns;
    out->producer = done.effort;
}

/* A transfer of the blocks that were drawn last. */
static void transfer(struct stage *s, uint32_t batch, bool scribble, struct stage_transfer *out)
{
    char key[BATON_KEY_MAX];
    struct wanted w = {.key = key, .batch = batch, .scribble = scribble};
    struct command c = {
        .kind = COMMAND_OFFER, .way = s->from, .batch = batch, .place = s->drawn, .serial = s->serial++};
    stage_key(c.serial, key);
    stage_command(s, c, NULL);
    memcpy(s->table, s->target_ids, batch * sizeof *s->table);
    if (s->from == FROM_WANT)
        time_want(s, &w, out);
    else
        time_call(s, &w, out);
}

void stage_pull(struct stage *s, uint32_t batch, bool scribble, struct stage_transfer *out)
{
    stage_draw(s, batch);
    transfer(s, batch, scribble, out);
}

static void compare(struct stage *s, uint32_t batch, uint64_t bytes)
{
    char key[BATON_KEY_MAX];
    stage_key(s->serial - 1, key);
    for (uint32_t layer = 0; layer < s->geometry.layer_count; layer++) {
        for (uint32_t i = 0; i < batch; i++)
            s->table[i] = layer * s->num_blocks + s->source_ids[i];
        if (!blocks_check(layer_at(s, layer), s->block_bytes, bytes, s->table, s->target_ids, batch, key))
            s->bench->status = 1;
    }
}

void stage_verify(struct stage *s, uint32_t batch, bool scribble)
{
    struct stage_transfer ignored;
    stage_draw(s, batch);
    for (uint32_t layer = 0; layer < s->geometry.layer_count; layer++)
        blocks_poison(layer_at(s, layer), s->block_bytes, s->target_ids, batch);
    transfer(s, batch, scribble, &ignored);
    compare(s, batch, s->block_bytes);
}

void stage_glance(struct stage *s, uint32_t batch)
{
    compare(s, batch, sizeof(uint64_t));
}

void stage_hold(struct stage *s, enum channel_wait producer)
{
    stage_command(s, (struct command){.kind = COMMAND_HOLD, .way = producer}, NULL);
    hush_begin();
}

void stage_go_on(struct stage *s)
{
    hush_end();
    stage_command(s, (struct command){.kind = COMMAND_GO_ON, .way = CHANNEL_ASLEEP}, NULL);
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

uint64_t stage_ask_and_read(struct stage *s, uint32_t batch)
{
    struct command c = {.kind = COMMAND_ECHO, .stage = s->number};
    struct answer a;
    uint64_t begin = clock_now_ns();
    channel_send(s->bench->roster.comm, s->bench->producer, &c, sizeof c);
    channel_receive(s->bench->roster.comm, s->bench->producer, &a, sizeof a, CHANNEL_IN_MPI);
    raw_move_blocks(s, RAW_FLUSH, batch);
    return clock_now_ns() - begin;
}

void stage_footprint(struct stage *s, struct stage_footprint *own, struct stage_footprint *producer)
{
    struct answer a;
    stage_command(s, (struct command){.kind = COMMAND_FOOTPRINT}, &a);
    *producer = a.footprint;
    measure(s, own);
}

void stage_crew(struct crew *crew)
{
    struct settings settings;
    fail_on(settings_read(&settings, environ), "the settings");
    if (crew_start(crew, (unsigned)settings.copy_workers) != 0)
        fail("cannot start %u threads", (unsigned)settings.copy_workers);
}
