/* SPDX-License-Identifier: BSD-3-Clause */
/* Copy kernels against memcpy at every small size and alignment, and the worker pool on a real plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "shm/copy.h"

#define GUARD 128

static void one(enum copy_kernel kernel, size_t size, size_t src_shift, size_t dst_shift)
{
    size_t room = size + 2 * GUARD + 64;
    uint8_t *src = malloc(room), *dst = malloc(room);
    for (size_t i = 0; i < room; i++) {
        src[i] = (uint8_t)(i * 31 + 7);
        dst[i] = 0xa5;
    }
    const char *sources[1] = {(char *)src};
    char *targets[1] = {(char *)dst};
    struct plan_run run = {.src = GUARD + src_shift, .dst = GUARD + dst_shift, .bytes = size};
    copy_runs(kernel, &run, 1, sources, targets);
    for (size_t i = 0; i < room; i++) {
        bool inside = i >= run.dst && i < run.dst + size;
        uint8_t right = inside ? src[run.src + (i - run.dst)] : 0xa5;
        if (dst[i] != right)
            fail_msg("kernel %d, %zu bytes, shifts %zu and %zu: byte %zu is %u, not %u", kernel, size, src_shift,
                     dst_shift, i, dst[i], right);
    }
    free(src);
    free(dst);
}

static void test_small_sizes(void **state)
{
    (void)state;
    for (int kernel = COPY_AUTO; kernel <= COPY_STREAM_SSE2; kernel++)
        for (size_t size = 0; size <= 600; size++)
            for (size_t shift = 0; shift < 64; shift += 7)
                one((enum copy_kernel)kernel, size, (shift * 5 + size) % 64, shift);
}

static void test_large_sizes(void **state)
{
    (void)state;
    static const size_t sizes[] = {1023, 1024, 4095, 4096, 4097, 65535, 65536, 1048577};
    for (int kernel = COPY_AUTO; kernel <= COPY_STREAM_SSE2; kernel++)
        for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (size_t shift = 0; shift < 64; shift += 9)
                one((enum copy_kernel)kernel, sizes[i], 63 - shift, shift);
}

static void test_many_runs(void **state)
{
    (void)state;
    enum { N = 200, SIZE = 1500 };
    struct plan_run runs[N];
    char *src = malloc(N * SIZE), *dst = calloc(N, SIZE);
    for (int i = 0; i < N * SIZE; i++)
        src[i] = (char)(i * 13 + i / 251);
    for (uint32_t i = 0; i < N; i++)
        runs[i] = (struct plan_run){.src = (i * 7 % N) * SIZE, .dst = (i * 3 % N) * SIZE, .bytes = SIZE - i % 5};
    copy_runs(COPY_AUTO, runs, N, &(const char *){src}, &(char *){dst});
    for (uint32_t i = 0; i < N; i++)
        assert_memory_equal(dst + runs[i].dst, src + runs[i].src, runs[i].bytes);
    free(src);
    free(dst);
}

/* ---- slices of a plan -------------------------------------------------------------------------------------------- */

enum { SHORT_HEADS = 3, SHORT_BLOCKS = 24, SHORT_TOKENS = SHORT_BLOCKS * 16 - 5 };

/* A cache of `heads` heads from head `first` on, and its bytes. */
struct shape {
    baton_geometry_t g;
    baton_tensor_t tensor;
    char *pool;
};

static void shape_init(struct shape *s, uint32_t head_size, unsigned layout, uint32_t first, uint32_t heads)
{
    s->g = (baton_geometry_t){.size = sizeof(baton_geometry_t),
                              .elem_bytes = 2,
                              .planes = 2,
                              .head_size = head_size,
                              .num_groups = 1,
                              .groups = {{.block_tokens = 16, .num_blocks = SHORT_BLOCKS}},
                              .num_splits = 1,
                              .splits = {{.heads_total = SHORT_HEADS, .head_first = first, .head_count = heads}},
                              .layers_total = 1,
                              .layer_count = 1};
    assert_int_equal(baton_geometry_layout(&s->g, &s->tensor, layout), 0);
    s->pool = malloc(s->g.bytes);
}

static char *entry(const struct shape *s, uint32_t block, uint32_t plane, uint32_t head, uint32_t token)
{
    const baton_strides_t *at = &s->tensor.stride;
    return s->pool + (int64_t)s->tensor.offset + block * at->block + plane * at->plane +
           (head - s->g.splits[0].head_first) * at->head + token * at->token;
}

static uint32_t short_from(uint32_t i)
{
    return i * 7 % SHORT_BLOCKS;
}

static uint32_t short_to(uint32_t i)
{
    return (i * 5 + 3) % SHORT_BLOCKS;
}

/* What the destination must be in the end: the wanted entries, and 0xa5 everywhere else. */
static void shape_expect(const struct shape *src, const struct shape *dst, struct shape *out)
{
    size_t entry_bytes = 2 * (size_t)src->g.head_size;
    *out = *dst;
    out->pool = malloc(dst->g.bytes);
    memset(out->pool, 0xa5, dst->g.bytes);
    for (uint32_t t = 0; t < SHORT_TOKENS; t++)
        for (uint32_t p = 0; p < 2; p++)
            for (uint32_t h = dst->g.splits[0].head_first;
                 h < dst->g.splits[0].head_first + dst->g.splits[0].head_count; h++)
                memcpy(entry(out, short_to(t / 16), p, h, t % 16), entry(src, short_from(t / 16), p, h, t % 16),
                       entry_bytes);
}

/* Copies everything in slices of `bytes` bytes, which begin and end anywhere within runs. */
static void slice_all(const struct plan_transfer *t, uint64_t bytes, const struct shape *from, const struct shape *to)
{
    const struct path_region lengths[] = {{.bytes = from->g.bytes}, {.bytes = to->g.bytes}};
    const struct path_regions regions[] = {{.num = 1, .region = &lengths[0]}, {.num = 1, .region = &lengths[1]}};
    const struct copy_side src = {&from->pool, &regions[0]}, dst = {&to->pool, &regions[1]};
    struct plan_cursor at = {0};
    while (!plan_at_end(t, &at)) {
        struct plan_run run;
        uint64_t left = bytes;
        assert_int_equal(copy_slice(t, at, bytes, &src, &dst), 0);
        while (left > 0 && plan_next(t, &at, &run, 1, left) > 0)
            left -= run.bytes;
    }
}

static void short_runs(uint32_t head_size, unsigned from, unsigned to, uint32_t first, uint32_t heads)
{
    static const uint64_t slices[] = {37, 1000, 5000, 70000, UINT64_MAX};
    uint32_t source_ids[SHORT_BLOCKS], target_ids[SHORT_BLOCKS];
    struct plan_box box = {0, 1, first, heads, 0};
    struct shape src, dst, right;
    struct plan_transfer t;
    struct plan_why why;
    struct plan *plan;
    shape_init(&src, head_size, from, 0, SHORT_HEADS);
    shape_init(&dst, head_size, to, first, heads);
    for (uint64_t i = 0; i < src.g.bytes; i++)
        src.pool[i] = (char)(i * 131 ^ i >> 7);
    for (uint32_t i = 0; i < SHORT_BLOCKS; i++) {
        source_ids[i] = short_from(i);
        target_ids[i] = short_to(i);
    }
    shape_expect(&src, &dst, &right);
    assert_int_equal(plan_compile(&src.g, &dst.g, &box, 1, &plan, &why), 0);
    const struct plan_tables source = {.num = 1, .table = {{source_ids, SHORT_BLOCKS, 0}}};
    const struct plan_tables target = {.num = 1, .table = {{target_ids, SHORT_BLOCKS, 0}}};
    assert_int_equal(plan_transfer_init(&t, plan, 0, SHORT_TOKENS, &source, &target, &why), 0);
    for (unsigned i = 0; i < sizeof slices / sizeof *slices; i++) {
        memset(dst.pool, 0xa5, dst.g.bytes);
        slice_all(&t, slices[i], &src, &dst);
        assert_memory_equal(dst.pool, right.pool, dst.g.bytes);
    }
    plan_destroy(plan);
    free(src.pool);
    free(dst.pool);
    free(right.pool);
}

static void test_slices_of_short_runs(void **state)
{
    (void)state;
    static const uint32_t head_sizes[] = {1, 24, 32, 128, 576}; /* runs of 2 to 1152 bytes, some whole lines */
    for (unsigned i = 0; i < sizeof head_sizes / sizeof *head_sizes; i++) {
        short_runs(head_sizes[i], BATON_LAYOUT_HND, BATON_LAYOUT_NHD, 0, SHORT_HEADS);
        short_runs(head_sizes[i], BATON_LAYOUT_NHD, BATON_LAYOUT_HND | BATON_LAYOUT_KV_FUSED, 0, SHORT_HEADS);
        short_runs(head_sizes[i], BATON_LAYOUT_NHD, BATON_LAYOUT_NHD, 1, 2);
        short_runs(head_sizes[i], BATON_LAYOUT_HND, BATON_LAYOUT_HND | BATON_LAYOUT_KV_BLOCK, 1, 1);
    }
}

/* ---- the pool ---------------------------------------------------------------------------------------------------- */

static _Atomic unsigned ends;

static void count_end(void *arg, bool runs_out)
{
    (void)runs_out;
    atomic_fetch_add(&ends, arg != NULL);
}

struct world {
    baton_geometry_t g;
    baton_tensor_t tensors[2];
    struct plan *plan;
    char *src, *dst;
    struct path_region length;
    struct path_regions regions;
    struct copy_side from_side, to_side;
    uint32_t *from, *to;
};

enum { BLOCKS = 256, TOKENS = BLOCKS * 8 - 3 };

static void world_init(struct world *w)
{
    struct plan_why why;
    struct plan_box all = {0, 2, 0, 2, 0};
    memset(w, 0, sizeof *w);
    w->g = (baton_geometry_t){.size = sizeof(baton_geometry_t),
                              .elem_bytes = 2,
                              .planes = 2,
                              .head_size = 32,
                              .num_groups = 1,
                              .groups = {{.block_tokens = 8, .num_blocks = BLOCKS}},
                              .num_splits = 1,
                              .splits = {{.heads_total = 2, .head_count = 2}},
                              .layers_total = 2,
                              .layer_count = 2};
    assert_int_equal(baton_geometry_layout(&w->g, w->tensors, BATON_LAYOUT_HND), 0);
    assert_int_equal(plan_compile(&w->g, &w->g, &all, 1, &w->plan, &why), 0);
    w->src = malloc(w->g.bytes);
    w->dst = calloc(1, w->g.bytes);
    w->length.bytes = w->g.bytes;
    w->regions = (struct path_regions){.num = 1, .region = &w->length};
    w->from_side = (struct copy_side){&w->src, &w->regions};
    w->to_side = (struct copy_side){&w->dst, &w->regions};
    for (uint64_t i = 0; i < w->g.bytes; i++)
        w->src[i] = (char)(i ^ i >> 8 ^ 1);
    w->from = malloc(BLOCKS * sizeof *w->from);
    w->to = malloc(BLOCKS * sizeof *w->to);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        w->from[i] = i * 37 % BLOCKS;
        w->to[i] = (i * 91 + 5) % BLOCKS;
    }
}

static void world_fini(struct world *w)
{
    plan_destroy(w->plan);
    free(w->src);
    free(w->dst);
    free(w->from);
    free(w->to);
}

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

/* For the end of a job. */
static void wait_for(struct copy_pool *pool)
{
    copy_wake(pool);
    wait_a_little();
}

static void transfer_init(struct plan_transfer *t, const struct world *w, uint32_t tokens)
{
    const struct plan_tables from = {.num = 1, .table = {{w->from, BLOCKS, 0}}},
                             to = {.num = 1, .table = {{w->to, BLOCKS, 0}}};
    struct plan_why why;
    assert_int_equal(plan_transfer_init(t, w->plan, 0, tokens, &from, &to, &why), 0);
}

/* Copies all in slices of a few blocks. The completions must add up, and after the last every byte must be there. */
static void move_all(struct world *w, unsigned workers, size_t depth)
{
    struct copy_pool *pool;
    struct plan_transfer t;
    struct plan_cursor at = {0};
    uint64_t sent = 0, got = 0;
    struct copy_end end;
    unsigned jobs = 0;
    atomic_store(&ends, 0);
    memset(w->dst, 0, w->g.bytes);
    transfer_init(&t, w, TOKENS);
    assert_int_equal(copy_pool_create(workers, NULL, depth, count_end, w, &pool), 0);
    while (got < t.bytes) {
        struct plan_cursor behind = at;
        struct copy_job job = {.transfer = &t,
                               .from = at,
                               .bytes = plan_skip(&t, &behind, 3000),
                               .src = w->from_side,
                               .dst = w->to_side,
                               .tag = 1000 + jobs};
        const bool is_taken = job.bytes > 0 && copy_submit(pool, &job);
        if (is_taken) {
            at = behind;
            sent += job.bytes;
            jobs++;
        }
        while (copy_collect(pool, &end)) {
            assert_true(end.tag >= 1000 && end.tag < 1000 + jobs);
            assert_int_equal(end.error, 0);
            got += end.bytes;
        }
        if (!is_taken)
            wait_for(pool); /* else the workers may sleep while their queue is full */
    }
    assert_int_equal(sent, t.bytes);
    assert_int_equal(got, t.bytes);
    assert_false(copy_collect(pool, &end));
    copy_pool_destroy(pool);
    assert_int_equal(atomic_load(&ends), jobs); /* told of each, since none says that more follow */
    for (uint32_t l = 0; l < 2; l++)
        for (uint32_t p = 0; p < 2; p++)
            for (uint32_t h = 0; h < 2; h++)
                for (uint32_t token = 0; token < BLOCKS * 8; token++) {
                    const baton_strides_t *s = &w->tensors[l].stride;
                    int64_t in = p * s->plane + h * s->head + token % 8 * s->token + (int64_t)w->tensors[l].offset;
                    const char *a = w->src + in + w->from[token / 8] * s->block;
                    const char *b = w->dst + in + w->to[token / 8] * s->block;
                    for (int i = 0; i < 64; i++)
                        assert_int_equal(b[i], token < TOKENS ? a[i] : 0);
                }
}

static void test_pool_moves_everything(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    for (int round = 0; round < 3; round++) {
        move_all(&w, 1, 4);
        move_all(&w, 3, 64);
    }
    world_fini(&w);
}

static _Atomic bool held;

static void hold(void *arg, bool runs_out)
{
    (void)arg, (void)runs_out;
    while (atomic_load(&held))
        wait_a_little();
}

static void test_depth_is_a_limit(void **state)
{
    (void)state;
    struct world w;
    struct copy_pool *pool;
    struct plan_transfer t;
    struct copy_end end;
    unsigned accepted = 0;
    world_init(&w);
    transfer_init(&t, &w, 8);
    atomic_store(&held, true); /* the worker stays in the end of its first job */
    assert_int_equal(copy_pool_create(1, NULL, 4, hold, NULL, &pool), 0);
    struct copy_job job = {.transfer = &t, .bytes = t.bytes, .src = w.from_side, .dst = w.to_side, .tag = 1};
    while (accepted < 100 && copy_submit(pool, &job))
        accepted++;
    assert_int_equal(accepted, 4);
    atomic_store(&held, false);
    while (accepted > 0) {
        if (copy_collect(pool, &end))
            accepted--;
        else
            wait_for(pool);
    }
    assert_true(copy_submit(pool, &job)); /* the places are free again */
    copy_pool_destroy(pool);              /* while a worker has a job */
    world_fini(&w);
}

static void count_looks(void *arg, bool runs_out)
{
    if (runs_out)
        atomic_fetch_add((atomic_uint *)arg, 1);
}

/* Waking is left to copy_wake, which does it once for all jobs. */
static void test_jobs_wait_for_the_begin(void **state)
{
    (void)state;
    struct world w;
    struct copy_pool *pool;
    struct plan_transfer t;
    struct copy_end end;
    world_init(&w);
    transfer_init(&t, &w, 8);
    atomic_uint looks = 0;
    assert_int_equal(copy_pool_create(1, NULL, 4, count_looks, &looks, &pool), 0);
    struct copy_job job = {.transfer = &t, .bytes = t.bytes, .src = w.from_side, .dst = w.to_side, .tag = 1};
    assert_true(copy_ask(pool));
    while (atomic_load(&looks) == 0)
        wait_a_little();
    usleep(100000); /* the worker, which runs, falls asleep */
    for (int i = 0; i < 2; i++)
        assert_true(copy_submit(pool, &job));
    usleep(20000);
    assert_false(copy_collect(pool, &end));
    for (int ended = 0; ended < 2; ended += copy_collect(pool, &end))
        wait_for(pool);
    copy_pool_destroy(pool);
    world_fini(&w);
}

/* A worker that sleeps looks at once, after one that is at work nobody need wait. */
static void test_a_worker_is_asked_to_look(void **state)
{
    (void)state;
    enum { JOBS = 60, ROUNDS_MOST = 1000 };
    struct world w;
    struct copy_pool *pool;
    struct plan_transfer t;
    struct copy_end end;
    atomic_uint looks = 0;
    bool was_refused = false;
    world_init(&w);
    transfer_init(&t, &w, TOKENS);
    assert_int_equal(copy_pool_create(1, NULL, JOBS, count_looks, &looks, &pool), 0);
    for (unsigned i = 1; i <= 3; i++) {
        usleep(50000); /* the worker is asleep */
        assert_true(copy_ask(pool));
        while (atomic_load(&looks) < i)
            wait_a_little();
    }
    const struct copy_job job = {.transfer = &t, .bytes = t.bytes, .src = w.from_side, .dst = w.to_side, .more = true};
    for (int round = 0; !was_refused; round++) {
        assert_in_range(round, 0, ROUNDS_MOST);
        int jobs = 0, ended = 0;
        while (jobs < JOBS && copy_submit(pool, &job))
            jobs++;
        copy_wake(pool);
        for (; ended < jobs; ended += copy_collect(pool, &end))
            was_refused |= !copy_ask(pool);
    }
    copy_pool_destroy(pool);
    world_fini(&w);
}

static atomic_uint told, told_early; /* where jobs run out, and where more of them wait */

static void hold_and_count(void *arg, bool runs_out)
{
    hold(arg, runs_out);
    atomic_fetch_add(runs_out ? &told : &told_early, 1);
}

/* While further jobs of a leg wait, their ends are told only as they become few; the end of a leg always. */
static void test_tells_where_needed(void **state)
{
    (void)state;
    enum { JOBS = 8, LAST_OF_A_LEG = 3 };
    struct world w;
    struct copy_pool *pool;
    struct plan_transfer t;
    struct copy_end end;
    unsigned ended = 0;
    world_init(&w);
    transfer_init(&t, &w, 8);
    atomic_store(&told, 0);
    atomic_store(&told_early, 0);
    atomic_store(&held, true); /* the worker stays in the end of its first job until all jobs are there */
    assert_int_equal(copy_pool_create(1, NULL, 2 * JOBS, hold_and_count, NULL, &pool), 0);
    struct copy_job job = {.transfer = &t, .bytes = t.bytes, .src = w.from_side, .dst = w.to_side};
    assert_true(copy_submit(pool, &job));
    while (!copy_collect(pool, &end))
        wait_for(pool);
    for (unsigned i = 1; i <= JOBS; i++) {
        job.more = i != LAST_OF_A_LEG && i < JOBS;
        assert_true(copy_submit(pool, &job));
    }
    atomic_store(&held, false);
    for (; ended < JOBS; ended += copy_collect(pool, &end))
        wait_for(pool);
    copy_pool_destroy(pool);                       /* joins the worker: it tells no more */
    assert_int_equal(atomic_load(&told), 3);       /* behind the first one, which was alone, and the last two */
    assert_int_equal(atomic_load(&told_early), 1); /* behind the last of a leg */
    world_fini(&w);
}

/* Short jobs overtake long ones, but do not stop them. Hashes are long, of however few bytes. */
static void test_short_jobs_first(void **state)
{
    (void)state;
    enum { LONGS = 3, SHORTS = 40, LONG_TAG = 1000 };
    struct world w;
    struct copy_pool *pool;
    struct plan_transfer few, all;
    struct copy_end end;
    unsigned shorts = 0, longs = 0;
    world_init(&w);
    transfer_init(&few, &w, 8);
    transfer_init(&all, &w, TOKENS);
    assert_true(few.bytes <= COPY_SHORT_BYTES && all.bytes > COPY_SHORT_BYTES);
    uint64_t sum[1];
    atomic_store(&held, true); /* the worker stays in the end of its first job until all jobs are there */
    assert_int_equal(copy_pool_create(1, NULL, 64, hold, NULL, &pool), 0);
    struct copy_job job = {.src = w.from_side, .dst = w.to_side};
    for (unsigned i = 0; i < LONGS + SHORTS; i++) {
        job.transfer = i < LONGS ? &all : &few;
        job.bytes = job.transfer->bytes;
        job.tag = i < LONGS ? LONG_TAG + i : i;
        job.sums = NULL;
        if (i == LONGS - 1) {
            job.transfer = &few;
            job.bytes = few.bytes;
            job.count = 1;
            job.sums = sum;
        }
        if (i == LONGS) /* a worker has the first long job */
            for (wait_for(pool); !copy_collect(pool, &end);)
                wait_for(pool);
        assert_true(copy_submit(pool, &job));
    }
    assert_int_equal(end.tag, LONG_TAG);
    atomic_store(&held, false);
    while (shorts + longs < LONGS - 1 + SHORTS) {
        if (!copy_collect(pool, &end)) {
            wait_for(pool);
        } else if (end.tag < LONG_TAG) {
            assert_int_equal(end.tag, LONGS + shorts); /* short ones in their order */
            shorts++;
        } else {
            assert_in_range(shorts, 1, SHORTS / 2);
            longs++;
        }
    }
    assert_int_equal(longs, LONGS - 1);
    copy_pool_destroy(pool);
    world_fini(&w);
}

/* ---- help -------------------------------------------------------------------------------------------------------- */

enum { LONG_BLOCKS = 512, LONG_BYTES = 16384 }; /* 8 MiB, and a part of a slice */

/* Bytes that are not in place. */
static uint64_t count_wrong(const char *src, const char *dst, uint64_t bytes)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < bytes; i++)
        n += dst[i] != src[i];
    return n;
}

/*
 * A thread does slices of a job that a worker has begun, and ends it where it does the last one. Which thread does that
 * is chance: it is tried until both have.
 */
static void test_another_thread_helps(void **state)
{
    (void)state;
    enum { ROUNDS_MOST = 3000 };
    struct plan_why why;
    struct plan *plan;
    struct plan_transfer t;
    struct copy_pool *pool;
    baton_tensor_t tensor;
    const struct plan_box all = {0, 1, 0, 1, 0};
    baton_geometry_t g = {.size = sizeof g,
                          .elem_bytes = 2,
                          .planes = 1,
                          .head_size = LONG_BYTES / 2 / 16,
                          .num_groups = 1,
                          .groups = {{.block_tokens = 16, .num_blocks = LONG_BLOCKS}},
                          .num_splits = 1,
                          .splits = {{.heads_total = 1, .head_count = 1}},
                          .layers_total = 1,
                          .layer_count = 1};
    uint32_t ids[LONG_BLOCKS];
    for (uint32_t i = 0; i < LONG_BLOCKS; i++)
        ids[i] = i;
    assert_int_equal(baton_geometry_layout(&g, &tensor, BATON_LAYOUT_HND), 0);
    assert_int_equal(plan_compile(&g, &g, &all, 1, &plan, &why), 0);
    const struct plan_tables tables = {.num = 1, .table = {{ids, LONG_BLOCKS, 0}}};
    assert_int_equal(plan_transfer_init(&t, plan, 0, LONG_BLOCKS * 16 - 1, &tables, &tables, &why), 0);
    char *src = malloc(g.bytes), *dst = malloc(g.bytes);
    for (uint64_t i = 0; i < g.bytes; i++)
        src[i] = (char)(i * 7 ^ i >> 9);
    const struct path_region length = {.bytes = g.bytes}, too_short = {.bytes = g.bytes / 2};
    const struct path_regions regions = {.num = 1, .region = &length}, half = {.num = 1, .region = &too_short};
    assert_int_equal(copy_pool_create(1, NULL, 4, count_end, src, &pool), 0);
    assert_false(copy_help(pool)); /* nothing is under way */
    unsigned helped = 0, ended_here = 0, ended_there = 0, rounds = 0;
    for (; ended_here == 0 || ended_there == 0 || helped == 0 || rounds % 4 != 0; rounds++) {
        assert_in_range(rounds, 0, ROUNDS_MOST);
        const bool fails = rounds % 4 == 3;
        const struct copy_job job = {.transfer = &t,
                                     .bytes = t.bytes,
                                     .src = {&src, fails ? &half : &regions},
                                     .dst = {&dst, &regions},
                                     .tag = rounds,
                                     .is_timed = true};
        struct copy_end end;
        atomic_store(&ends, 0);
        memset(dst, 0, g.bytes);
        assert_true(copy_submit(pool, &job));
        copy_wake(pool);
        while (!copy_collect(pool, &end))
            helped += copy_help(pool);
        assert_int_equal(end.tag, rounds);
        assert_true(end.bytes == t.bytes && end.began_ns < end.ended_ns);
        assert_int_equal(end.error, fails ? BATON_EMESSAGE : 0);
        ended_here += end.worker == 0;
        ended_there += end.worker == 1;
        if (!fails)
            assert_true(count_wrong(src, dst, t.bytes) == 0);
        while (atomic_load(&ends) == 0) /* it is told once */
            wait_a_little();
    }
    copy_pool_destroy(pool);
    assert_int_equal(atomic_load(&ends), 1);
    plan_destroy(plan);
    free(src);
    free(dst);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_sizes),
        cmocka_unit_test(test_large_sizes),
        cmocka_unit_test(test_many_runs),
        cmocka_unit_test(test_slices_of_short_runs),
        cmocka_unit_test(test_pool_moves_everything),
        cmocka_unit_test(test_depth_is_a_limit),
        cmocka_unit_test(test_jobs_wait_for_the_begin),
        cmocka_unit_test(test_a_worker_is_asked_to_look),
        cmocka_unit_test(test_tells_where_needed),
        cmocka_unit_test(test_short_jobs_first),
        cmocka_unit_test(test_another_thread_helps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
