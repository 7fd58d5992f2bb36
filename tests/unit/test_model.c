/* SPDX-License-Identifier: BSD-3-Clause */
/* model: the published shapes, and how they are cut over the ranks of an engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "replay/model.h"

static struct model_cut cut_of(const char *model, uint32_t layers)
{
    return (struct model_cut){
        .model = model_find(model), .dtype = model_dtype_find("bf16"), .layers = layers, .block_tokens = 16};
}

static void presets(void **state)
{
    (void)state;
    static const struct model expected[] = {
        {"llama3-8b", 32, 8, 128}, {"llama3-70b", 80, 8, 128}, {"qwen3-32b", 64, 8, 128}};
    for (size_t i = 0; i < 3; i++) {
        const struct model *m = model_find(expected[i].name);
        assert_non_null(m);
        assert_int_equal(m->layers, expected[i].layers);
        assert_int_equal(m->heads, expected[i].heads);
        assert_int_equal(m->head_size, expected[i].head_size);
        assert_non_null(strstr(model_names(), m->name));
    }
    assert_null(model_find("llama3"));
    assert_null(model_dtype_find("int4"));
    assert_int_equal(model_dtype_find("fp8")->bytes, 1);
    assert_int_equal(model_dtype_find("fp32")->bytes, 4);
}

static void one_rank_holds_all(void **state)
{
    (void)state;
    struct why why;
    struct model_cache c;
    const struct model_cut cut = cut_of("llama3-8b", 2);
    const struct model_seat seat = {1, 1, 0, 0};
    assert_int_equal(model_cache_init(&c, &cut, &seat, 10, &why), 0);
    const baton_geometry_t *g = &c.geometry;
    assert_string_equal(g->model, "llama3-8b");
    assert_string_equal(g->dtype, "bf16");
    assert_int_equal(g->layers_total, 2);
    assert_int_equal(g->head_count, 8);
    assert_int_equal(g->num_tensors, 2);
    assert_int_equal(model_block_bytes(g), 2 * 2 * 8 * 16 * 128 * 2);
    assert_int_equal(model_token_bytes(g, 3), 3 * 2 * 2 * 8 * 128 * 2);
    assert_int_equal(g->bytes, 10 * model_block_bytes(g));
    model_cache_fini(&c);
}

/* Over all ranks of an engine, each (layer, head) is held once. */
static void cover(uint32_t layers, uint32_t tp, uint32_t pp)
{
    struct why why;
    uint32_t held[80][8] = {{0}};
    const struct model_cut cut = cut_of("llama3-70b", layers);
    for (uint32_t p = 0; p < pp; p++) {
        for (uint32_t t = 0; t < tp; t++) {
            struct model_cache c;
            const struct model_seat seat = {tp, pp, t, p};
            assert_int_equal(model_cache_init(&c, &cut, &seat, 4, &why), 0);
            for (uint32_t l = 0; l < c.geometry.layer_count; l++)
                for (uint32_t h = 0; h < c.geometry.head_count; h++)
                    held[c.geometry.layer_first + l][c.geometry.head_first + h]++;
            model_cache_fini(&c);
        }
    }
    for (uint32_t l = 0; l < 80; l++)
        for (uint32_t h = 0; h < 8; h++)
            assert_int_equal(held[l][h], l < layers);
}

static void ranks_share_heads_and_layers(void **state)
{
    (void)state;
    cover(80, 1, 1);
    cover(80, 8, 1);
    cover(80, 2, 4);
    cover(7, 4, 3);
    cover(3, 2, 3);
}

static void what_cannot_be_cut_is_refused(void **state)
{
    (void)state;
    struct why why;
    struct model_cache c;
    const struct model_cut cut = cut_of("qwen3-32b", 2);
    const struct model_seat three = {3, 1, 0, 0}, sixteen = {16, 1, 0, 0}, deep = {1, 3, 0, 0}, outside = {2, 1, 2, 0};
    assert_int_equal(model_cache_init(&c, &cut, &three, 4, &why), -1);
    assert_non_null(strstr(why.text, "3 does not divide the 8 KV heads of qwen3-32b"));
    assert_int_equal(model_cache_init(&c, &cut, &sixteen, 4, &why), -1);
    assert_int_equal(model_cache_init(&c, &cut, &deep, 4, &why), -1);
    assert_non_null(strstr(why.text, "pipeline parallelism 3"));
    assert_int_equal(model_cache_init(&c, &cut, &outside, 4, &why), -1);
}

static void unknown_layouts_are_refused(void **state)
{
    (void)state;
    struct why why;
    struct model_cache c;
    struct model_cut cut = cut_of("llama3-8b", 2);
    const struct model_seat seat = {1, 1, 0, 0};
    cut.layout = BATON_LAYOUT_KV_BLOCK | BATON_LAYOUT_KV_FUSED;
    assert_int_equal(model_cache_init(&c, &cut, &seat, 4, &why), -1);
    assert_null(c.tensors);
}

static void blocks_of_tokens(void **state)
{
    (void)state;
    assert_int_equal(model_blocks(1, 16), 1);
    assert_int_equal(model_blocks(16, 16), 1);
    assert_int_equal(model_blocks(17, 16), 2);
    assert_int_equal(model_blocks(5, 1), 5);
    assert_int_equal(model_blocks(UINT32_MAX, 16), 268435456);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets),
        cmocka_unit_test(one_rank_holds_all),
        cmocka_unit_test(ranks_share_heads_and_layers),
        cmocka_unit_test(what_cannot_be_cut_is_refused),
        cmocka_unit_test(unknown_layouts_are_refused),
        cmocka_unit_test(blocks_of_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
