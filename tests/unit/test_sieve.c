/* SPDX-License-Identifier: BSD-3-Clause */
/* sieve: when short runs are read together, within which limits, and that every byte comes to its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mpi/sieve.h"

enum { POOL = 1 << 20 };

static struct sieve sieve;
static uint8_t source[POOL], target[POOL], right[POOL];

/* From my `source` to the peer's `target`, or the reverse. */
struct run {
    uint64_t src, dst, bytes;
};

static struct run run_of(uint64_t src, uint64_t dst, uint64_t bytes)
{
    return (struct run){src, dst, bytes};
}

static bool add(const struct run *r)
{
    const struct sieve_piece piece = {.mine = sieve.write ? source + r->src : target + r->dst,
                                      .theirs = sieve.write ? r->dst : r->src,
                                      .bytes = r->bytes};
    return sieve_add(&sieve, &piece);
}

/* Puts `count` runs that lie `stride` bytes apart at the peer. Returns how many fitted. */
static uint32_t put_strided(uint32_t count, uint64_t bytes, uint64_t stride)
{
    uint32_t n = 0;
    while (n < count && add(&(struct run){.src = n * stride, .dst = n * bytes, .bytes = bytes}))
        n++;
    return n;
}

/* Reads the spans, as MPI would. */
static void read_spans(void)
{
    sieve_lay_out(&sieve);
    for (uint32_t i = 0; i < sieve.num_spans; i++) {
        const struct sieve_span *s = &sieve.span[i];
        assert_true(s->at + (s->end - s->begin) <= SIEVE_BYTES);
        memcpy(sieve.bytes + s->at, source + s->begin, s->end - s->begin);
    }
}

static void test_cost_rule(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes, stride;
        bool cheaper;
    } cases[] = {
        {64, 64, true},     {256, 256, true},    {256, 1024, true},   {512, 1024, true},
        {512, 2048, true},  {512, 4096, true},   {512, 8192, false},  {2048, 4096, true},
        {4096, 4096, true}, {4096, 8192, false}, {8192, 8192, false}, {65536, 65536, false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        sieve_begin(&sieve, false, 64, UINT64_MAX);
        uint32_t n = put_strided(16, cases[i].bytes, cases[i].stride);
        if (sieve_is_cheaper(&sieve) != cases[i].cheaper)
            fail_msg("%u runs of %u bytes, %u apart", n, (unsigned)cases[i].bytes, (unsigned)cases[i].stride);
    }
    sieve_begin(&sieve, false, 64, UINT64_MAX);
    assert_false(sieve_is_cheaper(&sieve));
    put_strided(1, 64, 64);
    assert_false(sieve_is_cheaper(&sieve)); /* a single run is read directly to its place */
}

static void test_limits(void **state)
{
    (void)state;
    sieve_begin(&sieve, false, 64, UINT64_MAX);
    assert_int_equal(put_strided(SIEVE_RUNS + 5, 16, 16), SIEVE_RUNS);
    sieve_begin(&sieve, false, 64, UINT64_MAX);
    assert_int_equal(put_strided(1000, 1024, 1024), SIEVE_BYTES / 1024);
    assert_int_equal(sieve.span_bytes, SIEVE_BYTES);
    sieve_begin(&sieve, false, 64, 10000);
    assert_int_equal(put_strided(1000, 1000, 3000), 4); /* the gaps count: 1000 and three times 3000 */
    sieve_begin(&sieve, false, 3, UINT64_MAX);
    assert_int_equal(put_strided(1000, 64, 100000), 3);
    sieve_begin(&sieve, false, 64, UINT64_MAX);
    assert_false(add(&(struct run){.bytes = SIEVE_BYTES + 1}));
    assert_int_equal(sieve.num_runs, 0);
}

/* The runs of a transposed block: two planes far apart, and token by token the heads of each. */
static void test_transposed(void **state)
{
    (void)state;
    enum { HEADS = 4, TOKENS = 16, BYTES = 64 };
    sieve_begin(&sieve, false, 64, UINT64_MAX);
    memset(target, 0xa5, sizeof target);
    memset(right, 0xa5, sizeof right);
    for (uint64_t i = 0; i < sizeof source; i++)
        source[i] = (uint8_t)(i * 31 ^ i >> 8);
    uint64_t dst = 777;
    for (uint64_t plane = 0; plane < 2; plane++)
        for (uint64_t token = 0; token < TOKENS; token++)
            for (uint64_t head = 0; head < HEADS; head++, dst += BYTES) {
                struct run run = run_of(plane * 500000 + head * TOKENS * BYTES + token * BYTES, dst, BYTES);
                assert_true(add(&run));
                memcpy(right + run.dst, source + run.src, run.bytes);
            }
    assert_int_equal(sieve.num_spans, 2);
    assert_int_equal(sieve.span_bytes, 2 * HEADS * TOKENS * BYTES);
    assert_int_equal(sieve.run_bytes, sieve.span_bytes);
    assert_true(sieve_is_cheaper(&sieve));
    read_spans();
    sieve_empty(&sieve);
    assert_memory_equal(target, right, sizeof target);
}

/* Writes the spans to the peer, as MPI would. */
static void write_spans(void)
{
    sieve_lay_out(&sieve);
    sieve_fill(&sieve);
    for (uint32_t i = 0; i < sieve.num_spans; i++) {
        const struct sieve_span *s = &sieve.span[i];
        assert_true(s->at + (s->end - s->begin) <= SIEVE_BYTES);
        memcpy(target + s->begin, sieve.bytes + s->at, s->end - s->begin);
    }
}

/* Every other 512 bytes here are contiguous there: the heads of an NHD block that go to one of two ranks. */
static void test_packed(void **state)
{
    (void)state;
    memset(target, 0xa5, sizeof target);
    memset(right, 0xa5, sizeof right);
    sieve_begin(&sieve, true, 4, UINT64_MAX);
    for (uint64_t i = 0; i < 64; i++) {
        struct run run = run_of(5000 + i * 1024, 300000 + i / 16 * 20000 + i % 16 * 512, 512);
        assert_true(add(&run));
        memcpy(right + run.dst, source + run.src, run.bytes);
    }
    assert_int_equal(sieve.num_spans, 4);
    assert_int_equal(sieve.span_bytes, sieve.run_bytes);
    assert_true(sieve_is_cheaper(&sieve));
    write_spans();
    assert_memory_equal(target, right, sizeof target);
    sieve_begin(&sieve, true, 64, UINT64_MAX); /* but not where there are gaps */
    for (uint64_t i = 0; i < 64; i++)
        assert_true(add(&(struct run){.src = i * 512, .dst = i * 513, .bytes = 512}));
    assert_int_equal(sieve.num_spans, 64);
    assert_false(sieve_is_cheaper(&sieve));
}

/* For any runs the right bytes are written, and no others, whether or not the sieve is cheaper. */
static void test_random_writes(void **state)
{
    (void)state;
    srand(2);
    for (int round = 0; round < 300; round++) {
        uint64_t dst = (uint64_t)rand() % 1000;
        memset(target, 0xa5, sizeof target);
        memset(right, 0xa5, sizeof right);
        sieve_begin(&sieve, true, 1 + (uint32_t)rand() % 64, (uint64_t)rand() % (2 * SIEVE_BYTES));
        for (;;) {
            struct run run = run_of((uint64_t)rand() % 60000, dst, 1 + (uint64_t)rand() % 3000);
            if (!add(&run))
                break;
            memcpy(right + run.dst, source + run.src, run.bytes);
            dst += run.bytes + (rand() % 4 == 0 ? (uint64_t)rand() % 3 : 0);
            if (dst > sizeof target - 3003)
                break;
        }
        write_spans();
        assert_memory_equal(target, right, sizeof target);
    }
}

/* For any runs the right bytes are read, whether or not the sieve is cheaper. */
static void test_random(void **state)
{
    (void)state;
    srand(1);
    for (int round = 0; round < 300; round++) {
        uint64_t dst = 0, near = 1 + (uint64_t)rand() % 60000;
        memset(target, 0xa5, sizeof target);
        memset(right, 0xa5, sizeof right);
        sieve_begin(&sieve, false, 1 + (uint32_t)rand() % 64, (uint64_t)rand() % (2 * SIEVE_BYTES));
        for (;;) {
            struct run run = run_of((uint64_t)rand() % near, dst, 1 + (uint64_t)rand() % 3000);
            if (!add(&run))
                break;
            memcpy(right + run.dst, source + run.src, run.bytes);
            dst += run.bytes + (uint64_t)rand() % 3;
            if (dst > sizeof target - 3003)
                break;
        }
        read_spans();
        sieve_empty(&sieve);
        assert_memory_equal(target, right, sizeof target);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost_rule), cmocka_unit_test(test_limits), cmocka_unit_test(test_transposed),
        cmocka_unit_test(test_random),    cmocka_unit_test(test_packed), cmocka_unit_test(test_random_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
