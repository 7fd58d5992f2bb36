/* SPDX-License-Identifier: BSD-3-Clause */
/* scene: see the header. */
#include "bench/scene.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/channel.h"
#include "bench/fail.h"
#include "bench/hush.h"
#include "bench/pattern.h"
#include "bench/samples.h"

#define BLOCK_TOKENS 16u
#define CHANNELS 128u
#define ENTRY_BYTES (CHANNELS * 2u) /* of one head and token, of K or of V */
#define PATIENCE_MS 600000u
#define POISON 0xa5
#define PROBES 101u
#define PROBE_SMALL 64
#define PROBE_LARGE 16384

enum command_kind { COMMAND_OFFER = 1, COMMAND_OVER, COMMAND_ENTER_MPI, COMMAND_LEAVE_MPI, COMMAND_END };

struct command {
    uint32_t kind, scene;
    uint64_t place, serial;
};

/* ---- who is who -------------------------------------------------------------------------------------------------- */

/* The place of a rank among all ranks but the consumer's, and back. */
static uint32_t servant_of(const struct bench *b, int rank)
{
    return (uint32_t)(rank < b->consumer ? rank : rank - 1);
}

static int rank_of(const struct bench *b, uint32_t servant)
{
    return (int)servant < b->consumer ? (int)servant : (int)servant + 1;
}

static bool is_producer(const struct scene *s)
{
    const struct bench *b = s->bench;
    return !bench_is_consumer(b) && servant_of(b, b->roster.rank) < s->cut.producers;
}

static bool is_spectator(const struct scene *s)
{
    const struct bench *b = s->bench;
    return !bench_is_consumer(b) && servant_of(b, b->roster.rank) >= scene_ranks(&s->cut) - 1;
}

static uint32_t tp_rank_of(const struct scene *s)
{
    const struct bench *b = s->bench;
    if (bench_is_consumer(b) || is_spectator(s))
        return 0;
    uint32_t servant = servant_of(b, b->roster.rank);
    return servant < s->cut.producers ? servant : servant - s->cut.producers + 1;
}

static baton_open_params_t role_of(const struct scene *s)
{
    const struct bench *b = s->bench;
    baton_open_params_t p = {
        .size = sizeof p, .role = is_producer(s) ? BATON_ROLE_PREFILL : BATON_ROLE_DECODE, .tp = 1, .pp = 1};
    p.tp_rank = tp_rank_of(s);
    if (is_spectator(s)) {
        snprintf(p.engine, sizeof p.engine, "spectator%d", b->roster.rank);
        return p;
    }
    p.tp = is_producer(s) ? s->cut.producers : s->cut.consumers;
    snprintf(p.engine, sizeof p.engine, "%s", is_producer(s) ? "producer" : "consumer");
    return p;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static uint32_t heads_of_consumer(const struct scene *s)
{
    return s->cut.heads / s->cut.consumers;
}

static uint64_t block_bytes(uint32_t heads)
{
    return UINT64_C(2) * BLOCK_TOKENS * heads * ENTRY_BYTES;
}

/* The cache of one rank of either engine. */
static void describe(const struct scene *s, bool producer, uint32_t tp_rank, baton_geometry_t *g, baton_tensor_t *t)
{
    uint32_t heads = s->cut.heads / (producer ? s->cut.producers : s->cut.consumers);
    *g = (baton_geometry_t){
        .size = sizeof(baton_geometry_t),
        .model = "baton-bench",
        .dtype = "bf16",
        .elem_bytes = 2,
        .planes = 2,
        .head_size = CHANNELS,
        .num_groups = 1,
        .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = s->num_blocks}},
        .num_splits = 1,
        .splits = {{.heads_total = s->cut.heads, .head_first = heads * tp_rank, .head_count = heads}},
        .layers_total = 1,
        .layer_count = 1};
    if (!producer && tp_rank > 0)
        g->groups[0].num_blocks = 1; /* nothing arrives there */
    fail_on(baton_geometry_layout(g, t, producer ? s->cut.source : s->cut.target), "baton_geometry_layout");
}

/* The entry of a head (of the model) and a token, in the cache that lies in pool. */
static char *entry(const baton_geometry_t *g, char *pool, uint32_t block, uint32_t plane, uint32_t head, uint32_t token)
{
    const baton_tensor_t *t = g->tensors;
    return pool + t->offset +
           (uint64_t)(block * t->stride.block + plane * t->stride.plane +
                      (head - g->splits[0].head_first) * t->stride.head + token * t->stride.token);
}

static uint32_t pattern_of(uint32_t block, uint32_t plane, uint32_t head, uint32_t token)
{
    return ((block * 2 + plane) * SCENE_HEADS + head) * BLOCK_TOKENS + token;
}

/* Calls for each entry of a block of this rank's cache. */
#define FOR_ENTRIES(g, plane, head, token)                                                                             \
    for (uint32_t plane = 0; plane < 2; plane++)                                                                       \
        for (uint32_t head = (g)->splits[0].head_first; head < (g)->splits[0].head_first + (g)->splits[0].head_count;  \
             head++)                                                                                                   \
            for (uint32_t token = 0; token < BLOCK_TOKENS; token++)

static void fill(const struct scene *s)
{
    for (uint32_t block = 0; block < s->num_blocks; block++)
        FOR_ENTRIES(&s->geometry, plane, head, token)
    pattern_fill(entry(&s->geometry, s->context.pool, block, plane, head, token), ENTRY_BYTES,
                 pattern_of(block, plane, head, token));
}

void scene_open(struct bench *b, struct scenes *all, struct scene *s, const struct cut *cut, uint64_t pool,
                uint64_t batch_bytes)
{
    uint64_t seed = b->options.seed;
    *s = (struct scene){.bench = b, .cut = *cut};
    uint64_t bytes = block_bytes(heads_of_consumer(s));
    s->num_blocks = (uint32_t)((pool > 2 * batch_bytes ? pool : 2 * batch_bytes) / bytes);
    s->batch = (uint32_t)(batch_bytes / bytes);
    describe(s, is_producer(s), tp_rank_of(s), &s->geometry, &s->tensor);
    baton_open_params_t self = role_of(s);
    context_open(b, &s->context, &self, is_spectator(s) ? NULL : &s->geometry);
    for (unsigned side = 0; side < 2; side++) {
        s->ids[side] = malloc(s->batch * sizeof *s->ids[side]);
        if (!s->ids[side] || walk_init(&s->walk[side], s->num_blocks, walk_random(&seed)) != 0)
            fail("out of memory for block tables");
    }
    if (is_producer(s))
        fill(s);
    all->scene[all->count++] = s;
    channel_barrier(b->roster.comm);
}

void scene_close(struct scenes *all)
{
    struct scene *s = all->scene[--all->count];
    context_close(s->bench, &s->context);
    for (unsigned side = 0; side < 2; side++) {
        walk_fini(&s->walk[side]);
        free(s->ids[side]);
    }
}

static void key_of(const struct command *c, char key[BATON_KEY_MAX])
{
    snprintf(key, BATON_KEY_MAX, "shapes-%" PRIu64, c->serial);
}

/* ---- a servant --------------------------------------------------------------------------------------------------- */

static void answer(const struct bench *b)
{
    char done = 1;
    channel_send(b->roster.comm, b->consumer, &done, sizeof done);
}

static baton_id_t offer(struct scene *s, const struct command *c)
{
    char key[BATON_KEY_MAX];
    baton_id_t id;
    key_of(c, key);
    walk_draw(&s->walk[0], c->place, s->batch, s->ids[0]);
    baton_offer_params_t p = {.size = sizeof p,
                              .key = key,
                              .num_tables = 1,
                              .tables = {{.blocks = s->ids[0], .num_blocks = s->batch}},
                              .num_tokens = s->batch * BLOCK_TOKENS,
                              .ttl_ms = PATIENCE_MS};
    fail_on(baton_offer(s->context.baton, &p, NULL, &id), "baton_offer");
    return id;
}

static void end_offer(struct scene *s, baton_id_t id)
{
    baton_event_t event;
    if (s->cut.consumers > 1)
        fail_on(baton_cancel(s->context.baton, id), "baton_cancel");
    if (!context_await(&s->context, &event, PATIENCE_MS))
        fail("no event of an offer");
    if (event.type != BATON_EVENT_OFFER ||
        (event.status != BATON_STATUS_DONE && event.status != BATON_STATUS_CANCELLED))
        fail("the offer %s ended as %s: %s", event.key, baton_errname(event.error), event.detail);
}

static void obey(struct scenes *all, const struct bench *b)
{
    enum channel_wait wait = CHANNEL_ASLEEP;
    struct command c = {0};
    baton_id_t id = 0;
    while (c.kind != COMMAND_END) {
        channel_receive(b->roster.comm, b->consumer, &c, sizeof c, wait);
        if (c.kind == COMMAND_OFFER)
            id = offer(all->scene[c.scene], &c);
        if (c.kind == COMMAND_OVER)
            end_offer(all->scene[c.scene], id);
        if (c.kind == COMMAND_ENTER_MPI)
            hush_begin();
        if (c.kind == COMMAND_LEAVE_MPI)
            hush_end();
        if (c.kind == COMMAND_ENTER_MPI || c.kind == COMMAND_LEAVE_MPI)
            wait = c.kind == COMMAND_ENTER_MPI ? CHANNEL_IN_MPI : CHANNEL_ASLEEP;
        answer(b);
    }
}

/* ---- the consumer ------------------------------------------------------------------------------------------------ */

static void command(const struct bench *b, uint32_t servants, struct command c)
{
    char done;
    for (uint32_t i = 0; i < servants; i++)
        channel_send(b->roster.comm, rank_of(b, i), &c, sizeof c);
    for (uint32_t i = 0; i < servants; i++)
        channel_receive(b->roster.comm, rank_of(b, i), &done, sizeof done, CHANNEL_ASLEEP);
}

/* All ranks that produce in any of the scenes take part. */
static uint32_t servants_of(const struct scenes *all)
{
    uint32_t most = 0;
    for (unsigned i = 0; i < all->count; i++)
        most = all->scene[i]->cut.producers > most ? all->scene[i]->cut.producers : most;
    return most;
}

void scenes_serve(struct scenes *all)
{
    const struct bench *b = all->scene[0]->bench;
    if (bench_is_consumer(b))
        command(b, servants_of(all), (struct command){.kind = COMMAND_END});
    else if (servant_of(b, b->roster.rank) < servants_of(all))
        obey(all, b);
    channel_barrier(b->roster.comm);
}

uint64_t scene_bytes(const struct scene *s)
{
    return s->batch * block_bytes(heads_of_consumer(s));
}

static void draw(struct scene *s)
{
    s->drawn = s->place;
    for (unsigned side = 0; side < 2; side++)
        walk_draw(&s->walk[side], s->drawn, s->batch, s->ids[side]);
    s->place += s->batch + 1; /* one more, so that the next round of the walk is cut elsewhere */
}

static baton_path_t path_of(const baton_event_t *e)
{
    bool shm = e->path_bytes[BATON_PATH_SHM] > 0, rma = e->path_bytes[BATON_PATH_RMA] > 0;
    if (shm == rma)
        fail("the blocks came by several paths, or by none: put the decode rank alone on a node, or all ranks on one");
    return shm ? BATON_PATH_SHM : BATON_PATH_RMA;
}

static uint64_t want(struct scene *s, const struct command *c, baton_path_t *path)
{
    char key[BATON_KEY_MAX];
    baton_event_t event;
    key_of(c, key);
    baton_want_params_t p = {.size = sizeof p,
                             .key = key,
                             .engine = "producer",
                             .num_tables = 1,
                             .tables = {{.blocks = s->ids[1], .num_blocks = s->batch}},
                             .num_tokens = s->batch * BLOCK_TOKENS,
                             .timeout_ms = PATIENCE_MS,
                             .mode = s->cut.mode};
    uint64_t begin = clock_now_ns();
    fail_on(baton_want(s->context.baton, &p, NULL), "baton_want");
    if (!context_await(&s->context, &event, PATIENCE_MS))
        fail("no event of the want %s", key);
    uint64_t end = clock_now_ns();
    if (event.type != BATON_EVENT_WANT || event.status != BATON_STATUS_DONE || event.bytes != scene_bytes(s))
        fail("the want %s ended with %" PRIu64 " bytes as %s: %s", key, event.bytes, baton_errname(event.error),
             event.detail);
    *path = path_of(&event);
    return end - begin;
}

static uint64_t transfer(struct scenes *all, unsigned index, baton_path_t *path)
{
    struct scene *s = all->scene[index];
    struct command c = {.kind = COMMAND_OFFER, .scene = index, .place = s->drawn, .serial = s->serial++};
    command(s->bench, s->cut.producers, c);
    uint64_t ns = want(s, &c, path);
    c.kind = COMMAND_OVER;
    command(s->bench, s->cut.producers, c);
    return ns;
}

uint64_t scene_move(struct scenes *all, unsigned index, baton_path_t *path)
{
    draw(all->scene[index]);
    return transfer(all, index, path);
}

static bool is_right(const struct scene *s, uint32_t from, uint32_t to)
{
    uint64_t at;
    FOR_ENTRIES(&s->geometry, plane, head, token)
    if (!pattern_check(entry(&s->geometry, s->context.pool, to, plane, head, token), ENTRY_BYTES,
                       pattern_of(from, plane, head, token), &at)) {
        fprintf(stderr,
                "baton-bench: wrong data: %s, from block %" PRIu32 " into %" PRIu32 ": plane %" PRIu32 ", head %" PRIu32
                ", token %" PRIu32 ", byte %" PRIu64 "\n",
                s->cut.name, from, to, plane, head, token, at);
        return false;
    }
    return true;
}

void scene_verify(struct scenes *all, unsigned index)
{
    struct scene *s = all->scene[index];
    baton_path_t path;
    draw(s);
    for (uint32_t i = 0; i < s->batch; i++)
        FOR_ENTRIES(&s->geometry, plane, head, token)
    memset(entry(&s->geometry, s->context.pool, s->ids[1][i], plane, head, token), POISON, ENTRY_BYTES);
    transfer(all, index, &path);
    for (uint32_t i = 0; i < s->batch; i++)
        if (!is_right(s, s->ids[0][i], s->ids[1][i])) {
            s->bench->status = 1;
            return;
        }
}

/* ---- raw MPI ----------------------------------------------------------------------------------------------------- */

/* The runs of all producers, one producer after the other. Each run is read by itself. */
struct raw_walk {
    const struct scene *scene;
    uint32_t producer; /* the next one */
    struct plan *plan;
    struct plan_transfer transfer;
    struct plan_cursor at;
};

/* Goes on to the next producer that has bytes for the consumer. False: there is none. */
static bool next_producer(struct raw_walk *w)
{
    const struct scene *s = w->scene;
    const baton_geometry_t *mine = &s->geometry;
    while (w->producer < s->cut.producers) {
        baton_geometry_t theirs;
        baton_tensor_t tensor;
        struct plan_why why;
        struct plan_box part;
        describe(s, true, w->producer++, &theirs, &tensor);
        if (!box_intersect(&(struct plan_box){0, 1, theirs.splits[0].head_first, theirs.splits[0].head_count, 0},
                           &(struct plan_box){0, 1, mine->splits[0].head_first, mine->splits[0].head_count, 0}, &part))
            continue;
        plan_destroy(w->plan);
        w->plan = NULL;
        if (plan_compile(&theirs, mine, &part, 1, &w->plan, &why) != 0)
            fail("no plan: %s", why.text);
        const struct plan_tables from = {.num = 1, .table = {{s->ids[0], s->batch, 0}}};
        const struct plan_tables to = {.num = 1, .table = {{s->ids[1], s->batch, 0}}};
        if (plan_transfer_init(&w->transfer, w->plan, 0, s->batch * BLOCK_TOKENS, &from, &to, &why) != 0)
            fail("no transfer: %s", why.text);
        w->at = (struct plan_cursor){0};
        return true;
    }
    return false;
}

static bool next_run(void *arg, struct raw_piece *out)
{
    struct raw_walk *w = arg;
    struct plan_run run;
    while (!w->plan || plan_next(&w->transfer, &w->at, &run, 1, UINT64_MAX) == 0)
        if (!next_producer(w))
            return false;
    *out = (struct raw_piece){.peer = rank_of(w->scene->bench, w->producer - 1),
                              .mine = w->scene->context.pool + run.dst,
                              .theirs = (MPI_Aint)run.src,
                              .bytes = (int)run.bytes};
    return true;
}

/* While raw MPI is measured the reactors hold still and the producers wait inside MPI. */
static void enter_mpi(const struct scene *s)
{
    command(s->bench, s->cut.producers, (struct command){.kind = COMMAND_ENTER_MPI});
    hush_begin();
}

static void leave_mpi(const struct scene *s)
{
    hush_end();
    command(s->bench, s->cut.producers, (struct command){.kind = COMMAND_LEAVE_MPI});
}

uint64_t scene_raw(struct scenes *all, unsigned index, struct raw *raw)
{
    struct scene *s = all->scene[index];
    struct raw_walk w = {.scene = s};
    draw(s);
    enter_mpi(s);
    uint64_t ns = raw_move(raw, RAW_EACH, false, next_run, &w);
    leave_mpi(s);
    plan_destroy(w.plan);
    return ns;
}

static void probe(struct scene *s, struct raw *raw, int bytes, uint64_t *random, struct samples *out)
{
    baton_geometry_t theirs;
    baton_tensor_t tensor;
    describe(s, true, 0, &theirs, &tensor);
    double ns = raw_get_ns(raw, rank_of(s->bench, 0), s->context.pool, theirs.bytes, bytes, random);
    if (samples_add(out, (uint64_t)(ns * 1000)) != 0)
        fail("out of memory for samples");
}

/* The fastest tenth: it shows what the path costs, without what else the machine does. */
double scene_get_bytes(struct scenes *all, unsigned index, struct raw *raw, double *small_ns, double *large_ns)
{
    struct scene *s = all->scene[index];
    struct samples small = {0}, large = {0};
    uint64_t random = s->bench->options.seed;
    enter_mpi(s);
    for (unsigned i = 0; i < PROBES; i++) {
        probe(s, raw, PROBE_SMALL, &random, &small);
        probe(s, raw, PROBE_LARGE, &random, &large);
    }
    leave_mpi(s);
    *small_ns = (double)samples_quantile(&small, 0.1) / 1000;
    *large_ns = (double)samples_quantile(&large, 0.1) / 1000;
    samples_fini(&small);
    samples_fini(&large);
    double byte_ns = (*large_ns - *small_ns) / (PROBE_LARGE - PROBE_SMALL);
    return byte_ns > 0 ? *small_ns / byte_ns - PROBE_SMALL : 0;
}

uint64_t scene_run_bytes(const struct scene *s)
{
    struct raw_walk w = {.scene = s};
    struct plan_run run = {0};
    if (next_producer(&w))
        plan_next(&w.transfer, &w.at, &run, 1, UINT64_MAX);
    plan_destroy(w.plan);
    return run.bytes;
}
