/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * no_memory: each allocation of Baton fails once, in a life of a context that opens, starts, moves a few requests and
 * closes; from each fifth one on all of them fail; and all in close alone. Nothing crashes, every call that was taken
 * has its end in time, and a request that is told to be done has its bytes. The linker leads Baton's calls of the
 * allocator here (--wrap).
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "baton.h"
#include "harness.h"
#include "mpi/fabric.h"
#include "with_clock.h"

enum { BLOCKS = 10, BLOCK_TOKENS = 4, LAYERS = 2, BLOCK_BYTES = 256 /* of one layer */ };

/* ---- the allocator ----------------------------------------------------------------------------------------------- */

static atomic_bool fails, for_ever; /* an allocation does; all after it do too */
static atomic_bool joins;           /* the ranks are about to find each other */
static atomic_long asked, given;    /* allocations of this life; those before the one that fails */

static bool is_given(void)
{
    if (joins && harness.size > 1)
        return true;
    const long n = atomic_fetch_add(&asked, 1), most = atomic_load(&given);
    return !atomic_load(&fails) || n < most || (n > most && !atomic_load(&for_ever));
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t num, size_t bytes);
void *__real_realloc(void *at, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **at, size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t num, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **at, size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return is_given() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t num, size_t bytes)
{
    return is_given() ? __real_calloc(num, bytes) : NULL;
}

/* Nothing is kept: what is asked for again may fail again. */
void *__wrap_spare_calloc(size_t bytes);
void __wrap_spare_free(void *memory, size_t bytes);
void *__wrap_spare_calloc(size_t bytes)
{
    return __wrap_calloc(1, bytes);
}

void __wrap_spare_free(void *memory, size_t bytes)
{
    (void)bytes;
    free(memory);
}

void *__wrap_realloc(void *at, size_t bytes)
{
    return is_given() ? __real_realloc(at, bytes) : NULL;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return is_given() ? __real_aligned_alloc(alignment, bytes) : NULL;
}

int __wrap_posix_memalign(void **at, size_t alignment, size_t bytes)
{
    return is_given() ? __real_posix_memalign(at, alignment, bytes) : ENOMEM;
}

/*
 * A rank that has no memory for this cannot tell the others, which find it silent after BATON_START_MS. MPI is unfit
 * for further worlds then. So that is for one rank alone.
 */
int __real_fabric_open(MPI_Comm comm, const struct settings *settings, baton_progress_mode_t mode, struct logger *log,
                       int local, struct fabric **out);
int __wrap_fabric_open(MPI_Comm comm, const struct settings *settings, baton_progress_mode_t mode, struct logger *log,
                       int local, struct fabric **out);

int __wrap_fabric_open(MPI_Comm comm, const struct settings *settings, baton_progress_mode_t mode, struct logger *log,
                       int local, struct fabric **out)
{
    joins = true;
    const int rc = __real_fabric_open(comm, settings, mode, log, local, out);
    joins = false;
    return rc;
}

/* ---- a life ------------------------------------------------------------------------------------------------------ */

static struct {
    baton_t *b;
    baton_cache_t *cache;
    bool producer, consumer;
    int open, done; /* calls that were taken and have no end yet; wants that have their bytes */
} f;

static int call_ms; /* how long an offer or a want lives */

/* Whether an error is one that a lack of memory may have. Others would hide it. */
static bool is_told(int rc)
{
    const bool is = rc == 0 || rc == BATON_ENOMEM || rc == BATON_ESYSTEM || rc == BATON_EAGAIN;
    if (!is)
        fprintf(stderr, "# rank %d: %s: %s\n", harness.rank, baton_errname(rc), baton_errmsg());
    return is;
}

static uint8_t *block(uint32_t layer, uint32_t i)
{
    return (uint8_t *)baton_cache_base(f.cache) + ((size_t)layer * BLOCKS + i) * BLOCK_BYTES;
}

/* The gravest error of any rank. */
static int worst_of(int rc)
{
    int worst;
    CHECK(is_told(rc));
    MPI_Allreduce(&rc, &worst, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return worst;
}

static int up(void)
{
    baton_tensor_t tensors[LAYERS];
    baton_geometry_t g = {.size = sizeof g,
                          .model = "m",
                          .dtype = "f32",
                          .elem_bytes = 4,
                          .planes = 1,
                          .head_size = BLOCK_BYTES / 4 / BLOCK_TOKENS,
                          .num_groups = 1,
                          .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS}},
                          .num_splits = 1,
                          .splits = {{.heads_total = 1, .head_count = 1}},
                          .layers_total = LAYERS,
                          .layer_count = LAYERS};
    baton_open_params_t me = {.size = sizeof me, .tp = 1, .pp = 1};
    f.producer = harness.rank == 0;
    f.consumer = harness.size == 1 || !f.producer;
    me.role = harness.size == 1 ? BATON_ROLE_BOTH : f.producer ? BATON_ROLE_PREFILL : BATON_ROLE_DECODE;
    snprintf(me.engine, sizeof me.engine, "e%d", harness.rank);
    CHECK_EQ(baton_geometry_layout(&g, tensors, 0), 0);
    int rc = baton_open(MPI_COMM_WORLD, &me, &f.b);
    if (rc == 0)
        rc = baton_cache_create(f.b, &g, BATON_MEMORY_HOST, &f.cache);
    rc = worst_of(rc);
    return rc == 0 ? baton_start(f.b) : rc;
}

/* A call that is taken has an end. */
static void count(int rc)
{
    CHECK(is_told(rc));
    f.open += rc == 0;
}

static void offer(const char *key, const uint32_t *blocks, bool in_chunks)
{
    baton_id_t id = 0;
    const uint32_t flags = in_chunks ? BATON_OFFER_CHUNKS | BATON_OFFER_LAYERS : 0;
    baton_offer_params_t o = {
        .size = sizeof o, .key = key, .num_tokens = 2 * BLOCK_TOKENS, .ttl_ms = call_ms, .flags = flags};
    if (!in_chunks)
        o.num_tables = 1;
    o.tables[0] = (baton_table_t){.blocks = blocks, .num_blocks = in_chunks ? 0 : 2};
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (int i = 0; i < 2; i++)
            memset(block(layer, blocks[i]), 1 + (int)layer * 2 + i, BLOCK_BYTES);
    int rc = baton_offer(f.b, &o, &id);
    count(rc);
    for (uint32_t i = 0; in_chunks && rc == 0 && i < 2; i++) {
        const uint32_t tokens = (i + 1) * BLOCK_TOKENS;
        baton_append_params_t a = {.size = sizeof a,
                                   .num_tokens = tokens,
                                   .num_tables = 1,
                                   .tables = {{.blocks = blocks + i, .num_blocks = 1}}};
        CHECK(is_told(baton_append(f.b, id, &a)));
        CHECK(is_told(baton_ready(f.b, id, 0, LAYERS, tokens)));
    }
}

static void want(const char *key, const uint32_t *blocks, bool is_cancelled)
{
    baton_id_t id = 0;
    baton_want_params_t w = {.size = sizeof w,
                             .key = key,
                             .engine = "e0",
                             .num_tables = 1,
                             .tables = {{.blocks = blocks, .num_blocks = 2}},
                             .num_tokens = 2 * BLOCK_TOKENS,
                             .timeout_ms = call_ms};
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (int i = 0; i < 2; i++)
            memset(block(layer, blocks[i]), 0, BLOCK_BYTES);
    const int rc = baton_want(f.b, &w, &id);
    count(rc);
    if (is_cancelled && rc == 0)
        CHECK(is_told(baton_cancel(f.b, id)));
}

static bool has_bytes(const uint32_t *blocks)
{
    bool has = true;
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < BLOCK_BYTES; k++)
                has &= block(layer, blocks[i])[k] == 1 + (int)layer * 2 + i;
    return has;
}

/* Polls until each call has its end, which it must have within 10 s. */
static void hear(const uint32_t *whole, const uint32_t *chunks)
{
    for (double until = now_ms() + 10000; f.open > 0 && now_ms() < until;) {
        baton_event_t e;
        if (baton_poll(f.b, &e, 1) != 1) {
            usleep(100);
            continue;
        }
        f.open -= e.type == BATON_EVENT_OFFER || e.type == BATON_EVENT_WANT;
        if (e.type == BATON_EVENT_WANT && e.status == BATON_STATUS_DONE)
            f.done += CHECK(has_bytes(e.key[0] == 'w' ? whole : chunks));
        CHECK(e.status != BATON_STATUS_DONE || e.error == 0);
    }
    CHECK_EQ(f.open, 0);
}

static void move_some(void)
{
    static const uint32_t whole[] = {0, 1}, chunks[] = {2, 3}, to_whole[] = {4, 5}, to_chunks[] = {6, 7},
                          to_none[] = {8, 9};
    char text[8192];
    if (f.consumer)
        want("chunks", to_chunks, false);
    if (f.producer)
        offer("whole", whole, false);
    if (f.producer)
        offer("chunks", chunks, true);
    if (f.consumer)
        want("whole", to_whole, false);
    if (f.consumer)
        want("nobody offers this", to_none, true);
    CHECK(baton_describe(f.b, text, sizeof text) > 0);
    hear(to_whole, to_chunks);
}

enum lack { NONE, ONE, ALL, IN_CLOSE };

/* One life, in which on one rank the allocation after so many fails, or all do. Whether one did, and all is well. */
static bool life(enum lack lack, int rank, long n)
{
    const bool lacks = lack != NONE && rank == harness.rank;
    memset(&f, 0, sizeof f);
    call_ms = lack == ONE || lack == ALL ? 50 : 10000;
    MPI_Barrier(MPI_COMM_WORLD);
    atomic_store(&asked, 0);
    atomic_store(&given, n);
    atomic_store(&for_ever, lack != ONE);
    atomic_store(&fails, lacks && lack != IN_CLOSE);
    if (worst_of(up()) == 0)
        move_some();
    bool has_failed = atomic_exchange(&fails, false) && atomic_load(&asked) > n;
    MPI_Barrier(MPI_COMM_WORLD);
    const long before = atomic_load(&asked);
    atomic_store(&fails, lacks && lack == IN_CLOSE);
    const int closed = f.b != NULL ? baton_close(f.b) : 0;
    if (lack == IN_CLOSE) { /* no rank has freed its windows then */
        CHECK_EQ(closed, BATON_EPEER);
        CHECK_HAS(baton_errmsg(), "memory");
        has_failed = atomic_load(&fails) && atomic_load(&asked) > before;
    } else {
        CHECK_EQ(closed, 0);
    }
    atomic_store(&fails, false);
    if (f.consumer && call_ms > 50)
        CHECK_EQ(f.done, 2);
    int mine[2] = {has_failed, harness.failures > 0}, any[2];
    MPI_Allreduce(mine, any, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (any[1] && rank == harness.rank)
        fprintf(stderr, "# rank %d: allocation %ld%s\n", rank, n, lack == ALL ? " and all after it" : "");
    return any[0] && !any[1];
}

static void each_fails(enum lack lack)
{
    for (int rank = 0; rank<harness.size; rank += harness.size> 1 ? harness.size - 1 : 1) { /* the first, the last */
        long n = 0;
        while (life(lack, rank, n))
            n += lack == ALL ? 5 : 1;
        CHECK(n > 50); /* they were Baton's */
    }
}

static void one_allocation_fails(void)
{
    each_fails(ONE);
}

static void memory_is_used_up(void)
{
    each_fails(ALL);
}

/* The ranks agree on it, and every one is told. */
static void close_has_none(void)
{
    if (harness.size == 1)
        return SKIP("with several ranks: what is left open there is no leak");
    CHECK(life(IN_CLOSE, 0, 0));
    CHECK(life(IN_CLOSE, harness.size - 1, 0));
}

static void nothing_fails(void)
{
    life(NONE, 0, 0);
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN(nothing_fails);
    RUN(one_allocation_fails);
    RUN(memory_is_used_up);
    RUN(nothing_fails);
    RUN(close_has_none);
    return harness_end();
}
