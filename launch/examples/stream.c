/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layer by layer: blocks move while prefill computes. The prefill engine offers the request before it begins, and then
 * says of each layer when it is in place. The decode engine wants the request like any other.
 *
 *   batonrun --prefill 1x1 --decode 1x1 stream
 */
#include <baton.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LAYERS = 8, BLOCKS = 32, BLOCK_TOKENS = 16, LAYER_MS = 5 };

static void check(int rc, const char *what)
{
    if (rc < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, baton_strerror(rc), baton_errmsg());
        baton_exit(1);
    }
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static uint8_t byte_of(uint32_t layer)
{
    return (uint8_t)(layer + 1);
}

static void decode(baton_t *b, const uint32_t *blocks)
{
    const baton_want_params_t want = {.size = sizeof want,
                                      .key = "r1",
                                      .engine = "prefill0",
                                      .num_tables = 1,
                                      .tables = {{.blocks = blocks, .num_blocks = BLOCKS}},
                                      .num_tokens = BLOCKS * BLOCK_TOKENS};
    check(baton_want(b, &want, NULL), "baton_want");
}

/* Offers the request, and then computes it. The layers' bytes lie one after another. */
static void prefill(baton_t *b, const uint32_t *blocks, uint8_t *base, uint64_t layer_bytes)
{
    const baton_offer_params_t offer = {.size = sizeof offer,
                                        .key = "r1",
                                        .num_tables = 1,
                                        .tables = {{.blocks = blocks, .num_blocks = BLOCKS}},
                                        .num_tokens = BLOCKS * BLOCK_TOKENS,
                                        .flags = BATON_OFFER_LAYERS};
    baton_id_t id;
    check(baton_offer(b, &offer, &id), "baton_offer");
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        nanosleep(&(struct timespec){.tv_nsec = LAYER_MS * 1000000L}, NULL); /* the model computes */
        memset(base + layer * layer_bytes, byte_of(layer), layer_bytes);
        check(baton_ready(b, id, layer, 1, 0), "baton_ready");
    }
}

static void await_event(baton_t *b, baton_event_t *e)
{
    struct pollfd fd = {.fd = baton_event_fd(b), .events = POLLIN};
    int n;
    while ((n = baton_poll(b, e, 1)) == 0)
        poll(&fd, 1, -1);
    check(n, "baton_poll");
}

int main(void)
{
    baton_t *b;
    baton_cache_t *cache;
    baton_open_params_t me = {.size = sizeof me};
    baton_tensor_t tensors[LAYERS];
    baton_event_t e;
    uint32_t blocks[BLOCKS];
    uint64_t wrong = 0;
    check(baton_role_from_env(&me), "role");
    check(baton_open(MPI_COMM_NULL, &me, &b), "baton_open");
    baton_geometry_t g = {.size = sizeof g,
                          .model = "example",
                          .dtype = "bf16",
                          .elem_bytes = 2,
                          .planes = 2,
                          .head_size = 128,
                          .num_groups = 1,
                          .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS}},
                          .num_splits = 1,
                          .splits = {{.heads_total = 8, .head_count = 8}},
                          .layers_total = LAYERS,
                          .layer_count = LAYERS};
    check(baton_geometry_layout(&g, tensors, BATON_LAYOUT_LAYER_MAJOR), "layout");
    check(baton_cache_create(b, &g, BATON_MEMORY_HOST, &cache), "baton_cache_create");
    check(baton_start(b), "baton_start");
    uint8_t *base = baton_cache_base(cache);
    uint64_t layer_bytes = g.bytes / LAYERS;
    for (uint32_t i = 0; i < BLOCKS; i++)
        blocks[i] = i;

    double begin = now_ms();
    if (me.role == BATON_ROLE_PREFILL)
        prefill(b, blocks, base, layer_bytes);
    else
        decode(b, blocks);
    double called = now_ms() - begin;
    await_event(b, &e);
    for (uint64_t i = 0; i < g.bytes && me.role == BATON_ROLE_DECODE; i++)
        wrong += base[i] != byte_of((uint32_t)(i / layer_bytes));
    if (me.role == BATON_ROLE_PREFILL)
        printf("prefill: %s; prefill ended after %.1f ms, the offer after %.1f ms\n", baton_strerror(e.error), called,
               (double)e.total_ns / 1e6);
    else
        printf("decode: %s; %llu bytes after %.1f ms, %llu of them wrong\n", baton_strerror(e.error),
               (unsigned long long)e.bytes, (double)e.total_ns / 1e6, (unsigned long long)wrong);
    check(baton_close(b), "baton_close");
    return e.status != BATON_STATUS_DONE || wrong > 0;
}
