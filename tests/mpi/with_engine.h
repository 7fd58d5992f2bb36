/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * with_engine: what the tests of closing share. Each rank is an engine of its own. Most want from themselves, so that a
 * reactor or a device that stands still holds up its own rank alone.
 */
#ifndef BATON_TESTS_WITH_ENGINE_H
#define BATON_TESTS_WITH_ENGINE_H

#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "baton.h"
#include "front/context.h"
#include "harness.h"
#include "with_geometry.h"
#include "with_regions.h"

#define BLOCKS 4
#define BLOCK_TOKENS 16
#define STALLED_NS (400 * CLOCK_NS_PER_MS) /* no turn lasts so long, unless BATON_FAULT makes it */
#define PATIENCE_NS (20 * CLOCK_NS_PER_S)

struct engine {
    char name[BATON_ENGINE_NAME_MAX];
    baton_t *b;
    baton_cache_t *cache;
};

/* Ends all ranks if a call has failed: without an engine no later case makes sense. */
static inline void engine_need(int rc)
{
    if (CHECK_EQ(rc, 0))
        return;
    fprintf(stderr, "# rank %d: %s\n", harness.rank, baton_errmsg());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static inline void engine_open(struct engine *e, baton_progress_mode_t progress, uint32_t flags)
{
    baton_open_params_t me = {
        .size = sizeof me, .role = BATON_ROLE_BOTH, .tp = 1, .pp = 1, .progress = progress, .flags = flags};
    memset(e, 0, sizeof *e);
    snprintf(e->name, sizeof e->name, "e%d", harness.rank);
    strcpy(me.engine, e->name);
    engine_need(baton_open(MPI_COMM_WORLD, &me, &e->b));
}

/* With a driver, the cache is a device's memory, which is never freed: copies may still be under way at the end. */
static inline void engine_cache(struct engine *e, const baton_driver_t *driver)
{
    baton_geometry_t g = small_geometry(BLOCK_TOKENS, BLOCKS);
    baton_tensor_t tensor;
    engine_need(baton_geometry_layout(&g, &tensor, 0));
    if (driver == NULL) {
        engine_need(baton_cache_create(e->b, &g, BATON_MEMORY_HOST, &e->cache));
        return;
    }
    void *device = calloc(1, g.bytes);
    engine_need(baton_driver_set(e->b, driver));
    const baton_region_t region = region_of(BATON_MEMORY_DEVICE, device, g.bytes);
    engine_need(baton_cache_wrap(e->b, &g, &region, 1, &e->cache));
}

/* With a reactor of its own. */
static inline void engine_up(struct engine *e, const baton_driver_t *driver)
{
    engine_open(e, BATON_PROGRESS_THREAD, 0);
    engine_cache(e, driver);
    engine_need(baton_start(e->b));
}

static inline void engine_offer(const struct engine *e, const char *key)
{
    const uint32_t blocks[] = {0, 1};
    const baton_offer_params_t o = {.size = sizeof o,
                                    .key = key,
                                    .num_tables = 1,
                                    .tables = {{.blocks = blocks, .num_blocks = 2}},
                                    .num_tokens = 2 * BLOCK_TOKENS};
    CHECK_EQ(baton_offer(e->b, &o, NULL), 0);
}

static inline void engine_want_from(const struct engine *e, const char *producer, const char *key, uint32_t timeout_ms)
{
    const uint32_t blocks[] = {3, 2};
    const baton_want_params_t w = {.size = sizeof w,
                                   .key = key,
                                   .engine = producer,
                                   .num_tables = 1,
                                   .tables = {{.blocks = blocks, .num_blocks = 2}},
                                   .num_tokens = 2 * BLOCK_TOKENS,
                                   .timeout_ms = timeout_ms};
    CHECK_EQ(baton_want(e->b, &w, NULL), 0);
}

/* From itself. */
static inline void engine_want(const struct engine *e, const char *key, uint32_t timeout_ms)
{
    engine_want_from(e, e->name, key, timeout_ms);
}

/* The next event; zeroed if none comes in time. */
static inline baton_event_t engine_next(const struct engine *e)
{
    const uint64_t until = clock_now_ns() + PATIENCE_NS;
    struct pollfd p = {.fd = baton_event_fd(e->b), .events = POLLIN};
    baton_event_t event = {0};
    while (baton_poll(e->b, &event, 1) != 1 && CHECK(clock_now_ns() < until))
        poll(&p, 1, 100);
    return event;
}

/* The next event of that type. */
static inline baton_event_t engine_event(const struct engine *e, baton_event_type_t type)
{
    baton_event_t event;
    do
        event = engine_next(e);
    while (event.type != 0 && event.type != type);
    CHECK_EQ(event.type, type);
    return event;
}

/* Waits until a turn of the reactor lasts. Returns when it began. */
static inline uint64_t engine_stalls(const struct engine *e)
{
    const uint64_t until = clock_now_ns() + PATIENCE_NS;
    uint64_t turn = 0, now = 0;
    while ((turn == 0 || now < turn + STALLED_NS) && now < until) {
        usleep(1000);
        turn = reactor_turn_ns(e->b);
        now = clock_now_ns();
    }
    CHECK(now < until);
    return turn;
}

#endif
