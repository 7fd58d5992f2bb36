/* SPDX-License-Identifier: BSD-3-Clause */
/* options: what each word sets, and that a bad word is refused with its name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/cut.h"
#include "replay/options.h"
#include "replay/trace.h"
#include "unit/with_line.h"

static struct line line;

static int read_line(const char *text, struct options *o, struct why *why)
{
    line_set(&line, text);
    why->text[0] = '\0';
    return options_read(o, line.argc, line.argv, why);
}

static struct options good(const char *text)
{
    struct why why;
    struct options o;
    if (read_line(text, &o, &why) != 0)
        fail_msg("\"%s\": %s", text, why.text);
    return o;
}

static void presets(void **state)
{
    (void)state;
    const struct options o = good("");
    assert_null(o.trace);
    assert_int_equal(o.requests, TRACE_DEFAULT_REQUESTS);
    assert_false(o.requests_given);
    assert_string_equal(o.cut[SIDE_PREFILL].model->name, "llama3-8b");
    assert_string_equal(o.cut[SIDE_DECODE].dtype->name, "bf16");
    assert_int_equal(o.cut[SIDE_DECODE].layers, 2);
    assert_int_equal(o.cut[SIDE_DECODE].block_tokens, 16);
    assert_int_equal(o.cut[SIDE_PREFILL].layout, 0);
    assert_int_equal(o.inflight, 8);
    assert_int_equal(o.timeout_ms, 60000);
    assert_true(o.speeds.count == 1 && o.speeds.x[0] == 0 && o.held == 0);
    assert_false(o.busy || o.help);
    assert_int_equal(o.require_path, BATON_PATH_NONE);
    assert_int_equal(o.sabotage, SABOTAGE_NONE);
    assert_int_equal(o.progress, BATON_PROGRESS_AUTO);
}

static void every_word(void **state)
{
    (void)state;
    const struct options o = good("--trace f.jsonl --requests 7 --model qwen3-32b --layers 64 --dtype fp8 --pool 3M "
                                  "--inflight 2 --speed 1.5 --require-path rma --sabotage stale --json=o.json");
    assert_string_equal(o.trace, "f.jsonl");
    assert_int_equal(o.requests, 7);
    assert_true(o.requests_given);
    assert_string_equal(o.cut[SIDE_DECODE].model->name, "qwen3-32b");
    assert_int_equal(o.cut[SIDE_DECODE].layers, 64);
    assert_int_equal(o.cut[SIDE_PREFILL].dtype->bytes, 1);
    assert_int_equal(o.pool_bytes, 3 << 20);
    assert_int_equal(o.inflight, 2);
    assert_true(o.speeds.count == 1 && o.speeds.x[0] == 1.5);
    assert_int_equal(o.require_path, BATON_PATH_RMA);
    assert_int_equal(o.sabotage, SABOTAGE_STALE);
    assert_string_equal(o.json, "o.json");
    const struct options p = good("--busy --timeout-ms 5 --seed 18446744073709551615 --help --block-tokens 64 "
                                  "--require-path shm --progress caller");
    assert_true(p.busy && p.help);
    assert_int_equal(p.timeout_ms, 5);
    assert_true(p.seed == UINT64_MAX);
    assert_int_equal(p.cut[SIDE_DECODE].block_tokens, 64);
    assert_int_equal(p.require_path, BATON_PATH_SHM);
    assert_int_equal(p.progress, BATON_PROGRESS_CALLER);
    assert_int_equal(good("--trace f").requests, 100);
}

static void layouts_of_two_sides(void **state)
{
    (void)state;
    const struct options one = good("--layout nhd --kv fused --order block --model llama3-70b");
    assert_int_equal(one.cut[SIDE_PREFILL].layout, BATON_LAYOUT_NHD | BATON_LAYOUT_KV_FUSED | BATON_LAYOUT_BLOCK_MAJOR);
    assert_int_equal(one.cut[SIDE_DECODE].layout, one.cut[SIDE_PREFILL].layout);
    const struct options two = good("--kv fused:block --layout hnd:nhd --order block:layer --kv separate:block");
    assert_int_equal(two.cut[SIDE_PREFILL].layout, BATON_LAYOUT_BLOCK_MAJOR);
    assert_int_equal(two.cut[SIDE_DECODE].layout, BATON_LAYOUT_NHD | BATON_LAYOUT_KV_BLOCK);
    assert_int_equal(two.cut[SIDE_DECODE].layers, 2);
}

static void block_tokens_of_two_sides(void **state)
{
    (void)state;
    const struct options o = good("--block-tokens 16:64 --held 0.25");
    assert_int_equal(o.cut[SIDE_PREFILL].block_tokens, 16);
    assert_int_equal(o.cut[SIDE_DECODE].block_tokens, 64);
    assert_true(o.held == 0.25);
    assert_int_equal(good("--block-tokens 48").cut[SIDE_PREFILL].block_tokens, 48);
}

/* The least number of layers that has each kind of layer among them. */
static void layers_of_hybrids(void **state)
{
    (void)state;
    assert_int_equal(good("--model deepseek-v3").cut[SIDE_DECODE].layers, 2);
    assert_int_equal(good("--model gpt-oss-120b").cut[SIDE_DECODE].layers, 2);
    assert_int_equal(good("--model nemotron-h-8b").cut[SIDE_DECODE].layers, 8);
    assert_int_equal(good("--model nemotron-h-8b --layers 52").cut[SIDE_DECODE].layers, 52);
}

static void streams(void **state)
{
    (void)state;
    assert_int_equal(good("").stream, 0);
    assert_int_equal(good("--stream layers").stream, BATON_OFFER_LAYERS);
    assert_int_equal(good("--stream chunks").stream, BATON_OFFER_CHUNKS);
    const struct options preset = good("--stream both");
    assert_int_equal(preset.stream, BATON_OFFER_LAYERS | BATON_OFFER_CHUNKS);
    assert_int_equal(preset.chunk_tokens, 512);
    assert_int_equal(preset.prefill_tokens_per_s, 20000);
    const struct options o = good("--prefill-tokens-per-s 7000 --chunk-tokens 100 --stream chunks --sabotage late");
    assert_int_equal(o.chunk_tokens, 100);
    assert_int_equal(o.prefill_tokens_per_s, 7000);
    assert_int_equal(o.sabotage, SABOTAGE_LATE);
    assert_string_equal(options_stream_name(o.stream), "chunks");
}

static void speeds(void **state)
{
    (void)state;
    const struct options o = good("--speed 1,0.5,1e6,0.000001 --deadline-ms 20 --trace f --prefix-cache 64K");
    assert_int_equal(o.speeds.count, 4);
    assert_true(o.speeds.x[0] == 1 && o.speeds.x[1] == 0.5 && o.speeds.x[2] == 1e6 && o.speeds.x[3] == 1e-6);
    assert_int_equal(o.deadline_ms, 20);
    assert_int_equal(o.cache_tokens, 65536);
    assert_int_equal(good("--speed 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1").speeds.count, SPEEDS_MAX);
    assert_true(good("--busy --speed 2").speeds.x[0] == 2);
}

static void names(void **state)
{
    (void)state;
    char text[32];
    assert_string_equal(cut_layout_name(0, text), "hnd+separate+layer");
    assert_string_equal(cut_layout_name(BATON_LAYOUT_NHD | BATON_LAYOUT_KV_FUSED | BATON_LAYOUT_BLOCK_MAJOR, text),
                        "nhd+fused+block");
    assert_string_equal(options_sabotage_name(SABOTAGE_SHORT), "short");
    assert_string_equal(options_path_name(BATON_PATH_RMA), "rma");
    assert_string_equal(options_progress_name(BATON_PROGRESS_CALLER), "caller");
}

static void bad_words_are_named(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"--nope", "\"--nope\""},
        {"-x", "\"-x\""},
        {"--busy=1", "--busy"},
        {"--trace", "\"--trace\" lacks"},
        {"file.jsonl", "\"file.jsonl\" is not an option"},
        {"--busy file.jsonl --busy", "\"file.jsonl\""},
        {"--requests 0", "--requests must be"},
        {"--requests 1000001", "--requests must be"},
        {"--requests 1x", "\"1x\""},
        {"--requests -1", "\"-1\""},
        {"--model gpt", "--model must be one of llama3-8b"},
        {"--dtype int4", "--dtype"},
        {"--layers 0", "--layers"},
        {"--layers 33", "--layers is 33, and llama3-8b has 32"},
        {"--layers 80 --model qwen3-32b", "qwen3-32b has 64"},
        {"--layers 7 --model nemotron-h-8b", "only the first 8 layers of nemotron-h-8b"},
        {"--layers 1 --model gpt-oss-120b", "only the first 2 layers of gpt-oss-120b"},
        {"--block-tokens 0", "--block-tokens"},
        {"--block-tokens 16:", "--block-tokens"},
        {"--block-tokens 16:0", "--block-tokens"},
        {"--block-tokens 16:16:16", "--block-tokens"},
        {"--held 1.5", "--held must be a number from 0 to 1"},
        {"--held -1", "--held"},
        {"--held nan", "--held"},
        {"--held 0.5x", "--held"},
        {"--layout hdn", "--layout must be one of hnd, nhd, and is \"hdn\""},
        {"--layout hnd:", "--layout"},
        {"--layout :nhd", "--layout"},
        {"--layout hnd:nhd:hnd", "--layout"},
        {"--kv both", "--kv must be one of separate, block, fused"},
        {"--order none", "--order"},
        {"--pool 12T", "--pool"},
        {"--pool 0", "--pool"},
        {"--pool 1KB", "--pool"},
        {"--pool 99999999999999G", "--pool"},
        {"--inflight 0", "--inflight"},
        {"--speed -1", "--speed"},
        {"--speed fast", "--speed"},
        {"--speed nan", "--speed"},
        {"--speed inf", "--speed"},
        {"--speed 1,", "--speed must be"},
        {"--speed ,1", "--speed must be"},
        {"--speed 1,,2", "--speed must be"},
        {"--speed 1;2", "--speed must be"},
        {"--speed 1,0", "--speed 0 is a run as fast as possible"},
        {"--speed 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "more than 16 numbers"},
        {"--speed 1,2 --busy", "--busy takes one --speed"},
        {"--deadline-ms 5", "--deadline-ms needs --speed"},
        {"--deadline-ms 0 --speed 1", "--deadline-ms must be"},
        {"--prefix-cache 511 --trace f", "--prefix-cache must be"},
        {"--prefix-cache 4K", "--prefix-cache needs --trace"},
        {"--prefix-cache 4K --trace f --held 0.1", "neither --stream nor --held"},
        {"--prefix-cache 4K --trace f --stream both", "neither --stream nor --held"},
        {"--require-path tcp", "--require-path must be one of shm, cma, rma, staged"},
        {"--require-path none", "--require-path"},
        {"--sabotage none", "--sabotage must be one of flip, head, stale, short, late"},
        {"--timeout-ms 0", "--timeout-ms"},
        {"--seed 18446744073709551616", "--seed"},
        {"--stream tokens", "--stream must be one of layers, chunks, both"},
        {"--stream none", "--stream"},
        {"--stream chunks --chunk-tokens 0", "--chunk-tokens must be"},
        {"--stream layers --chunk-tokens 512", "--chunk-tokens needs --stream chunks or --stream both"},
        {"--stream both --prefill-tokens-per-s 0", "--prefill-tokens-per-s must be"},
        {"--prefill-tokens-per-s 1000", "--prefill-tokens-per-s needs --stream"},
        {"--sabotage late", "--sabotage late needs --stream"},
        {"--progress auto", "--progress must be one of thread, caller"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct why why;
        struct options o;
        assert_int_equal(read_line(cases[i][0], &o, &why), -1);
        if (strstr(why.text, cases[i][1]) == NULL)
            fail_msg("%s: \"%s\" does not say %s", cases[i][0], why.text, cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets),
        cmocka_unit_test(every_word),
        cmocka_unit_test(layouts_of_two_sides),
        cmocka_unit_test(streams),
        cmocka_unit_test(speeds),
        cmocka_unit_test(names),
        cmocka_unit_test(bad_words_are_named),
        cmocka_unit_test(block_tokens_of_two_sides),
        cmocka_unit_test(layers_of_hybrids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
