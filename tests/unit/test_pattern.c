/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pattern: fills and checks over all layouts and element sizes, against addresses and values that are computed here in
 * the plain way. Every kind of single corruption must be found and named.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "replay/pattern.h"
#include "replay/pool.h"

#define BLOCKS 24
#define TABLE 7
#define TOKENS (TABLE * 5 - 2)
#define REQUEST 1234
#define PLACE(l, p, h, t, c)                                                                                           \
    {                                                                                                                  \
        .layer = l, .plane = p, .head = h, .token = t, .channel = c                                                    \
    }

/* A model whose sizes are all different, with a head size that is no multiple of a vector. */
static const struct model small = {.name = "small", .layers = 3, .heads = 6, .head_size = 21, .planes = 2};

struct rig {
    struct model_cache cache;
    struct pattern pattern;
    unsigned char *memory;
    uint32_t blocks[TABLE];
    struct pattern_table table;
};

static void rig_init(struct rig *r, const char *dtype, unsigned layout, uint32_t tp_rank)
{
    struct why why;
    struct pool pool;
    const struct model_cut cut = {
        .model = &small, .dtype = model_dtype_find(dtype), .layers = 3, .block_tokens = 5, .layout = layout};
    const struct model_seat seat = {2, 1, tp_rank, 0};
    assert_int_equal(model_cache_init(&r->cache, &cut, &seat, BLOCKS, &why), 0);
    r->memory = malloc(r->cache.geometry.bytes);
    assert_non_null(r->memory);
    memset(r->memory, PATTERN_POISON_CONSUMER, r->cache.geometry.bytes);
    assert_int_equal(pattern_init(&r->pattern, &r->cache.geometry, r->memory, 99, &why), 0);
    assert_int_equal(pool_init(&pool, BLOCKS, 5, &why), 0);
    assert_int_equal(pool_take(&pool, r->blocks, TABLE), 0);
    pool_fini(&pool);
    r->table = (struct pattern_table){.request = REQUEST, .num_tokens = TOKENS, .group = {{r->blocks, TABLE, 0}}};
}

static void rig_fini(struct rig *r)
{
    model_cache_fini(&r->cache);
    free(r->memory);
}

/* The formula of baton.h, as it is written there. */
static unsigned char *address_of(const struct rig *r, const struct pattern_place *at)
{
    const baton_geometry_t *g = &r->cache.geometry;
    for (uint32_t i = 0; i < g->num_tensors; i++) {
        const baton_tensor_t *t = &g->tensors[i];
        const int64_t t0 = at->token / g->groups[0].block_tokens * g->groups[0].block_tokens;
        if (t->layer == at->layer)
            return r->memory + t->offset + r->blocks[at->token / g->groups[0].block_tokens] * t->stride.block +
                   at->plane * t->stride.plane + (at->head - g->splits[0].head_first) * t->stride.head +
                   (at->token - t0) * t->stride.token + at->channel * t->stride.channel;
    }
    return NULL;
}

static uint32_t element_of(const struct rig *r, const struct pattern_place *at)
{
    uint32_t value = 0;
    memcpy(&value, address_of(r, at), r->cache.geometry.elem_bytes);
    return value;
}

/* Calls `look` for every element of the request that the rank holds. Returns how many there are. */
static uint64_t for_all(struct rig *r, uint32_t tokens, void (*look)(struct rig *r, const struct pattern_place *at))
{
    const baton_geometry_t *g = &r->cache.geometry;
    uint64_t n = 0;
    struct pattern_place at = {0};
    for (at.layer = g->layer_first; at.layer < g->layer_first + g->layer_count; at.layer++)
        for (at.plane = 0; at.plane < g->planes; at.plane++)
            for (at.head = g->splits[0].head_first; at.head < g->splits[0].head_first + g->splits[0].head_count;
                 at.head++)
                for (at.token = 0; at.token < tokens; at.token++)
                    for (at.channel = 0; at.channel < g->head_size; at.channel++, n++)
                        look(r, &at);
    return n;
}

static void expect_pattern(struct rig *r, const struct pattern_place *at)
{
    assert_int_equal(element_of(r, at), pattern_value(&r->pattern, REQUEST, at));
}

static void write_poison(struct rig *r, const struct pattern_place *at)
{
    memset(address_of(r, at), PATTERN_POISON_CONSUMER, r->cache.geometry.elem_bytes);
}

static uint64_t foreign_bytes(const struct rig *r)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < r->cache.geometry.bytes; i++)
        n += r->memory[i] != PATTERN_POISON_CONSUMER;
    return n;
}

static void fill_and_verify(const char *dtype, unsigned layout)
{
    struct rig r;
    struct pattern_result result = {0}, tail = {0};
    rig_init(&r, dtype, layout, 1);
    pattern_fill(&r.pattern, &r.table);
    pattern_verify(&r.pattern, &r.table, &result);
    pattern_verify_rest(&r.pattern, &r.table, PATTERN_POISON_CONSUMER, &tail);
    assert_int_equal(result.mismatches, 0);
    assert_int_equal(tail.mismatches, 0);
    assert_int_equal(for_all(&r, TOKENS, expect_pattern), 3 * 2 * 3 * TOKENS * 21);
    /* once the request's elements are poison again, all must be poison */
    for_all(&r, TOKENS, write_poison);
    assert_int_equal(foreign_bytes(&r), 0);
    rig_fini(&r);
}

static const char *const dtypes[] = {"fp8", "bf16", "fp32"};
static const unsigned layouts[] = {0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13};
#define LAYOUTS (sizeof layouts / sizeof layouts[0])

static void round_trips(void **state)
{
    (void)state;
    for (size_t d = 0; d < 3; d++)
        for (size_t i = 0; i < LAYOUTS; i++)
            fill_and_verify(dtypes[d], layouts[i]);
}

/* Both sides compute the same value, whatever their geometries: it depends only on the place. */
static void value_is_of_the_place(void **state)
{
    (void)state;
    struct rig a, b;
    const struct pattern_place at = PLACE(2, 1, 4, 17, 20);
    rig_init(&a, "bf16", 0, 1);
    rig_init(&b, "bf16", BATON_LAYOUT_NHD | BATON_LAYOUT_BLOCK_MAJOR, 0);
    assert_int_equal(pattern_value(&a.pattern, REQUEST, &at), pattern_value(&b.pattern, REQUEST, &at));
    rig_fini(&a);
    rig_fini(&b);
}

/* All channels of a row differ, so that swapped ones are found. */
static void channels_of_a_row_differ(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, "fp8", 0, 0);
    for (uint32_t token = 0; token < TOKENS; token++) {
        struct pattern_place a = PLACE(0, 0, 0, token, 0), b = a;
        for (a.channel = 0; a.channel < 128; a.channel++)
            for (b.channel = a.channel + 1; b.channel < 128; b.channel++)
                assert_int_not_equal(pattern_value(&r.pattern, REQUEST, &a), pattern_value(&r.pattern, REQUEST, &b));
    }
    rig_fini(&r);
}

/* ---- corruption -------------------------------------------------------------------------------------------------- */

static void assert_place(const struct pattern_place *found, const struct pattern_place *expected)
{
    assert_int_equal(found->layer, expected->layer);
    assert_int_equal(found->plane, expected->plane);
    assert_int_equal(found->head, expected->head);
    assert_int_equal(found->token, expected->token);
    assert_int_equal(found->channel, expected->channel);
}

/* Every bit of some elements at either end of every dimension, one at a time. */
static void flip_bits(struct rig *r, const struct pattern_place *at)
{
    const baton_geometry_t *g = &r->cache.geometry;
    for (uint32_t bit = 0; bit < 8 * g->elem_bytes; bit++) {
        struct pattern_result result = {0};
        char words[96];
        unsigned char *byte = address_of(r, at) + bit / 8;
        *byte ^= (unsigned char)(1u << bit % 8);
        pattern_verify(&r->pattern, &r->table, &result);
        assert_int_equal(result.mismatches, 1);
        assert_place(&result.first.place, at);
        assert_int_equal(result.first.block, r->blocks[at->token / g->groups[0].block_tokens]);
        assert_int_equal(result.first.expected, pattern_value(&r->pattern, REQUEST, at));
        assert_int_equal(result.first.found, result.first.expected ^ 1u << bit);
        pattern_explain(&r->pattern, &r->table, &result.first, REQUEST - 2, 5, words, sizeof words);
        if (g->elem_bytes > 1) /* a byte with one bit wrong may be a poison byte */
            assert_string_equal(words, "one bit differs");
        *byte ^= (unsigned char)(1u << bit % 8);
    }
}

static void single_bits_are_found(void **state)
{
    (void)state;
    static const struct pattern_place places[] = {PLACE(0, 0, 3, 0, 0), PLACE(2, 1, 5, TOKENS - 1, 20),
                                                  PLACE(1, 0, 4, 16, 15), PLACE(1, 1, 3, 4, 16)};
    for (size_t d = 0; d < 3; d++) {
        for (size_t i = 0; i < LAYOUTS; i++) {
            struct rig r;
            rig_init(&r, dtypes[d], layouts[i], 1);
            pattern_fill(&r.pattern, &r.table);
            for (size_t p = 0; p < sizeof places / sizeof places[0]; p++)
                flip_bits(&r, &places[p]);
            rig_fini(&r);
        }
    }
}

/* Copies the row of one place over that of another. */
static void copy_row(struct rig *r, struct pattern_place to, struct pattern_place from)
{
    memcpy(address_of(r, &to), address_of(r, &from),
           (size_t)r->cache.geometry.head_size * r->cache.geometry.elem_bytes);
}

static void expect_row(const struct pattern_place *to, const struct pattern_place *from, const char *explanation)
{
    struct rig r;
    struct pattern_result result = {0};
    char words[96];
    rig_init(&r, "bf16", BATON_LAYOUT_NHD, 1);
    pattern_fill(&r.pattern, &r.table);
    copy_row(&r, *to, *from);
    pattern_verify(&r.pattern, &r.table, &result);
    assert_int_equal(result.mismatches, r.cache.geometry.head_size);
    assert_place(&result.first.place, to);
    pattern_explain(&r.pattern, &r.table, &result.first, REQUEST - 2, 5, words, sizeof words);
    assert_string_equal(words, explanation);
    rig_fini(&r);
}

static void misplaced_rows_are_found(void **state)
{
    (void)state;
    const struct pattern_place at = PLACE(1, 0, 4, 11, 0);
    const struct pattern_place head = PLACE(1, 0, 3, 11, 0), token = PLACE(1, 0, 4, 12, 0),
                               plane = PLACE(1, 1, 4, 11, 0), layer = PLACE(2, 0, 4, 11, 0);
    expect_row(&at, &head, "this is head 3 of the same token");
    expect_row(&at, &token, "this is token 12 of the same head");
    expect_row(&at, &plane, "this is layer 1, plane 1 of the same token");
    expect_row(&at, &layer, "this is layer 2, plane 0 of the same token");
}

static void swapped_heads_are_found(void **state)
{
    (void)state;
    struct rig r;
    struct pattern_result result = {0};
    const struct pattern_place first = PLACE(2, 0, 3, 8, 0);
    rig_init(&r, "bf16", 0, 1);
    pattern_fill(&r.pattern, &r.table);
    pattern_fill_head(&r.pattern, &r.table, 2, 3, 5, 8, 12);
    pattern_fill_head(&r.pattern, &r.table, 2, 5, 3, 8, 12);
    pattern_verify(&r.pattern, &r.table, &result);
    assert_int_equal(result.mismatches, 2 * 2 * 4 * 21);
    assert_place(&result.first.place, &first);
    rig_fini(&r);
}

static void another_request_is_found(void **state)
{
    (void)state;
    for (size_t d = 0; d < 3; d++) {
        struct rig r;
        struct pattern_result result = {0};
        char words[96];
        rig_init(&r, dtypes[d], BATON_LAYOUT_KV_FUSED, 0);
        struct pattern_table other = r.table;
        other.request = REQUEST + 2;
        pattern_fill(&r.pattern, &other);
        pattern_verify(&r.pattern, &r.table, &result);
        assert_true(result.mismatches > 3 * 2 * 3 * TOKENS * 21 * 9 / 10);
        pattern_explain(&r.pattern, &r.table, &result.first, REQUEST - 2, 5, words, sizeof words);
        assert_string_equal(words, "this is what request 4 has there");
        rig_fini(&r);
    }
}

static void missing_tail_is_found(void **state)
{
    (void)state;
    struct rig r;
    struct pattern_result result = {0};
    char words[96];
    const struct pattern_place first = PLACE(0, 0, 3, TOKENS - 2, 0);
    rig_init(&r, "bf16", 0, 1);
    pattern_fill(&r.pattern, &r.table);
    pattern_poison(&r.pattern, &r.table, TOKENS - 2, PATTERN_POISON_PRODUCER);
    pattern_verify(&r.pattern, &r.table, &result);
    assert_int_equal(result.mismatches, 3 * 2 * 3 * 2 * 21);
    assert_place(&result.first.place, &first);
    assert_int_equal(result.first.found, 0xa5a5);
    pattern_explain(&r.pattern, &r.table, &result.first, 0, 0, words, sizeof words);
    assert_non_null(strstr(words, "the producer's poison"));
    rig_fini(&r);
}

/* Changes one byte behind the last token, and one in a free block. */
static void touched_poison_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < LAYOUTS; i++) {
        struct rig r;
        struct pattern_result data = {0}, tail = {0}, all = {0};
        const struct pattern_place at = PLACE(1, 1, 4, TOKENS + 1, 7);
        rig_init(&r, "bf16", layouts[i], 1);
        pattern_verify_poison(&r.pattern, &r.table, PATTERN_POISON_CONSUMER, &all);
        assert_int_equal(all.mismatches, 0);
        pattern_fill(&r.pattern, &r.table);
        address_of(&r, &at)[1] ^= 0x80;
        pattern_verify(&r.pattern, &r.table, &data);
        assert_int_equal(data.mismatches, 0);
        pattern_verify_rest(&r.pattern, &r.table, PATTERN_POISON_CONSUMER, &tail);
        assert_int_equal(tail.mismatches, 1);
        assert_place(&tail.first.place, &at);
        assert_int_equal(tail.first.expected, 0x5b5b);
        assert_int_equal(tail.first.found, 0xdb5b);
        pattern_poison(&r.pattern, &r.table, 0, PATTERN_POISON_CONSUMER);
        assert_int_equal(foreign_bytes(&r), 0);
        rig_fini(&r);
    }
}

/* A whole row of one other byte, such as zeros. */
static void uniform_rows_are_no_poison(void **state)
{
    (void)state;
    struct rig r;
    struct pattern_result result = {0};
    const struct pattern_place at = PLACE(1, 1, 4, TOKENS, 0);
    rig_init(&r, "bf16", 0, 1);
    memset(address_of(&r, &at), 0, 2 * 21);
    pattern_verify_rest(&r.pattern, &r.table, PATTERN_POISON_CONSUMER, &result);
    assert_int_equal(result.mismatches, 21);
    assert_place(&result.first.place, &at);
    rig_fini(&r);
}

static void address_is_the_formula(void **state)
{
    (void)state;
    struct rig r;
    const struct pattern_place at = PLACE(2, 1, 5, 23, 19);
    for (size_t i = 0; i < LAYOUTS; i++) {
        rig_init(&r, "fp32", layouts[i], 1);
        assert_ptr_equal(pattern_address(&r.pattern, &r.table, &at), address_of(&r, &at));
        rig_fini(&r);
    }
}

static void caches_of_unknown_form_are_refused(void **state)
{
    (void)state;
    struct rig r;
    struct why why;
    struct pattern p;
    rig_init(&r, "bf16", 0, 0);
    r.cache.tensors[1].stride.channel = 4;
    assert_int_equal(pattern_init(&p, &r.cache.geometry, r.memory, 1, &why), -1);
    assert_non_null(strstr(why.text, "layer.1"));
    r.cache.tensors[1].stride.channel = 2;
    r.cache.tensors[2].stride.token += 1;
    assert_int_equal(pattern_init(&p, &r.cache.geometry, r.memory, 1, &why), -1);
    r.cache.tensors[2].stride.token -= 1;
    r.cache.geometry.elem_bytes = 8;
    for (uint32_t i = 0; i < 3; i++)
        r.cache.tensors[i].stride.channel = 8;
    assert_int_equal(pattern_init(&p, &r.cache.geometry, r.memory, 1, &why), -1);
    rig_fini(&r);
}

/* ---- groups, splits, parts of a request ------------------------------------------------------------------------- */

/* Full attention, windows and Mamba layers in one model whose sizes are all different. */
static const struct model mixed = {.name = "mixed",
                                   .layers = 4,
                                   .heads = 4,
                                   .head_size = 5,
                                   .planes = 2,
                                   .pattern = "wM*-",
                                   .window_tokens = 9,
                                   .mamba = {.heads = 6, .head_size = 3, .groups = 2, .state_size = 7, .positions = 3}};

static const baton_table_t group_tables[] = {{(const uint32_t[]){6, 1, 7, 0, 2, 4, 3}, 7, 0},
                                             {(const uint32_t[]){2, 5, 0}, 3, 20},
                                             {(const uint32_t[]){1}, 1, 0}};

static void mixed_init(struct rig *r, uint32_t held)
{
    struct why why;
    const struct model_cut cut = {.model = &mixed,
                                  .dtype = model_dtype_find("bf16"),
                                  .layers = 4,
                                  .block_tokens = 5,
                                  .layout = BATON_LAYOUT_NHD,
                                  .group_blocks = {0, 6, 2}};
    const struct model_seat seat = {2, 1, 1, 0};
    assert_int_equal(model_cache_init(&r->cache, &cut, &seat, 8, &why), 0);
    r->memory = malloc(r->cache.geometry.bytes);
    assert_non_null(r->memory);
    memset(r->memory, PATTERN_POISON_CONSUMER, r->cache.geometry.bytes);
    assert_int_equal(pattern_init(&r->pattern, &r->cache.geometry, r->memory, 99, &why), 0);
    r->table = (struct pattern_table){.request = REQUEST, .num_tokens = TOKENS, .held = held};
    memcpy(r->table.group, group_tables, sizeof group_tables);
}

/* Which token of the request lies at token `t` of block `b` of the tensor; -1: none, or none that is wanted. */
static int64_t token_of(const struct rig *r, const struct model_extent *x, const baton_tensor_t *tensor, uint32_t b,
                        uint32_t t)
{
    const baton_table_t *table = &r->table.group[tensor->group];
    for (uint32_t i = 0; i < table->num_blocks; i++) {
        if (table->blocks[i] != b)
            continue;
        const int64_t token = (int64_t)table->first_token + i * x->group.block_tokens + t;
        if (x->group.kind == BATON_KIND_STATE)
            return r->table.held < TOKENS ? 0 : -1;
        const bool seen = x->group.kind == BATON_KIND_FULL || token >= TOKENS - 9;
        return token >= r->table.held && token < TOKENS && seen ? token : -1;
    }
    return -1;
}

/* Calls `look` for each element of the rank's cache, with its token of the request or -1. */
static void for_cache(struct rig *r, void (*look)(struct rig *r, unsigned char *at, const struct pattern_place *place,
                                                  uint32_t elem_bytes, bool wanted))
{
    const baton_geometry_t *g = &r->cache.geometry;
    for (uint32_t i = 0; i < g->num_tensors; i++) {
        const baton_tensor_t *tensor = &g->tensors[i];
        const struct model_extent x = model_extent(g, tensor);
        const baton_strides_t *s = &tensor->stride;
        for (uint32_t b = 0; b < x.group.num_blocks; b++)
            for (uint32_t p = 0; p < x.planes; p++)
                for (uint32_t h = 0; h < x.split.head_count; h++)
                    for (uint32_t t = 0; t < x.group.block_tokens; t++)
                        for (uint32_t c = 0; c < x.head_size; c++) {
                            const int64_t token = token_of(r, &x, tensor, b, t);
                            const struct pattern_place place = {.layer = tensor->layer,
                                                                .plane = p,
                                                                .head = x.split.head_first + h,
                                                                .token = token >= 0 ? (uint32_t)token : 0,
                                                                .channel = c,
                                                                .part = pattern_part(tensor->name)};
                            look(r,
                                 r->memory + tensor->offset + b * s->block + p * s->plane + h * s->head + t * s->token +
                                     c * s->channel,
                                 &place, x.elem_bytes, token >= 0);
                        }
    }
}

static uint64_t wanted_bytes;

static void write_wanted(struct rig *r, unsigned char *at, const struct pattern_place *place, uint32_t elem_bytes,
                         bool wanted)
{
    const uint32_t value = pattern_value(&r->pattern, REQUEST, place);
    if (wanted)
        memcpy(at, &value, elem_bytes);
    wanted_bytes += wanted ? elem_bytes : 0;
}

static struct pattern_result check(const struct rig *r)
{
    struct pattern_result result = {0};
    pattern_verify(&r->pattern, &r->table, &result);
    pattern_verify_rest(&r->pattern, &r->table, PATTERN_POISON_CONSUMER, &result);
    return result;
}

/* The check expects exactly what the plain loops write, however many tokens are held. */
static void groups_hold_what_is_wanted(void **state)
{
    (void)state;
    static const uint32_t helds[] = {0, 1, 5, 24, 26, TOKENS - 1, TOKENS};
    for (size_t i = 0; i < sizeof helds / sizeof helds[0]; i++) {
        struct rig r;
        mixed_init(&r, helds[i]);
        wanted_bytes = 0;
        assert_int_equal(check(&r).mismatches > 0, helds[i] < TOKENS);
        for_cache(&r, write_wanted);
        assert_int_equal(check(&r).mismatches, 0);
        assert_int_equal(wanted_bytes, model_wanted_bytes(&r.cache.geometry, helds[i], TOKENS));
        rig_fini(&r);
    }
}

static uint64_t flips_found, flips_passed;

/*
 * Each element of the cache is made wrong, one at a time: this is found, except in blocks that are not the request's.
 */
static void flip_one(struct rig *r, unsigned char *at, const struct pattern_place *place, uint32_t elem_bytes,
                     bool wanted)
{
    (void)elem_bytes;
    *at ^= 1;
    const struct pattern_result result = check(r);
    *at ^= 1;
    if (wanted) {
        assert_int_equal(result.mismatches, 1);
        assert_int_equal(result.first.place.part, place->part);
        assert_place(&result.first.place, place);
    }
    flips_found += result.mismatches;
    flips_passed += result.mismatches == 0;
}

static void every_element_of_groups_is_checked(void **state)
{
    (void)state;
    struct rig r;
    mixed_init(&r, 26);
    for_cache(&r, write_wanted);
    flips_found = flips_passed = 0;
    for_cache(&r, flip_one);
    /* the request has 7 of the 8 blocks of full attention, 3 of the 6 of the window, and 1 of the 2 states */
    const uint64_t block = 5 * 2 * 2 * 5, state_elements = 3 * (3 * 3 + 2 * 7) + 3 * 3 * 7;
    assert_int_equal(flips_found, 7 * block + 3 * block + state_elements);
    assert_int_equal(flips_passed, 1 * block + 3 * block + state_elements);
    rig_fini(&r);
}

static void parts_of_a_layer_differ(void **state)
{
    (void)state;
    assert_int_equal(pattern_part("layer.7"), 0);
    static const char *const names[] = {"layer.7.x", "layer.7.B", "layer.7.C", "layer.7.ssm", "layer.7"};
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(pattern_part(names[i]), pattern_part(names[k]));
    assert_int_equal(pattern_part("layer.7.x"), pattern_part("layer.12.x"));
}

typedef void verifier(const struct pattern *p, const struct pattern_table *t, unsigned char poison,
                      struct pattern_result *out);

static void verify_wanted(const struct pattern *p, const struct pattern_table *t, unsigned char poison,
                          struct pattern_result *out)
{
    (void)poison;
    pattern_verify(p, t, out);
}

/* Tokens [first, first + count) of a layer; to the table's end if these are the last. */
static struct pattern_piece piece(const struct rig *r, uint32_t layer, uint32_t first, uint32_t count)
{
    const uint32_t end = first + count;
    return (struct pattern_piece){{layer, layer + 1}, {first, end < r->table.num_tokens ? end : UINT32_MAX}};
}

/* A cache that holds none of what is looked for: the pieces together have as many wrong elements as the whole. */
static void pieces_have_each_element_once(void **state)
{
    (void)state;
    static verifier *const verifiers[] = {verify_wanted, pattern_verify_rest, pattern_verify_poison};
    for (uint32_t count = 1; count < 40; count++) {
        struct rig r;
        struct pattern_result whole[3] = {{0}}, parts[3] = {{0}};
        mixed_init(&r, 0);
        for (unsigned v = 0; v < 3; v++)
            verifiers[v](&r.pattern, &r.table, 0, &whole[v]);
        pattern_fill(&r.pattern, &r.table);
        for (uint32_t layer = 0; layer < r.cache.geometry.layers_total; layer++)
            for (uint32_t first = 0; first < r.table.num_tokens; first += count) {
                struct pattern_table t = r.table;
                t.only = piece(&r, layer, first, count);
                pattern_poison(&r.pattern, &t, 0, PATTERN_POISON_CONSUMER);
                for (unsigned v = 0; v < 3; v++)
                    verifiers[v](&r.pattern, &t, 0, &parts[v]);
            }
        for (unsigned v = 0; v < 3; v++) {
            assert_true(whole[v].mismatches > 0);
            assert_int_equal(parts[v].mismatches, whole[v].mismatches);
        }
        assert_int_equal(foreign_bytes(&r), 0);
        rig_fini(&r);
    }
}

/* The producer's window begins within a block, and the producer has that block's earlier tokens too. */
static void groups_are_filled_from_their_first_block(void **state)
{
    (void)state;
    struct rig r;
    mixed_init(&r, 0);
    pattern_fill(&r.pattern, &r.table);
    struct pattern_result result = {0}, rest = {0};
    pattern_verify(&r.pattern, &r.table, &result);
    assert_int_equal(result.mismatches, 0);
    pattern_verify_rest(&r.pattern, &r.table, PATTERN_POISON_CONSUMER, &rest);
    assert_int_equal(rest.mismatches, 4 * 2 * 2 * 5); /* tokens 20 to 23 of the window's layer */
    pattern_poison(&r.pattern, &r.table, 0, PATTERN_POISON_CONSUMER);
    assert_int_equal(foreign_bytes(&r), 0);
    rig_fini(&r);
}

/*
 * Whatever the steps are, the end is the same. Each step touches only its own layers and tokens, and states only the
 * last step.
 */
static void steps_fill_the_same(void **state)
{
    (void)state;
    static const uint32_t ends[] = {0, 7, 22, TOKENS};
    struct rig whole, steps;
    mixed_init(&whole, 0);
    mixed_init(&steps, 0);
    pattern_fill(&whole.pattern, &whole.table);
    for (unsigned i = 1; i < 4; i++)
        for (uint32_t layer = 0; layer < 4; layer++) {
            struct rig *r = &steps;
            unsigned char *former = malloc(r->cache.geometry.bytes);
            assert_non_null(former);
            memcpy(former, r->memory, r->cache.geometry.bytes);
            pattern_fill_some(&r->pattern, &r->table, (struct model_span){layer, layer + 1},
                              (struct model_span){ends[i - 1], ends[i]});
            const bool is_window = layer == 0, is_state = layer == 1, is_none = layer == 3;
            const bool changes = is_window ? ends[i] > 20 : is_state ? ends[i] == TOKENS : !is_none;
            assert_int_equal(memcmp(former, r->memory, r->cache.geometry.bytes) != 0, changes);
            free(former);
        }
    assert_memory_equal(steps.memory, whole.memory, whole.cache.geometry.bytes);
    rig_fini(&whole);
    rig_fini(&steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(value_is_of_the_place),
        cmocka_unit_test(address_is_the_formula),
        cmocka_unit_test(channels_of_a_row_differ),
        cmocka_unit_test(single_bits_are_found),
        cmocka_unit_test(misplaced_rows_are_found),
        cmocka_unit_test(swapped_heads_are_found),
        cmocka_unit_test(another_request_is_found),
        cmocka_unit_test(missing_tail_is_found),
        cmocka_unit_test(touched_poison_is_found),
        cmocka_unit_test(uniform_rows_are_no_poison),
        cmocka_unit_test(caches_of_unknown_form_are_refused),
        cmocka_unit_test(groups_hold_what_is_wanted),
        cmocka_unit_test(every_element_of_groups_is_checked),
        cmocka_unit_test(parts_of_a_layer_differ),
        cmocka_unit_test(pieces_have_each_element_once),
        cmocka_unit_test(groups_are_filled_from_their_first_block),
        cmocka_unit_test(steps_fill_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
