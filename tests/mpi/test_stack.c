/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_stack: how much stack calls need, also those that make turns (baton.7, "Threads"). Calls of all kinds are made
 * on a stack that was painted before, with all of the log. Ranks are pairs: each even one is a prefill engine of its
 * own, and the next one a decode engine that wants from it alone. One rank alone is both.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "baton.h"
#include "front/context.h"
#include "front/inside.h"
#include "harness.h"

#define BLOCKS 4096
#define BLOCK_TOKENS 16
#define MANY 1000 /* blocks of a large request */
#define PATIENCE_NS (20 * CLOCK_NS_PER_S)

/* What baton.7 promises of calls after baton_start, and the part of it that this test leaves for other builds. */
#define LIMIT_BYTES 16384u
#define MARGIN_BYTES 2048u

#define STACK_BYTES (256u << 10)
#define PAINTED_BYTES (96u << 10)
#define PAINT 0x5c5c5c5c5c5c5c5c

/* Frames are larger without optimisation, and under sanitizers. */
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define IS_MEASURED true
#else
#define IS_MEASURED false
#endif

static struct {
    baton_t *b;
    baton_cache_t *cache;
    char mine[BATON_ENGINE_NAME_MAX], theirs[BATON_ENGINE_NAME_MAX];
    bool producer, consumer, is_caller;
    size_t deepest; /* bytes */
    const char *deepest_call;
    uint32_t blocks[MANY];
} f;

/* ---- measuring --------------------------------------------------------------------------------------------------- */

/* What lies below the frames of the functions here: their own 512 bytes at most. */
static uint64_t *bottom(const void *frame)
{
    return (uint64_t *)((uintptr_t)frame & ~(uintptr_t)63) - 64;
}

static __attribute__((noinline)) uint64_t *paint(void)
{
    uint64_t *end = bottom(__builtin_frame_address(0));
    for (volatile uint64_t *at = end - PAINTED_BYTES / sizeof *end; at < end; at++)
        *at = PAINT;
    return end;
}

/* The deepest byte that was written below `end` since. */
static __attribute__((noinline)) void look(const char *call, const uint64_t *end)
{
    const volatile uint64_t *at = end - PAINTED_BYTES / sizeof *end;
    while (at < end && *at == PAINT)
        at++;
    const size_t bytes = (size_t)((const char *)end - (const char *)(uintptr_t)at) + 64 * sizeof *end;
    if (bytes > f.deepest) {
        f.deepest = bytes;
        f.deepest_call = call;
    }
}

#define MEASURED(call)                                                                                                 \
    do {                                                                                                               \
        const uint64_t *end = paint();                                                                                 \
        call;                                                                                                          \
        look(#call, end);                                                                                              \
    } while (0)

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static int offer(const char *key, uint32_t blocks, uint32_t layers, baton_id_t *id)
{
    baton_offer_params_t o = {.size = sizeof o,
                              .key = key,
                              .num_tables = 1,
                              .tables = {{.blocks = f.blocks, .num_blocks = blocks}},
                              .num_tokens = blocks * BLOCK_TOKENS,
                              .flags = layers,
                              .ttl_ms = 30000};
    int rc = 0;
    MEASURED(rc = baton_offer(f.b, &o, id));
    return rc;
}

static int want(const char *key, uint32_t blocks, baton_mode_t mode, uint32_t timeout_ms, baton_id_t *id)
{
    baton_want_params_t w = {.size = sizeof w,
                             .key = key,
                             .engine = f.theirs,
                             .num_tables = 1,
                             .tables = {{.blocks = f.blocks, .num_blocks = blocks}},
                             .num_tokens = blocks * BLOCK_TOKENS,
                             .mode = mode,
                             .timeout_ms = timeout_ms};
    int rc = 0;
    MEASURED(rc = baton_want(f.b, &w, id));
    return rc;
}

static int take(int n, baton_status_t status)
{
    const uint64_t until = clock_now_ns() + PATIENCE_NS;
    baton_event_t e;
    int got = 0, good = 0;
    while (got < n && clock_now_ns() < until) {
        int rc = 0;
        if (f.is_caller)
            MEASURED(rc = baton_progress(f.b));
        MEASURED(rc = baton_poll(f.b, &e, 1));
        if (rc == 1) {
            got++;
            good += e.status == status;
        }
    }
    return good;
}

static const char *key_of(const char *kind, int i)
{
    static char key[96];
    snprintf(key, sizeof key, "%s %d of %s", kind, i, f.producer ? f.mine : f.theirs);
    return key;
}

/* One after the other, with pauses in which the reactor falls asleep: then calls and polls make its turns. */
static void transfer(const char *kind, uint32_t blocks, baton_mode_t mode)
{
    const int rounds = blocks < MANY ? 40 : 5, events = f.producer && f.consumer ? 2 * rounds : rounds;
    for (int i = 0; f.producer && i < rounds; i++)
        CHECK_EQ(offer(key_of(kind, i), blocks, 0, NULL), 0);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; f.consumer && i < rounds; i++) {
        CHECK_EQ(want(key_of(kind, i), blocks, mode, 20000, NULL), 0);
        if (f.producer)
            continue;
        CHECK_EQ(take(1, BATON_STATUS_DONE), 1);
        usleep(500);
    }
    if (f.producer)
        CHECK_EQ(take(events, BATON_STATUS_DONE), events);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Offers that become ready by and by, in caches that have one layer. */
static void streams(void)
{
    baton_id_t id = {0};
    int rc = 0;
    if (f.producer) {
        CHECK_EQ(offer(key_of("layers", 0), 2, BATON_OFFER_LAYERS, &id), 0);
        MEASURED(rc = baton_ready(f.b, id, 0, 1, 0));
        CHECK_EQ(rc, 0);
        CHECK_EQ(offer(key_of("chunks", 0), 2, BATON_OFFER_CHUNKS, &id), 0);
        baton_append_params_t a = {.size = sizeof a, .num_tokens = 2 * BLOCK_TOKENS};
        MEASURED(rc = baton_append(f.b, id, &a));
        CHECK_EQ(rc, 0);
    }
    if (f.consumer) {
        CHECK_EQ(want(key_of("layers", 0), 2, BATON_MODE_PULL, 20000, NULL), 0);
        CHECK_EQ(want(key_of("chunks", 0), 2, BATON_MODE_PULL, 20000, NULL), 0);
    }
    const int events = 2 * (f.producer + f.consumer);
    CHECK_EQ(take(events, BATON_STATUS_DONE), events);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void failures(void)
{
    baton_id_t id = {0};
    const uint32_t twice = f.blocks[MANY - 1];
    int rc = 0;
    f.blocks[MANY - 1] = f.blocks[0];
    CHECK_EQ(want("twice", MANY, BATON_MODE_PULL, 20000, NULL), BATON_EINVAL);
    f.blocks[MANY - 1] = BLOCKS;
    CHECK_EQ(offer("beyond", MANY, 0, NULL), BATON_EBLOCK);
    f.blocks[MANY - 1] = twice;
    CHECK_EQ(offer("cancelled", 1, 0, &id), 0);
    MEASURED(rc = baton_cancel(f.b, id));
    CHECK_EQ(rc, 0);
    CHECK_EQ(take(1, BATON_STATUS_CANCELLED), 1);
    MEASURED(rc = baton_progress(f.b));
    if (f.consumer) {
        for (int i = 0; i < 4; i++)
            CHECK_EQ(want(key_of("nobody offers it", i), 1, BATON_MODE_PULL, 50, NULL), 0);
        CHECK_EQ(take(4, BATON_STATUS_EXPIRED), 4);
        CHECK_EQ(want(key_of("nor this", 0), 1, BATON_MODE_PULL, 20000, &id), 0);
        MEASURED(rc = baton_cancel(f.b, id));
        CHECK_EQ(rc, 0);
        CHECK_EQ(take(1, BATON_STATUS_CANCELLED), 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void readings(void)
{
    static baton_pending_t pending[64];
    static baton_engine_t engines[8];
    static baton_engine_rank_t ranks[8];
    static char text[32768];
    baton_stats_t stats = BATON_INIT(baton_stats_t);
    baton_peer_stats_t peer;
    int rc = 0;
    stats.pending = pending;
    stats.max_pending = 64;
    stats.peer_stats = &peer;
    stats.num_peers = 1;
    MEASURED(rc = baton_stats(f.b, &stats));
    CHECK_EQ(rc, 0);
    CHECK_EQ(stats.num_pending, 0);
    MEASURED(rc = baton_engines(f.b, NULL, engines, 8));
    CHECK(rc > 0);
    MEASURED(rc = baton_engine_ranks(f.b, engines[0].name, ranks, 8));
    CHECK(rc > 0);
    MEASURED(rc = baton_describe(f.b, text, sizeof text));
    CHECK(rc > 0);
    MEASURED(rc = baton_event_fd(f.b));
    CHECK(rc >= 0);
}

static void *call_all(void *arg)
{
    (void)arg;
    transfer("first", 1, BATON_MODE_PULL); /* the first contact is a part of it */
    transfer("small", 2, BATON_MODE_AUTO);
    transfer("large", MANY, BATON_MODE_PULL);
    transfer("small push", 2, BATON_MODE_PUSH);
    transfer("large push", MANY, BATON_MODE_PUSH);
    streams();
    failures();
    readings();
    return NULL;
}

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

static atomic_uint lines;

static void count_line(void *user, baton_log_level_t level, const baton_log_source_t *source, const char *text)
{
    (void)user, (void)level, (void)source, (void)text;
    atomic_fetch_add(&lines, 1);
}

static void up(baton_progress_mode_t progress)
{
    enum { TENSORS = 8 };
    baton_tensor_t tensors[TENSORS];
    baton_geometry_t g = {.size = sizeof g,
                          .model = "m",
                          .dtype = "u8",
                          .elem_bytes = 1,
                          .planes = 2,
                          .head_size = 8,
                          .num_groups = 1,
                          .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS}},
                          .num_splits = 1,
                          .splits = {{.heads_total = 2, .head_count = 2}},
                          .layers_total = 1,
                          .layer_count = 1};
    baton_open_params_t me = {.size = sizeof me, .tp = 1, .pp = 1, .progress = progress};
    f.producer = harness.rank % 2 == 0;
    f.consumer = harness.rank % 2 == 1 || harness.size == 1;
    snprintf(f.mine, sizeof f.mine, "e%d", harness.rank);
    snprintf(f.theirs, sizeof f.theirs, "e%d", harness.size == 1 ? 0 : harness.rank ^ 1);
    me.role = f.producer && f.consumer ? BATON_ROLE_BOTH : f.producer ? BATON_ROLE_PREFILL : BATON_ROLE_DECODE;
    strcpy(me.engine, f.mine);
    for (uint32_t i = 0; i < MANY; i++)
        f.blocks[i] = i * 2731 % BLOCKS; /* each once, and out of order */
    CHECK_EQ(baton_geometry_layout(&g, tensors, f.producer ? 0 : BATON_LAYOUT_KV_FUSED), 0);
    if (!CHECK_EQ(baton_open(MPI_COMM_WORLD, &me, &f.b), 0) ||
        !CHECK_EQ(baton_cache_create(f.b, &g, BATON_MEMORY_HOST, &f.cache), 0) || !CHECK_EQ(baton_start(f.b), 0)) {
        fprintf(stderr, "# rank %d: %s\n", harness.rank, baton_errmsg());
        MPI_Abort(MPI_COMM_WORLD, 1); /* no later case makes sense */
    }
}

static void on_painted_stack(void *(*run)(void *))
{
    pthread_t thread;
    pthread_attr_t attr;
    void *stack = aligned_alloc(4096, STACK_BYTES);
    CHECK_EQ(pthread_attr_init(&attr), 0);
    CHECK_EQ(pthread_attr_setstack(&attr, stack, STACK_BYTES), 0);
    CHECK_EQ(pthread_create(&thread, &attr, run, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
    free(stack);
}

static void measure(baton_progress_mode_t progress)
{
    memset(&f, 0, sizeof f);
    f.is_caller = progress == BATON_PROGRESS_CALLER;
    setenv("BATON_LOG", "4", 1);
    baton_log_set(count_line, NULL);
    up(progress);
    on_painted_stack(call_all);
    baton_stats_t stats = BATON_INIT(baton_stats_t);
    CHECK_EQ(baton_stats(f.b, &stats), 0);
    CHECK_EQ(baton_close(f.b), 0);
    baton_log_set(NULL, NULL);
    unsetenv("BATON_LOG");
    CHECK(atomic_load(&lines) > 0);
    fprintf(stderr, "# rank %d: at most %zu bytes, in %s; %llu turns of calls, %llu of polls\n", harness.rank,
            f.deepest, f.deepest_call, (unsigned long long)stats.turns_calls, (unsigned long long)stats.turns_polls);
    if (progress != BATON_PROGRESS_CALLER && is_one_node() && harness.size == 2)
        CHECK(stats.turns_calls > 0);
    if (IS_MEASURED)
        CHECK(f.deepest <= LIMIT_BYTES - MARGIN_BYTES);
}

static void calls_beside_a_reactor(void)
{
    measure(BATON_PROGRESS_THREAD);
}

/* The engines' own memory, which is reached by cross-memory attach. */
static void calls_that_check_every_byte(void)
{
    setenv("BATON_CHECKSUM", "1", 1);
    setenv("PRETEND_MEMORY", "private", 1);
    measure(BATON_PROGRESS_THREAD);
    unsetenv("BATON_CHECKSUM");
    unsetenv("PRETEND_MEMORY");
}

static void calls_that_are_the_reactor(void)
{
    measure(BATON_PROGRESS_CALLER);
}

static void calls_that_stage(void)
{
    setenv("PRETEND_MEMORY", "device", 1);
    measure(BATON_PROGRESS_CALLER);
    unsetenv("PRETEND_MEMORY");
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN(calls_beside_a_reactor);
    RUN(calls_that_check_every_byte);
    RUN(calls_that_are_the_reactor);
    RUN(calls_that_stage);
    return harness_end();
}
