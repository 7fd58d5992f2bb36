/* SPDX-License-Identifier: BSD-3-Clause */
/* Zeros behind a want's tokens. */
#include "with_world.h"

#include <string.h>

#define TOKENS 13

static const struct world_engine two_to_four[] = {
    {.name = "P", .tp = 2, .heads_total = 4, .num_blocks = 32},
    {.name = "D", .tp = 4, .heads_total = 4, .num_blocks = 32, .layout = BATON_LAYOUT_NHD | BATON_LAYOUT_KV_FUSED},
};

/*
 * How many bytes of blocks first, first + 2, ... are wrong: tokens must have the bytes of their seed, and what
 * follows 0.
 */
static uint64_t wrong(struct world *w, uint32_t rank, uint32_t first, uint32_t tokens)
{
    struct world_rank *r = &w->ranks[rank];
    uint64_t n = world_wrong(w, rank, 7, first, 2, tokens), behind = 0;
    for (uint32_t l = 0; l < 2; l++)
        for (uint32_t p = 0; p < 2; p++)
            for (uint32_t h = 0; h < r->geometry.splits[0].head_count; h++)
                for (uint32_t t = tokens; t % 4 != 0; t++)
                    for (uint32_t c = 0; c < 8; c++, behind++) {
                        const baton_strides_t *s = &r->tensors[l].stride;
                        n += r->pool[r->tensors[l].offset + (first + t / 4 * 2) * s->block + p * s->plane +
                                     h * s->head + t % 4 * s->token + c] != 0;
                    }
    return n - behind; /* world_wrong counts each zero behind the tokens as a wrong byte */
}

static void test_the_tail_is_zero(void **state)
{
    (void)state;
    for (uint32_t tokens = 1; tokens <= TOKENS; tokens++)
        for (int late = 0; late < 3; late++) {
            WORLD(w, two_to_four);
            w.zero_tail = true;
            w.zero_ns = late == 1 ? 50 * MS : 0;
            baton_id_t o[2], d[4];
            for (uint32_t r = 0; r < 2; r++) {
                world_fill(&w, r, 7, 0, 1, TOKENS);
                o[r] = world_offer(&w, r, "key", 0, 1, TOKENS, 5000);
            }
            for (uint32_t n = 2; n < 6; n++) {
                world_poison(&w, n);
                w.ranks[n].refuses_zero = late == 2;
                d[n - 2] = world_want(&w, n, "P", "key", 3, 2, tokens, 5000);
            }
            world_run(&w, 40 * MS);
            for (uint32_t n = 2; n < 6 && tokens % 4 != 0 && late > 0; n++) {
                assert_true(core_is_busy(w.ranks[n].core));
                assert_null(world_event(&w, n, d[n - 2])); /* its bytes are in place, its zeros are not */
                w.ranks[n].refuses_zero = false;
            }
            world_run(&w, 100 * MS);
            for (uint32_t r = 0; r < 2; r++)
                DONE(&w, r, o[r]);
            for (uint32_t n = 2; n < 6; n++) {
                DONE(&w, n, d[n - 2]);
                assert_int_equal(wrong(&w, n, 3, tokens), 0);
            }
            world_fini(&w);
        }
}

/* A want that was given up ends when no worker can write into its blocks any more. */
static void test_given_up_while_a_worker_writes(void **state)
{
    (void)state;
    for (int refused = 0; refused < 2; refused++) {
        WORLD(w, two_to_four);
        w.zero_tail = true;
        w.zero_ns = 300 * MS;
        w.ranks[2].refuses_zero = refused;
        baton_id_t d = world_want(&w, 2, "P", "key", 3, 2, TOKENS, 5000);
        world_run(&w, 100 * MS);
        world_cancel(&w, 2, d);
        world_run(&w, 200 * MS);
        if (!refused)
            assert_null(world_event(&w, 2, d));
        world_run(&w, 400 * MS);
        ENDED(&w, 2, d, BATON_STATUS_CANCELLED, BATON_ECANCELED);
        world_fini(&w);
    }
}

static void test_zeros_that_fail(void **state)
{
    (void)state;
    WORLD(w, two_to_four);
    w.zero_tail = true;
    w.ranks[3].work_error = BATON_ESYSTEM;
    baton_id_t d[4];
    for (uint32_t r = 0; r < 2; r++)
        world_offer(&w, r, "key", 0, 1, TOKENS, 5000);
    for (uint32_t n = 2; n < 6; n++)
        d[n - 2] = world_want(&w, n, "P", "key", 3, 2, TOKENS, 5000);
    world_run(&w, 1000 * MS);
    for (uint32_t n = 2; n < 6; n++) {
        if (n != 3)
            DONE(&w, n, d[n - 2]);
        else
            ENDED(&w, n, d[n - 2], BATON_STATUS_FAILED, BATON_ESYSTEM);
    }
    assert_non_null(strstr(world_event(&w, 3, d[1])->detail, "zero"));
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_tail_is_zero),
        cmocka_unit_test(test_zeros_that_fail),
        cmocka_unit_test(test_given_up_while_a_worker_writes),
    };
    return WORLD_ALL_WAYS(tests);
}
