/* SPDX-License-Identifier: BSD-3-Clause */
/* model: the published shapes, and how they are cut over the ranks of an engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "plan/plan.h"

static struct model_cut cut_of(const char *model, uint32_t layers)
{
    return (struct model_cut){
        .model = model_find(model), .dtype = model_dtype_find("bf16"), .layers = layers, .block_tokens = 16};
}

#define PRESETS 6
static const char *const all_names[PRESETS] = {"llama3-8b",   "llama3-70b",   "qwen3-32b",
                                               "deepseek-v3", "gpt-oss-120b", "nemotron-h-8b"};

static void presets(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t layers, heads, head_size, planes, least_layers;
    } expected[] = {{"llama3-8b", 32, 8, 128, 2, 1},   {"llama3-70b", 80, 8, 128, 2, 1},
                    {"qwen3-32b", 64, 8, 128, 2, 1},   {"deepseek-v3", 61, 1, 576, 1, 1},
                    {"gpt-oss-120b", 36, 8, 64, 2, 2}, {"nemotron-h-8b", 52, 8, 128, 2, 8}};
    for (size_t i = 0; i < PRESETS; i++) {
        const struct model *m = model_find(expected[i].name);
        assert_non_null(m);
        assert_int_equal(m->layers, expected[i].layers);
        assert_int_equal(m->heads, expected[i].heads);
        assert_int_equal(m->head_size, expected[i].head_size);
        assert_int_equal(m->planes, expected[i].planes);
        assert_int_equal(model_least_layers(m), expected[i].least_layers);
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
    assert_int_equal(g->splits[0].head_count, 8);
    assert_int_equal(g->num_tensors, 2);
    assert_int_equal(model_block_bytes(g, 0), 2 * 2 * 8 * 16 * 128 * 2);
    assert_int_equal(model_wanted_bytes(g, 0, 3), 3 * 2 * 2 * 8 * 128 * 2);
    assert_int_equal(model_wanted_bytes(g, 1, 3), 2 * 2 * 2 * 8 * 128 * 2);
    assert_int_equal(g->num_groups, 1);
    assert_int_equal(g->num_splits, 1);
    assert_int_equal(g->bytes, 10 * model_block_bytes(g, 0));
    model_cache_fini(&c);
}

/* Over all ranks of an engine, each (layer, head) is held exactly once. */
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
                for (uint32_t h = 0; h < c.geometry.splits[0].head_count; h++)
                    held[c.geometry.layer_first + l][c.geometry.splits[0].head_first + h]++;
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

static struct model_cache cache_of(const char *model, uint32_t layers, struct model_seat seat)
{
    struct why why;
    struct model_cache c;
    const struct model_cut cut = cut_of(model, layers);
    if (model_cache_init(&c, &cut, &seat, 4, &why) != 0)
        fail_msg("%s: %s", model, why.text);
    return c;
}

static void heads_that_do_not_divide(void **state)
{
    (void)state;
    static const uint32_t first[] = {0, 2, 5}, count[] = {2, 3, 3};
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct model_cache c = cache_of("qwen3-32b", 2, (struct model_seat){3, 1, rank, 0});
        assert_int_equal(c.geometry.splits[0].head_first, first[rank]);
        assert_int_equal(c.geometry.splits[0].head_count, count[rank]);
        model_cache_fini(&c);
    }
}

static void more_ranks_than_heads_hold_the_same(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 12; rank++) {
        struct model_cache kv = cache_of("llama3-8b", 2, (struct model_seat){12, 1, rank, 0});
        struct model_cache latent = cache_of("deepseek-v3", 2, (struct model_seat){12, 1, rank, 0});
        assert_int_equal(kv.geometry.splits[0].head_first, rank * 8 / 12);
        assert_int_equal(kv.geometry.splits[0].head_count, 1);
        assert_int_equal(latent.geometry.splits[0].head_first, 0);
        assert_int_equal(latent.geometry.splits[0].head_count, 1);
        assert_int_equal(latent.geometry.splits[0].heads_total, 1);
        assert_int_equal(model_wanted_bytes(&latent.geometry, 0, 10), 10 * 2 * 576 * 2);
        model_cache_fini(&kv);
        model_cache_fini(&latent);
    }
}

/* Layers of two kinds by turns; each kind has a table of its own. */
static void windows(void **state)
{
    (void)state;
    struct model_cache c = cache_of("gpt-oss-120b", 5, (struct model_seat){2, 1, 1, 0});
    const baton_geometry_t *g = &c.geometry;
    assert_int_equal(g->num_groups, 2);
    assert_int_equal(g->groups[0].kind, BATON_KIND_FULL);
    assert_int_equal(g->groups[1].kind, BATON_KIND_WINDOW);
    assert_int_equal(g->groups[1].window_tokens, 128);
    assert_int_equal(g->num_tensors, 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(g->tensors[i].group, 1 - g->tensors[i].layer % 2);
    assert_int_equal(model_wanted_bytes(g, 0, 300), (300 * 2 + 128 * 3) * 2 * 4 * 64 * 2);
    assert_int_equal(model_wanted_bytes(g, 200, 300), (100 * 2 + 100 * 3) * 2 * 4 * 64 * 2);
    assert_int_equal(model_wanted_bytes(g, 300, 300), 0);
    model_cache_fini(&c);
}

/* Attention, the convolution's x, B and C, and the state are each cut by rules of their own. */
static void mamba(void **state)
{
    (void)state;
    struct model_cache c = cache_of("nemotron-h-8b", 8, (struct model_seat){3, 1, 1, 0});
    const baton_geometry_t *g = &c.geometry;
    assert_int_equal(g->num_groups, 2);
    assert_int_equal(g->groups[1].kind, BATON_KIND_STATE);
    assert_int_equal(g->groups[1].block_tokens, 1);
    assert_int_equal(g->num_splits, 3);
    assert_int_equal(g->splits[1].head_first, 42);
    assert_int_equal(g->splits[1].head_count, 43);
    assert_int_equal(g->splits[2].head_first, 2);
    assert_int_equal(g->splits[2].head_count, 3);
    assert_int_equal(g->num_tensors, 1 + 4 * 4);
    assert_string_equal(g->tensors[0].name, "layer.7");
    assert_string_equal(g->tensors[1].name, "layer.0.x");
    assert_string_equal(g->tensors[16].name, "layer.6.ssm");
    assert_int_equal(g->tensors[16].elem_bytes, 4);
    const uint64_t state_bytes = 3 * (43 * 64 + 2 * 3 * 128) * 2 + 43 * 64 * 128 * 4;
    assert_int_equal(model_wanted_bytes(g, 0, 50), 50 * 2 * 3 * 128 * 2 + 4 * state_bytes);
    assert_int_equal(model_wanted_bytes(g, 49, 50), 1 * 2 * 3 * 128 * 2 + 4 * state_bytes);
    assert_int_equal(model_wanted_bytes(g, 50, 50), 0);
    model_cache_fini(&c);
}

/*
 * Makes each preset, whole and short, in many cuts. The library's own check must find that all elements lie within the
 * memory, and that no elements of one tensor overlap.
 */
static void check_preset(const char *name, uint32_t layers, struct model_seat seat, unsigned layout)
{
    struct why why;
    struct plan_why plan_why;
    struct model_cache c;
    struct model_cut cut = cut_of(name, layers);
    cut.layout = layout;
    cut.group_blocks[1] = 3;
    if (model_cache_init(&c, &cut, &seat, 5, &why) != 0)
        fail_msg("%s: %s", name, why.text);
    if (geometry_check(&c.geometry, &c.geometry.bytes, 1, &plan_why) != 0)
        fail_msg("%s, %u layers, rank (%u, %u): %s", name, layers, seat.tp_rank, seat.pp_rank, plan_why.text);
    model_cache_fini(&c);
}

static void presets_are_sound(void **state)
{
    (void)state;
    static const uint32_t tps[] = {1, 2, 3, 6, 8, 16}, pps[] = {1, 2, 3};
    for (size_t m = 0; m < PRESETS; m++)
        for (size_t t = 0; t < 6; t++)
            for (size_t p = 0; p < 3; p++)
                for (uint32_t r = 0; r < tps[t] * pps[p]; r++) {
                    const struct model_seat seat = {tps[t], pps[p], r % tps[t], r / tps[t]};
                    const unsigned layout = (r & 1 ? BATON_LAYOUT_NHD : 0) | (r & 2 ? BATON_LAYOUT_BLOCK_MAJOR : 0);
                    const uint32_t least = model_least_layers(model_find(all_names[m]));
                    check_preset(all_names[m], model_find(all_names[m])->layers, seat, layout);
                    check_preset(all_names[m], least > 3 ? least : 3, seat, layout);
                }
}

static bool overlap(const baton_geometry_t *g, unsigned char *memory)
{
    for (uint32_t i = 0; i < g->num_tensors; i++) {
        const baton_tensor_t *t = &g->tensors[i];
        const struct model_extent x = model_extent(g, t);
        for (uint32_t b = 0; b < x.group.num_blocks; b++)
            for (uint32_t plane = 0; plane < x.planes; plane++)
                for (uint32_t head = 0; head < x.split.head_count; head++)
                    for (uint32_t token = 0; token < x.group.block_tokens; token++) {
                        unsigned char *row = memory + t->offset + b * t->stride.block + plane * t->stride.plane +
                                             head * t->stride.head + token * t->stride.token;
                        for (uint32_t k = 0; k < x.head_size * x.elem_bytes; k++)
                            if (row[k]++ != 0)
                                return true;
                    }
    }
    return false;
}

/* No byte belongs to two tensors. */
static void tensors_do_not_overlap(void **state)
{
    (void)state;
    for (unsigned layout = 0; layout < 14; layout++) {
        if ((layout & 6) == 6)
            continue;
        for (size_t m = 3; m < PRESETS; m++) {
            struct why why;
            struct model_cache c;
            struct model_cut cut = cut_of(all_names[m], model_least_layers(model_find(all_names[m])));
            cut.layout = layout;
            const struct model_seat seat = {5, 1, 2, 0};
            assert_int_equal(model_cache_init(&c, &cut, &seat, 2, &why), 0);
            unsigned char *memory = calloc(1, c.geometry.bytes);
            assert_non_null(memory);
            assert_false(overlap(&c.geometry, memory));
            free(memory);
            model_cache_fini(&c);
        }
    }
}

static void tables_of_a_request(void **state)
{
    (void)state;
    const baton_group_t full = {BATON_KIND_FULL, 16, 9, 0, 0}, window = {BATON_KIND_WINDOW, 16, 9, 40, 0},
                        kept = {BATON_KIND_STATE, 1, 9, 0, 0};
    assert_int_equal(model_table_first(&full, 100), 0);
    assert_int_equal(model_table_blocks(&full, 100), 7);
    assert_int_equal(model_table_first(&window, 100), 48);
    assert_int_equal(model_table_blocks(&window, 100), 4);
    assert_int_equal(model_table_first(&window, 40), 0);
    assert_int_equal(model_table_blocks(&window, 40), 3);
    assert_int_equal(model_table_first(&window, 57), 16);
    assert_int_equal(model_table_blocks(&kept, 100), 1);
    assert_int_equal(model_wanted(&window, 0, 100).first, 60);
    assert_int_equal(model_wanted(&window, 70, 100).first, 70);
    assert_int_equal(model_wanted(&full, 100, 100).first, 100);
    assert_int_equal(model_wanted(&kept, 99, 100).end, 1);
    assert_int_equal(model_wanted(&kept, 100, 100).end, 0);
}

static void what_cannot_be_cut_is_refused(void **state)
{
    (void)state;
    struct why why;
    struct model_cache c;
    const struct model_cut cut = cut_of("qwen3-32b", 2), hybrid = cut_of("nemotron-h-8b", 8);
    const struct model_seat none = {0, 1, 0, 0}, deep = {1, 3, 0, 0}, outside = {2, 1, 2, 0}, thin = {1, 8, 0, 1};
    assert_int_equal(model_cache_init(&c, &cut, &none, 4, &why), -1);
    assert_int_equal(model_cache_init(&c, &cut, &deep, 4, &why), -1);
    assert_non_null(strstr(why.text, "pipeline parallelism 3"));
    assert_int_equal(model_cache_init(&c, &cut, &outside, 4, &why), -1);
    assert_int_equal(model_cache_init(&c, &hybrid, &thin, 4, &why), -1);
    assert_non_null(strstr(why.text, "stage 1 of 8 keeps nothing"));
    assert_null(c.tensors);
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
        cmocka_unit_test(heads_that_do_not_divide),
        cmocka_unit_test(more_ranks_than_heads_hold_the_same),
        cmocka_unit_test(windows),
        cmocka_unit_test(mamba),
        cmocka_unit_test(presets_are_sound),
        cmocka_unit_test(tensors_do_not_overlap),
        cmocka_unit_test(tables_of_a_request),
        cmocka_unit_test(what_cannot_be_cut_is_refused),
        cmocka_unit_test(unknown_layouts_are_refused),
        cmocka_unit_test(blocks_of_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
