/* SPDX-License-Identifier: BSD-3-Clause */
/* Copy kernels against memcpy at every small size and alignment, and the worker pool on a real plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "copy/copy.h"

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
    for (int kernel = COPY_AUTO; kernel <= COPY_STREAM; kernel++)
        for (size_t size = 0; size <= 600; size++)
            for (size_t shift = 0; shift < 64; shift += 7)
                one((enum copy_kernel)kernel, size, (shift * 5 + size) % 64, shift);
}

static void test_large_sizes(void **state)
{
    (void)state;
    static const size_t sizes[] = {1023, 1024, 4095, 4096, 4097, 65535, 65536, 1048577};
    for (int kernel = COPY_AUTO; kernel <= COPY_STREAM; kernel++)
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

/* ---- the pool ---------------------------------------------------------------------------------------------------- */

static _Atomic unsigned rings;

static void count_ring(void *arg)
{
    atomic_fetch_add(&rings, arg != NULL);
}

struct world {
    baton_geometry_t g;
    baton_tensor_t tensors[2];
    struct plan *plan;
    char *src, *dst;
    char *base; /* src, as a job takes it */
    uint32_t *from, *to;
};

enum { BLOCKS = 256, TOKENS = BLOCKS * 8 - 3 };

static void world_init(struct world *w)
{
    struct plan_why why;
    struct plan_box all = {0, 2, 0, 2, 0};
    memset(w, 0, sizeof *w);
    w->g = (baton_geometry_t){.elem_bytes = 2,
                              .planes = 2,
                              .block_tokens = 8,
                              .head_size = 32,
                              .num_blocks = BLOCKS,
                              .heads_total = 2,
                              .head_count = 2,
                              .layers_total = 2,
                              .layer_count = 2};
    assert_int_equal(baton_geometry_layout(&w->g, w->tensors, BATON_LAYOUT_HND), 0);
    assert_int_equal(plan_compile(&w->g, &w->g, &all, 1, &w->plan, &why), 0);
    w->src = malloc(w->g.bytes);
    w->base = w->src;
    w->dst = calloc(1, w->g.bytes);
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

static void transfer_init(struct plan_transfer *t, const struct world *w, uint32_t tokens)
{
    const struct plan_tables from = {.num = 1, .table = {{w->from, BLOCKS, 0}}},
                             to = {.num = 1, .table = {{w->to, BLOCKS, 0}}};
    struct plan_why why;
    assert_int_equal(plan_transfer_init(t, w->plan, 0, tokens, &from, &to, &why), 0);
}

/* All of it in slices of a few blocks; the completions must add up, and every byte be there after the last. */
static void move_all(struct world *w, unsigned workers, size_t depth)
{
    struct copy_pool *pool;
    struct plan_transfer t;
    struct plan_cursor at = {0};
    uint64_t sent = 0, got = 0, tag, bytes;
    unsigned jobs = 0;
    atomic_store(&rings, 0);
    memset(w->dst, 0, w->g.bytes);
    transfer_init(&t, w, TOKENS);
    assert_int_equal(copy_pool_create(workers, depth, count_ring, w, &pool), 0);
    while (got < t.bytes) {
        struct plan_cursor behind = at;
        struct copy_job job = {.transfer = &t,
                               .from = at,
                               .bytes = plan_skip(&t, &behind, 3000),
                               .src_bases = &w->base,
                               .dst_bases = &w->dst,
                               .tag = 1000 + jobs};
        if (job.bytes > 0 && copy_submit(pool, &job)) {
            at = behind;
            sent += job.bytes;
            jobs++;
        }
        while (copy_collect(pool, &tag, &bytes)) {
            assert_true(tag >= 1000 && tag < 1000 + jobs);
            got += bytes;
        }
        if (job.bytes == 0)
            wait_a_little();
    }
    assert_int_equal(sent, t.bytes);
    assert_int_equal(got, t.bytes);
    assert_false(copy_collect(pool, &tag, &bytes));
    copy_pool_destroy(pool);
    assert_int_equal(atomic_load(&rings), jobs); /* one ring a completion */
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

static void hold(void *arg)
{
    (void)arg;
    while (atomic_load(&held))
        wait_a_little();
}

static void test_depth_is_a_limit(void **state)
{
    (void)state;
    struct world w;
    struct copy_pool *pool;
    struct plan_transfer t;
    uint64_t tag, bytes;
    unsigned accepted = 0;
    world_init(&w);
    transfer_init(&t, &w, 8);
    atomic_store(&held, true); /* the worker stays in its first bell */
    assert_int_equal(copy_pool_create(1, 4, hold, NULL, &pool), 0);
    struct copy_job job = {.transfer = &t, .bytes = t.bytes, .src_bases = &w.base, .dst_bases = &w.dst, .tag = 1};
    while (accepted < 100 && copy_submit(pool, &job))
        accepted++;
    assert_int_equal(accepted, 4);
    atomic_store(&held, false);
    while (accepted > 0) {
        if (copy_collect(pool, &tag, &bytes))
            accepted--;
        else
            wait_a_little();
    }
    assert_true(copy_submit(pool, &job)); /* the places are free again */
    copy_pool_destroy(pool);              /* with a job in hand */
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_sizes),      cmocka_unit_test(test_large_sizes),
        cmocka_unit_test(test_many_runs),        cmocka_unit_test(test_pool_moves_everything),
        cmocka_unit_test(test_depth_is_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
