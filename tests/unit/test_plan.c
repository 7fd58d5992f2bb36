/* SPDX-License-Identifier: BSD-3-Clause */
/* The planner by hand-computed cases: layouts, checks of hostile geometries, sources, programs and the cursor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "plan/plan.h"

#define LAYERS 2

/* 8 KV heads of 128 bf16 channels, blocks of 16 tokens: 4,096 bytes a head and plane. */
struct cache {
    baton_geometry_t g;
    baton_tensor_t tensors[LAYERS];
};

static void cache_init(struct cache *c, uint32_t tp, uint32_t rank, unsigned layout)
{
    c->g = (baton_geometry_t){.model = "m",
                              .dtype = "bf16",
                              .elem_bytes = 2,
                              .planes = 2,
                              .block_tokens = 16,
                              .head_size = 128,
                              .num_blocks = 10,
                              .heads_total = 8,
                              .head_first = 8 / tp * rank,
                              .head_count = 8 / tp,
                              .layers_total = LAYERS,
                              .layer_count = LAYERS};
    assert_int_equal(baton_geometry_layout(&c->g, c->tensors, layout), 0);
}

static struct plan *compile(const struct cache *src, const struct cache *dst)
{
    struct plan_box a = {0, LAYERS, src->g.head_first, src->g.head_count}, box;
    struct plan_box b = {0, LAYERS, dst->g.head_first, dst->g.head_count};
    struct plan_why why;
    struct plan *plan;
    assert_true(box_intersect(&a, &b, &box));
    assert_int_equal(plan_compile(&src->g, &dst->g, &box, 1, &plan, &why), 0);
    return plan;
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

static void test_layouts(void **state)
{
    (void)state;
    struct cache c;
    cache_init(&c, 2, 1, BATON_LAYOUT_HND | BATON_LAYOUT_KV_SEPARATE);
    assert_int_equal(c.g.bytes, 2u * 2 * 10 * 4 * 4096);
    assert_string_equal(c.tensors[1].name, "layer.1");
    assert_int_equal(c.tensors[0].stride.channel, 2);
    assert_int_equal(c.tensors[0].stride.token, 256);
    assert_int_equal(c.tensors[0].stride.head, 4096);
    assert_int_equal(c.tensors[0].stride.block, 4 * 4096);
    assert_int_equal(c.tensors[0].stride.plane, 10 * 4 * 4096);
    assert_int_equal(c.tensors[1].offset, 2 * 10 * 4 * 4096);
    cache_init(&c, 2, 1, BATON_LAYOUT_NHD | BATON_LAYOUT_KV_FUSED);
    assert_int_equal(c.tensors[0].stride.plane, 256);
    assert_int_equal(c.tensors[0].stride.head, 512);
    assert_int_equal(c.tensors[0].stride.token, 4 * 512);
    assert_int_equal(c.tensors[0].stride.block, 16 * 4 * 512);
    cache_init(&c, 2, 1, BATON_LAYOUT_BLOCK_MAJOR);
    assert_int_equal(c.tensors[1].offset, 2 * 4 * 4096);
    assert_int_equal(c.tensors[0].stride.block, LAYERS * 2 * 4 * 4096);
}

static void test_layout_refuses(void **state)
{
    (void)state;
    struct cache c;
    cache_init(&c, 1, 0, 0);
    assert_int_equal(baton_geometry_layout(&c.g, c.tensors, 16), BATON_EINVAL);
    assert_int_equal(baton_geometry_layout(&c.g, c.tensors, BATON_LAYOUT_KV_BLOCK | BATON_LAYOUT_KV_FUSED),
                     BATON_EINVAL);
    c.g.num_blocks = UINT32_MAX;
    c.g.block_tokens = UINT32_MAX;
    assert_int_equal(baton_geometry_layout(&c.g, c.tensors, 0), BATON_EINVAL);
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static void refused(struct cache *c, const char *part)
{
    struct plan_why why = {{0}};
    assert_int_equal(geometry_check(&c->g, &c->g.bytes, 1, &why), BATON_EINVAL);
    if (strstr(why.text, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why.text, part);
}

#define BROKEN(part, ...)                                                                                              \
    do {                                                                                                               \
        struct cache c;                                                                                                \
        cache_init(&c, 2, 1, 0);                                                                                       \
        __VA_ARGS__;                                                                                                   \
        refused(&c, part);                                                                                             \
    } while (0)

static void test_hostile_geometries(void **state)
{
    (void)state;
    struct cache good;
    struct plan_why why;
    cache_init(&good, 2, 1, 0);
    assert_int_equal(geometry_check(&good.g, &good.g.bytes, 1, &why), 0);
    BROKEN("elem_bytes is 3", c.g.elem_bytes = 3);
    BROKEN("planes is 3", c.g.planes = 3);
    BROKEN("block_tokens", c.g.block_tokens = 0);
    BROKEN("num_blocks", c.g.num_blocks = 0);
    BROKEN("head_count", c.g.head_first = 5);
    BROKEN("head_count", c.g.head_first = UINT32_MAX);
    BROKEN("layer_count", c.g.layer_count = 3);
    BROKEN("num_tensors", c.g.num_tensors = 0);
    BROKEN("num_tensors", c.g.num_tensors = BATON_TENSORS_MAX + 1);
    BROKEN("the name does not end", memset(c.g.model, 'x', sizeof c.g.model));
    BROKEN("its name is another's", strcpy(c.tensors[1].name, "layer.0"));
    BROKEN("its name is empty", c.tensors[1].name[0] = '\0');
    BROKEN("its layer is not one", c.tensors[1].layer = 2);
    BROKEN("its region", c.tensors[1].region = 1);
    BROKEN("reach past", c.tensors[1].offset++);
    BROKEN("reach past", c.g.bytes--);
    BROKEN("reach past", c.tensors[0].offset = UINT64_MAX - 3);
    BROKEN("strides", c.tensors[0].stride.head = -4096);
    BROKEN("strides", c.tensors[0].stride.head = 4095); /* heads would overlap */
    BROKEN("strides", c.tensors[0].stride.block = INT64_MAX);
    BROKEN("strides", c.tensors[0].stride.channel = 1);
    /* Sound by its bytes, but programs count in 32 bits: 2 tensors, 2 planes, 4 heads, 128 channels, 2^21 tokens. */
    BROKEN("less than 2^32 elements", c.g.block_tokens = 1u << 21, c.g.num_blocks = 1,
           baton_geometry_layout(&c.g, c.tensors, 0));
    cache_init(&good, 2, 1, 0);
    good.g.block_tokens = (1u << 21) - 1;
    assert_int_equal(baton_geometry_layout(&good.g, good.tensors, 0), 0);
    assert_int_equal(geometry_check(&good.g, &good.g.bytes, 1, &why), 0);
}

static void test_match_names_the_field(void **state)
{
    (void)state;
    struct cache a, b;
    struct plan_why why;
    cache_init(&a, 1, 0, 0);
    cache_init(&b, 2, 1, BATON_LAYOUT_NHD);
    assert_int_equal(geometry_match(&a.g, &b.g, &why), 0);
    b.g.block_tokens = 32;
    assert_int_equal(geometry_match(&a.g, &b.g, &why), BATON_EGEOMETRY);
    assert_string_equal(why.text, "block_tokens differs: 16 and 32");
    strcpy(b.g.dtype, "fp8");
    assert_int_equal(geometry_match(&a.g, &b.g, &why), BATON_EGEOMETRY);
    assert_string_equal(why.text, "dtype differs: \"bf16\" and \"fp8\"");
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

static struct plan_member member(uint32_t layer, uint32_t layers, uint32_t head, uint32_t heads, uint32_t node)
{
    return (struct plan_member){.box = {layer, layers, head, heads}, .node = node};
}

static void test_sources_of_unequal_tp(void **state)
{
    (void)state;
    struct plan_member p[4], me = member(0, 2, 4, 4, 9);
    struct plan_source s[8];
    struct plan_why why;
    for (uint32_t i = 0; i < 4; i++)
        p[i] = member(0, 2, 2 * i, 2, i);
    assert_int_equal(plan_sources(&me, 1, p, 4, s, 8, &why), 2); /* P4, D2: D1 reads P2 and P3 whole */
    assert_int_equal(s[0].member, 2);
    assert_memory_equal(&s[0].box, &((struct plan_box){0, 2, 4, 2}), sizeof s[0].box);
    assert_int_equal(s[1].member, 3);
    me = member(0, 2, 3, 1, 9);
    assert_int_equal(plan_sources(&me, 3, p, 4, s, 8, &why), 1); /* P4, D8: D3 reads half of P1 */
    assert_int_equal(s[0].member, 1);
    assert_memory_equal(&s[0].box, &me.box, sizeof me.box);
    me = member(0, 3, 3, 1, 9);
    assert_int_equal(plan_sources(&me, 3, p, 4, s, 8, &why), BATON_ESOURCE);
    assert_string_equal(why.text, "no rank holds layer 2, head 3");
    me = member(0, 2, 0, 8, 9);
    assert_int_equal(plan_sources(&me, 0, p, 4, s, 3, &why), BATON_ENOMEM);
}

static void test_sources_among_replicas(void **state)
{
    (void)state;
    struct plan_member p[6], me = member(0, 1, 0, 1, 1);
    struct plan_source s[8];
    struct plan_why why;
    for (uint32_t i = 0; i < 6; i++)
        p[i] = member(0, 1, 0, 1, i / 2); /* two on each of three nodes */
    for (uint32_t index = 0; index < 4; index++) {
        assert_int_equal(plan_sources(&me, index, p, 6, s, 8, &why), 1);
        assert_int_equal(s[0].member, 2 + index % 2); /* on its own node, in turn */
    }
    me.node = 9;
    uint32_t load[6] = {0};
    for (uint32_t index = 0; index < 12; index++) {
        assert_int_equal(plan_sources(&me, index, p, 6, s, 8, &why), 1);
        load[s[0].member]++;
    }
    for (int i = 0; i < 6; i++)
        assert_int_equal(load[i], 2);
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static void test_equal_layouts_are_one_run_a_block_and_plane(void **state)
{
    (void)state;
    struct cache a, b;
    cache_init(&a, 2, 1, 0);
    cache_init(&b, 2, 1, 0);
    struct plan *plan = compile(&a, &b);
    assert_int_equal(plan_num_pieces(plan), LAYERS);
    assert_int_equal(plan_num_programs(plan), 1);
    const struct plan_program *p = plan_program_at(plan, 0);
    assert_int_equal(p->run, 4 * 4096);
    assert_int_equal(p->num_loops, 1); /* K and V lie apart */
    assert_int_equal(p->loop[0].count, 2);
    assert_int_equal(p->unit_bytes, 2 * 4 * 4096);
    plan_destroy(plan);
}

static void test_all_layers_in_one_block_are_one_run(void **state)
{
    (void)state;
    struct cache a, b;
    cache_init(&a, 1, 0, BATON_LAYOUT_BLOCK_MAJOR);
    cache_init(&b, 1, 0, BATON_LAYOUT_BLOCK_MAJOR);
    struct plan *plan = compile(&a, &b);
    assert_int_equal(plan_num_pieces(plan), 1);
    const struct plan_program *p = plan_program_at(plan, plan_piece_at(plan, 0)->program);
    assert_int_equal(p->num_loops, 0);
    assert_int_equal(p->run, LAYERS * 2 * 8 * 4096);
    plan_destroy(plan);
}

static void test_head_slices(void **state)
{
    (void)state;
    struct cache p1, d3;
    cache_init(&p1, 2, 1, BATON_LAYOUT_KV_BLOCK); /* heads 4..7 */
    cache_init(&d3, 4, 3, BATON_LAYOUT_KV_BLOCK); /* heads 6..7 */
    struct plan *plan = compile(&p1, &d3);
    assert_int_equal(plan_piece_at(plan, 0)->src_base, 2 * 4096);
    assert_int_equal(plan_piece_at(plan, 0)->dst_base, 0);
    assert_int_equal(plan_program_at(plan, 0)->run, 2 * 4096);
    plan_destroy(plan);
    plan = compile(&d3, &p1); /* and gathered the other way */
    assert_int_equal(plan_piece_at(plan, 0)->src_base, 0);
    assert_int_equal(plan_piece_at(plan, 0)->dst_base, 2 * 4096);
    plan_destroy(plan);
}

static void test_hnd_to_nhd(void **state)
{
    (void)state;
    struct cache a, b;
    cache_init(&a, 2, 0, BATON_LAYOUT_HND);
    cache_init(&b, 2, 0, BATON_LAYOUT_NHD);
    struct plan *plan = compile(&a, &b);
    const struct plan_program *p = plan_program_at(plan, 0);
    assert_int_equal(p->run, 256); /* one head's entry */
    assert_int_equal(p->num_loops, 3);
    assert_int_equal(p->unit_bytes, 2 * 4 * 4096);
    plan_destroy(plan);
}

/* ---- the cursor -------------------------------------------------------------------------------------------------- */

static void test_neighbouring_blocks_merge(void **state)
{
    (void)state;
    struct cache c;
    struct plan_transfer t;
    struct plan_cursor at = {0};
    struct plan_run runs[8];
    cache_init(&c, 1, 0, BATON_LAYOUT_KV_BLOCK);
    struct plan *plan = compile(&c, &c);
    const uint32_t from[] = {1, 2, 5}, to[] = {6, 7, 0};
    plan_transfer_init(&t, plan, 48, from, to);
    assert_int_equal(plan_next(&t, &at, runs, 8, UINT64_MAX), 4); /* two a layer */
    assert_int_equal(runs[0].bytes, 2 * 2 * 8 * 4096);
    assert_int_equal(runs[0].src, 1 * 2 * 8 * 4096);
    assert_int_equal(runs[0].dst, 6 * 2 * 8 * 4096);
    assert_int_equal(runs[1].bytes, 2 * 8 * 4096);
    assert_true(plan_at_end(&t, &at));
    assert_int_equal(plan_next(&t, &at, runs, 8, UINT64_MAX), 0);
    plan_destroy(plan);
}

static void test_tail_stops_at_the_last_token(void **state)
{
    (void)state;
    struct cache c;
    struct plan_transfer t;
    struct plan_cursor at = {0};
    struct plan_run runs[64];
    cache_init(&c, 1, 0, BATON_LAYOUT_HND | BATON_LAYOUT_KV_BLOCK);
    struct plan *plan = compile(&c, &c);
    const uint32_t from[] = {1, 4}, to[] = {6, 3};
    plan_transfer_init(&t, plan, 16 + 5, from, to);
    assert_int_equal(t.num_blocks, 2);
    assert_int_equal(t.tail_tokens, 5);
    assert_int_equal(t.bytes, 21u * 2 * 2 * 8 * 256);
    uint32_t n = plan_next(&t, &at, runs, 64, UINT64_MAX);
    assert_int_equal(n, 2 * (1 + 2 * 8)); /* a whole block, then each head of each plane */
    for (uint32_t i = 1; i < 17; i++)
        assert_int_equal(runs[i].bytes, 5 * 256);
    plan_destroy(plan);
}

static void test_resumes_at_every_byte(void **state)
{
    (void)state;
    struct cache a, b;
    struct plan_transfer t;
    cache_init(&a, 4, 1, BATON_LAYOUT_HND);
    cache_init(&b, 4, 1, BATON_LAYOUT_NHD);
    struct plan *plan = compile(&a, &b);
    const uint32_t from[] = {3}, to[] = {8};
    plan_transfer_init(&t, plan, 3, from, to);
    uint64_t at_byte = 0;
    struct plan_cursor slow = {0};
    for (struct plan_run one; plan_next(&t, &slow, &one, 1, 1) == 1; at_byte++) {
        struct plan_cursor fast = {0};
        struct plan_run runs[64];
        uint64_t left = at_byte;
        while (left > 0) {
            uint32_t n = plan_next(&t, &fast, runs, 64, left);
            for (uint32_t i = 0; i < n; i++)
                left -= runs[i].bytes;
        }
        assert_int_equal(plan_next(&t, &fast, runs, 1, 1), 1);
        assert_int_equal(runs[0].src, one.src);
        assert_int_equal(runs[0].dst, one.dst);
    }
    assert_int_equal(at_byte, t.bytes);
    plan_destroy(plan);
}

static void test_skip_counts_whole_units(void **state)
{
    (void)state;
    struct cache c;
    struct plan_transfer t;
    struct plan_cursor at = {0};
    cache_init(&c, 1, 0, 0);
    struct plan *plan = compile(&c, &c);
    const uint32_t ids[] = {0, 1, 2, 3};
    const uint64_t unit = 2 * 8 * 4096;
    plan_transfer_init(&t, plan, 3 * 16 + 1, ids, ids);
    assert_int_equal(plan_skip(&t, &at, 1), unit); /* one at least */
    assert_int_equal(plan_skip(&t, &at, 2 * unit + 5), 2 * unit);
    assert_int_equal(plan_skip(&t, &at, unit), unit / 16); /* the tail; the next layer's block no longer fits */
    assert_int_equal(at.piece, 1);
    assert_int_equal(plan_skip(&t, &at, UINT64_MAX), 3 * unit + unit / 16);
    assert_int_equal(plan_skip(&t, &at, UINT64_MAX), 0);
    plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_layout_refuses),
        cmocka_unit_test(test_hostile_geometries),
        cmocka_unit_test(test_match_names_the_field),
        cmocka_unit_test(test_sources_of_unequal_tp),
        cmocka_unit_test(test_sources_among_replicas),
        cmocka_unit_test(test_equal_layouts_are_one_run_a_block_and_plane),
        cmocka_unit_test(test_all_layers_in_one_block_are_one_run),
        cmocka_unit_test(test_head_slices),
        cmocka_unit_test(test_hnd_to_nhd),
        cmocka_unit_test(test_neighbouring_blocks_merge),
        cmocka_unit_test(test_tail_stops_at_the_last_token),
        cmocka_unit_test(test_resumes_at_every_byte),
        cmocka_unit_test(test_skip_counts_whole_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
