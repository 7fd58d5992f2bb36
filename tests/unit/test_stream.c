/* SPDX-License-Identifier: BSD-3-Clause */
/* stream: a prefill's steps have each token of each layer once, in order of time; and which requests are streamed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "replay/stream.h"

#define LAYERS 7
#define TOKENS_MAX 40

static const uint32_t kinds[] = {BATON_OFFER_LAYERS, BATON_OFFER_CHUNKS, BATON_OFFER_LAYERS | BATON_OFFER_CHUNKS};

/* The stream of a rank that holds layers 2 to 4 of 7, at 1000 tokens a second. */
static struct stream stream_of(uint32_t flags, uint32_t tokens, uint32_t chunk)
{
    return (struct stream){.flags = flags,
                           .num_tokens = tokens,
                           .chunk_tokens = chunk,
                           .tokens_per_s = 1000,
                           .layers = {2, 5},
                           .layers_total = LAYERS};
}

static void each_entry_comes_once(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 3; k++)
        for (uint32_t tokens = 1; tokens <= TOKENS_MAX; tokens++)
            for (uint32_t chunk = 1; chunk <= TOKENS_MAX + 1; chunk++) {
                const struct stream s = stream_of(kinds[k], tokens, chunk);
                struct stream_step at = stream_begin(&s);
                uint8_t come[LAYERS][TOKENS_MAX] = {{0}};
                uint64_t former_ns = 0;
                uint32_t steps = 0;
                while (stream_next(&s, &at)) {
                    steps++;
                    assert_true(at.tokens.first < at.tokens.end && at.tokens.end <= tokens);
                    assert_true(at.layers.first < at.layers.end && at.layers.end <= LAYERS);
                    for (uint32_t l = at.layers.first; l < at.layers.end; l++)
                        for (uint32_t t = at.tokens.first; t < at.tokens.end; t++)
                            assert_int_equal(come[l][t]++, 0);
                    assert_true(stream_step_ns(&s, &at) > former_ns);
                    former_ns = stream_step_ns(&s, &at);
                }
                assert_true(former_ns < stream_ns(&s)); /* two layers of other ranks follow */
                assert_int_equal(steps, (kinds[k] & BATON_OFFER_LAYERS ? 3 : 1) *
                                            (kinds[k] & BATON_OFFER_CHUNKS ? (tokens + chunk - 1) / chunk : 1));
                for (uint32_t l = 0; l < LAYERS; l++)
                    for (uint32_t t = 0; t < tokens; t++)
                        assert_int_equal(come[l][t], l >= 2 && l < 5);
                assert_false(stream_next(&s, &at)); /* the place does not change */
            }
}

static void time_is_of_tokens_and_layers(void **state)
{
    (void)state;
    const struct stream s = stream_of(BATON_OFFER_LAYERS | BATON_OFFER_CHUNKS, 21, 14);
    const uint64_t ms = 1000000, expected[] = {6, 8, 10, 17, 18, 19}; /* chunks of 14 and 7 tokens, 7 layers */
    struct stream_step at = stream_begin(&s);
    for (unsigned i = 0; i < 6; i++) {
        assert_true(stream_next(&s, &at));
        assert_int_equal(stream_step_ns(&s, &at), expected[i] * ms);
    }
    assert_int_equal(stream_ns(&s), 21 * ms);
}

/* Of two equal requests one is streamed. Of four engines that take turns, each gets streamed requests and others. */
static void one_of_two(void **state)
{
    (void)state;
    unsigned of_engine[4] = {0};
    for (uint32_t i = 0; i < 400; i += 2)
        assert_int_equal(stream_hits(1, i) + stream_hits(1, i + 1), 1);
    for (uint32_t i = 0; i < 400; i++)
        of_engine[i % 4] += stream_hits(1, i);
    for (unsigned e = 0; e < 4; e++)
        assert_in_range(of_engine[e], 30, 70);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_entry_comes_once),
        cmocka_unit_test(time_is_of_tokens_and_layers),
        cmocka_unit_test(one_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
