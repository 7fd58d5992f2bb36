/* SPDX-License-Identifier: BSD-3-Clause */
/* pool and share: blocks are scattered and each is handed out once; and how large a pool a trace needs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "replay/pool.h"
#include "replay/random.h"
#include "replay/share.h"

static void every_block_is_handed_out_once(void **state)
{
    (void)state;
    struct why why;
    struct pool p;
    uint32_t blocks[100], seen[100] = {0};
    assert_int_equal(pool_init(&p, 100, 1, &why), 0);
    assert_int_equal(pool_take(&p, blocks, 60), 0);
    assert_int_equal(pool_take(&p, blocks + 60, 40), 0);
    for (int i = 0; i < 100; i++) {
        assert_in_range(blocks[i], 0, 99);
        assert_int_equal(seen[blocks[i]]++, 0);
    }
    assert_int_equal(p.num_free, 0);
    pool_fini(&p);
}

static void too_many_are_refused_whole(void **state)
{
    (void)state;
    struct why why;
    struct pool p;
    uint32_t blocks[11];
    assert_int_equal(pool_init(&p, 10, 1, &why), 0);
    assert_int_equal(pool_take(&p, blocks, 11), -1);
    assert_int_equal(p.num_free, 10);
    assert_int_equal(pool_take(&p, blocks, 10), 0);
    assert_int_equal(pool_take(&p, blocks, 1), -1);
    assert_int_equal(pool_take(&p, blocks, 0), 0);
    pool_fini(&p);
}

static void wrong_blocks_are_not_given(void **state)
{
    (void)state;
    struct why why;
    struct pool p;
    uint32_t blocks[4];
    assert_int_equal(pool_init(&p, 10, 1, &why), 0);
    assert_int_equal(pool_take(&p, blocks, 4), 0);
    const uint32_t outside[] = {blocks[0], 10}, twice[] = {blocks[0], blocks[1], blocks[0]};
    assert_int_equal(pool_give(&p, outside, 2), -1);
    assert_int_equal(pool_give(&p, twice, 3), -1);
    assert_int_equal(p.num_free, 6);
    assert_int_equal(pool_give(&p, blocks, 4), 0);
    assert_int_equal(pool_give(&p, blocks, 1), -1);
    assert_int_equal(p.num_free, 10);
    pool_fini(&p);
}

static uint32_t neighbours(const uint32_t *blocks, uint32_t count)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < count; i++)
        n += blocks[i] == blocks[i - 1] + 1;
    return n;
}

/* Blocks are scattered also after much use, and differently for each seed. */
static void blocks_are_scattered(void **state)
{
    (void)state;
    struct why why;
    struct pool p, q;
    uint32_t blocks[500], others[500];
    assert_int_equal(pool_init(&p, 1000, 1, &why), 0);
    assert_int_equal(pool_init(&q, 1000, 2, &why), 0);
    assert_int_equal(pool_take(&q, others, 500), 0);
    for (int round = 0; round < 50; round++) {
        assert_int_equal(pool_take(&p, blocks, 500), 0);
        assert_true(neighbours(blocks, 500) < 25);
        if (round == 0)
            assert_memory_not_equal(blocks, others, sizeof blocks);
        assert_int_equal(pool_give(&p, blocks, 500), 0);
    }
    pool_fini(&p);
    pool_fini(&q);
}

/* Takes and gives blocks at random, and compares with a plain table of who holds which. */
static void random_use(void **state)
{
    (void)state;
    struct why why;
    struct pool p;
    uint64_t random = 7;
    uint32_t held[64], num_held = 0, owner[64] = {0};
    assert_int_equal(pool_init(&p, 64, 3, &why), 0);
    for (int round = 0; round < 20000; round++) {
        uint32_t n = random_below(&random, 12);
        if (random_below(&random, 2) && pool_take(&p, held + num_held, n) == 0) {
            for (uint32_t i = num_held; i < num_held + n; i++)
                assert_int_equal(owner[held[i]]++, 0);
            num_held += n;
        } else if (n <= num_held) {
            num_held -= n;
            assert_int_equal(pool_give(&p, held + num_held, n), 0);
            for (uint32_t i = num_held; i < num_held + n; i++)
                owner[held[i]]--;
        }
        assert_int_equal(p.num_free, 64 - num_held);
    }
    pool_fini(&p);
}

/* ---- share ------------------------------------------------------------------------------------------------------- */

static struct trace_request requests[] = {{.tokens = 160}, {.tokens = 16}, {.tokens = 161}, {.tokens = 5000},
                                          {.tokens = 1},   {.tokens = 32}, {.tokens = 160}, {.tokens = 48}};
static const struct trace trace = {.count = 8, .requests = requests};
static const uint32_t two_in_turn[] = {0, 1, 0, 1, 0, 1, 0, 1};

#define FULL                                                                                                           \
    {                                                                                                                  \
        BATON_KIND_FULL, 16, 1, 0, 0                                                                                   \
    }
#define SHARE(trace_, turns_, engine_)                                                                                 \
    {                                                                                                                  \
        trace_, turns_, engine_, 1,                                                                                    \
        {                                                                                                              \
            FULL                                                                                                       \
        }                                                                                                              \
    }

static void largest_request_of_a_share(void **state)
{
    (void)state;
    const struct share even = SHARE(&trace, two_in_turn, 0), odd = SHARE(&trace, two_in_turn, 1),
                       none = SHARE(&trace, two_in_turn, 9);
    assert_int_equal(share_next(&even, 0), 0);
    assert_int_equal(share_next(&even, 1), 2);
    assert_int_equal(share_next(&odd, 0), 1);
    assert_int_equal(share_next(&even, 7), trace.count);
    assert_int_equal(share_next(&none, 0), trace.count);
    assert_int_equal(share_largest(&even), 2);
    assert_int_equal(share_blocks(&even, 2, 0), 11);
    assert_int_equal(share_largest(&odd), 3);
    assert_int_equal(share_largest(&none), trace.count);
}

static uint32_t pool_of(const struct share *s, uint32_t inflight, uint32_t spare)
{
    struct why why;
    uint32_t blocks;
    const uint64_t block_bytes = 1000;
    assert_int_equal(share_pool(s, &block_bytes, 0, inflight, spare, &blocks, &why), 0);
    return blocks;
}

static void usual_pools(void **state)
{
    (void)state;
    struct trace_request many[400];
    for (int i = 0; i < 400; i++)
        many[i] = (struct trace_request){.tokens = 160};
    static const uint32_t all_of_one[400];
    const struct trace long_trace = {.count = 400, .requests = many};
    const struct share few = SHARE(&trace, two_in_turn, 0), all = SHARE(&long_trace, all_of_one, 0),
                       none = SHARE(&trace, two_in_turn, 9);
    assert_int_equal(pool_of(&few, 8, 0), 11); /* a quarter of its 32 blocks is too small for a request of 11 */
    assert_int_equal(pool_of(&few, 8, 1), 12);
    assert_int_equal(pool_of(&all, 8, 0), 80);      /* the most that is outstanding at one time */
    assert_int_equal(pool_of(&all, 1000, 0), 1000); /* a quarter of 4000 */
    assert_int_equal(pool_of(&none, 8, 0), 1);
}

static void given_pools(void **state)
{
    (void)state;
    struct why why;
    uint32_t blocks = 77;
    const uint64_t block_bytes = 1000;
    const struct share s = SHARE(&trace, two_in_turn, 0);
    assert_int_equal(share_pool(&s, &block_bytes, 11999, 8, 0, &blocks, &why), 0);
    assert_int_equal(blocks, 11);
    assert_int_equal(share_pool(&s, &block_bytes, 11999, 8, 1, &blocks, &why), -1);
    assert_int_equal(share_pool(&s, &block_bytes, 10999, 8, 0, &blocks, &why), -1);
    assert_non_null(strstr(why.text, "request 2 (161 tokens) needs 11 blocks, 11000 bytes; it gives 10"));
    assert_int_equal(blocks, 11);
}

/* Full attention, a window of 40 tokens, and a state. */
static const struct share hybrid = {
    &trace, two_in_turn, 0, 3, {FULL, {BATON_KIND_WINDOW, 16, 1, 40, 0}, {BATON_KIND_STATE, 1, 1, 0, 0}}};

static void pools_of_groups(void **state)
{
    (void)state;
    struct why why;
    const uint64_t block_bytes[] = {1000, 2000, 50000};
    uint32_t blocks[3];
    /* request 2 needs 11, 4 and 1 blocks */
    assert_int_equal(share_blocks(&hybrid, 2, 1), 4);
    assert_int_equal(share_blocks(&hybrid, 2, 2), 1);
    assert_int_equal(share_pool(&hybrid, block_bytes, 0, 8, 0, blocks, &why), 0);
    assert_int_equal(blocks[0], 11);
    assert_int_equal(blocks[1], 4);
    assert_int_equal(blocks[2], 1);
    assert_int_equal(share_pool(&hybrid, block_bytes, 2 * 69000, 8, 0, blocks, &why), 0);
    assert_int_equal(blocks[0], 22);
    assert_int_equal(blocks[1], 8);
    assert_int_equal(blocks[2], 2);
    assert_int_equal(share_pool(&hybrid, block_bytes, 69000, 8, 0, blocks, &why), 0);
    assert_int_equal(share_pool(&hybrid, block_bytes, 68999, 8, 0, blocks, &why), -1);
    assert_non_null(strstr(why.text, "request 2 (161 tokens) needs 16 blocks, 69000 bytes; it gives 15"));
    /* a rank without tensors of a group still has blocks of it, which cost nothing */
    const uint64_t none[] = {0, 2000, 0};
    assert_int_equal(share_pool(&hybrid, none, 0, 8, 1, blocks, &why), 0);
    assert_int_equal(blocks[0], 12);
    assert_int_equal(share_pool(&hybrid, none, 8000, 8, 0, blocks, &why), 0);
    assert_int_equal(blocks[0], 11);
}

/* The longest request need not have the most blocks. */
static void a_window_may_begin_anywhere(void **state)
{
    (void)state;
    struct trace_request two[] = {{.tokens = 57}, {.tokens = 55}};
    static const uint32_t two_of_one[2];
    const struct trace short_trace = {.count = 2, .requests = two};
    const struct share s = {&short_trace, two_of_one, 0, 1, {{BATON_KIND_WINDOW, 16, 1, 40, 0}}};
    assert_int_equal(share_blocks(&s, 0, 0), 3);
    assert_int_equal(share_blocks(&s, 1, 0), 4);
    assert_int_equal(pool_of(&s, 8, 0), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_block_is_handed_out_once),
        cmocka_unit_test(too_many_are_refused_whole),
        cmocka_unit_test(wrong_blocks_are_not_given),
        cmocka_unit_test(blocks_are_scattered),
        cmocka_unit_test(random_use),
        cmocka_unit_test(largest_request_of_a_share),
        cmocka_unit_test(usual_pools),
        cmocka_unit_test(given_pools),
        cmocka_unit_test(pools_of_groups),
        cmocka_unit_test(a_window_may_begin_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
