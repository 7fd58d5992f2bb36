/* SPDX-License-Identifier: BSD-3-Clause */
/* The planner by hand-computed cases: layouts, checks of hostile geometries, sources, programs and the cursor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "with_bytes.h"

#include "plan/plan.h"
#include "plan/program.h"

#define LAYERS 2

/* 8 KV heads of 128 bf16 channels, blocks of 16 tokens: 4,096 bytes a head and plane. */
struct cache {
    baton_geometry_t g;
    baton_tensor_t tensors[LAYERS];
};

static void cache_init_blocks(struct cache *c, uint32_t tp, uint32_t rank, unsigned layout, uint32_t block_tokens)
{
    c->g = (baton_geometry_t){.size = sizeof(baton_geometry_t),
                              .model = "m",
                              .dtype = "bf16",
                              .elem_bytes = 2,
                              .planes = 2,
                              .head_size = 128,
                              .num_groups = 1,
                              .groups = {{.block_tokens = block_tokens, .num_blocks = 10}},
                              .num_splits = 1,
                              .splits = {{.heads_total = 8, .head_first = 8 / tp * rank, .head_count = 8 / tp}},
                              .layers_total = LAYERS,
                              .layer_count = LAYERS};
    assert_int_equal(baton_geometry_layout(&c->g, c->tensors, layout), 0);
}

static void cache_init(struct cache *c, uint32_t tp, uint32_t rank, unsigned layout)
{
    cache_init_blocks(c, tp, rank, layout, 16);
}

static struct plan *compile(const struct cache *src, const struct cache *dst)
{
    struct plan_box a[BATON_SPLITS_MAX], b[BATON_SPLITS_MAX], box;
    struct plan_why why;
    struct plan *plan;
    plan_boxes(&src->g, a);
    plan_boxes(&dst->g, b);
    assert_true(box_intersect(a, b, &box));
    assert_int_equal(plan_compile(&src->g, &dst->g, &box, 1, &plan, &why), 0);
    return plan;
}

/* Begins a transfer with one table on each side, which begins with the request's first token. */
static void begin(struct plan_transfer *t, const struct plan *plan, uint32_t held, uint32_t tokens,
                  const uint32_t *from, uint32_t num_from, const uint32_t *to, uint32_t num_to)
{
    struct plan_tables src = {.num = 1, .table = {{from, num_from, 0}}};
    struct plan_tables dst = {.num = 1, .table = {{to, num_to, 0}}};
    struct plan_why why;
    assert_int_equal(plan_transfer_init(t, plan, held, tokens, &src, &dst, &why), 0);
}

#define COUNT(a) ((uint32_t)(sizeof(a) / sizeof(a)[0]))

static void assert_run(const struct plan_run *r, uint64_t src, uint64_t dst, uint64_t bytes)
{
    assert_int_equal(r->src, src);
    assert_int_equal(r->dst, dst);
    assert_int_equal(r->bytes, bytes);
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

static void test_layouts(void **state)
{
    (void)state;
    struct cache c;
    cache_init(&c, 2, 1, BATON_LAYOUT_HND | BATON_LAYOUT_KV_SEPARATE);
    assert_int_equal(c.g.bytes, 2u * 2 * 10 * 4 * 4096);
    assert_int_equal(geometry_block_bytes(&c.g, 0) * c.g.groups[0].num_blocks, c.g.bytes);
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
    c.g.num_groups = 0;
    assert_int_equal(baton_geometry_layout(&c.g, c.tensors, 0), BATON_EINVAL);
    c.g.num_groups = 1;
    c.g.num_splits = BATON_SPLITS_MAX + 1;
    assert_int_equal(baton_geometry_layout(&c.g, c.tensors, 0), BATON_EINVAL);
    c.g.num_splits = 1;
    c.g.splits[0].head_count = 0;
    assert_int_equal(baton_geometry_layout(&c.g, c.tensors, 0), BATON_EINVAL);
    assert_string_equal(baton_errmsg(), "splits[0].head_count is 0");
    c.g.splits[0].head_count = 1;
    c.g.layer_count = BATON_TENSORS_MAX + 1;
    assert_int_equal(baton_geometry_layout(&c.g, c.tensors, 0), BATON_EINVAL);
    assert_non_null(strstr(baton_errmsg(), "layer_count is 1025"));
    c.g.layer_count = 2;
    c.g.groups[0].num_blocks = UINT32_MAX;
    c.g.groups[0].block_tokens = UINT32_MAX;
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
    BROKEN("block_tokens", c.g.groups[0].block_tokens = 0);
    BROKEN("num_blocks", c.g.groups[0].num_blocks = 0);
    BROKEN("head_count is 0", c.g.splits[0].head_count = 0);
    BROKEN("split 0", c.g.splits[0].head_first = 5);
    BROKEN("split 0", c.g.splits[0].head_first = UINT32_MAX);
    BROKEN("layer_count", c.g.layer_count = 3);
    BROKEN("num_tensors", c.g.num_tensors = 0);
    BROKEN("num_tensors", c.g.num_tensors = BATON_TENSORS_MAX + 1);
    BROKEN("model or dtype has no terminating 0", memset(c.g.model, 'x', sizeof c.g.model));
    BROKEN("another tensor has the same name", strcpy(c.tensors[1].name, "layer.0"));
    BROKEN("begins at the same byte", c.tensors[1].offset = c.tensors[0].offset);
    BROKEN("its name is empty", c.tensors[1].name[0] = '\0');
    BROKEN("its layer is not one", c.tensors[1].layer = 2);
    BROKEN("its region", c.tensors[1].region = 1);
    BROKEN("bytes from 327681 on reach past its region of 655360", c.tensors[1].offset++);
    BROKEN("reach past", c.g.bytes--);
    BROKEN("reach past", c.tensors[0].offset = UINT64_MAX - 3);
    BROKEN("the stride of its heads is -4096 bytes: entries overlap", c.tensors[0].stride.head = -4096);
    BROKEN("of its heads is 4095 bytes: entries overlap if it is less than 4096", c.tensors[0].stride.head = 4095);
    BROKEN("the stride of its blocks is 9223372036854775807 bytes: too large", c.tensors[0].stride.block = INT64_MAX);
    BROKEN("the stride of its channels is 1 bytes: entries overlap if it is less than 2",
           c.tensors[0].stride.channel = 1);
    BROKEN("its group or split", c.tensors[1].group = 1);
    BROKEN("its group or split", c.tensors[1].split = 1);
    BROKEN("elem_bytes are not", c.tensors[1].elem_bytes = 3);
    BROKEN("reach past", c.tensors[1].planes = 3);
    /* its bytes are sound, but programs count in 32 bits: 2 tensors, 2 planes, 4 heads, 128 channels, 2^21 tokens */
    BROKEN("less than 2^32 elements", c.g.groups[0].block_tokens = 1u << 21, c.g.groups[0].num_blocks = 1,
           baton_geometry_layout(&c.g, c.tensors, 0));
    cache_init(&good, 2, 1, 0);
    good.g.groups[0].block_tokens = (1u << 21) - 1;
    assert_int_equal(baton_geometry_layout(&good.g, good.tensors, 0), 0);
    assert_int_equal(geometry_check(&good.g, &good.g.bytes, 1, &why), 0);
}

/* Three groups and two splits that are good, for each test to break. */
static void listed_init(struct cache *l, uint32_t tp, uint32_t rank)
{
    cache_init(l, tp, rank, 0);
    l->g.groups[0] = (baton_group_t){BATON_KIND_FULL, 16, 10, 0, 0};
    l->g.groups[1] = (baton_group_t){BATON_KIND_WINDOW, 16, 10, 40, 0};
    l->g.groups[2] = (baton_group_t){BATON_KIND_STATE, 1, 10, 0, 0};
    l->g.splits[0] = (baton_split_t){8, l->g.splits[0].head_first, l->g.splits[0].head_count};
    l->g.splits[1] = (baton_split_t){1, 0, 1};
    l->g.num_groups = 3;
    l->g.num_splits = 2;
}

#define BROKEN_LIST(part, ...)                                                                                         \
    do {                                                                                                               \
        struct cache l;                                                                                                \
        listed_init(&l, 2, 1);                                                                                         \
        __VA_ARGS__;                                                                                                   \
        refused(&l, part);                                                                                             \
    } while (0)

static void test_hostile_groups_and_splits(void **state)
{
    (void)state;
    struct cache good;
    struct plan_why why;
    listed_init(&good, 2, 1);
    assert_int_equal(geometry_check(&good.g, &good.g.bytes, 1, &why), 0);
    assert_int_equal(geometry_block_bytes(&good.g, 1), 0); /* no tensor is of that group yet */
    good.tensors[1].group = good.tensors[1].split = 1;     /* of 2: so it has one head, and group 0 one tensor */
    assert_int_equal(geometry_block_bytes(&good.g, 1), 2 * 1 * 16 * 128 * 2);
    assert_int_equal(geometry_block_bytes(&good.g, 0), 2 * 4 * 16 * 128 * 2);
    BROKEN_LIST("num_groups is 9", l.g.num_groups = BATON_GROUPS_MAX + 1);
    BROKEN_LIST("num_groups is 0", l.g.num_groups = 0);
    BROKEN_LIST("group 0: block_tokens", l.g.groups[0].num_blocks = 0);
    BROKEN_LIST("group 1: its kind", l.g.groups[1].kind = (baton_kind_t)3);
    BROKEN_LIST("group 1: block_tokens", l.g.groups[1].block_tokens = 0);
    BROKEN_LIST("group 1: block_tokens", l.g.groups[1].num_blocks = 0);
    BROKEN_LIST("group 2: a state", l.g.groups[2].block_tokens = 2);
    BROKEN_LIST("group 1: window_tokens", l.g.groups[1].window_tokens = 0);
    BROKEN_LIST("group 2: window_tokens", l.g.groups[2].window_tokens = 1);
    BROKEN_LIST("num_splits is 5", l.g.num_splits = BATON_SPLITS_MAX + 1);
    BROKEN_LIST("num_splits is 0", l.g.num_splits = 0);
    BROKEN_LIST("split 0", l.g.splits[0].head_first++);
    BROKEN_LIST("split 1", l.g.splits[1].head_first = 1);
    BROKEN_LIST("split 1", l.g.splits[1].head_count = UINT32_MAX);
    BROKEN_LIST("split 1", l.g.splits[1].heads_total = UINT16_MAX + 1);
    BROKEN_LIST("no heads here", l.g.splits[1].head_count = 0, l.tensors[1].split = 1);
    BROKEN_LIST("its group or split", l.tensors[1].group = 3);
    BROKEN_LIST("reach past", l.g.groups[1].num_blocks = 40, l.tensors[1].group = 1, l.tensors[1].stride.plane *= 4);
}

#define DIFFERS(text_, ...)                                                                                            \
    do {                                                                                                               \
        struct cache one, two;                                                                                         \
        struct plan_why reason = {{0}};                                                                                \
        listed_init(&one, 1, 0);                                                                                       \
        listed_init(&two, 2, 1);                                                                                       \
        assert_int_equal(geometry_match(&one.g, &two.g, &reason), 0);                                                  \
        assert_int_equal(geometry_model(&one.g), geometry_model(&two.g));                                              \
        __VA_ARGS__;                                                                                                   \
        assert_int_equal(geometry_match(&one.g, &two.g, &reason), BATON_EGEOMETRY);                                    \
        assert_int_not_equal(geometry_model(&one.g), geometry_model(&two.g));                                          \
        assert_string_equal(reason.text, text_);                                                                       \
    } while (0)

static void test_match_names_the_field(void **state)
{
    (void)state;
    struct cache a, b;
    struct plan_why why;
    cache_init(&a, 1, 0, 0);
    cache_init_blocks(&b, 2, 1, BATON_LAYOUT_NHD, 32);
    assert_int_equal(geometry_match(&a.g, &b.g, &why), 0);
    assert_int_equal(geometry_model(&a.g), geometry_model(&b.g));
    DIFFERS("model differs: \"m\" and \"n\"", strcpy(two.g.model, "n"));
    DIFFERS("dtype differs: \"bf16\" and \"fp8\"", strcpy(two.g.dtype, "fp8"));
    DIFFERS("elem_bytes differs: 2 and 1", two.g.elem_bytes = 1);
    DIFFERS("planes differs: 2 and 1", two.g.planes = 1);
    DIFFERS("head_size differs: 128 and 64", two.g.head_size = 64);
    DIFFERS("heads_total differs: 8 and 4", two.g.splits[0].heads_total = 4);
    DIFFERS("layers_total differs: 2 and 3", two.g.layers_total = 3);
    DIFFERS("num_splits differs: 2 and 1", two.g.num_splits = 1);
    DIFFERS("heads_total of split 1 differs: 1 and 2", two.g.splits[1].heads_total = 2);
}

/* Mistakes that show only when tensors are paired. */
#define UNPAIRED(text_, ...)                                                                                           \
    do {                                                                                                               \
        struct cache a, b;                                                                                             \
        struct plan_box box = {0, LAYERS, 4, 4, 0};                                                                    \
        struct plan_why why = {{0}};                                                                                   \
        struct plan *plan;                                                                                             \
        listed_init(&a, 1, 0);                                                                                         \
        listed_init(&b, 2, 1);                                                                                         \
        __VA_ARGS__;                                                                                                   \
        assert_int_equal(plan_compile(&a.g, &b.g, &box, 1, &plan, &why), BATON_EGEOMETRY);                             \
        assert_string_equal(why.text, text_);                                                                          \
    } while (0)

static void test_tensors_that_do_not_match(void **state)
{
    (void)state;
    UNPAIRED("layer of tensor \"layer.0\" differs: 1 and 0", a.tensors[0].layer = 1);
    UNPAIRED("split of tensor \"layer.0\" differs: 1 and 0", a.tensors[0].split = 1);
    UNPAIRED("planes of tensor \"layer.0\" differs: 1 and 2", a.tensors[0].planes = 1);
    UNPAIRED("head_size of tensor \"layer.1\" differs: 64 and 128", a.tensors[1].head_size = 64);
    UNPAIRED("elem_bytes of tensor \"layer.1\" differs: 1 and 2", a.tensors[1].elem_bytes = 1);
    UNPAIRED("kind of tensor \"layer.0\" differs: 0 and 2", b.tensors[0].group = 2);
    UNPAIRED("window_tokens of tensor \"layer.1\" differs: 40 and 41", a.tensors[1].group = 1, b.tensors[1].group = 1,
             b.g.groups[1].window_tokens = 41);
    UNPAIRED("tensor \"other\" of layer 1 is not in the producer's cache", strcpy(b.tensors[1].name, "other"));
    UNPAIRED("the layers or heads of the caches differ from those in the directory", box.head_first = 3);
    UNPAIRED("the layers or heads of the caches differ from those in the directory", box.layer_count = 3);
    UNPAIRED("the layers or heads of the caches differ from those in the directory", box.split = 2);
}

/* ---- a request's tokens ------------------------------------------------------------------------------------------ */

static void wants(const baton_group_t *group, uint32_t held, uint32_t tokens, uint32_t first, uint32_t end)
{
    uint32_t f = 99, e = 99;
    plan_wanted(group, held, tokens, &f, &e);
    assert_int_equal(e - f, end - first);
    if (first < end)
        assert_int_equal(f, first);
}

static void test_what_is_wanted(void **state)
{
    (void)state;
    const baton_group_t full = {BATON_KIND_FULL, 16, 10, 0, 0}, window = {BATON_KIND_WINDOW, 16, 10, 40, 0},
                        one = {BATON_KIND_STATE, 1, 10, 0, 0};
    wants(&full, 0, 100, 0, 100);
    wants(&full, 30, 100, 30, 100);
    wants(&full, 100, 100, 100, 100);
    wants(&full, 200, 100, 100, 100);
    wants(&window, 0, 100, 60, 100);
    wants(&window, 0, 40, 0, 40);
    wants(&window, 0, 41, 1, 41);
    wants(&window, 61, 100, 61, 100);
    wants(&window, 100, 100, 100, 100);
    wants(&one, 0, 100, 0, 1);
    wants(&one, 99, 100, 0, 1);
    wants(&one, 100, 100, 0, 0);
}

static void table_is(int error, const char *text, const baton_group_t *group, baton_table_t table, uint32_t first,
                     uint32_t end)
{
    struct plan_why why = {{0}};
    assert_int_equal(plan_table_check(group, &table, first, end, &why), error);
    assert_string_equal(why.text, text);
}

static void test_tables(void **state)
{
    (void)state;
    const baton_group_t g = {BATON_KIND_FULL, 16, 10, 0, 0};
    const uint32_t ids[] = {77, 9, 0, 10};
    table_is(0, "", &g, (baton_table_t){ids, 3, 32}, 48, 80);
    table_is(0, "", &g, (baton_table_t){ids, 3, 32}, 63, 65);
    table_is(0, "", &g, (baton_table_t){NULL, 0, 0}, 7, 7); /* nothing is wanted */
    table_is(BATON_EINVAL, "first_token is 33: a table must begin with a whole block", &g, (baton_table_t){ids, 3, 33},
             48, 80);
    table_is(BATON_ETOKENS, "first_token is 32: the table must begin earlier", &g, (baton_table_t){ids, 3, 32}, 31, 80);
    table_is(BATON_ETOKENS, "49 tokens do not fit into 3 blocks of 16 tokens", &g, (baton_table_t){ids, 3, 32}, 48, 81);
    table_is(BATON_EBLOCK, "blocks[0] is 77, but the group has 10 blocks", &g, (baton_table_t){ids, 3, 32}, 47, 80);
    table_is(BATON_EBLOCK, "blocks[3] is 10, but the group has 10 blocks", &g, (baton_table_t){ids, 4, 32}, 48, 81);
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

static struct plan_member member(uint32_t layer, uint32_t layers, uint32_t head, uint32_t heads, uint32_t node)
{
    return (struct plan_member){.box = {{layer, layers, head, heads, 0}}, .num_boxes = 1, .node = node};
}

static void test_sources_of_unequal_tp(void **state)
{
    (void)state;
    struct plan_member p[4], me = member(0, 2, 4, 4, 9);
    struct plan_source s[8];
    struct plan_why why;
    for (uint32_t i = 0; i < 4; i++)
        p[i] = member(0, 2, 2 * i, 2, i);
    assert_int_equal(plan_sources(&me, 1, 0, p, 4, s, 8, &why), 2); /* TP 4 to TP 2: rank 1 reads all of 2 and 3 */
    assert_int_equal(s[0].member, 2);
    assert_memory_equal(&s[0].box, &((struct plan_box){0, 2, 4, 2, 0}), sizeof s[0].box);
    assert_int_equal(s[1].member, 3);
    me = member(0, 2, 3, 1, 9);
    assert_int_equal(plan_sources(&me, 3, 0, p, 4, s, 8, &why), 1); /* TP 4 to TP 8: rank 3 reads half of rank 1 */
    assert_int_equal(s[0].member, 1);
    assert_memory_equal(&s[0].box, &me.box[0], sizeof me.box[0]);
    me = member(0, 3, 3, 1, 9);
    assert_int_equal(plan_sources(&me, 3, 0, p, 4, s, 8, &why), BATON_ESOURCE);
    assert_string_equal(why.text, "no rank holds layer 2, head 3 of split 0");
    me = member(0, 2, 0, 8, 9);
    assert_int_equal(plan_sources(&me, 0, 0, p, 4, s, 3, &why), BATON_EGEOMETRY);
}

static void test_sources_among_replicas(void **state)
{
    (void)state;
    struct plan_member p[6], me = member(0, 1, 0, 1, 1);
    struct plan_source s[8];
    struct plan_why why;
    for (uint32_t i = 0; i < 6; i++)
        p[i] = member(0, 1, 0, 1, i / 2); /* two ranks on each of three nodes */
    for (uint32_t index = 0; index < 4; index++) {
        assert_int_equal(plan_sources(&me, index, 0, p, 6, s, 8, &why), 1);
        assert_int_equal(s[0].member, 2 + (index == 1 || index == 2)); /* the ranks of its own node by turns */
    }
    for (uint32_t i = 0; i < 6; i++) { /* all on its node; 0 to 3 in its package, 1 in its NUMA node */
        p[i].node = me.node;
        p[i].package = i / 4;
        p[i].numa = i;
    }
    me.numa = 1;
    assert_int_equal(plan_sources(&me, 0, 0, p, 6, s, 8, &why), 1);
    assert_int_equal(s[0].member, 1);
    p[1].numa = me.numa = PLAN_UNKNOWN; /* is no NUMA node that two have in common */
    for (uint32_t index = 0; index < 4; index++) {
        assert_int_equal(plan_sources(&me, index, 0, p, 6, s, 8, &why), 1);
        assert_int_equal(s[0].member, index);
    }
    me.package = PLAN_UNKNOWN; /* then all of the node are equally far */
    assert_int_equal(plan_sources(&me, 5, 0, p, 6, s, 8, &why), 1);
    assert_int_equal(s[0].member, 5);
    me.node = 9;
    uint32_t load[6] = {0};
    for (uint32_t index = 0; index < 12; index++) {
        assert_int_equal(plan_sources(&me, index, 0, p, 6, s, 8, &why), 1);
        load[s[0].member]++;
    }
    for (int i = 0; i < 6; i++)
        assert_int_equal(load[i], 2);
    for (uint32_t engine = 0; engine < 24; engine++) { /* engines of one rank each take turns too */
        assert_int_equal(plan_sources(&me, 0, engine, p, 6, s, 8, &why), 1);
        load[s[0].member]++;
    }
    for (int i = 0; i < 6; i++)
        assert_int_equal(load[i], 6);
}

static void test_an_engine_has_its_turn_by_its_name(void **state)
{
    (void)state;
    const uint32_t first = plan_turn("decode0");
    assert_int_equal(plan_turn("decode1"), first + 1);
    assert_int_equal(plan_turn("decode12"), first + 12);
    assert_int_equal(plan_turn("decode007"), first + 7);
    assert_int_equal(plan_turn("12"), 12);
    unsigned by_letters[4] = {0}, by_host[4] = {0}; /* whatever tells names apart, it spreads them */
    for (char a = 'a'; a <= 'z'; a++)
        for (char b = 'a'; b <= 'z'; b++) {
            const char letters[] = {'p', '-', a, b, '\0'}, host[] = {a, b, '-', '0', '\0'};
            by_letters[plan_turn(letters) % 4]++;
            by_host[plan_turn(host) % 4]++;
        }
    for (int i = 0; i < 4; i++) {
        assert_in_range(by_letters[i], 26 * 26 / 4 - 20, 26 * 26 / 4 + 20);
        assert_in_range(by_host[i], 26 * 26 / 4 - 20, 26 * 26 / 4 + 20);
    }
}

/* Rows that no sound engine has: their cost is bounded, and the reason is told. */
static void test_too_many_cells(void **state)
{
    (void)state;
    enum { STRIPES = 80 };
    static struct plan_member p[1 + 2 * STRIPES];
    static struct plan_source s[PLAN_CELLS_MAX];
    struct plan_member me = member(0, 1000, 0, 1000, 0);
    struct plan_why why = {{0}};
    p[0] = me;
    for (uint32_t i = 0; i < STRIPES; i++) {
        p[1 + i] = member(2 * i, 1, 0, 1000, 0);
        p[1 + STRIPES + i] = member(0, 1000, 2 * i, 1, 0);
    }
    assert_int_equal(plan_sources(&me, 0, 0, p, 1 + 2 * STRIPES, s, PLAN_CELLS_MAX, &why), BATON_EGEOMETRY);
    assert_non_null(strstr(why.text, "cells"));
}

/* MLA: heads cut over the ranks, a latent that each holds whole. */
static void test_sources_by_split(void **state)
{
    (void)state;
    struct plan_member p[4], me = {.box = {{0, 2, 4, 4, 0}, {0, 2, 0, 1, 1}}, .num_boxes = 2, .node = 9}, other;
    struct plan_source s[8];
    struct plan_why why;
    for (uint32_t i = 0; i < 4; i++)
        p[i] = (struct plan_member){.box = {{0, 2, 2 * i, 2, 0}, {0, 2, 0, 1, 1}}, .num_boxes = 2};
    assert_int_equal(plan_sources(&me, 1, 0, p, 4, s, 8, &why), 3);
    assert_int_equal(s[0].member, 1);
    assert_memory_equal(&s[0].box, &me.box[1], sizeof s[0].box);
    assert_int_equal(s[1].member, 2);
    assert_memory_equal(&s[1].box, &((struct plan_box){0, 2, 4, 2, 0}), sizeof s[1].box);
    assert_int_equal(s[2].member, 3);
    assert_true(plan_members_share(&me, &p[0])); /* they share only the latent */
    assert_false(plan_member_covers(&p[0], &me.box[0]));
    assert_true(plan_member_covers(&p[0], &me.box[1]));
    other = me;
    other.box[0].head_first = other.box[1].layer_first = 8;
    assert_false(plan_members_share(&me, &other));
    p[1].num_boxes = p[2].num_boxes = 1; /* then the other ranks serve the latent */
    assert_int_equal(plan_sources(&me, 1, 0, p, 4, s, 8, &why), 3);
    assert_int_equal(s[2].member, 3);
    assert_int_equal(s[2].box.split, 1);
}

/* Whether the ranks of an engine have all of the model between them. */
static void test_engines_that_lack_something(void **state)
{
    (void)state;
    struct cache c;
    struct plan_why why;
    cache_init(&c, 1, 0, 0);
    c.g.layers_total = 4;
    c.g.splits[0].heads_total = 8;
    struct plan_member p[3] = {member(0, 4, 0, 2, 0), member(0, 4, 2, 2, 0), member(0, 4, 4, 4, 0)};
    assert_int_equal(plan_check_whole(&c.g, p, 3, &why), 0);
    p[2].box[0].head_count = 2; /* 8 / 3 heads a rank */
    assert_int_equal(plan_check_whole(&c.g, p, 3, &why), BATON_ESOURCE);
    assert_string_equal(why.text, "no rank holds layer 0, head 6 of split 0");
    p[2] = member(0, 3, 4, 4, 0);
    assert_int_equal(plan_check_whole(&c.g, p, 3, &why), BATON_ESOURCE);
    assert_string_equal(why.text, "no rank holds layer 3, head 4 of split 0");
    p[2] = member(0, 4, 3, 5, 0); /* some have the same */
    assert_int_equal(plan_check_whole(&c.g, p, 3, &why), 0);
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
    assert_int_equal(plan->num_shapes, 1);
    const struct plan_program *p = &plan->shape[0].whole;
    assert_int_equal(p->run, 4 * 4096);
    assert_int_equal(p->num_loops, 1); /* K and V lie apart */
    assert_int_equal(p->loop[0].count, 2);
    assert_int_equal(plan_token_bytes(plan, 0), 2 * 4 * 256);
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
    const struct plan_program *p = &plan->shape[plan_piece_at(plan, 0)->program].whole;
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
    assert_int_equal(plan->shape[0].whole.run, 2 * 4096);
    plan_destroy(plan);
    plan = compile(&d3, &p1); /* the other way the heads are gathered */
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
    const struct plan_program *p = &plan->shape[0].whole;
    assert_int_equal(p->run, 256); /* one head's entry */
    assert_int_equal(p->num_loops, 3);
    assert_int_equal(plan_token_bytes(plan, 0), 2 * 4 * 256);
    plan_destroy(plan);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

#define TOKEN (2 * 8 * 256) /* bytes of all heads and both planes */
#define NHD_FUSED (BATON_LAYOUT_NHD | BATON_LAYOUT_KV_FUSED)

/* All of a transfer between caches of one rank each: how many runs it has, some of them, and some of its parts. */
static const struct runs {
    const char *name;
    unsigned layout;
    uint32_t block_tokens[2]; /* the producer's, the consumer's */
    uint32_t held, tokens;
    uint32_t from[4], to[4]; /* blocks */
    uint32_t num_runs, num_parts;
    struct {
        uint32_t at; /* its number */
        uint64_t src, dst, bytes;
    } run[4];
    struct {
        uint32_t at, piece;
        uint64_t bytes;
        uint32_t token; /* with which it begins */
    } part[2];
} all_runs[] = {
    {"neighbouring blocks merge", .layout = BATON_LAYOUT_KV_BLOCK, .block_tokens = {16, 16}, .tokens = 48,
     .from = {1, 2, 5}, .to = {6, 7, 0}, .num_runs = 4, .num_parts = 3, /* two for each layer */
     .run = {{0, 1 * 16 * TOKEN, 6 * 16 * TOKEN, 2 * 16 * TOKEN}, {1, 5 * 16 * TOKEN, 0, 16 * TOKEN}}},
    {"16 into 64", .layout = BATON_LAYOUT_KV_BLOCK, .block_tokens = {16, 64}, .tokens = 64, .from = {3, 1, 0, 2},
     .to = {5}, .num_runs = 2 * 4 * 16, .num_parts = 1, /* layers, blocks, heads of both planes */
     .run = {{0, 3 * 16 * TOKEN, 5 * 64 * TOKEN, 16 * 256},
             {1, 3 * 16 * TOKEN + 16 * 256, 5 * 64 * TOKEN + 64 * 256, 16 * 256},
             {16, 1 * 16 * TOKEN, 5 * 64 * TOKEN + 16 * 256, 16 * 256},
             {63, 2 * 16 * TOKEN + 15 * 16 * 256, 5 * 64 * TOKEN + 15 * 64 * 256 + 48 * 256, 16 * 256}}},
    {"64 into 16", .layout = NHD_FUSED, .block_tokens = {64, 16}, .tokens = 60, .from = {5}, .to = {3, 4, 0, 2},
     .num_runs = 2 * 3, .num_parts = 1, /* blocks 3 and 4 merge */
     .run = {{0, 5 * 64 * TOKEN, 3 * 16 * TOKEN, 32 * TOKEN},
             {1, (5 * 64 + 32) * TOKEN, 0, 16 * TOKEN},
             {2, (5 * 64 + 48) * TOKEN, 2 * 16 * TOKEN, 12 * TOKEN}}},
    {"48 into 32", .layout = NHD_FUSED, .block_tokens = {48, 32}, .tokens = 96, .from = {1, 4}, .to = {0, 7, 2},
     .num_runs = 2 * 4, .num_parts = 2,
     .run = {{0, 48 * TOKEN, 0, 32 * TOKEN},
             {1, (48 + 32) * TOKEN, 7 * 32 * TOKEN, 16 * TOKEN},
             {2, 4 * 48 * TOKEN, (7 * 32 + 16) * TOKEN, 16 * TOKEN},
             {3, (4 * 48 + 16) * TOKEN, 2 * 32 * TOKEN, 32 * TOKEN}},
     .part = {{1, 0, 48 * TOKEN, 48}}},
    {"32 into 48, which begins and ends within blocks", .layout = NHD_FUSED, .block_tokens = {32, 48}, .held = 10,
     .tokens = 90, .from = {0, 7, 2}, .to = {1, 4}, .num_runs = 2 * 4, .num_parts = 2,
     .run = {{0, 10 * TOKEN, (48 + 10) * TOKEN, 22 * TOKEN}, {3, 2 * 32 * TOKEN, (4 * 48 + 16) * TOKEN, 26 * TOKEN}},
     .part = {{0, 1, 38 * TOKEN, 0}, {1, 1, 42 * TOKEN, 38}}},
    {"neighbouring tokens stay one run however few they are", .layout = NHD_FUSED, .block_tokens = {16, 16}, .held = 3,
     .tokens = 8, .from = {2}, .to = {2}, .num_runs = 2, .num_parts = 1,
     .run = {{0, (2 * 16 + 3) * TOKEN, (2 * 16 + 3) * TOKEN, 5 * TOKEN}}},
    {"the heads of both planes and layers become one loop", .layout = BATON_LAYOUT_BLOCK_MAJOR,
     .block_tokens = {16, 16}, .held = 3, .tokens = 8, .from = {2}, .to = {2}, .num_runs = 2 * 2 * 8, .num_parts = 1,
     .run = {{31, 4 * 16 * TOKEN + 31 * 4096 + 3 * 256, 4 * 16 * TOKEN + 31 * 4096 + 3 * 256, 5 * 256}}},
};

static uint32_t blocks_for(const struct runs *e, int side)
{
    return (e->tokens + e->block_tokens[side] - 1) / e->block_tokens[side];
}

static void test_runs(void **state)
{
    const struct runs *e = *state;
    struct cache a, b;
    struct plan_transfer t;
    struct plan_cursor at = {0};
    struct plan_run runs[200];
    uint64_t bytes = 0;
    cache_init_blocks(&a, 1, 0, e->layout, e->block_tokens[0]);
    cache_init_blocks(&b, 1, 0, e->layout, e->block_tokens[1]);
    struct plan *plan = compile(&a, &b);
    begin(&t, plan, e->held, e->tokens, e->from, blocks_for(e, 0), e->to, blocks_for(e, 1));
    assert_int_equal(plan_num_pieces(plan), e->layout == BATON_LAYOUT_BLOCK_MAJOR ? 1 : LAYERS);
    assert_int_equal(plan_next(&t, &at, runs, 200, UINT64_MAX), e->num_runs);
    for (uint32_t i = 0; i < e->num_runs; i++)
        bytes += runs[i].bytes;
    assert_int_equal(bytes, LAYERS * (e->tokens - e->held) * TOKEN);
    assert_int_equal(t.bytes, bytes);
    assert_true(plan_at_end(&t, &at));
    assert_int_equal(plan_next(&t, &at, runs, 200, UINT64_MAX), 0);
    for (uint32_t i = 0; i < COUNT(e->run) && e->run[i].bytes > 0; i++)
        assert_run(&runs[e->run[i].at], e->run[i].src, e->run[i].dst, e->run[i].bytes);
    assert_int_equal(plan_num_parts(&t), e->num_parts);
    assert_int_equal(plan_part(&t, e->num_parts, 0, &at), 0);
    for (uint32_t i = 0; i < COUNT(e->part) && e->part[i].bytes > 0; i++) {
        assert_int_equal(plan_part(&t, e->part[i].at, e->part[i].piece, &at), e->part[i].bytes);
        assert_int_equal(at.token, e->part[i].token);
    }
    plan_destroy(plan);
}

/* ---- the cursor -------------------------------------------------------------------------------------------------- */

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
    begin(&t, plan, 0, 16 + 5, from, COUNT(from), to, COUNT(to));
    assert_int_equal(plan_num_parts(&t), 2);
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
    begin(&t, plan, 0, 3, from, COUNT(from), to, COUNT(to));
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
        struct plan_cursor passed = {0};
        plan_pass(&t, &passed, at_byte);
        assert_memory_equal(&passed, &fast, sizeof passed);
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
    begin(&t, plan, 0, 3 * 16 + 1, ids, COUNT(ids), ids, COUNT(ids));
    assert_int_equal(plan_skip(&t, &at, 1), unit); /* at least one unit */
    assert_int_equal(plan_skip(&t, &at, 2 * unit + 5), 2 * unit);
    assert_int_equal(plan_skip(&t, &at, unit), unit / 16); /* the tail; the next layer's block no longer fits */
    assert_int_equal(at.piece, 1);
    assert_int_equal(plan_skip(&t, &at, UINT64_MAX), 3 * unit + unit / 16);
    assert_int_equal(plan_skip(&t, &at, UINT64_MAX), 0);
    plan_destroy(plan);
}

static void test_passes_to_the_end(void **state)
{
    (void)state;
    struct cache c;
    struct plan_transfer t;
    struct plan_cursor at = {0};
    cache_init(&c, 1, 0, 0);
    struct plan *plan = compile(&c, &c);
    const uint32_t ids[] = {0, 1, 2, 3};
    begin(&t, plan, 0, 3 * 16 + 1, ids, COUNT(ids), ids, COUNT(ids));
    plan_pass(&t, &at, t.bytes - 1);
    assert_false(plan_at_end(&t, &at));
    plan_pass(&t, &at, 5);
    assert_true(plan_at_end(&t, &at));
    plan_pass(&t, &at, UINT64_MAX);
    assert_true(plan_at_end(&t, &at));
    plan_destroy(plan);
}

/* ---- units of part of a block ------------------------------------------------------------------------------------ */

static void test_few_tokens_of_hnd_into_nhd(void **state)
{
    (void)state;
    struct cache a, b;
    struct plan_transfer t;
    struct plan_cursor at = {0};
    struct plan_run runs[32];
    const uint32_t from[] = {0}, to[] = {0};
    cache_init(&a, 4, 1, BATON_LAYOUT_HND | BATON_LAYOUT_KV_BLOCK);
    cache_init(&b, 4, 1, BATON_LAYOUT_NHD | BATON_LAYOUT_KV_BLOCK);
    struct plan *plan = compile(&a, &b);
    begin(&t, plan, 0, 3, from, 1, to, 1);
    assert_int_equal(plan_next(&t, &at, runs, 32, UINT64_MAX), 2 * 2 * 3 * 2);
    for (uint32_t i = 0; i < 12; i++) {
        uint32_t plane = i / 6, token = i / 2 % 3, head = i % 2;
        assert_run(&runs[i], plane * 2 * 4096 + head * 4096 + token * 256, plane * 2 * 4096 + token * 512 + head * 256,
                   256);
    }
    plan_destroy(plan);
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* Layer 0 is a sliding window of 40 tokens, layer 1 a state: NHD, fused, so that a token is one run. */
static void hybrid_init(struct cache *l)
{
    listed_init(l, 1, 0);
    assert_int_equal(baton_geometry_layout(&l->g, l->tensors, BATON_LAYOUT_NHD | BATON_LAYOUT_KV_FUSED), 0);
    l->tensors[0].group = 1;
    l->tensors[1].group = 2;
    l->tensors[1].stride.block = TOKEN;
}

/* In whatever order tensors are listed, those of a lower layer move before those of a higher one. */
static void test_what_is_ready_comes_first(void **state)
{
    (void)state;
    struct cache l;
    struct plan_transfer t;
    struct plan_cursor at = {0};
    const uint32_t ids[] = {1};
    hybrid_init(&l);
    const baton_tensor_t first = l.tensors[0];
    l.tensors[0] = l.tensors[1]; /* the state of layer 1 stands before the window of layer 0 */
    l.tensors[1] = first;
    struct plan *plan = compile(&l, &l);
    struct plan_tables tables = {.num = 3, .table = {{0}, {ids, 1, 0}, {ids, 1, 0}}};
    struct plan_why why;
    assert_int_equal(plan_transfer_init(&t, plan, 0, 10, &tables, &tables, &why), 0);
    assert_int_equal(plan_ahead(&t, &at, 0), 0);
    assert_int_equal(plan_ahead(&t, &at, 1), 10 * TOKEN);
    assert_int_equal(plan_ahead(&t, &at, 2), 11 * TOKEN);
    plan_destroy(plan);
}

static void test_a_window_and_a_state(void **state)
{
    (void)state;
    struct cache l;
    struct plan_transfer t;
    struct plan_cursor at = {0};
    struct plan_run runs[16];
    struct plan_why why = {{0}};
    hybrid_init(&l);
    const uint64_t base = l.tensors[1].offset;
    assert_int_equal(geometry_check(&l.g, &l.g.bytes, 1, &why), 0);
    struct plan *plan = compile(&l, &l);
    const uint32_t full[] = {0, 1, 2, 3, 4, 5, 6}, late[] = {8, 9, 4, 1}, one[] = {3}, other[] = {7};
    /* of 100 tokens those from 60 to 99 move; the consumer's table begins with token 48 */
    struct plan_tables src = {.num = 3, .table = {{0}, {full, 7, 0}, {one, 1, 0}}};
    struct plan_tables dst = {.num = 3, .table = {{0}, {late, 4, 48}, {other, 1, 0}}};
    assert_int_equal(plan_transfer_init(&t, plan, 0, 100, &src, &dst, &why), 0);
    assert_int_equal(t.bytes, 41 * TOKEN);
    assert_int_equal(plan_num_parts(&t), 4 + 1);
    assert_int_equal(plan_next(&t, &at, runs, 16, UINT64_MAX), 4);
    assert_run(&runs[0], 60 * TOKEN, (8 * 16 + 12) * TOKEN, 20 * TOKEN); /* blocks 8 and 9 follow each other */
    assert_run(&runs[1], 80 * TOKEN, 4 * 16 * TOKEN, 16 * TOKEN);
    assert_run(&runs[2], 96 * TOKEN, 1 * 16 * TOKEN, 4 * TOKEN);
    assert_run(&runs[3], base + 3 * TOKEN, base + 7 * TOKEN, TOKEN);
    /* 90 are held: the last ten tokens and the state move */
    at = (struct plan_cursor){0};
    assert_int_equal(plan_transfer_init(&t, plan, 90, 100, &src, &dst, &why), 0);
    assert_int_equal(t.bytes, 11 * TOKEN);
    assert_int_equal(plan_next(&t, &at, runs, 16, UINT64_MAX), 3);
    assert_run(&runs[0], 90 * TOKEN, (4 * 16 + 10) * TOKEN, 6 * TOKEN);
    /* all are held: nothing moves, and no tables are needed */
    at = (struct plan_cursor){0};
    struct plan_tables none = {0};
    assert_int_equal(plan_transfer_init(&t, plan, 100, 100, &none, &none, &why), 0);
    assert_int_equal(t.bytes, 0);
    assert_int_equal(plan_num_parts(&t), 0);
    assert_true(plan_at_end(&t, &at));
    assert_int_equal(plan_next(&t, &at, runs, 16, UINT64_MAX), 0);
    assert_int_equal(plan_skip(&t, &at, UINT64_MAX), 0);
    /* a table that is missing or begins too late */
    assert_int_equal(plan_transfer_init(&t, plan, 0, 100, &none, &dst, &why), BATON_ETOKENS);
    dst.table[1].first_token = 64;
    assert_int_equal(plan_transfer_init(&t, plan, 0, 100, &src, &dst, &why), BATON_ETOKENS);
    assert_string_equal(why.text, "first_token is 64: the table must begin earlier");
    plan_destroy(plan);
}

/* ---- limits and cost --------------------------------------------------------------------------------------------- */

#define SHAPES 17

/* Tensors of 1, 2, ... channels, `each` of every size, one behind the other within a block. */
static void shapes_init(baton_geometry_t *g, baton_tensor_t *tensors, uint32_t shapes, uint32_t each)
{
    uint64_t offset = 0;
    *g = (baton_geometry_t){.size = sizeof(baton_geometry_t),
                            .model = "m",
                            .dtype = "x",
                            .elem_bytes = 1,
                            .planes = 1,
                            .head_size = 1,
                            .num_groups = 1,
                            .groups = {{.block_tokens = 1, .num_blocks = 3}},
                            .num_splits = 1,
                            .splits = {{.heads_total = 1, .head_count = 1}},
                            .layers_total = shapes * each,
                            .layer_count = shapes * each,
                            .num_tensors = shapes * each,
                            .tensors = tensors};
    for (uint32_t i = 0; i < shapes * each; i++) {
        tensors[i] =
            (baton_tensor_t){.layer = i, .offset = offset, .head_size = 1 + i / each, .stride = {1000, 0, 0, 0, 1}};
        snprintf(tensors[i].name, sizeof tensors[i].name, "t%u", i);
        offset += 1 + i / each;
    }
    g->bytes = 2 * 1000 + offset;
}

static void test_shapes_have_a_limit(void **state)
{
    (void)state;
    baton_geometry_t g;
    baton_tensor_t tensors[2 * SHAPES];
    struct plan_box box = {0, SHAPES, 0, 1, 0};
    struct plan_why why;
    struct plan *plan;
    shapes_init(&g, tensors, SHAPES, 1);
    assert_int_equal(geometry_check(&g, &g.bytes, 1, &why), 0);
    assert_int_equal(plan_compile(&g, &g, &box, 1, &plan, &why), BATON_EGEOMETRY);
    assert_string_equal(why.text, "the tensors have more than 16 different shapes");
    shapes_init(&g, tensors, 10, 2); /* layers are joined while the plan has room for the shapes that this makes */
    box.layer_count = 20;
    assert_int_equal(plan_compile(&g, &g, &box, 1, &plan, &why), 0);
    assert_int_equal(plan->num_shapes, 16);
    assert_int_equal(plan_num_pieces(plan), 6 + 2 * 4);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan_num_pieces(plan); i++)
        bytes += plan_token_bytes(plan, i);
    assert_int_equal(bytes, 2 * (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10));
    plan_destroy(plan);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#define COST_LAYERS 64
#define COST_TP 64
#define COST_PP 8

static void cost_init(baton_geometry_t *g, baton_tensor_t *tensors, uint32_t tp, uint32_t pp, uint32_t rank)
{
    *g = (baton_geometry_t){.size = sizeof(baton_geometry_t),
                            .model = "m",
                            .dtype = "bf16",
                            .elem_bytes = 2,
                            .planes = 2,
                            .head_size = 128,
                            .num_groups = 1,
                            .groups = {{.block_tokens = 16, .num_blocks = 1024}},
                            .num_splits = 1,
                            .splits = {{.heads_total = 64, .head_first = 64 / tp * (rank % tp), .head_count = 64 / tp}},
                            .layers_total = COST_LAYERS,
                            .layer_first = COST_LAYERS / pp * (rank / tp),
                            .layer_count = COST_LAYERS / pp};
    assert_int_equal(baton_geometry_layout(g, tensors, BATON_LAYOUT_NHD), 0);
}

/* All that one rank computes to read from an engine of 512 ranks. Returns the seconds. A plan has at most 64 KiB. */
static double cost_of(uint32_t tp, uint32_t pp, uint32_t rank, int peers)
{
    static struct plan_member members[COST_TP * COST_PP];
    static struct plan_source part[COST_TP * COST_PP];
    static struct plan *plan[COST_TP * COST_PP];
    static baton_geometry_t theirs[COST_TP * COST_PP];
    static baton_tensor_t tensors[COST_TP * COST_PP][COST_LAYERS / COST_PP];
    baton_geometry_t mine;
    baton_tensor_t own[COST_LAYERS];
    struct plan_member me = {.node = 9};
    struct plan_why why;
    for (uint32_t i = 0; i < COST_TP * COST_PP; i++) {
        cost_init(&theirs[i], tensors[i], COST_TP, COST_PP, i);
        members[i] = (struct plan_member){.node = i / 8};
        members[i].num_boxes = plan_boxes(&theirs[i], members[i].box);
    }
    cost_init(&mine, own, tp, pp, rank);
    me.num_boxes = plan_boxes(&mine, me.box);
    double began = seconds();
    int n = plan_sources(&me, rank, 1, members, COST_TP * COST_PP, part, COST_TP * COST_PP, &why);
    for (int i = 0; i < n; i++)
        assert_int_equal(plan_compile(&theirs[part[i].member], &mine, &part[i].box, 1, &plan[i], &why), 0);
    double took = seconds() - began;
    assert_int_equal(n, peers);
    for (int i = 0; i < n; i++) {
        assert_in_range(plan_footprint(plan[i]), 1, 65536);
        plan_destroy(plan[i]);
    }
    return took;
}

/* The bound is ten times the required time, since machines that run tests are busy. */
static void test_cost_against_512_ranks(void **state)
{
    (void)state;
    double some = cost_of(8, 8, 13, 8), all = cost_of(1, 1, 0, 512);
    print_message("planned in %.3f ms (8 peers), %.3f ms (512 peers)\n", 1e3 * some, 1e3 * all);
    assert_true(some < 0.05);
    assert_true(all < 0.5);
}

/* ---- no block twice ---------------------------------------------------------------------------------------------- */

static void test_a_block_that_stands_twice(void **state)
{
    (void)state;
    const baton_group_t full = {.block_tokens = 4, .num_blocks = 100};
    const baton_group_t one = {.kind = BATON_KIND_STATE, .block_tokens = 1, .num_blocks = 100};
    const uint32_t blocks[] = {7, 7, 3, 9, 3, 99};
    const baton_table_t t = {.blocks = blocks, .num_blocks = 6},
                        later = {.blocks = blocks, .num_blocks = 6, .first_token = 8};
    struct plan_why why = {{0}};
    assert_int_equal(plan_table_once(&full, &t, 0, 4, &why), 0);
    assert_int_equal(plan_table_once(&full, &t, 0, 5, &why), BATON_EINVAL);
    assert_string_equal(why.text, "block 7 stands twice, in blocks[0] and blocks[1]: name each once");
    assert_int_equal(plan_table_once(&full, &t, 4, 16, &why), 0); /* blocks of held tokens may stand twice */
    assert_int_equal(plan_table_once(&full, &t, 3, 16, &why), BATON_EINVAL);
    assert_int_equal(plan_table_once(&full, &t, 4, 24, &why), BATON_EINVAL);
    assert_string_equal(why.text, "block 3 stands twice, in blocks[2] and blocks[4]: name each once");
    assert_int_equal(plan_table_once(&full, &later, 12, 24, &why), 0); /* blocks[1] to blocks[3] */
    assert_int_equal(plan_table_once(&full, &later, 8, 16, &why), BATON_EINVAL);
    assert_int_equal(plan_table_once(&full, &t, 0, 0, &why), 0);
    assert_int_equal(plan_table_once(&one, &t, 0, 1, &why), 0);
}

static void test_any_blocks_that_stand_twice(void **state)
{
    (void)state;
    static uint32_t blocks[5000];
    uint64_t seed = 5;
    for (int round = 0; round < 400; round++) {
        uint32_t n = 1 + (uint32_t)(bytes_random(&seed) % (round % 8 == 0 ? 5000 : 60));
        uint32_t pool = n * (1 + (uint32_t)(bytes_random(&seed) % 40)), step = 1u << bytes_random(&seed) % 8;
        const uint32_t top = round % 2 == 0 ? UINT32_MAX : pool * step; /* small groups are compared by a map */
        const baton_group_t group = {.block_tokens = 1, .num_blocks = top};
        const baton_table_t t = {.blocks = blocks, .num_blocks = n};
        struct plan_why why;
        uint32_t twice = 0;
        for (uint32_t i = 0; i < n; i++)
            blocks[i] = round % 3 == 0 ? i * step : top - 1 - (uint32_t)(bytes_random(&seed) % pool) * step;
        if (round % 3 == 0) /* in any order */
            for (uint32_t i = n - 1; i > 0; i--) {
                uint32_t k = (uint32_t)(bytes_random(&seed) % (i + 1)), block = blocks[i];
                blocks[i] = blocks[k];
                blocks[k] = block;
            }
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < i; k++)
                twice += blocks[i] == blocks[k];
        assert_int_equal(plan_table_once(&group, &t, 0, n, &why), twice > 0 ? BATON_EINVAL : 0);
    }
}

int main(void)
{
    struct CMUnitTest rows[COUNT(all_runs)];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_that_stands_twice),
        cmocka_unit_test(test_any_blocks_that_stand_twice),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_layout_refuses),
        cmocka_unit_test(test_hostile_geometries),
        cmocka_unit_test(test_hostile_groups_and_splits),
        cmocka_unit_test(test_match_names_the_field),
        cmocka_unit_test(test_tensors_that_do_not_match),
        cmocka_unit_test(test_what_is_wanted),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_sources_of_unequal_tp),
        cmocka_unit_test(test_sources_among_replicas),
        cmocka_unit_test(test_an_engine_has_its_turn_by_its_name),
        cmocka_unit_test(test_too_many_cells),
        cmocka_unit_test(test_sources_by_split),
        cmocka_unit_test(test_engines_that_lack_something),
        cmocka_unit_test(test_equal_layouts_are_one_run_a_block_and_plane),
        cmocka_unit_test(test_all_layers_in_one_block_are_one_run),
        cmocka_unit_test(test_head_slices),
        cmocka_unit_test(test_hnd_to_nhd),
        cmocka_unit_test(test_tail_stops_at_the_last_token),
        cmocka_unit_test(test_resumes_at_every_byte),
        cmocka_unit_test(test_skip_counts_whole_units),
        cmocka_unit_test(test_passes_to_the_end),
        cmocka_unit_test(test_few_tokens_of_hnd_into_nhd),
        cmocka_unit_test(test_what_is_ready_comes_first),
        cmocka_unit_test(test_a_window_and_a_state),
        cmocka_unit_test(test_shapes_have_a_limit),
        cmocka_unit_test(test_cost_against_512_ranks),
    };
    for (uint32_t i = 0; i < COUNT(all_runs); i++)
        rows[i] = (struct CMUnitTest){all_runs[i].name, test_runs, NULL, NULL, (void *)&all_runs[i]};
    return cmocka_run_group_tests(tests, NULL, NULL) + cmocka_run_group_tests(rows, NULL, NULL);
}
