/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_api: the library by its public header alone, on any number of ranks, and its pages of metrics. The first half of
 * the ranks, at least one, is the prefill engine "p", the rest is the decode engine "d". One rank alone is both.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <time.h>

#include "baton.h"
#include "harness.h"
#include "with_clock.h"
#include "with_page.h"
#include "with_tune.h"

#define LAYERS 2
#define HEADS 12 /* divisible by 1, 2 and 3 */
#define BLOCKS 64
#define BLOCK_TOKENS 16

struct fixture {
    baton_t *b;
    baton_cache_t *cache;
    baton_open_params_t me;
    baton_geometry_t geometry;
    baton_tensor_t tensors[LAYERS];
    bool producer, consumer;
    const char *engine; /* from which this rank wants */
};

static baton_mode_t mode;         /* of all wants */
static baton_verdicts_t verdicts; /* of both engines */

static void who(struct fixture *f)
{
    int half = harness.size > 1 ? harness.size / 2 : 1;
    bool first = harness.rank < half;
    f->producer = first;
    f->consumer = !first || harness.size == 1;
    f->engine = "p";
    f->me = (baton_open_params_t){.size = sizeof(baton_open_params_t),
                                  .role = harness.size == 1 ? BATON_ROLE_BOTH
                                          : first           ? BATON_ROLE_PREFILL
                                                            : BATON_ROLE_DECODE,
                                  .tp = (uint32_t)(first ? half : harness.size - half),
                                  .pp = 1,
                                  .tp_rank = (uint32_t)(first ? harness.rank : harness.rank - half),
                                  .verdicts = verdicts};
    strcpy(f->me.engine, first ? "p" : "d");
}

static void shape(struct fixture *f, const char *model)
{
    uint32_t heads = HEADS / f->me.tp;
    f->geometry =
        (baton_geometry_t){.size = sizeof(baton_geometry_t),
                           .elem_bytes = 2,
                           .planes = 2,
                           .head_size = 32,
                           .num_groups = 1,
                           .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS}},
                           .num_splits = 1,
                           .splits = {{.heads_total = HEADS, .head_first = heads * f->me.tp_rank, .head_count = heads}},
                           .layers_total = LAYERS,
                           .layer_count = LAYERS};
    strcpy(f->geometry.model, model);
    strcpy(f->geometry.dtype, "bf16");
    CHECK_EQ(baton_geometry_layout(&f->geometry, f->tensors, f->producer ? 0 : BATON_LAYOUT_KV_FUSED), 0);
}

static void failed(const char *what)
{
    fprintf(stderr, "# rank %d: %s: %s\n", harness.rank, what, baton_errmsg());
    MPI_Abort(MPI_COMM_WORLD, 1); /* no later case makes sense */
}

/* Calls baton_open as f->me. */
static void open_as(struct fixture *f)
{
    if (!CHECK_EQ(baton_open(MPI_COMM_WORLD, &f->me, &f->b), 0))
        failed("open");
}

static void up(struct fixture *f, const char *model, baton_progress_mode_t progress)
{
    memset(f, 0, sizeof *f);
    who(f);
    f->me.progress = progress;
    shape(f, model);
    open_as(f);
    CHECK_EQ(baton_cache_create(f->b, &f->geometry, BATON_MEMORY_HOST, &f->cache), 0);
    if (!CHECK_EQ(baton_start(f->b), 0))
        failed("start");
    memset(baton_cache_base(f->cache), 0xa5, f->geometry.bytes);
}

static void down(struct fixture *f)
{
    CHECK_EQ(baton_close(f->b), 0);
}

/* The next event, within 20 s. */
static baton_event_t next_event(struct fixture *f)
{
    baton_event_t e = {0};
    struct pollfd p = {.fd = baton_event_fd(f->b), .events = POLLIN};
    double until = now_ms() + 20000;
    int n;
    while ((n = baton_poll(f->b, &e, 1)) == 0 && now_ms() < until) {
        if (f->me.progress == BATON_PROGRESS_CALLER)
            baton_progress(f->b);
        else
            poll(&p, 1, 100);
    }
    CHECK_EQ(n, 1);
    return e;
}

static void ends(struct fixture *f, baton_id_t id, baton_status_t status, int error)
{
    baton_event_t e = next_event(f);
    CHECK_EQ(e.id, id);
    CHECK_EQ(e.status, status);
    if (!CHECK_EQ(e.error, error))
        fprintf(stderr, "# rank %d: %s: %s\n", harness.rank, e.key, e.detail);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static uint16_t *entry(struct fixture *f, const uint32_t *blocks, uint32_t l, uint32_t p, uint32_t h, uint32_t t)
{
    const baton_strides_t *s = &f->tensors[l].stride;
    return (void *)((char *)baton_cache_base(f->cache) + (int64_t)f->tensors[l].offset +
                    blocks[t / BLOCK_TOKENS] * s->block + p * s->plane + h * s->head + t % BLOCK_TOKENS * s->token);
}

static uint16_t behind = 0xa5a5; /* what lies behind a request's tokens */

/* Fills tokens `first` to `tokens`, or counts what is wrong in these and behind them. */
static long walk_layers(struct fixture *f, const uint32_t *blocks, uint32_t first, uint32_t tokens, unsigned seed,
                        bool fill, uint32_t layer_first, uint32_t layer_end)
{
    long wrong = 0;
    for (uint32_t l = layer_first; l < layer_end; l++)
        for (uint32_t p = 0; p < 2; p++)
            for (uint32_t h = 0; h < f->geometry.splits[0].head_count; h++)
                for (uint32_t t = first; t < (tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS * BLOCK_TOKENS; t++) {
                    uint16_t *at = entry(f, blocks, l, p, h, t);
                    for (uint32_t c = 0; c < 32; c++) {
                        uint32_t head = f->geometry.splits[0].head_first + h;
                        uint16_t right = (uint16_t)((seed * 7919 + l * 4099 + p * 2053 + head * 127 + t) * 31 + c);
                        if (t >= tokens)
                            right = behind;
                        if (fill && t < tokens)
                            at[c] = right;
                        else if (!fill)
                            wrong += at[c] != right;
                    }
                }
    return wrong;
}

static long walk(struct fixture *f, const uint32_t *blocks, uint32_t tokens, unsigned seed, bool fill)
{
    return walk_layers(f, blocks, 0, tokens, seed, fill, 0, LAYERS);
}

static void scatter(uint32_t *blocks, uint32_t n, uint32_t first, uint32_t step)
{
    for (uint32_t i = 0; i < n; i++)
        blocks[i] = (first + i * step) % BLOCKS;
}

static baton_id_t offer(struct fixture *f, const char *key, const uint32_t *blocks, uint32_t tokens, uint32_t ttl_ms)
{
    baton_id_t id = 0;
    baton_offer_params_t o = {.size = sizeof o,
                              .key = key,
                              .num_tables = 1,
                              .tables = {{.blocks = blocks, .num_blocks = (tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS}},
                              .num_tokens = tokens,
                              .ttl_ms = ttl_ms};
    CHECK_EQ(baton_offer(f->b, &o, &id), 0);
    return id;
}

static baton_id_t want(struct fixture *f, const char *key, const uint32_t *blocks, uint32_t tokens, uint32_t timeout_ms)
{
    baton_id_t id = 0;
    baton_want_params_t w = {.size = sizeof w,
                             .key = key,
                             .engine = f->engine,
                             .num_tables = 1,
                             .tables = {{.blocks = blocks, .num_blocks = (tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS}},
                             .num_tokens = tokens,
                             .timeout_ms = timeout_ms};
    w.mode = mode;
    CHECK_EQ(baton_want(f->b, &w, &id), 0);
    return id;
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static void move_some(struct fixture *f)
{
    uint32_t from[32], to[32];
    for (unsigned i = 0; i < 8; i++) {
        uint32_t tokens = 1 + 61 * i, n = (tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
        char key[16];
        snprintf(key, sizeof key, "r%u", i);
        scatter(from, n, i, 7);
        scatter(to, n, 3 + i + 16 * (harness.size == 1), 5);
        if (harness.size == 1) /* one cache: the two halves of it */
            for (uint32_t k = 0; k < n; k++) {
                from[k] = k;
                to[k] = BLOCKS - 1 - k;
            }
        memset(baton_cache_base(f->cache), 0xa5, f->geometry.bytes);
        if (f->producer)
            walk(f, from, tokens, i, true);
        baton_id_t o = 0, w = 0;
        if (i % 2 && f->consumer)
            w = want(f, key, to, tokens, 10000);
        if (f->producer)
            o = offer(f, key, from, tokens, 10000);
        if (!(i % 2) && f->consumer)
            w = want(f, key, to, tokens, 10000);
        memset(from, 0, sizeof from); /* the arrays are the caller's again */
        uint32_t kept[32];
        memcpy(kept, to, sizeof kept);
        memset(to, 0, sizeof to);
        for (int e = 0; e < (o != 0) + (w != 0); e++) {
            baton_event_t event = next_event(f);
            CHECK_EQ(event.status, BATON_STATUS_DONE);
            if (event.type == BATON_EVENT_WANT) {
                CHECK_EQ(event.id, w);
                CHECK_EQ(event.mode, mode == BATON_MODE_PUSH ? BATON_MODE_PUSH : BATON_MODE_PULL);
                CHECK_EQ(event.bytes, (uint64_t)tokens * f->geometry.splits[0].head_count * 2 * LAYERS * 64);
                CHECK_EQ(walk(f, kept, tokens, i, false), 0);
            } else {
                CHECK_EQ(event.id, o);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void moves_every_byte(void)
{
    struct fixture f;
    baton_stats_t s = BATON_INIT(baton_stats_t);
    up(&f, "m", BATON_PROGRESS_THREAD);
    move_some(&f);
    CHECK_EQ(baton_stats(f.b, &s), 0);
    CHECK_EQ(s.wants_done, f.consumer ? 8 : 0);
    CHECK_EQ(s.offers_done, f.producer ? 8 : 0);
    CHECK_EQ(s.handshakes, f.consumer ? 1 : 0);
    CHECK_EQ(s.messages_bad, 0);
    uint32_t peers = 0;
    for (int path = BATON_PATH_SHM; path <= BATON_PATH_STAGED; path++)
        peers += s.peers[path];
    CHECK_EQ(peers, harness.size);
    down(&f);
}

/* Each layer is filled just before it is reported as ready: what moves too early is wrong. */
static void moves_layer_by_layer(void)
{
    struct fixture f;
    uint32_t from[] = {3, 1, 4}, to[] = {BLOCKS - 3, BLOCKS - 1, BLOCKS - 8}, tokens = 2 * BLOCK_TOKENS + 5;
    baton_id_t o = 0, w = 0;
    up(&f, "m", BATON_PROGRESS_THREAD);
    for (unsigned round = 0; round < 4; round++) { /* in the last one the layers come in reverse order */
        memset(baton_cache_base(f.cache), 0xa5, f.geometry.bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        char key[16];
        snprintf(key, sizeof key, "layers%u", round);
        if (f.consumer && round % 2)
            w = want(&f, key, to, tokens, 20000);
        if (f.producer) {
            baton_offer_params_t p = {.size = sizeof p,
                                      .key = key,
                                      .num_tables = 1,
                                      .tables = {{.blocks = from, .num_blocks = 3}},
                                      .num_tokens = tokens,
                                      .ttl_ms = 20000,
                                      .flags = BATON_OFFER_LAYERS};
            CHECK_EQ(baton_offer(f.b, &p, &o), 0);
        }
        if (f.consumer && !(round % 2))
            w = want(&f, key, to, tokens, 20000);
        for (uint32_t i = 0; f.producer && i < LAYERS; i++) {
            uint32_t layer = round == 3 ? LAYERS - 1 - i : i;
            usleep(20000);
            walk_layers(&f, from, 0, tokens, round, true, layer, layer + 1);
            CHECK_EQ(baton_ready(f.b, o, layer, 1, 0), 0);
        }
        for (int e = 0; e < f.producer + f.consumer; e++) {
            baton_event_t event = next_event(&f);
            CHECK_EQ(event.status, BATON_STATUS_DONE);
            CHECK_EQ(event.id, event.type == BATON_EVENT_WANT ? w : o);
            if (event.type == BATON_EVENT_WANT)
                CHECK_EQ(walk(&f, to, tokens, round, false), 0);
        }
    }
    if (f.producer) { /* on an offer that has ended it does nothing */
        CHECK_EQ(baton_ready(f.b, o, 0, LAYERS, 0), 0);
        CHECK_EQ(baton_ready(f.b, o, 0, LAYERS + 1, 0), BATON_EINVAL);
        CHECK_EQ(baton_ready(f.b, o, 0, 0, 0), BATON_EINVAL);
        CHECK_EQ(baton_ready(f.b, o + 1000, 0, 1, 0), BATON_EINVAL);
    }
    down(&f);
}

/* The last layer has a block table of its own; the offer is begun without any, and each chunk brings both. */
static void moves_groups_chunk_by_chunk(void)
{
    struct fixture f;
    const uint32_t from[2][2] = {{3, 1}, {7, 9}}, to[2][2] = {{BLOCKS - 3, BLOCKS - 1}, {BLOCKS - 8, BLOCKS - 5}},
                   tokens = BLOCK_TOKENS + 5;
    memset(&f, 0, sizeof f);
    who(&f);
    shape(&f, "m");
    f.geometry.num_groups = 2;
    f.geometry.groups[1] = f.geometry.groups[0];
    f.tensors[LAYERS - 1].group = 1;
    CHECK_EQ(baton_open(MPI_COMM_WORLD, &f.me, &f.b), 0);
    CHECK_EQ(baton_cache_create(f.b, &f.geometry, BATON_MEMORY_HOST, &f.cache), 0);
    CHECK_EQ(baton_start(f.b), 0);
    memset(baton_cache_base(f.cache), 0xa5, f.geometry.bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    baton_id_t o = 0;
    baton_offer_params_t p = {.size = sizeof p, .key = "groups", .num_tokens = tokens, .flags = BATON_OFFER_CHUNKS};
    if (f.producer)
        CHECK_EQ(baton_offer(f.b, &p, &o), 0);
    const baton_want_params_t w = {.size = sizeof w,
                                   .key = "groups",
                                   .engine = f.engine,
                                   .num_tables = 2,
                                   .tables = {{.blocks = to[0], .num_blocks = 2}, {.blocks = to[1], .num_blocks = 2}},
                                   .num_tokens = tokens,
                                   .timeout_ms = 10000,
                                   .mode = mode};
    if (f.consumer)
        CHECK_EQ(baton_want(f.b, &w, NULL), 0);
    for (uint32_t i = 0; f.producer && i < 2; i++) {
        const baton_append_params_t a = {
            .size = sizeof a,
            .num_tables = 2,
            .tables = {{.blocks = &from[0][i], .num_blocks = 1}, {.blocks = &from[1][i], .num_blocks = 1}},
            .num_tokens = i == 0 ? BLOCK_TOKENS : tokens};
        walk_layers(&f, from[0], i * BLOCK_TOKENS, a.num_tokens, 5, true, 0, LAYERS - 1);
        walk_layers(&f, from[1], i * BLOCK_TOKENS, a.num_tokens, 5, true, LAYERS - 1, LAYERS);
        CHECK_EQ(baton_append(f.b, o, &a), 0);
        usleep(20000);
    }
    for (int e = 0; e < f.producer + f.consumer; e++) {
        baton_event_t event = next_event(&f);
        if (!CHECK_EQ(event.status, BATON_STATUS_DONE))
            fprintf(stderr, "# rank %d: %s\n", harness.rank, event.detail);
    }
    if (f.consumer) {
        CHECK_EQ(walk_layers(&f, to[0], 0, tokens, 5, false, 0, LAYERS - 1), 0);
        CHECK_EQ(walk_layers(&f, to[1], 0, tokens, 5, false, LAYERS - 1, LAYERS), 0);
    }
    down(&f);
}

static void zeroes_what_lies_behind(void)
{
    struct fixture f;
    const uint32_t from[] = {3, 1}, to[] = {BLOCKS - 3, BLOCKS - 1}, tokens = BLOCK_TOKENS + 5;
    up(&f, "m", BATON_PROGRESS_THREAD);
    memset(baton_cache_base(f.cache), 0xa5, f.geometry.bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (f.producer) {
        walk(&f, from, tokens, 3, true);
        offer(&f, "tail", from, tokens, 10000);
    }
    baton_want_params_t w = {.size = sizeof w,
                             .key = "tail",
                             .engine = f.engine,
                             .num_tables = 1,
                             .tables = {{.blocks = to, .num_blocks = 2}},
                             .num_tokens = tokens,
                             .timeout_ms = 10000,
                             .mode = mode,
                             .flags = BATON_WANT_ZERO_TAIL};
    if (f.consumer)
        CHECK_EQ(baton_want(f.b, &w, NULL), 0);
    for (int e = 0; e < f.producer + f.consumer; e++)
        CHECK_EQ(next_event(&f).status, BATON_STATUS_DONE);
    behind = 0;
    if (f.consumer)
        CHECK_EQ(walk(&f, to, tokens, 3, false), 0);
    behind = 0xa5a5;
    down(&f);
}

/* Tokens are filled, layer by layer or all at once, just before they are reported, and not touched again. */
static void prefill_in_chunks(struct fixture *f, baton_id_t o, const uint32_t *blocks, bool in_layers, unsigned seed)
{
    static const uint32_t ends[] = {BLOCK_TOKENS / 2, 2 * BLOCK_TOKENS, 2 * BLOCK_TOKENS + 5};
    uint32_t given = 0, filled = 0;
    for (unsigned i = 0; i < 3; filled = ends[i++]) {
        uint32_t need = (ends[i] + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
        baton_append_params_t a = {.size = sizeof a,
                                   .num_tables = 1,
                                   .tables = {{.blocks = blocks + given, .num_blocks = need - given}},
                                   .num_tokens = ends[i]};
        given = need;
        usleep(20000);
        if (!in_layers)
            walk_layers(f, blocks, filled, ends[i], seed, true, 0, LAYERS);
        CHECK_EQ(baton_append(f->b, o, &a), 0);
        for (uint32_t layer = 0; in_layers && layer < LAYERS; layer++) {
            walk_layers(f, blocks, filled, ends[i], seed, true, layer, layer + 1);
            CHECK_EQ(baton_ready(f->b, o, layer, 1, ends[i]), 0);
        }
    }
}

static void moves_chunk_by_chunk(void)
{
    struct fixture f;
    const uint32_t from[] = {3, 1, 4}, to[] = {BLOCKS - 3, BLOCKS - 1, BLOCKS - 8}, tokens = 2 * BLOCK_TOKENS + 5,
                   outside = BLOCKS;
    baton_id_t o = 0, w = 0;
    up(&f, "m", BATON_PROGRESS_THREAD);
    for (unsigned round = 0; round < 4; round++) {
        bool in_layers = round >= 2;
        char key[16];
        snprintf(key, sizeof key, "chunks%u", round);
        memset(baton_cache_base(f.cache), 0xa5, f.geometry.bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        if (f.consumer && round % 2)
            w = want(&f, key, to, tokens, 20000);
        if (f.producer) {
            baton_offer_params_t p = {.size = sizeof p,
                                      .key = key,
                                      .num_tokens = tokens,
                                      .ttl_ms = 20000,
                                      .flags = BATON_OFFER_CHUNKS | (in_layers ? BATON_OFFER_LAYERS : 0)};
            CHECK_EQ(baton_offer(f.b, &p, &o), 0);
        }
        if (f.consumer && !(round % 2))
            w = want(&f, key, to, tokens, 20000);
        if (f.producer)
            prefill_in_chunks(&f, o, from, in_layers, round);
        for (int e = 0; e < f.producer + f.consumer; e++) {
            baton_event_t event = next_event(&f);
            CHECK_EQ(event.status, BATON_STATUS_DONE);
            CHECK_EQ(event.id, event.type == BATON_EVENT_WANT ? w : o);
            CHECK_EQ(event.num_blocks, 3);
            if (event.type == BATON_EVENT_WANT)
                CHECK_EQ(walk(&f, to, tokens, round, false), 0);
        }
    }
    if (f.producer) {
        CHECK_EQ(
            baton_append(f.b, o, &(baton_append_params_t){.size = sizeof(baton_append_params_t), .num_tokens = tokens}),
            0); /* it does nothing */
        CHECK_EQ(baton_append(f.b, o, NULL), BATON_EINVAL);
        CHECK_EQ(baton_append(f.b, o + 1000,
                              &(baton_append_params_t){.size = sizeof(baton_append_params_t), .num_tokens = 1}),
                 BATON_EINVAL);
        CHECK_EQ(baton_append(f.b, o,
                              &(baton_append_params_t){.size = sizeof(baton_append_params_t),
                                                       .num_tables = 1,
                                                       .tables = {{.num_blocks = 1}},
                                                       .num_tokens = 1}),
                 BATON_EINVAL);
        CHECK_EQ(baton_append(f.b, o,
                              &(baton_append_params_t){.size = sizeof(baton_append_params_t),
                                                       .num_tables = 1,
                                                       .tables = {{from, 1, BLOCK_TOKENS}},
                                                       .num_tokens = 1}),
                 BATON_EINVAL);
        CHECK_EQ(baton_append(f.b, o,
                              &(baton_append_params_t){.size = sizeof(baton_append_params_t),
                                                       .num_tables = 1,
                                                       .tables = {{.blocks = from, .num_blocks = 1}}}),
                 BATON_ETOKENS);
        CHECK_EQ(baton_append(f.b, o,
                              &(baton_append_params_t){.size = sizeof(baton_append_params_t),
                                                       .num_tables = 1,
                                                       .tables = {{.blocks = &outside, .num_blocks = 1}},
                                                       .num_tokens = 1}),
                 BATON_EBLOCK);
        baton_offer_params_t p = {.size = sizeof p,
                                  .key = "plain",
                                  .num_tables = 1,
                                  .tables = {{.blocks = from, .num_blocks = 3}},
                                  .num_tokens = tokens};
        CHECK_EQ(baton_offer(f.b, &p, &o), 0);
        CHECK_EQ(
            baton_append(f.b, o, &(baton_append_params_t){.size = sizeof(baton_append_params_t), .num_tokens = tokens}),
            0);
        ends(&f, o, BATON_STATUS_FAILED, BATON_EINVAL);
    }
    down(&f);
}

/* The producer's engine counts in blocks that are twice as large as those of its memory. */
static void counts_in_larger_blocks(void)
{
    struct fixture f;
    const uint32_t large[] = {2, 5}, large_as_small[] = {4, 5, 10, 11}, to[] = {40, 41, 50},
                   tokens = 2 * BLOCK_TOKENS + 5;
    const uint32_t outside[] = {BLOCKS / 2, 0};
    memset(&f, 0, sizeof f);
    who(&f);
    shape(&f, "m");
    f.geometry.groups[0].blocks_per_id = f.producer ? 2 : 1;
    CHECK_EQ(baton_open(MPI_COMM_WORLD, &f.me, &f.b), 0);
    CHECK_EQ(baton_cache_create(f.b, &f.geometry, BATON_MEMORY_HOST, &f.cache), 0);
    CHECK_EQ(baton_start(f.b), 0);
    memset(baton_cache_base(f.cache), 0xa5, f.geometry.bytes);
    baton_offer_params_t o = {.size = sizeof o,
                              .key = "large",
                              .num_tables = 1,
                              .tables = {{.blocks = large, .num_blocks = 2}},
                              .num_tokens = tokens};
    if (f.producer) {
        walk(&f, large_as_small, tokens, 3, true);
        CHECK_EQ(baton_offer(f.b, &o, NULL), 0);
        o.num_tokens = 4 * BLOCK_TOKENS + 1;
        CHECK_EQ(baton_offer(f.b, &o, NULL), BATON_ETOKENS);
        o.num_tokens = tokens;
        o.tables[0].blocks = outside;
        CHECK_EQ(baton_offer(f.b, &o, NULL), BATON_EBLOCK);
        o.tables[0] = (baton_table_t){.blocks = large, .num_blocks = 2, .first_token = BLOCK_TOKENS};
        CHECK_EQ(baton_offer(f.b, &o, NULL), BATON_EINVAL); /* the end lies within one of its blocks */
    }
    if (f.consumer && harness.size > 1)
        want(&f, "large", to, tokens, 10000);
    for (int e = 0; e < (harness.size > 1); e++) {
        baton_event_t event = next_event(&f);
        CHECK_EQ(event.status, BATON_STATUS_DONE);
        if (f.consumer)
            CHECK_EQ(walk(&f, to, tokens, 3, false), 0);
        else
            CHECK_EQ(event.num_blocks, 4);
    }
    down(&f);
}

static void moves_with_the_callers_thread(void)
{
    struct fixture f;
    up(&f, "m", BATON_PROGRESS_CALLER);
    /*
     * Every rank must lend its thread until all are done, so there can be no barrier in between, and only one request.
     */
    uint32_t blocks[2] = {1, 2}, to[2] = {9, 5};
    int open = 0, all = 1;
    if (f.producer) {
        walk(&f, blocks, 20, 1, true);
        offer(&f, "k", blocks, 20, 10000);
        open++;
    }
    if (f.consumer) {
        want(&f, "k", to, 20, 10000);
        open++;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    for (double until = now_ms() + 20000; all && now_ms() < until;) {
        baton_event_t e;
        CHECK(baton_progress(f.b) >= 0);
        if (baton_poll(f.b, &e, 1) == 1) {
            CHECK_EQ(e.status, BATON_STATUS_DONE);
            open--;
        }
        if (open == 0 && request == MPI_REQUEST_NULL && all)
            MPI_Ibarrier(MPI_COMM_WORLD, &request);
        int done = 0;
        if (request != MPI_REQUEST_NULL)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        all = !done;
    }
    CHECK_EQ(open, 0);
    if (f.consumer)
        CHECK_EQ(walk(&f, to, 20, 1, false), 0);
    down(&f);
}

static void two_contexts_work_side_by_side(void)
{
    struct fixture a, b;
    up(&a, "m", BATON_PROGRESS_THREAD);
    up(&b, "m", BATON_PROGRESS_THREAD);
    move_some(&a);
    move_some(&b);
    down(&a);
    down(&b);
}

/* How many calls failed at ranks of the prefill engine, and of the decode engine. */
struct failures {
    uint64_t at[2];
};

/* After every_call_has_its_end: how calls ended, by reason and by peer. */
static struct failures reasons_are_counted(struct fixture *f)
{
    struct failures failures = {{0}};
    baton_stats_t s = BATON_INIT(baton_stats_t);
    uint64_t of_peers = 0, of_all = 0;
    CHECK_EQ(baton_stats(f->b, &s), 0);
    bool alone = harness.size == 1;
    CHECK_EQ(s.reasons[-BATON_ETIMEDOUT], (f->producer ? 1 : 0) + alone + (f->consumer ? 1 : 0));
    CHECK_EQ(s.reasons[-BATON_EEXIST], f->producer ? 1 : 0);
    CHECK_EQ(s.reasons[-BATON_EGONE], f->consumer ? 1 : 0);
    CHECK_EQ(s.reasons[-BATON_ETOKENS],
             alone ? 0 : 1); /* the want's reason, or that of the offer that the want ended */
    baton_peer_stats_t *peers = calloc((size_t)harness.size, sizeof *peers);
    s.peer_stats = peers;
    s.num_peers = (uint32_t)harness.size;
    CHECK_EQ(baton_stats(f->b, &s), 0);
    for (int r = 0; r < harness.size; r++) {
        const baton_peer_stats_t p = peers[r];
        CHECK_EQ(strcmp(p.engine, harness.size == 1 || r < harness.size / 2 ? "p" : "d"), 0);
        of_peers += p.reasons[-BATON_EGONE] + p.reasons[-BATON_ETOKENS];
        of_all += p.failures;
        failures.at[strcmp(p.engine, "d") == 0] += p.failures;
    }
    CHECK_EQ(of_peers, (f->consumer ? 1 : 0) + (alone ? 0 : 1));
    CHECK(of_all >= of_peers);
    s.first_peer = 1;
    CHECK_EQ(baton_stats(f->b, &s), BATON_EINVAL);
    free(peers);
    return failures;
}

/* After close, the page has all of them. */
static void failures_are_shown(struct failures right)
{
    struct failures shown = {{0}};
    const struct metrics_body *m = &page_read()->body;
    for (uint64_t i = 0; i < m->num_peers; i++)
        for (int r = 0; r < BATON_REASONS; r++)
            shown.at[strcmp(m->peer[i].engine, "d") == 0] += m->peer[i].failures[r];
    CHECK_EQ(m->is_closed, 1);
    CHECK_EQ(shown.at[0], right.at[0]);
    CHECK_EQ(shown.at[1], right.at[1]);
    page_remove();
}

static void every_call_has_its_end(void)
{
    struct fixture f;
    uint32_t blocks[2] = {1, 2};
    page_begin();
    up(&f, "m", BATON_PROGRESS_THREAD);
    page_end();
    if (f.producer) { /* nobody wants these */
        const char *consumer = harness.size == 1 ? "p" : "d";
        baton_offer_params_t named = {.size = sizeof named,
                                      .key = "expires",
                                      .num_tables = 1,
                                      .tables = {{.blocks = blocks, .num_blocks = 2}},
                                      .num_tokens = 20,
                                      .ttl_ms = 50,
                                      .num_consumers = 1,
                                      .consumers = &consumer};
        baton_id_t a;
        CHECK_EQ(baton_offer(f.b, &named, &a), 0);
        ends(&f, a, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
        a = offer(&f, "cancelled", blocks, 20, 60000);
        baton_id_t b = offer(&f, "cancelled", blocks, 20, 60000);
        ends(&f, b, BATON_STATUS_FAILED, BATON_EEXIST);
        CHECK_EQ(baton_cancel(f.b, a), 0);
        ends(&f, a, BATON_STATUS_CANCELLED, BATON_ECANCELED);
        CHECK_EQ(baton_cancel(f.b, a), 0); /* a second time: no error, no event */
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (f.consumer) {
        double since = now_ms();
        baton_id_t w = want(&f, "expires", blocks, 20, 60000);
        ends(&f, w, BATON_STATUS_FAILED, BATON_EGONE);
        CHECK(now_ms() - since < 5000); /* told at once, not at the deadline */
        since = now_ms();
        w = want(&f, "never offered", blocks, 20, 200);
        ends(&f, w, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
        CHECK(now_ms() - since >= 200 && now_ms() - since < 5000);
        w = want(&f, "also never", blocks, 20, 60000);
        CHECK_EQ(baton_cancel(f.b, w), 0);
        ends(&f, w, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (f.producer) { /* all ranks that read from here have cancelled: a late offer learns it at once */
        baton_id_t o = offer(&f, "also never", blocks, 20, 60000);
        ends(&f, o, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (f.producer) {
        bool alone = harness.size == 1;
        baton_id_t o = offer(&f, "short", blocks, 20, alone ? 500 : 60000);
        ends(&f, o, alone ? BATON_STATUS_EXPIRED : BATON_STATUS_FAILED, alone ? BATON_ETIMEDOUT : BATON_ETOKENS);
    } else {
        ends(&f, want(&f, "short", blocks, 21, 10000), BATON_STATUS_FAILED, BATON_ETOKENS);
    }
    struct failures failures = reasons_are_counted(&f);
    down(&f);
    failures_are_shown(failures);
}

/* Each side has a key of its own for the request, and they meet by the base key that both set. */
static void meets_by_a_base_key(void)
{
    struct fixture f;
    uint32_t from[2] = {1, 2}, to[2] = {9, 5};
    baton_id_t id;
    up(&f, "m", BATON_PROGRESS_THREAD);
    baton_offer_params_t o = {.size = sizeof o,
                              .key = "req-1-p",
                              .base_key = "req-1",
                              .num_tables = 1,
                              .tables = {{.blocks = from, .num_blocks = 2}},
                              .num_tokens = 20};
    baton_want_params_t w = {.size = sizeof w,
                             .key = "req-1-d",
                             .base_key = "req-1",
                             .engine = "p",
                             .num_tables = 1,
                             .tables = {{.blocks = to, .num_blocks = 2}},
                             .num_tokens = 20,
                             .mode = mode};
    int expected = 0;
    if (f.producer) {
        walk(&f, from, 20, 1, true);
        CHECK_EQ(baton_offer(f.b, &o, &id), 0);
        expected++;
        o.base_key = "";
        CHECK_EQ(baton_offer(f.b, &o, &id), BATON_EKEY);
    }
    if (f.consumer) {
        CHECK_EQ(baton_want(f.b, &w, &id), 0);
        expected++;
        char long_key[BATON_KEY_MAX + 1] = {0};
        memset(long_key, 'k', BATON_KEY_MAX);
        w.base_key = long_key;
        CHECK_EQ(baton_want(f.b, &w, &id), BATON_EKEY);
    }
    while (expected-- > 0) {
        baton_event_t e = next_event(&f);
        CHECK_EQ(e.status, BATON_STATUS_DONE);
        CHECK_EQ(strcmp(e.key, e.type == BATON_EVENT_OFFER ? "req-1-p" : "req-1-d"), 0);
    }
    if (f.consumer)
        CHECK_EQ(walk(&f, to, 20, 1, false), 0);
    down(&f);
}

/* The next turn of a conversation: what decode has goes back to prefill, by an offer and a want. */
static void blocks_flow_back(void)
{
    struct fixture f;
    uint32_t there[3] = {1, 7, 2}, back[3] = {30, 12, 9};
    if (harness.size == 1) {
        SKIP("one rank is both");
        return;
    }
    up(&f, "m", BATON_PROGRESS_THREAD);
    if (f.producer) {
        walk(&f, there, 40, 1, true);
        ends(&f, offer(&f, "turn-1", there, 40, 10000), BATON_STATUS_DONE, 0);
    } else {
        ends(&f, want(&f, "turn-1", there, 40, 10000), BATON_STATUS_DONE, 0);
    }
    memset(baton_cache_base(f.cache), 0xa5, f.geometry.bytes);
    if (f.consumer) {
        walk(&f, there, 45, 2, true); /* five more tokens were decoded */
        ends(&f, offer(&f, "turn-2", there, 45, 10000), BATON_STATUS_DONE, 0);
    } else {
        f.engine = "d";
        ends(&f, want(&f, "turn-2", back, 45, 10000), BATON_STATUS_DONE, 0);
        CHECK_EQ(walk(&f, back, 45, 2, false), 0);
    }
    down(&f);
}

/* Takes events until `calls` calls have ended, and have had their verdicts if this rank gets any. */
static void until_all_is_told(struct fixture *f, int calls, bool hears, baton_status_t status)
{
    for (int ends = 0, told = 0; ends < calls || told < (hears ? calls : 0);) {
        baton_event_t e = next_event(f);
        if (e.type == 0)
            return;
        CHECK_EQ(e.status, status);
        if (e.type == BATON_EVENT_VERDICT) {
            told++;
            CHECK(e.id != 0);
            CHECK(e.user == f);
            CHECK_EQ(e.of, f->producer && f->consumer ? e.of : f->producer ? BATON_EVENT_OFFER : BATON_EVENT_WANT);
        } else {
            ends++;
            CHECK_EQ(e.verdict, hears ? BATON_VERDICT_FOLLOWS : BATON_VERDICT_NONE);
        }
    }
}

/* Many more requests than there are places, so that a place that is lost would be missed. */
static void verdicts_are_told(void)
{
    for (verdicts = BATON_VERDICTS_ALL; verdicts <= BATON_VERDICTS_LEADER; verdicts++) {
        struct fixture f;
        uint32_t from[2] = {1, 2}, to[2] = {9, 5};
        setenv("BATON_REQUESTS", "4", 1);
        up(&f, "m", BATON_PROGRESS_THREAD);
        unsetenv("BATON_REQUESTS");
        bool hears = verdicts == BATON_VERDICTS_ALL || f.me.tp_rank == 0;
        for (unsigned i = 0; i < 40; i++) {
            char key[16];
            snprintf(key, sizeof key, "v%u", i);
            baton_offer_params_t o = {.size = sizeof o,
                                      .key = key,
                                      .num_tables = 1,
                                      .tables = {{.blocks = from, .num_blocks = 2}},
                                      .num_tokens = 20,
                                      .user = &f};
            baton_want_params_t w = {.size = sizeof w,
                                     .key = key,
                                     .engine = "p",
                                     .num_tables = 1,
                                     .tables = {{.blocks = to, .num_blocks = 2}},
                                     .num_tokens = 20,
                                     .mode = mode,
                                     .user = &f};
            bool never = i % 4 == 3; /* nobody offers it */
            w.timeout_ms = never ? 20 : 10000;
            if (f.producer && !never)
                CHECK_EQ(baton_offer(f.b, &o, NULL), 0);
            if (f.consumer)
                CHECK_EQ(baton_want(f.b, &w, NULL), 0);
            until_all_is_told(&f, (f.producer && !never) + f.consumer, hears,
                              never ? BATON_STATUS_EXPIRED : BATON_STATUS_DONE);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        baton_stats_t s = BATON_INIT(baton_stats_t);
        CHECK_EQ(baton_stats(f.b, &s), 0);
        CHECK_EQ(s.verdicts, hears ? (f.producer ? 30 : 0) + (f.consumer ? 40 : 0) : 0);
        CHECK_EQ(s.verdicts_lost, 0);
        down(&f);
    }
    verdicts = BATON_VERDICTS_NONE;
}

/* Ranks of one engine must not ask for different verdicts. */
static void verdicts_must_agree(void)
{
    struct fixture f;
    memset(&f, 0, sizeof f);
    who(&f);
    if (f.me.tp == 1 && harness.size < 4) {
        SKIP("every engine has one rank");
        return;
    }
    f.me.verdicts = f.me.tp_rank == 0 ? BATON_VERDICTS_ALL : BATON_VERDICTS_NONE;
    shape(&f, "m");
    CHECK_EQ(baton_open(MPI_COMM_WORLD, &f.me, &f.b), 0);
    CHECK_EQ(baton_cache_create(f.b, &f.geometry, BATON_MEMORY_HOST, &f.cache), 0);
    CHECK_EQ(baton_start(f.b), BATON_EGEOMETRY);
    CHECK_HAS(baton_errmsg(), "verdicts");
    down(&f);
}

/* Nobody offers what is wanted, nobody wants what is offered, and the last rank comes late: all leave in order. */
static void closes_with_calls_open(void)
{
    struct fixture f;
    char key[32];
    uint32_t blocks[2] = {1, 2};
    up(&f, "m", BATON_PROGRESS_THREAD);
    snprintf(key, sizeof key, "o%d", harness.rank);
    if (f.producer)
        offer(&f, key, blocks, 20, 60000);
    snprintf(key, sizeof key, "w%d", harness.rank);
    if (f.consumer)
        want(&f, key, blocks, 20, 60000);
    usleep(50000); /* by now the want waits at the producer, or not yet: both happen */
    if (harness.rank == harness.size - 1)
        usleep(300000);
    double began = now_ms();
    down(&f);
    CHECK(now_ms() - began < 5000);
}

/* One reactor stands still: its calls are given up soon after stall_ms, and end when it goes on. */
static void a_stalled_reactor_is_told(void)
{
    struct fixture f;
    uint32_t from[2] = {1, 2}, to[2] = {9, 5};
    tune("stall_ms", "500");
    setenv("BATON_FAULT", "stall@send.GRANT#1+2500/0", 1);
    up(&f, "m", BATON_PROGRESS_THREAD);
    tune("stall_ms", NULL);
    unsetenv("BATON_FAULT");
    bool stalls = harness.rank == 0, served_by_it = f.consumer && f.me.tp_rank == 0 && !stalls;
    double began = now_ms(), ended_ms = 0;
    int expected = 0, told = 0;
    if (f.producer)
        walk(&f, from, 20, 1, true);
    if (f.producer)
        expected += offer(&f, "k", from, 20, 10000) != 0;
    if (f.consumer)
        expected += want(&f, "k", to, 20, 10000) != 0;
    for (int i = 0; i < expected + told; i++) {
        baton_event_t e = next_event(&f);
        if (e.type == BATON_EVENT_GIVEN_UP) {
            CHECK_HAS(e.detail, "inside MPI");
            CHECK(now_ms() - began < 2500); /* before the reactor goes on */
            told++;
        } else {
            CHECK(stalls || e.status == BATON_STATUS_DONE ||
                  served_by_it); /* its offer has failed, perhaps before the want was done */
            served_by_it &= e.status != BATON_STATUS_DONE;
            CHECK_EQ(e.given_up, stalls);
            ended_ms = now_ms() - began;
        }
        CHECK(!stalls || e.error == BATON_ESTALL);
    }
    CHECK_EQ(told, stalls ? expected : 0);
    CHECK(ended_ms < 8000); /* when the reactor goes on, not at the deadline of 10 s */
    if (stalls) {           /* and the key is free */
        baton_id_t again = f.producer ? offer(&f, "k", from, 20, 30) : want(&f, "k", to, 20, 30);
        baton_event_t e = next_event(&f);
        CHECK_EQ(e.id, again);
        CHECK(e.error != BATON_EEXIST);
    }
    if (f.consumer && !stalls && !served_by_it)
        CHECK_EQ(walk(&f, to, 20, 1, false), 0);
    down(&f);
}

/* While the reactor stands still no new call is taken. */
static void a_stalled_reactor_takes_nothing(void)
{
    struct fixture f;
    uint32_t from[2] = {1, 2};
    baton_offer_params_t o = {.size = sizeof o,
                              .key = "later",
                              .num_tables = 1,
                              .tables = {{.blocks = from, .num_blocks = 2}},
                              .num_tokens = 20,
                              .ttl_ms = 10};
    tune("stall_ms", "500");
    setenv("BATON_FAULT", "stall@send.WANT#1+2000", 1);
    up(&f, "m", BATON_PROGRESS_THREAD);
    tune("stall_ms", NULL);
    unsetenv("BATON_FAULT");
    if (f.consumer) {
        baton_id_t w = want(&f, "k", from, 20, 10000), id;
        baton_event_t e = next_event(&f);
        CHECK_EQ(e.type, BATON_EVENT_GIVEN_UP);
        CHECK_EQ(e.id, w);
        CHECK_EQ(baton_offer(f.b, &o, &id), BATON_ESTALL);
        CHECK_HAS(baton_errmsg(), "stall_ms (BATON_TUNE)");
        ends(&f, w, BATON_STATUS_FAILED, BATON_ESTALL);
        int rc;
        for (double until = now_ms() + 5000; (rc = baton_offer(f.b, &o, &id)) != 0 && now_ms() < until;)
            usleep(1000); /* the watchdog looks four times in stall_ms */
        if (CHECK_EQ(rc, 0))
            ends(&f, id, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT);
    }
    down(&f);
}

/* A call that was made while the reactor stood still, just before the watchdog looked, has not reached the core yet. */
static void a_call_made_just_before_the_look(void)
{
    struct fixture f;
    uint32_t block = 1, other = 2;
    tune("stall_ms", "500");
    setenv("BATON_FAULT", "stall@send.WANT#1+2000", 1);
    up(&f, "m", BATON_PROGRESS_THREAD);
    tune("stall_ms", NULL);
    unsetenv("BATON_FAULT");
    if (f.consumer) {
        double began = now_ms();
        want(&f, "first", &block, 1, 10000);
        usleep(60000); /* the reactor stands still by now, which is not known yet */
        want(&f, "second", &other, 1, 10000);
        for (int i = 0; i < 4; i++) {
            baton_event_t e = next_event(&f);
            CHECK_EQ(e.type, i < 2 ? BATON_EVENT_GIVEN_UP : BATON_EVENT_WANT);
            CHECK_EQ(e.error, BATON_ESTALL);
        }
        CHECK(now_ms() - began < 8000); /* not at their deadlines */
        baton_id_t again = want(&f, "second", &other, 1, 100);
        baton_event_t e = next_event(&f);
        CHECK_EQ(e.id, again);
        CHECK_EQ(e.error, BATON_ETIMEDOUT); /* and not BATON_EEXIST */
    }
    MPI_Barrier(MPI_COMM_WORLD); /* a rank that closed earlier would end the wants */
    down(&f);
}

/* The deadline of a call passes while the reactor stands still in a turn: the call is answered in time nevertheless. */
static void a_deadline_while_the_reactor_stands_still(void)
{
    struct fixture f;
    uint32_t block = 1;
    tune("quiet_ms", "300");
    setenv("BATON_FAULT", "stall@send.WANT#1+4000", 1);
    up(&f, "m", BATON_PROGRESS_THREAD);
    tune("quiet_ms", NULL);
    unsetenv("BATON_FAULT");
    if (f.consumer) {
        double began = now_ms();
        baton_id_t early = want(&f, "early", &block, 1, 400), late = want(&f, "late", &block, 1, 20000);
        baton_event_t e = next_event(&f);
        CHECK_EQ(e.type, BATON_EVENT_GIVEN_UP);
        CHECK_EQ(e.id, early);
        CHECK_EQ(e.status, BATON_STATUS_EXPIRED);
        CHECK_EQ(e.error, BATON_ETIMEDOUT);
        CHECK(now_ms() - began >= 400);
        CHECK(now_ms() - began < 3000);
        ends(&f, early, BATON_STATUS_EXPIRED, BATON_ETIMEDOUT); /* once the reactor goes on */
        CHECK(now_ms() - began > 3500);
        CHECK_EQ(baton_cancel(f.b, late), 0);
        ends(&f, late, BATON_STATUS_CANCELLED, BATON_ECANCELED);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    down(&f);
}

/* Calls that were given up are open until they end: calls made meanwhile get places of their own. */
static void calls_given_up_keep_their_places(void)
{
    enum { REQUESTS = 8 };
    struct fixture f;
    uint32_t block = 0;
    int more = 0;
    tune("stall_ms", "500");
    setenv("BATON_FAULT", "stall@send.WANT#1+2000", 1);
    setenv("BATON_REQUESTS", "8", 1);
    up(&f, "m", BATON_PROGRESS_THREAD);
    tune("stall_ms", NULL);
    unsetenv("BATON_FAULT");
    unsetenv("BATON_REQUESTS");
    for (int i = 0; f.consumer && i < REQUESTS; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        want(&f, key, &block, 1, 10000);
    }
    for (int i = 0; f.consumer && i < REQUESTS; i++)
        CHECK_EQ(next_event(&f).error, BATON_ESTALL);
    for (double until = now_ms() + 5000; f.consumer && more < REQUESTS / 2 && now_ms() < until; usleep(1000)) {
        char key[16];
        snprintf(key, sizeof key, "+%d", more);
        baton_want_params_t w = {.size = sizeof w,
                                 .key = key,
                                 .engine = f.engine,
                                 .num_tables = 1,
                                 .tables = {{.blocks = &block, .num_blocks = 1}},
                                 .num_tokens = 1};
        w.timeout_ms = 100;
        more += baton_want(f.b, &w, NULL) == 0;
    }
    CHECK_EQ(more, f.consumer ? REQUESTS / 2 : 0);
    for (int i = 0, ended = 0; f.consumer && i < REQUESTS + more; i++) {
        baton_event_t e = next_event(&f);
        ended += e.given_up;
        CHECK_EQ(e.type, BATON_EVENT_WANT);
        CHECK_EQ(e.given_up, e.key[0] != '+');
        if (i == REQUESTS + more - 1)
            CHECK_EQ(ended, REQUESTS);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* a rank that closed earlier would end the wants */
    down(&f);
}

static void full_is_told(void)
{
    struct fixture f;
    uint32_t block = 0, accepted = 0;
    setenv("BATON_REQUESTS", "8", 1);
    up(&f, "m", BATON_PROGRESS_THREAD);
    baton_offer_params_t o = {.size = sizeof o,
                              .num_tables = 1,
                              .tables = {{.blocks = &block, .num_blocks = 1}},
                              .num_tokens = 1,
                              .ttl_ms = 300};
    for (int i = 0; i < 20; i++) {
        char key[8];
        snprintf(key, sizeof key, "%d", i);
        o.key = key;
        int rc = baton_offer(f.b, &o, NULL);
        CHECK_EQ(rc, i < 8 ? 0 : BATON_EAGAIN);
        accepted += rc == 0;
    }
    for (uint32_t i = 0; i < accepted; i++)
        CHECK_EQ(next_event(&f).status, BATON_STATUS_EXPIRED);
    o.key = "again";
    CHECK_EQ(baton_offer(f.b, &o, NULL), 0); /* the places are free again */
    baton_stats_t s = BATON_INIT(baton_stats_t);
    CHECK_EQ(baton_stats(f.b, &s), 0);
    CHECK_EQ(s.again, 12);
    down(&f);
    unsetenv("BATON_REQUESTS");
}

/* Nobody takes words out of the queue meanwhile. Those that were refused leave nothing behind (tests/leaks). */
static void a_full_queue_refuses_words(void)
{
    struct fixture f;
    uint32_t block = 0;
    baton_id_t id;
    int rc = 0, words = 0;
    up(&f, "m", BATON_PROGRESS_CALLER);
    const baton_offer_params_t o = {.size = sizeof o,
                                    .key = "k",
                                    .num_tables = 1,
                                    .tables = {{.blocks = &block, .num_blocks = 1}},
                                    .num_tokens = 1,
                                    .ttl_ms = 20000};
    CHECK_EQ(baton_offer(f.b, &o, &id), 0);
    while (rc == 0 && words++ < 1000000)
        rc = baton_cancel(f.b, id);
    CHECK_EQ(rc, BATON_EAGAIN);
    CHECK_HAS(baton_errmsg(), "BATON_REQUESTS");
    CHECK_EQ(next_event(&f).status, BATON_STATUS_CANCELLED);
    CHECK_EQ(baton_cancel(f.b, id), 0); /* there is room again */
    down(&f);
}

static void caches_that_differ_are_named(void)
{
    struct fixture f;
    uint32_t block = 0;
    if (harness.size == 1) {
        SKIP("one rank has one cache");
        return;
    }
    up(&f, harness.rank < harness.size / 2 ? "llama" : "qwen", BATON_PROGRESS_THREAD);
    if (f.consumer) {
        want(&f, "k", &block, 1, 20000);
        baton_event_t e = next_event(&f);
        CHECK_EQ(e.error, BATON_EGEOMETRY);
        CHECK_HAS(e.detail, "model differs: \"llama\" and \"qwen\"");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    down(&f);
}

static void ranks_that_contradict_fail_together(void)
{
    struct fixture f;
    if (harness.size == 1) {
        SKIP("one rank cannot contradict itself");
        return;
    }
    memset(&f, 0, sizeof f);
    who(&f);
    f.me.tp = 2; /* every rank says that it is rank 0 of 2 of one engine */
    f.me.tp_rank = 0;
    strcpy(f.me.engine, "p");
    open_as(&f);
    CHECK_EQ(baton_start(f.b), BATON_EGEOMETRY);
    CHECK_HAS(baton_errmsg(), "both say tp_rank 0");
    CHECK_EQ(baton_close(f.b), 0);
}

/* The ranks of an engine hold one cache together: of one model, in blocks of one size. */
static void caches_of_one_engine_must_agree(void)
{
    struct fixture f;
    for (int other_model = 0; other_model < 2; other_model++) {
        memset(&f, 0, sizeof f);
        who(&f);
        if (f.me.tp == 1 && harness.size < 4) {
            SKIP("every engine has one rank");
            return;
        }
        shape(&f, other_model && f.me.tp_rank == 1 ? "n" : "m");
        if (!other_model && f.me.tp_rank == 1) {
            f.geometry.groups[0].block_tokens *= 2;
            CHECK_EQ(baton_geometry_layout(&f.geometry, f.tensors, 0), 0);
        }
        open_as(&f);
        CHECK_EQ(baton_cache_create(f.b, &f.geometry, BATON_MEMORY_HOST, &f.cache), 0);
        CHECK_EQ(baton_start(f.b), BATON_EGEOMETRY);
        CHECK_HAS(baton_errmsg(), other_model ? "differ in model" : "block_tokens");
        CHECK_EQ(baton_close(f.b), 0);
    }
}

static void a_model_has_a_name(void)
{
    struct fixture f;
    memset(&f, 0, sizeof f);
    who(&f);
    shape(&f, "");
    open_as(&f);
    CHECK_EQ(baton_cache_create(f.b, &f.geometry, BATON_MEMORY_HOST, &f.cache), BATON_EINVAL);
    CHECK_HAS(baton_errmsg(), "model must not be empty");
    CHECK_EQ(baton_close(f.b), 0);
}

static void too_large_a_pool_fails_together(void)
{
    struct fixture f;
    if (getenv("PRETEND_MEMORY") != NULL)
        return SKIP("Baton does not allocate the pool");
    memset(&f, 0, sizeof f);
    who(&f);
    shape(&f, "m");
    if (harness.rank == harness.size - 1) {
        f.geometry.groups[0].num_blocks = 1u << 30;
        CHECK_EQ(baton_geometry_layout(&f.geometry, f.tensors, 0), 0);
    }
    open_as(&f);
    CHECK_EQ(baton_cache_create(f.b, &f.geometry, BATON_MEMORY_HOST, &f.cache), 0);
    CHECK_EQ(baton_start(f.b), BATON_ESHM);
    CHECK(strlen(baton_errmsg()) > 20);
    CHECK_EQ(baton_close(f.b), 0);
}

/* Start with the agreed step `step` failing at `rank`. Returns whether no step failed: there are fewer. */
static bool is_past_last_step(const char *rank, int step)
{
    struct fixture f;
    char text[16];
    snprintf(text, sizeof text, "%d", step);
    tune("fail_rank", rank);
    tune("fail_step", text);
    memset(&f, 0, sizeof f);
    who(&f);
    shape(&f, "m");
    int rc = baton_open(MPI_COMM_WORLD, &f.me, &f.b), all, least;
    if (rc == 0) {
        CHECK_EQ(baton_cache_create(f.b, &f.geometry, BATON_MEMORY_HOST, &f.cache), 0);
        rc = baton_start(f.b);
        char sentence[256];
        snprintf(sentence, sizeof sentence, "%s", baton_errmsg());
        CHECK_EQ(baton_close(f.b), 0);
        if (rc != 0)
            CHECK_HAS(sentence, rank);
    }
    MPI_Allreduce(&rc, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&rc, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    CHECK_EQ(all, least); /* the same on every rank */
    tune("fail_step", NULL);
    tune("fail_rank", NULL);
    return rc == 0;
}

static void a_step_that_fails_on_one_rank_fails_on_all(void)
{
    int steps = 0;
    for (int r = 0; r < harness.size; r++) {
        char rank[16];
        int step = 1;
        snprintf(rank, sizeof rank, "%d", r);
        while (step < 60 && !is_past_last_step(rank, step))
            step++;
        CHECK(step > 3 && step < 60);
        if (r > 0)
            CHECK_EQ(step, steps); /* ranks take the same steps */
        steps = step;
    }
}

/* The kernel's link to the file behind the mapping that holds `at`. False: there is no file that others could open. */
static bool file_behind(const void *at, char *path, size_t size)
{
    char line[4096];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL) {
        unsigned long from, to, inode;
        found = sscanf(line, "%lx-%lx %*s %*s %*s %lu", &from, &to, &inode) == 3 && inode != 0 &&
                (uintptr_t)at >= from && (uintptr_t)at < to;
        if (found)
            snprintf(path, size, "/proc/self/map_files/%lx-%lx", from, to);
    }
    if (maps != NULL)
        fclose(maps);
    return found;
}

static void segments_belong_to_this_user_alone(void)
{
    struct fixture f;
    char path[128];
    struct stat s;
    if (getenv("PRETEND_MEMORY") != NULL)
        return SKIP("Baton does not allocate the pool");
    up(&f, "m", BATON_PROGRESS_THREAD);
    bool is_file = file_behind(baton_cache_base(f.cache), path, sizeof path);
    CHECK(is_file || harness.size == 1 ||
          getenv("BATON_FAKE_NODES") != NULL); /* a rank alone on a node shares nothing */
    if (is_file && stat(path, &s) == 0) {      /* root alone gets here: the file is deleted, and has no other name */
        CHECK_EQ(s.st_mode & 077, 0);
        CHECK_EQ(s.st_uid, geteuid());
    }
    down(&f);
}

static void bad_settings_fail_together(void)
{
    struct fixture f;
    memset(&f, 0, sizeof f);
    who(&f);
    if (harness.rank == 0)
        setenv("BATON_LEASES", "many", 1);
    CHECK_EQ(baton_open(MPI_COMM_WORLD, &f.me, &f.b), BATON_ESETTING);
    CHECK_HAS(baton_errmsg(), "BATON_LEASES=\"many\"");
    unsetenv("BATON_LEASES");
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    for (mode = BATON_MODE_AUTO; mode <= BATON_MODE_PUSH; mode += BATON_MODE_PUSH) {
        RUN(moves_every_byte);
        RUN(moves_layer_by_layer);
        RUN(moves_chunk_by_chunk);
        RUN(moves_groups_chunk_by_chunk);
        RUN(zeroes_what_lies_behind);
        RUN(counts_in_larger_blocks);
        RUN(moves_with_the_callers_thread);
        RUN(every_call_has_its_end);
        RUN(blocks_flow_back);
        RUN(meets_by_a_base_key);
        RUN(verdicts_are_told);
        RUN(closes_with_calls_open);
        RUN(a_stalled_reactor_is_told);
    }
    mode = BATON_MODE_AUTO;
    RUN(two_contexts_work_side_by_side);
    RUN(verdicts_must_agree);
    RUN(a_stalled_reactor_takes_nothing);
    RUN(a_call_made_just_before_the_look);
    RUN(a_deadline_while_the_reactor_stands_still);
    RUN(calls_given_up_keep_their_places);
    RUN(full_is_told);
    RUN(a_full_queue_refuses_words);
    RUN(caches_that_differ_are_named);
    RUN(ranks_that_contradict_fail_together);
    RUN(caches_of_one_engine_must_agree);
    RUN(a_model_has_a_name);
    RUN(too_large_a_pool_fails_together);
    RUN(a_step_that_fails_on_one_rank_fails_on_all);
    RUN(segments_belong_to_this_user_alone);
    RUN(bad_settings_fail_together);
    return harness_end();
}
