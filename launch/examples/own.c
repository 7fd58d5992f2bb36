/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that the engine owns: K and V of each layer lie in tensors of their own, from malloc, which Baton only learns
 * of after baton_start, as in an engine that measures its memory first. The decode engine compares all that it gets.
 *
 *   batonrun --prefill 1x2 --decode 1x1 own
 *
 * Each rank first prints what baton_describe says of its memory, and by which paths it reaches that of the others.
 * BATON_FAKE_NODES=2 shows the path between nodes (rma), a memfd instead of malloc that of shared mappings (shm).
 */
#include <baton.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 4, HEADS = 8, HEAD_SIZE = 64, BLOCKS = 64, BLOCK_TOKENS = 16, TOKENS = 40, TENSORS = 2 * LAYERS };

static void check(int rc, const char *what)
{
    if (rc < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, baton_strerror(rc), baton_errmsg());
        baton_exit(1);
    }
}

/* The engine's memory: tensor 2 * layer is K, the next one V. An int32_t stands for an element. */
static int32_t *tensor_memory[TENSORS];
static uint32_t heads, head_first; /* of this rank */

/* In this engine a block has its tokens in turn, a token its heads, a head its channels. */
static uint64_t place(uint32_t block, uint32_t token)
{
    return (uint64_t)(block * BLOCK_TOKENS + token) * heads * HEAD_SIZE;
}

/* Tells Baton of it: each tensor has one plane, and is a region. */
static void declare(baton_t *b)
{
    const uint64_t size = place(BLOCKS, 0) * sizeof(int32_t);
    const int64_t head = HEAD_SIZE * sizeof(int32_t), token = heads * head;
    baton_tensor_t tensors[TENSORS];
    baton_region_t regions[TENSORS];
    baton_cache_t *cache;
    for (uint32_t i = 0; i < TENSORS; i++) {
        tensor_memory[i] = malloc(size);
        regions[i] = (baton_region_t){.size = sizeof regions[i], .base = tensor_memory[i], .bytes = size};
        tensors[i] = (baton_tensor_t){
            .layer = i / 2, .region = i, .stride = {BLOCK_TOKENS * token, 0, head, token, sizeof(int32_t)}};
        snprintf(tensors[i].name, sizeof tensors[i].name, "%s.%u", i % 2 == 0 ? "k" : "v", i / 2);
    }
    /* clang-format off */
    const baton_geometry_t g = {
        .size = sizeof g, .model = "example", .dtype = "i32", .elem_bytes = sizeof(int32_t), .planes = 1,
        .head_size = HEAD_SIZE, .layers_total = LAYERS, .layer_count = LAYERS,
        .num_groups = 1, .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS}},
        .num_splits = 1, .splits = {{.heads_total = HEADS, .head_first = head_first, .head_count = heads}},
        .num_tensors = TENSORS, .tensors = tensors};
    /* clang-format on */
    check(baton_cache_wrap(b, &g, regions, TENSORS, &cache), "baton_cache_wrap");
}

/* Fills the request's blocks, or counts what is wrong in them. No two elements of the model have the same value. */
static unsigned visit(const uint32_t *blocks, bool fill)
{
    unsigned wrong = 0;
    for (uint32_t i = 0; i < TENSORS; i++)
        for (uint32_t t = 0; t < TOKENS; t++)
            for (uint32_t n = 0; n < heads * HEAD_SIZE; n++) {
                int32_t *at = tensor_memory[i] + place(blocks[t / BLOCK_TOKENS], t % BLOCK_TOKENS) + n;
                int32_t value = (int32_t)(((i * TOKENS + t) * HEADS + head_first) * HEAD_SIZE + n + 1);
                wrong += !fill && *at != value;
                *at = value;
            }
    return wrong;
}

static void print_way(baton_t *b, const char *engine)
{
    char text[8192];
    check(baton_describe(b, text, sizeof text), "baton_describe");
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        if (strncmp(line, "cache:", 6) == 0 || strncmp(line, "by ", 3) == 0 || strncmp(line, "paths:", 6) == 0)
            printf("%s: %s\n", engine, line);
}

int main(void)
{
    baton_t *b;
    baton_open_params_t me = {.size = sizeof me, .flags = BATON_OPEN_CACHE_LATER};
    baton_event_t e;
    check(baton_role_from_env(&me), "role");
    check(baton_open(MPI_COMM_NULL, &me, &b), "baton_open");
    check(baton_start(b), "baton_start");
    heads = HEADS / me.tp, head_first = heads * me.tp_rank;
    declare(b); /* an engine would load its model first, and see how much memory is left */
    for (int rc; (rc = baton_cache_ready(b)) != 0; poll(NULL, 0, 1))
        check(rc == BATON_EAGAIN ? 0 : rc, "baton_cache_ready"); /* until the other ranks have declared theirs too */
    print_way(b, me.engine);
    bool prefill = me.role == BATON_ROLE_PREFILL;
    uint32_t blocks[] = {7, prefill ? 3 : 60, 12}; /* the two sides need not use the same ones */
    baton_table_t table = {blocks, 3, 0};
    baton_offer_params_t o = {.size = sizeof o, .key = "r1", .num_tokens = TOKENS, .num_tables = 1, .tables = {table}};
    baton_want_params_t w = {
        .size = sizeof w, .key = "r1", .engine = "prefill0", .num_tokens = TOKENS, .num_tables = 1, .tables = {table}};
    if (prefill)
        visit(blocks, true);
    check(prefill ? baton_offer(b, &o, NULL) : baton_want(b, &w, NULL), "offer or want");
    for (struct pollfd fd = {.fd = baton_event_fd(b), .events = POLLIN}; baton_poll(b, &e, 1) == 0;)
        poll(&fd, 1, -1);
    unsigned wrong = prefill ? 0 : visit(blocks, false);
    unsigned long long bytes = e.bytes;
    printf("%s: %s, %llu bytes, %u elements wrong\n", me.engine, baton_strerror(e.error), bytes, wrong);
    check(baton_close(b), "baton_close"); /* from here on the memory is the engine's alone; after EPEER only at exit */
    for (uint32_t i = 0; i < TENSORS; i++)
        free(tensor_memory[i]);
    return e.status != BATON_STATUS_DONE || wrong > 0;
}
