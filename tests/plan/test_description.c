/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cache described in JSON: what its rules give for a rank, that each bad field is named, and that garbage does
 * no harm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "description.h"
#include "plan/plan.h"

#define HEAD "\"model\": \"m\", \"dtype\": \"bf16\", \"elem_bytes\": 2, \"planes\": 2, \"head_size\": 8, "

static void parse(struct description *d, const char *text)
{
    struct why why = {""};
    if (description_parse(d, text, strlen(text), &why) != 0)
        fail_msg("%s", why.text);
}

static struct cache cache_of(const struct description *d, struct model_seat seat, uint32_t tokens)
{
    struct cache c;
    struct why why = {""};
    if (description_cache(d, &seat, tokens, &c, &why) != 0)
        fail_msg("%s", why.text);
    return c;
}

/* By default the layout is that of the library, hnd+separate+layer. */
static void default_layout_is_the_library_s(void **state)
{
    (void)state;
    struct description d;
    parse(&d, "{" HEAD "\"layers\": 3, \"heads\": 4, \"block_tokens\": 16}");
    struct cache c = cache_of(&d, (struct model_seat){2, 1, 1, 0}, 40);
    baton_tensor_t tensors[3];
    baton_geometry_t g = *c.geometry;
    g.size = sizeof g;
    assert_int_equal(g.groups[0].num_blocks, 3);
    assert_int_equal(g.splits[0].head_first, 2);
    assert_int_equal(g.splits[0].head_count, 2);
    assert_int_equal(baton_geometry_layout(&g, tensors, BATON_LAYOUT_HND), 0);
    assert_int_equal(c.geometry->bytes, g.bytes);
    assert_int_equal(c.geometry->num_tensors, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_string_equal(c.geometry->tensors[i].name, tensors[i].name);
        assert_int_equal(c.geometry->tensors[i].offset, tensors[i].offset);
        assert_memory_equal(&c.geometry->tensors[i].stride, &tensors[i].stride, sizeof tensors[i].stride);
    }
    cache_fini(&c);
    description_fini(&d);
}

/*
 * A head of a token has 8 channels of 2 bytes; blocks have 4 tokens of 3 heads; tokens are aligned to 64, blocks
 * to 1000.
 */
static void order_and_align(void **state)
{
    (void)state;
    struct description d;
    parse(&d, "{" HEAD "\"layers\": 2, \"heads\": 3, \"block_tokens\": 4, \"num_blocks\": 5,"
              "\"order\": [\"block\", \"layer\", \"plane\", \"token\", \"head\", \"channel\"],"
              "\"align\": {\"token\": 64, \"block\": 1000}}");
    struct cache c = cache_of(&d, (struct model_seat){1, 1, 0, 0}, 1);
    const baton_tensor_t *t = c.geometry->tensors;
    struct plan_why why;
    assert_int_equal(t[0].stride.channel, 2);
    assert_int_equal(t[0].stride.head, 16);
    assert_int_equal(t[0].stride.token, 64);   /* 3 x 16 = 48, rounded up */
    assert_int_equal(t[0].stride.plane, 256);  /* 4 tokens */
    assert_int_equal(t[1].offset, 512);        /* 2 planes */
    assert_int_equal(t[0].stride.block, 2000); /* 2 layers: 1024, rounded up */
    assert_int_equal(c.geometry->bytes, 10000);
    assert_int_equal(geometry_check(c.geometry, &c.geometry->bytes, 1, &why), 0);
    cache_fini(&c);
    description_fini(&d);
}

/* 3 heads over 5 ranks: heads 0, 0, 1, 1, 2; 7 over 3: 0-1, 2-3, 4-6. */
static void heads_are_cut(void **state)
{
    (void)state;
    static const uint32_t few[] = {0, 0, 1, 1, 2}, many[][2] = {{0, 2}, {2, 2}, {4, 3}};
    struct description d;
    parse(&d, "{" HEAD "\"layers\": 1, \"block_tokens\": 4, \"splits\": [{\"heads\": 3}, {\"heads\": 7},"
              "{\"heads\": 9, \"cut\": \"whole\"}], \"tensors\": [{\"name\": \"a\"}]}");
    for (uint32_t i = 0; i < 5; i++) {
        struct cache c = cache_of(&d, (struct model_seat){5, 1, i, 0}, 1);
        assert_int_equal(c.geometry->splits[0].head_first, few[i]);
        assert_int_equal(c.geometry->splits[0].head_count, 1);
        cache_fini(&c);
    }
    for (uint32_t i = 0; i < 3; i++) {
        struct cache c = cache_of(&d, (struct model_seat){3, 1, i, 0}, 1);
        assert_int_equal(c.geometry->splits[1].head_first, many[i][0]);
        assert_int_equal(c.geometry->splits[1].head_count, many[i][1]);
        assert_int_equal(c.geometry->splits[2].head_count, 9);
        cache_fini(&c);
    }
    description_fini(&d);
}

static void stages_and_layers(void **state)
{
    (void)state;
    struct description d;
    struct why why;
    struct cache c;
    parse(&d, "{" HEAD "\"layers\": 6, \"heads\": 1, \"stage_layers\": [1, 5],"
              "\"groups\": [{\"kind\": \"full\", \"block_tokens\": 16}, {\"kind\": \"state\"}], \"tensors\": ["
              "{\"name\": \"l{layer}.kv\", \"layers\": {\"first\": 1, \"step\": 2}},"
              "{\"name\": \"l{layer}.ssm\", \"layers\": [0, 2], \"group\": 1, \"elem_bytes\": 4, \"planes\": 3}]}");
    c = cache_of(&d, (struct model_seat){1, 2, 0, 1}, 33);
    assert_int_equal(c.geometry->layer_first, 1);
    assert_int_equal(c.geometry->layer_count, 5);
    assert_int_equal(c.geometry->num_tensors, 4);
    assert_string_equal(c.geometry->tensors[2].name, "l5.kv");
    assert_string_equal(c.geometry->tensors[3].name, "l2.ssm");
    assert_int_equal(c.geometry->groups[0].num_blocks, 3);
    assert_int_equal(c.geometry->groups[1].num_blocks, 1);
    cache_fini(&c);
    assert_int_equal(description_cache(&d, &(struct model_seat){1, 3, 0, 0}, 1, &c, &why), -1);
    assert_non_null(strstr(why.text, "stage_layers"));
    description_fini(&d);
}

static void bad_fields_are_named(void **state)
{
    (void)state;
#define REST "\"layers\": 4, \"heads\": 2, \"block_tokens\": 16"
#define KIND(x) "{" HEAD REST ", \"tensors\": [{\"name\": \"a{layer}\"}, {\"name\": \"b{layer}\", " x "}]}"
    static const struct {
        const char *text, *names;
    } cases[] = {
        {"", "not JSON"},
        {"[1]", "JSON object"},
        {"{}", "field \"model\" is missing"},
        {"{" HEAD REST ", \"haeds\": 2}", "field \"haeds\" is not known"},
        {"{" HEAD REST ", \"layers\": 5}", "not JSON"}, /* a field that stands twice */
        {"{" HEAD "\"layers\": 4, \"heads\": 2}", "field \"block_tokens\" is missing"},
        {"{" HEAD "\"layers\": 4, \"block_tokens\": 16}", "field \"heads\" is missing"},
        {"{" HEAD "\"layers\": 0, \"heads\": 2, \"block_tokens\": 16}", "field \"layers\""},
        {"{" HEAD "\"layers\": -1, \"heads\": 2, \"block_tokens\": 16}", "field \"layers\""},
        {"{" HEAD "\"layers\": 4.0, \"heads\": 2, \"block_tokens\": 16}", "field \"layers\""},
        {"{" HEAD "\"layers\": 99999999999999, \"heads\": 2, \"block_tokens\": 16}", "field \"layers\""},
        {"{" HEAD REST ", \"cut\": \"heads\"}", "field \"cut\" must be one of tp, whole"},
        {"{" HEAD REST ", \"stage_layers\": [1, 2]}", "field \"stage_layers\" must add up"},
        {"{" HEAD REST ", \"stage_layers\": [4, \"x\"]}", "field \"stage_layers\""},
        {"{" HEAD REST ", \"stage_layers\": []}", "field \"stage_layers\""},
        {"{" HEAD REST ", \"order\": [\"layer\"]}", "field \"order\""},
        {"{" HEAD REST ", \"order\": [\"layer\", \"layer\", \"block\", \"head\", \"token\", \"channel\"]}",
         "field \"order\""},
        {"{" HEAD REST ", \"align\": {\"heads\": 2}}", "align: field \"heads\" is not known"},
        {"{" HEAD REST ", \"align\": {\"head\": 0}}", "align: field \"head\""},
        {"{" HEAD REST ", \"groups\": [{\"kind\": \"full\"}]}", "\"block_tokens\" belongs to each of \"groups\""},
        {"{" HEAD REST ", \"splits\": [{\"heads\": 2}]}", "\"heads\" belongs to each of \"splits\""},
        {"{" HEAD "\"layers\": 4, \"heads\": 2, \"groups\": [{\"kind\": \"window\", \"block_tokens\": 16}]}",
         "groups[0]: field \"window_tokens\" is missing"},
        {"{" HEAD "\"layers\": 4, \"heads\": 2, \"groups\": [{\"kind\": \"full\", \"block_tokens\": 16}, 7]}",
         "groups[1] must be an object"},
        {"{" HEAD "\"layers\": 4, \"heads\": 2, \"groups\": [{\"kind\": \"state\", \"block_tokens\": 2}]}",
         "groups[0]: field \"block_tokens\""},
        {KIND("\"group\": 1"), "tensors[1]: field \"group\""},
        {KIND("\"split\": 1"), "tensors[1]: field \"split\""},
        {KIND("\"elem_bytes\": 3"), "tensors[1]: field \"elem_bytes\""},
        {KIND("\"layers\": [4]"), "tensors[1]: field \"layers\""},
        {KIND("\"layers\": \"all\""), "tensors[1]: field \"layers\""},
        {KIND("\"layers\": {\"from\": 1}"), "tensors[1]: layers: field \"from\" is not known"},
        {"{\"model\": 7, \"dtype\": \"bf16\"}", "field \"model\" must be a printable text of 1 to 63 bytes, and is 7"},
        {"{\"model\": \"m\", \"dtype\": \"a name of a dtype\"}", "field \"dtype\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct description d;
        struct why why = {""};
        assert_int_equal(description_parse(&d, cases[i].text, strlen(cases[i].text), &why), -1);
        if (strstr(why.text, cases[i].names) == NULL)
            fail_msg("%s\ngives: %s\nwhich does not tell: %s", cases[i].text, why.text, cases[i].names);
    }
}

static uint64_t next(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    return *x ^= *x << 17;
}

/*
 * Bytes are changed, cut out and repeated. Whatever is still a description gives a cache that geometry_check can check.
 */
static void garbage_is_survived(void **state)
{
    (void)state;
    static const char good[] =
        "{" HEAD "\"layers\": 6, \"stage_layers\": [1, 5], \"splits\": [{\"heads\": 3}, {\"heads\": 9, "
        "\"cut\": \"whole\"}], \"groups\": [{\"kind\": \"full\", \"block_tokens\": 16, \"num_blocks\": 7},"
        "{\"kind\": \"window\", \"block_tokens\": 8, \"window_tokens\": 64}, {\"kind\": \"state\"}], \"tensors\": ["
        "{\"name\": \"l{layer}.kv\", \"layers\": {\"first\": 1, \"step\": 2, \"count\": 2}, \"align\": {\"head\": 32}},"
        "{\"name\": \"l{layer}.w\", \"layers\": [0, 2], \"group\": 1, \"split\": 1, \"elem_bytes\": 4, \"order\": "
        "[\"block\", \"layer\", \"plane\", \"token\", \"head\", \"channel\"]},"
        "{\"name\": \"s{layer}\", \"group\": 2, \"planes\": 3, \"head_size\": 5}]}";
    const char digits[] = "0123456789-{}[]\",:e.";
    uint64_t seed = 1;
    unsigned whole = 0;
    for (unsigned i = 0; i < 20000; i++) {
        char text[sizeof good];
        size_t length = sizeof good - 1;
        struct description d;
        struct why why;
        struct cache c;
        struct plan_why reason;
        memcpy(text, good, sizeof good);
        for (uint64_t n = next(&seed) % 3; n < 3; n++)
            text[next(&seed) % length] =
                (char)(next(&seed) % 2 ? digits[next(&seed) % (sizeof digits - 1)] : (char)next(&seed));
        if (next(&seed) % 4 == 0)
            length = next(&seed) % length;
        if (description_parse(&d, text, length, &why) != 0)
            continue;
        whole++;
        struct model_seat seat = {2, d.num_stages ? d.num_stages : 1, 1, 0};
        if (description_cache(&d, &seat, 100, &c, &why) == 0) {
            geometry_check(c.geometry, &c.geometry->bytes, 1, &reason);
            cache_fini(&c);
        }
        description_fini(&d);
    }
    assert_true(whole > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_layout_is_the_library_s),
        cmocka_unit_test(order_and_align),
        cmocka_unit_test(heads_are_cut),
        cmocka_unit_test(stages_and_layers),
        cmocka_unit_test(bad_fields_are_named),
        cmocka_unit_test(garbage_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
