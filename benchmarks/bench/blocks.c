/* SPDX-License-Identifier: BSD-3-Clause */
/* blocks: see blocks.h. */
#include "bench/blocks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/fail.h"
#include "bench/pattern.h"

#define ELEM_BYTES 2u
#define POISON 0xa5

void blocks_describe(uint64_t block_bytes, uint32_t num_blocks, baton_geometry_t *g, baton_tensor_t *tensor)
{
    blocks_describe_layers(block_bytes, num_blocks, 1, g, tensor);
}

void blocks_describe_layers(uint64_t block_bytes, uint32_t num_blocks, uint32_t num_layers, baton_geometry_t *g,
                            baton_tensor_t *tensors)
{
    *g = (baton_geometry_t){.size = sizeof(baton_geometry_t),
                            .model = "baton-bench",
                            .dtype = "bf16",
                            .elem_bytes = ELEM_BYTES,
                            .planes = 1,
                            .head_size = (uint32_t)(block_bytes / BLOCKS_TOKENS / ELEM_BYTES),
                            .num_groups = 1,
                            .groups = {{.block_tokens = BLOCKS_TOKENS, .num_blocks = num_blocks}},
                            .num_splits = 1,
                            .splits = {{.heads_total = 1, .head_count = 1}},
                            .layers_total = num_layers,
                            .layer_count = num_layers};
    fail_on(baton_geometry_layout(g, tensors, BATON_LAYOUT_HND), "baton_geometry_layout");
    for (uint32_t i = 0; i < num_layers; i++)
        if (tensors[i].offset != (uint64_t)i * num_blocks * block_bytes ||
            tensors[i].stride.block != (int64_t)block_bytes)
            fail("a block of one head and plane is not contiguous in the usual layout");
}

void blocks_fill(char *pool, uint64_t block_bytes, uint32_t num_blocks, uint32_t first)
{
    for (uint32_t id = 0; id < num_blocks; id++)
        pattern_fill(pool + id * block_bytes, block_bytes, first + id);
}

void blocks_poison(char *pool, uint64_t block_bytes, const uint32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        memset(pool + ids[i] * block_bytes, POISON, block_bytes);
}

static uint64_t last_word(uint64_t block_bytes, uint32_t id)
{
    return (id + UINT64_C(1)) * block_bytes - sizeof(uint64_t);
}

void blocks_mark(char *pool, uint64_t block_bytes, const uint32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        memset(pool + last_word(block_bytes, ids[i]), POISON, sizeof(uint64_t));
}

/* Baton's threads may be writing it. */
bool blocks_has_come(const char *pool, uint64_t block_bytes, uint32_t id)
{
    uint64_t mark;
    memset(&mark, POISON, sizeof mark);
    const void *word = pool + last_word(block_bytes, id);
    return __atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE) != mark;
}

bool blocks_check(const char *pool, uint64_t block_bytes, uint64_t bytes, const uint32_t *from, const uint32_t *to,
                  uint32_t count, const char *what)
{
    uint64_t at;
    for (uint32_t i = 0; i < count; i++) {
        if (pattern_check(pool + to[i] * block_bytes, bytes, from[i], &at))
            continue;
        fprintf(stderr,
                "baton-bench: wrong data: request %s, block %" PRIu32 " of %" PRIu32 " (from %" PRIu32 " into %" PRIu32
                "), byte %" PRIu64 "\n",
                what, i, count, from[i], to[i], at);
        return false;
    }
    return true;
}

static baton_id_t offer(const struct context *c, const char *key, const uint32_t *ids, uint32_t count, uint32_t flags)
{
    baton_id_t id;
    baton_offer_params_t p = {.size = sizeof p,
                              .key = key,
                              .num_tables = 1,
                              .tables = {{.blocks = ids, .num_blocks = count}},
                              .num_tokens = count * BLOCKS_TOKENS,
                              .ttl_ms = BLOCKS_PATIENCE_MS,
                              .flags = flags};
    fail_on(baton_offer(c->baton, &p, NULL, &id), "baton_offer");
    return id;
}

baton_id_t blocks_offer(const struct context *c, const char *key, const uint32_t *ids, uint32_t count)
{
    return offer(c, key, ids, count, 0);
}

baton_id_t blocks_offer_layers(const struct context *c, const char *key, const uint32_t *ids, uint32_t count)
{
    return offer(c, key, ids, count, BATON_OFFER_LAYERS);
}

baton_id_t blocks_want(const struct context *c, const char *engine, const char *key, const uint32_t *ids,
                       uint32_t count, baton_mode_t mode, void *user)
{
    baton_id_t id;
    baton_want_params_t p = {.size = sizeof p,
                             .key = key,
                             .engine = engine,
                             .num_tables = 1,
                             .tables = {{.blocks = ids, .num_blocks = count}},
                             .num_tokens = count * BLOCKS_TOKENS,
                             .timeout_ms = BLOCKS_PATIENCE_MS,
                             .mode = mode,
                             .user = user};
    fail_on(baton_want(c->baton, &p, &id), "baton_want");
    return id;
}

/* Takes an event of that type, which is about a call of the type `of`. */
static void take(const struct context *c, baton_event_type_t type, baton_event_type_t of, baton_event_t *event)
{
    const char *what = baton_event_name(type), *call = baton_event_name(of);
    if (!context_await(c, event, BLOCKS_PATIENCE_MS))
        fail("no event \"%s\" of a call of baton_%s for %u ms", what, call, BLOCKS_PATIENCE_MS);
    if (event->type != type || (type == BATON_EVENT_VERDICT && event->of != of))
        fail("the event \"%s\" of %s (%s: %s) came in place of \"%s\" of a call of baton_%s",
             baton_event_name(event->type), event->key, baton_errname(event->error), event->detail, what, call);
    if (event->status != BATON_STATUS_DONE)
        fail("the %s %s ended as %s: %s", what, event->key, baton_errname(event->error), event->detail);
}

void blocks_await(const struct context *c, baton_event_type_t type, baton_event_t *event)
{
    baton_event_t verdict;
    take(c, type, type, event);
    if (!c->hears)
        return;
    take(c, BATON_EVENT_VERDICT, type, &verdict);
    if (verdict.id != event->id)
        fail("a verdict on %s came in place of that on %s", verdict.key, event->key);
}

void blocks_await_offers(const struct context *c, uint32_t count)
{
    baton_event_t event;
    while (count > 0) {
        if (!context_await(c, &event, BLOCKS_PATIENCE_MS))
            fail("an offer did not end");
        count -= event.type == BATON_EVENT_OFFER;
    }
}

baton_path_t blocks_path(const baton_event_t *event)
{
    baton_path_t only = BATON_PATH_NONE;
    for (int path = 0; path < BATON_PATHS; path++) {
        if (event->path_bytes[path] == 0)
            continue;
        if (only != BATON_PATH_NONE)
            return BATON_PATH_NONE;
        only = (baton_path_t)path;
    }
    return only;
}
